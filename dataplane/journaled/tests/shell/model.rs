//! Many threads against a plain model: each has a part of the volume to itself.

use std::sync::Arc;

use grampus_blockdev::{BlockDevice, Durability, Request};
use grampus_journal::Config;

use crate::random::Random;
use crate::user::{CACHE, CONFIG, flush, opened, range, read, submit, writing};
use crate::world::{PATIENCE, World};

const PART: usize = 96 << 10;
const THREADS: usize = 4;
const TURNS: usize = 250;

fn exercise(device: &dyn BlockDevice, base: usize, seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    let mut model = vec![0; PART];
    for _ in 0..TURNS {
        let length = match random.below(10) {
            0 => random.between(0, 40_000),
            1..4 => random.between(0, 3000),
            _ => 4096 * random.between(1, 3),
        };
        let at = match random.below(3) {
            0 => random.below(PART - length),
            _ => random.below((PART - length) / 4096) * 4096,
        };
        let durability = if random.below(10) == 0 { Durability::Fua } else { Durability::OnFlush };
        match random.below(10) {
            0..5 => {
                let fill = u8::try_from(random.between(1, 256)).unwrap();
                let bytes = vec![fill; length];
                model[at..at + length].copy_from_slice(&bytes);
                submit(device, writing(base + at, &bytes, durability)).result().unwrap();
            }
            5 => {
                model[at..at + length].fill(0);
                let range = range(base + at, length);
                let request = match durability {
                    Durability::Fua => Request::WriteZeroes { range, durability },
                    Durability::OnFlush => Request::Discard { range },
                };
                submit(device, request).result().unwrap();
            }
            6 => flush(device).result().unwrap(),
            _ => assert_eq!(read(device, base + at, length), model[at..at + length]),
        }
    }
    assert_eq!(read(device, base, PART), model);
    model
}

fn check(config: Config, seed: u64) {
    let world = World::new(PART * THREADS, seed);
    let device = Arc::new(opened(&world.take_over(), config));
    let threads: Vec<_> = (0..THREADS)
        .map(|number| {
            let device = Arc::clone(&device);
            let seed = seed * 100 + u64::try_from(number).unwrap();
            std::thread::spawn(move || exercise(&*device, number * PART, seed))
        })
        .collect();
    let model: Vec<u8> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
    assert_eq!(read(&*device, 0, PART * THREADS), model);
    device.close(PATIENCE).unwrap();
    assert_eq!(world.lock().image, model, "drained");
    let laps = device.status().used_bytes;
    assert_eq!(laps, 0, "the journal is empty");
    world.end();
}

#[test]
fn a_journal_is_its_model() {
    check(CONFIG, 1);
    check(CONFIG, 2);
}

#[test]
fn a_cache_is_its_model() {
    check(CACHE, 3);
}

/// Everything waits for room, again and again.
#[test]
fn a_journal_without_room_is_its_model_too() {
    let tight = Config { max_appends: 1, max_applies: 1, ..CONFIG };
    check(tight, 4);
}
