//! The runs. A failure prints its seed; `GRAMPUS_JOURNAL_SEED=SEED cargo test -p grampus-journal
//! simulator` runs that world alone, `GRAMPUS_JOURNAL_WORLDS=NUMBER` runs more of them.

use std::env;

use super::damage::Damages;
use super::world::{Tally, World};
use crate::sabotage::Fault;

/// Worlds in the normal run, each with two to four crashes.
const WORLDS: u64 = 400;

fn run(seed: u64, fault: Option<Fault>) -> Result<Tally, String> {
    live(World::new(seed, fault))
}

fn run_encrypted(seed: u64, fault: Option<Fault>) -> Result<Tally, String> {
    live(World::new(seed, fault).encrypted())
}

fn live(mut world: World) -> Result<Tally, String> {
    world.live();
    world.violation.take().map_or(Ok(world.tally), Err)
}

fn number(name: &str) -> Option<u64> {
    env::var(name).ok().map(|value| value.parse().expect("a number"))
}

#[test]
fn every_recovered_volume_is_a_prefix() {
    every_world(run);
}

#[test]
fn every_recovered_volume_is_a_prefix_when_its_frames_are_sealed() {
    every_world(run_encrypted);
}

fn every_world(run: fn(u64, Option<Fault>) -> Result<Tally, String>) {
    let only = number("GRAMPUS_JOURNAL_SEED");
    let worlds = number("GRAMPUS_JOURNAL_WORLDS").unwrap_or(WORLDS);
    let seeds = only.map_or(0..worlds, |seed| seed..seed + 1);
    let mut total = Tally::default();
    for seed in seeds {
        match run(seed, None) {
            Ok(tally) => total.add(&tally),
            Err(what) => panic!(
                "seed {seed}: {what}\nreplay: GRAMPUS_JOURNAL_SEED={seed} \
                 cargo test -p grampus-journal simulator"
            ),
        }
    }
    println!("{total:#?}");
    if only.is_none() && worlds >= WORLDS {
        assert!(total.crashes >= 1000, "{total:?}");
        for (what, count) in total.counts() {
            assert!(count > 0, "no world came to this: {what}");
        }
    }
}

/// No short history is opened where a longer one was acknowledged and can be proven (INV-67).
#[test]
fn a_damaged_journal_is_refused_and_never_taken_for_a_short_one() {
    let only = number("GRAMPUS_JOURNAL_SEED");
    let worlds = number("GRAMPUS_JOURNAL_WORLDS").unwrap_or(WORLDS);
    let mut total = Damages::default();
    for seed in only.map_or(0..worlds, |seed| seed..seed + 1) {
        for encrypted in [false, true] {
            let world = World::new(seed, None);
            let mut world = if encrypted { world.encrypted() } else { world };
            let mut damages = Damages::default();
            world.live_damaged(&mut damages);
            if let Some(what) = world.violation.take() {
                panic!("seed {seed}, encrypted {encrypted}: {what}");
            }
            total.add(&damages);
        }
    }
    println!("{total:#?}");
    if only.is_none() && worlds >= WORLDS {
        let Damages { removed_slots, rotten_frames, zeroed_slots, .. } = total;
        assert!(removed_slots.min(rotten_frames).min(zeroed_slots) > 10, "{total:?}");
    }
}

#[test]
fn a_seed_repeats_its_world() {
    for seed in 0..10 {
        assert_eq!(run(seed, None), run(seed, None));
        assert_eq!(run_encrypted(seed, None), run_encrypted(seed, None));
    }
}

/// The checker must notice each way to break the journal, within this many worlds.
const PATIENCE: u64 = 2000;

#[test]
fn every_fault_is_noticed() {
    let only = env::var("GRAMPUS_JOURNAL_FAULT").ok();
    let mut unnoticed = Vec::new();
    for fault in Fault::ALL {
        if only.as_ref().is_some_and(|only| *only != format!("{fault:?}")) {
            continue;
        }
        let seeds = number("GRAMPUS_JOURNAL_SEED").map_or(0..PATIENCE, |seed| seed..seed + 1);
        let mut seeds = seeds;
        let noticed = seeds.find_map(|seed| Some((seed, run(seed, Some(fault)).err()?)));
        match noticed {
            Some((seed, what)) => println!("{fault:?}: seed {seed}: {what}"),
            None => unnoticed.push(fault),
        }
    }
    assert!(unnoticed.is_empty(), "not noticed: {unnoticed:?}");
}
