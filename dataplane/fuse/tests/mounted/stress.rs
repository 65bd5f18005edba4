//! Several threads at once, each against a model of its own part of the device.
//!
//! The seed is fixed and printed with a failure; `GRAMPUS_TEST_SEED=NUMBER` explores elsewhere.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::thread;

use grampus_blockdev::BlockDevice;
use rustix::fs::{FallocateFlags, fallocate};

use crate::devices::Foreign;
use crate::stage::{Stage, memory, transports};

const THREADS: usize = 6;
const PART_BYTES: usize = 1 << 20;
const STEPS: usize = 400;

/// A small generator of numbers that look random: xorshift.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % limit as u64).unwrap()
    }
}

fn seed() -> u64 {
    let given = std::env::var("GRAMPUS_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    given.unwrap_or(0x9e37_79b9_7f4a_7c15)
}

fn exercise(file: &File, base: u64, mut dice: Dice) {
    let mut model = vec![0_u8; PART_BYTES];
    let mut back = vec![0_u8; PART_BYTES];
    for step in 0..STEPS {
        let longest = [512, 4096, 70_000, PART_BYTES][dice.below(4)];
        let length = 1 + dice.below(longest);
        let from = dice.below(PART_BYTES - length + 1);
        let part = from..from + length;
        let offset = base + from as u64;
        match dice.below(10) {
            0..=3 => {
                let fill = u8::try_from(dice.below(256)).unwrap();
                for (n, byte) in model[part.clone()].iter_mut().enumerate() {
                    *byte = fill.wrapping_add(n.to_le_bytes()[0]);
                }
                file.write_all_at(&model[part], offset).unwrap();
            }
            4..=6 => {
                file.read_exact_at(&mut back[..length], offset).unwrap();
                assert!(back[..length] == model[part], "step {step}: {from}+{length}");
            }
            7 => {
                let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                fallocate(file, punch, offset, length as u64).unwrap();
                model[part].fill(0);
            }
            8 => {
                let zero = FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE;
                fallocate(file, zero, offset, length as u64).unwrap();
                model[part].fill(0);
            }
            _ => file.sync_data().unwrap(),
        }
    }
    file.read_exact_at(&mut back, base).unwrap();
    assert!(back == model);
}

fn stress(device: &dyn Fn() -> Arc<dyn BlockDevice>, ring_entries: u16) {
    let seed = seed();
    eprintln!("GRAMPUS_TEST_SEED={seed}");
    for transport in transports() {
        let stage = Stage::with(device(), transport, |options| {
            options.ring_entries = ring_entries;
            options.max_background = 8;
        });
        let file = stage.open();
        thread::scope(|scope| {
            for number in 0..THREADS {
                let dice = Dice(seed.wrapping_add(number as u64 * 0x1234_5678_9abc) | 1);
                let file = &file;
                scope.spawn(move || exercise(file, (number * PART_BYTES) as u64, dice));
            }
        });
        drop(file);
        stage.end();
    }
}

#[test]
fn parallel_users_of_a_device_that_answers_at_once_read_what_they_wrote() {
    stress(&memory, 32);
}

#[test]
fn parallel_users_of_a_device_that_answers_later_and_elsewhere_read_what_they_wrote() {
    stress(&|| Foreign::new(), 32);
}

#[test]
fn more_requests_than_entries_wait_their_turn() {
    stress(&|| Foreign::new(), 1);
}
