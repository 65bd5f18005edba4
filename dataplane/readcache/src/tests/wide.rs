//! Misses that bring what lies around them.

use std::sync::Arc;

use grampus_blockdev::{DeviceError, execute};

use super::PAGE;
use super::world::{Answers, BLOCK, REGION, World, geometry, read_request, write_request};

fn wait_for_region(world: &World, regions: u64) {
    world.until("filled", |statistics| statistics.fill_bytes >= regions * REGION);
}

#[test]
fn a_page_brings_its_neighbours_while_there_is_room() {
    let world = World::wide(16);
    for block in 0..32 {
        world.write(block * BLOCK, &[u8::try_from(block).unwrap(); PAGE]);
    }
    assert_eq!(world.read(3 * BLOCK, PAGE), [3; PAGE]);
    wait_for_region(&world, 1);
    for block in 0..8 {
        assert_eq!(world.read(block * BLOCK, PAGE), [u8::try_from(block).unwrap(); PAGE]);
    }
    assert_eq!(world.below.reads(), 1);
    assert_eq!(world.read(8 * BLOCK + 700, 100), [8; 100], "any part of a page");
    wait_for_region(&world, 2);
    assert_eq!((world.below.reads(), world.statistics().wide), (2, 2));
    // Full: from now on only what was asked for.
    assert_eq!(world.read(17 * BLOCK, PAGE), [17; PAGE]);
    let statistics = world.statistics();
    assert_eq!((statistics.wide, statistics.misses, statistics.hits), (2, 3, 8));
    assert_eq!(statistics.miss_bytes, 2 * BLOCK + 100, "what was asked for");
}

#[test]
fn what_goes_below_as_it_is() {
    for (what, offset, bytes) in [
        ("more than a page", 0, 2 * PAGE),
        ("a page in two regions", REGION - 4096, PAGE),
        ("nothing else is missing", 2 * REGION, PAGE),
    ] {
        let world = World::wide(64);
        let neighbours = 2 * REGION + BLOCK;
        world.warm(neighbours, 7 * PAGE);
        let reads = world.below.reads();
        assert_eq!(world.read(offset, bytes), vec![0; bytes], "{what}");
        assert_eq!((world.below.reads(), world.statistics().wide), (reads + 1, 0), "{what}");
    }
}

#[test]
fn who_asks_meanwhile_for_another_page_of_it_gets_that_page() {
    let world = World::wide(64);
    world.write(0, &vec![3; 8 * PAGE]);
    let answers = Arc::new(Answers::default());
    world.below.hold();
    answers.submit(&*world.cache, 1, read_request(0, PAGE));
    answers.submit(&*world.cache, 2, read_request(5 * BLOCK, PAGE));
    world.below.release();
    let taken = answers.taken();
    assert_eq!(taken.len(), 2);
    for (_, outcome) in taken {
        assert_eq!(outcome.buffer.unwrap().to_vec(), [3; PAGE]);
    }
    assert_eq!(world.statistics().wide, 1);
    wait_for_region(&world, 1);
    // The region is free again.
    world.cache.forget_all();
    world.read(0, PAGE);
    assert_eq!(world.statistics().wide, 2);
}

#[test]
fn a_neighbour_that_was_changed_meanwhile_does_not_come_in() {
    let world = World::wide(64);
    let answers = Arc::new(Answers::default());
    world.below.hold();
    answers.submit(&*world.cache, 1, read_request(0, PAGE));
    answers.submit(&*world.cache, 2, write_request(6 * BLOCK + 10, &[9; 10]));
    world.below.release();
    world.until("filled", |statistics| statistics.fill_bytes >= 7 * BLOCK);
    let reads = world.below.reads();
    assert_eq!(world.read(6 * BLOCK, PAGE)[10..20], [9; 10]);
    assert_eq!(world.below.reads(), reads + 1);
}

/// A cluster may be unable to read one place of an object.
#[test]
fn a_neighbour_that_cannot_be_read_does_no_harm() {
    let world = World::wide(64);
    world.write(BLOCK, &[4; PAGE]);
    world.below.spoil(7 * BLOCK + 5);
    assert_eq!(world.read(BLOCK, PAGE), [4; PAGE]);
    let answer = execute(&*world.cache, read_request(7 * BLOCK, PAGE));
    assert!(matches!(answer.result, Err(DeviceError::Io { .. })), "{:?}", answer.result);
    assert_eq!(answer.buffer.map(|buffer| buffer.len()), Some(PAGE));
}

#[test]
fn a_region_ends_where_the_device_ends() {
    let world = World::wide(64);
    world.below.resize(geometry(250 * BLOCK + 512));
    world.write(250 * BLOCK, &[6; 512]);
    assert_eq!(world.read(249 * BLOCK, PAGE), [0; PAGE]);
    assert_eq!(world.statistics().wide, 1);
    world.until("filled", |statistics| statistics.fill_bytes >= 2 * BLOCK);
    assert_eq!(world.read(250 * BLOCK, 512), [6; 512]);
}

#[test]
fn a_fence_is_not_asked_about_again() {
    let world = World::wide(64);
    world.below.fence();
    let answer = execute(&*world.cache, read_request(0, PAGE));
    assert!(matches!(answer.result, Err(DeviceError::Fenced)));
    assert_eq!((world.below.reads(), world.statistics().on), (1, false));
}
