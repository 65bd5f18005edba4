//! Owners that die at any moment, also while they open the volume (INV-1).
//! `GRAMPUS_JOURNALED_WORLDS=NUMBER` runs more of them.

use std::sync::{Arc, Mutex};

use grampus_blockdev::{BlockDevice, Durability, Request};
use grampus_journal::Config;
use grampus_journaled::JournaledDevice;

use crate::random::Random;
use crate::user::{CACHE, CONFIG, flush, range, read, submit, try_open, writing};
use crate::world::World;

const SIZE: usize = 64 << 10;
const BLOCK: usize = 512;
const THREADS: u64 = 3;
const LIVES: usize = 5;
/// In the normal run, each for one mode.
const WORLDS: u64 = 14;

struct Op {
    at: usize,
    bytes: Vec<u8>,
}

/// What was asked of one owner, in the order in which it was asked.
struct History {
    base: Vec<u8>,
    ops: Vec<Op>,
    /// How many are complete: those before them are too, since changes are let in in order.
    done: usize,
    /// How many must survive.
    promised: usize,
    stamp: u64,
}

impl History {
    fn check(&mut self, volume: &[u8], promised: usize) -> usize {
        let mut model = self.base.clone();
        let mut longest = (model == volume).then_some(0);
        for (index, op) in self.ops.iter().enumerate() {
            model[op.at..op.at + op.bytes.len()].copy_from_slice(&op.bytes);
            if model == volume {
                longest = Some(index + 1);
            }
        }
        let longest = longest.expect("the volume is no prefix of its history");
        assert!(longest >= promised, "{longest} of {} survived, not {promised}", self.ops.len());
        self.base = volume.to_vec();
        self.ops.clear();
        (self.done, self.promised) = (0, 0);
        longest
    }
}

/// Use the volume until it fails.
fn work(device: &JournaledDevice, history: &Mutex<History>, seed: u64) {
    let mut random = Random::new(seed);
    for _ in 0..300 {
        if random.below(4) == 0 {
            let covered = history.lock().unwrap().done;
            if flush(device).result().is_err() {
                return;
            }
            let mut history = history.lock().unwrap();
            history.promised = history.promised.max(covered);
            continue;
        }
        let length = BLOCK * random.between(1, 9);
        let at = BLOCK * random.below((SIZE - length) / BLOCK + 1);
        let durable = random.below(10) == 0;
        let durability = if durable { Durability::Fua } else { Durability::OnFlush };
        let (pending, number) = {
            // Asked for under the lock: the order of the history is that of the requests.
            let mut history = history.lock().unwrap();
            history.stamp += 1;
            let stamp = history.stamp.to_le_bytes();
            let bytes: Vec<u8> = stamp.iter().copied().cycle().take(length).collect();
            let zeroes = random.below(12) == 0;
            let request = if zeroes {
                Request::WriteZeroes { range: range(at, length), durability }
            } else {
                writing(at, &bytes, durability)
            };
            let bytes = if zeroes { vec![0; length] } else { bytes };
            history.ops.push(Op { at, bytes });
            (submit(device, request), history.ops.len())
        };
        if pending.result().is_err() {
            return;
        }
        let mut history = history.lock().unwrap();
        history.done = history.done.max(number);
        if durable {
            history.promised = history.promised.max(number);
        }
    }
}

fn live(seed: u64, config: Config, encrypted: bool) -> (usize, usize) {
    let mut random = Random::new(seed);
    let made = if encrypted { World::encrypted } else { World::new };
    let world = made(SIZE, seed);
    let history = Arc::new(Mutex::new(History {
        base: vec![0; SIZE],
        ops: Vec::new(),
        done: 0,
        promised: 0,
        stamp: seed << 32,
    }));
    let (mut survived, mut died_opening, mut shown) = (0, 0, 0);
    let mut lost_host = false;
    for life in 0..LIVES {
        let device = loop {
            let port = world.take_over();
            if random.below(3) == 0 {
                world.limit_life(u64::try_from(random.below(40)).unwrap());
            }
            match try_open(&port, config) {
                Ok(device) => break Arc::new(device),
                Err(_) => died_opening += 1,
            }
        };
        world.lock().calm();
        let volume = match device.geometry().size_bytes() {
            size if usize::try_from(size).unwrap() == SIZE => {
                read_or_none(&device).unwrap_or_default()
            }
            size => panic!("{size}"),
        };
        if volume.is_empty() {
            died_opening += 1;
            continue; // it died behind its opening, before it could be looked at
        }
        {
            let mut history = history.lock().unwrap();
            let promised = if lost_host { 0 } else { history.promised };
            survived += history.check(&volume, promised);
        }
        world.limit_life(u64::try_from(random.below(250)).unwrap());
        let threads: Vec<_> = (0..THREADS)
            .map(|number| {
                let (device, history) = (Arc::clone(&device), Arc::clone(&history));
                let seed = seed * 1000 + u64::try_from(life).unwrap() * 10 + number;
                std::thread::spawn(move || work(&device, &history, seed))
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        world.crash();
        drop(device);
        // With a key nothing that was written shows; without one it does, so that a look can fail.
        shown += world.lock().outside().filter(|bytes| shows(bytes, seed)).count();
        // What an owner in `cache` mode has not shipped dies with its host.
        lost_host = config.cache.is_some() && random.below(3) == 0;
        if lost_host {
            world.lock().lose_disk();
        }
    }
    world.end();
    assert_eq!(shown == 0, encrypted, "{shown}");
    (survived, died_opening)
}

/// Whether a write of this world can be read in `bytes`: its stamp twice in a row, and frames keep
/// data at multiples of eight.
fn shows(bytes: &[u8], seed: u64) -> bool {
    let words: Vec<u64> =
        bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect();
    words.windows(2).any(|pair| pair[0] == pair[1] && pair[0] >> 32 == seed)
}

fn read_or_none(device: &JournaledDevice) -> Option<Vec<u8>> {
    let outcome = crate::user::reading(device, 0, SIZE).outcome();
    outcome.result.ok().map(|()| outcome.buffer.unwrap().to_vec())
}

/// Changes wait for room most of the time.
fn tight(config: Config) -> Config {
    Config { max_write_bytes: 4096, max_batch_bytes: 8192, max_held_bytes: 32 << 10, ..config }
}

fn lives(config: Config, first_seed: u64, encrypted: bool) {
    let worlds = std::env::var("GRAMPUS_JOURNALED_WORLDS");
    let worlds = worlds.map_or(WORLDS, |worlds| worlds.parse().expect("a number"));
    let (mut survived, mut died_opening) = (0, 0);
    for seed in first_seed..first_seed + worlds {
        let config = if seed % 2 == 0 { config } else { tight(config) };
        let (more, died) = live(seed, config, encrypted);
        survived += more;
        died_opening += died;
    }
    assert!(survived > 0 && died_opening > 0, "{survived} {died_opening}");
}

#[test]
fn a_journal_keeps_what_it_promised_whenever_its_owner_dies() {
    lives(CONFIG, 1, false);
}

#[test]
fn a_cache_keeps_what_it_promised_or_an_older_whole() {
    lives(CACHE, 1000, false);
}

#[test]
fn so_does_the_journal_of_an_encrypted_volume() {
    lives(CONFIG, 2000, true);
}

#[test]
fn and_its_cache() {
    lives(CACHE, 3000, true);
}

/// The test of the tests: a journal that forgets is found out.
#[test]
#[should_panic(expected = "survived, not")]
fn a_lost_promise_is_noticed() {
    let world = World::new(SIZE, 1);
    let device = try_open(&world.take_over(), CONFIG).unwrap();
    let base = read(&device, 0, SIZE);
    let op = Op { at: 0, bytes: vec![1; BLOCK] };
    let mut history = History { base: base.clone(), ops: vec![op], done: 1, promised: 1, stamp: 0 };
    world.end();
    history.check(&base, 1);
}
