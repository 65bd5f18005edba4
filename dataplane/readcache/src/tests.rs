//! The cache between a device and a disk that misbehave.

mod wide;
mod world;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;

use grampus_blockdev::{
    BlockDevice, BlockSize, DeviceError, Durability, Geometry, MemoryDevice, Request, execute,
};
use grampus_sealing::Key;
use proptest::prelude::*;

use self::world::{
    Answers, BLOCK, Later, REGION, Vast, World, cache, geometry, key, range, read, read_request,
    write_request,
};
use crate::{Options, ReadCache};

const PAGE: usize = 16 << 10;

#[test]
fn what_was_read_is_read_from_the_file_the_next_time() {
    let world = World::new(16);
    world.write(BLOCK, &[3; PAGE]);
    assert_eq!(world.warm(BLOCK, PAGE), [3; PAGE]);
    let reads = world.below.reads();
    assert_eq!(world.read(BLOCK, PAGE), [3; PAGE]);
    assert_eq!(world.read(BLOCK + 5000, 700), [3; 700]);
    assert_eq!(world.below.reads(), reads);
    let statistics = world.statistics();
    assert_eq!((statistics.hits, statistics.misses, statistics.fills), (2, 1, 1));
    assert_eq!((statistics.hit_bytes, statistics.used_bytes), (16_384 + 700, BLOCK));
}

/// A file system may begin a file anywhere.
#[test]
fn pages_that_lie_across_blocks_are_kept_too() {
    let world = World::new(16);
    let at = 3 * BLOCK + 12_288;
    world.write(at, &vec![4; 2 * PAGE]);
    assert_eq!(world.warm(at, PAGE), [4; PAGE]);
    assert_eq!(world.warm(at + BLOCK, PAGE), [4; PAGE]);
    let reads = world.below.reads();
    assert_eq!(world.read(at, 2 * PAGE), vec![4; 2 * PAGE]);
    assert_eq!(world.below.reads(), reads);
    assert_eq!(world.statistics().used_bytes, 3 * BLOCK);
    assert_eq!(world.read(at - 4096, PAGE)[..4096], [0; 4096]);
    assert_eq!(world.below.reads(), reads + 1, "the sector before was never read");
}

/// A read or a write of the disk for each block would cost more than all else that is done.
#[test]
fn what_adjoins_in_the_file_is_read_and_written_at_once() {
    for key in [None, Some(key())] {
        let world = World::with(16, key, REGION);
        let all: Vec<u8> = (0..16).flat_map(|page| vec![page; PAGE]).collect();
        world.write(0, &all);
        world.disk.stall(true);
        world.read(0, 512);
        world.read(REGION, 512);
        world.disk.stall(false);
        world.until("filled", |statistics| statistics.fills == 16);
        let writes = world.disk.writes.load(Ordering::SeqCst);
        assert!(writes <= 4, "one block, then eight at a time: {writes}");
        for (at, length) in [(12_288, PAGE), (12_288, 2 * PAGE), (0, 8 * PAGE), (513, 40_000)] {
            let (reads, below) = (world.disk.reads.load(Ordering::SeqCst), world.below.reads());
            let start = usize::try_from(at).unwrap();
            assert_eq!(world.read(at, length), all[start..start + length]);
            let reads = world.disk.reads.load(Ordering::SeqCst) - reads;
            assert_eq!((reads, world.below.reads()), (1, below), "{length} bytes at {at}");
        }
        assert_eq!(world.read(0, 16 * PAGE), all, "longer than what is read at once");
        world.disk.rot();
        assert_eq!(world.read(12_288, PAGE), all[12_288..12_288 + PAGE]);
        assert_eq!(world.statistics().checksum_failures, 1);
    }
}

/// Sealed once more they would be other bytes under who reads them.
#[test]
fn what_comes_twice_at_once_is_written_once() {
    for key in [None, Some(key())] {
        let world = World::with(16, key, 0);
        world.write(0, &vec![3; 4 * PAGE]);
        world.disk.stall(true);
        world.read(0, PAGE);
        (0..3).for_each(|_| drop(world.read(BLOCK, PAGE)));
        world.read(BLOCK + 4096, 4096);
        world.read(2 * BLOCK, PAGE);
        world.disk.stall(false);
        world.until("filled", |statistics| statistics.fills >= 3);
        assert_eq!(world.read(0, 3 * PAGE), vec![3; 3 * PAGE]);
        let statistics = world.statistics();
        assert_eq!((statistics.fills, statistics.checksum_failures), (3, 0));
        assert_eq!(statistics.used_bytes, 3 * BLOCK);
    }
}

/// What is taken into the file together may push out what came with it.
#[test]
fn of_two_that_are_given_one_slot_the_last_is_written() {
    let world = World::new(1);
    world.write(0, &[vec![1; PAGE], vec![2; PAGE], vec![3; PAGE]].concat());
    world.disk.stall(true);
    world.read(0, PAGE);
    // Each is asked for more often than the one before, and waits behind it.
    for (block, times) in [(1, 2), (2, 4)] {
        (0..times).for_each(|_| drop(world.read(block * BLOCK, PAGE)));
    }
    world.disk.stall(false);
    world.until("filled", |statistics| statistics.fills >= 2);
    let reads = world.below.reads();
    assert_eq!(world.read(2 * BLOCK, PAGE), [3; PAGE]);
    assert_eq!(world.below.reads(), reads);
    assert_eq!(world.read(BLOCK, PAGE), [2; PAGE]);
    assert_eq!(world.statistics().checksum_failures, 0);
}

#[test]
fn every_kind_of_change_takes_what_it_touches_out_of_the_cache() {
    let on_flush = Durability::OnFlush;
    for (request, expected) in [
        (write_request(BLOCK + 100, &[9; 5]), 9),
        (Request::WriteZeroes { range: range(BLOCK + 100, 5), durability: on_flush }, 0),
        (Request::Discard { range: range(BLOCK + 100, 5) }, 0),
    ] {
        let world = World::new(16);
        world.write(0, &vec![3; 3 * PAGE]);
        world.warm(0, 3 * PAGE);
        let case = format!("{request:?}");
        execute(&*world.cache, request).result.unwrap();
        let mut page = [3; PAGE];
        page[100..105].fill(expected);
        assert_eq!(world.read(BLOCK, PAGE), page, "{case}");
        let reads = world.below.reads();
        assert_eq!(world.read(0, PAGE), [3; PAGE]);
        assert_eq!(world.read(2 * BLOCK, PAGE), [3; PAGE]);
        assert_eq!(world.below.reads(), reads, "its neighbours are still here: {case}");
    }
}

/// The time that a discard takes does not depend on how much of the device it is: sector by sector,
/// this one would go on for years, under the lock that each read needs.
#[test]
fn a_discard_of_all_of_a_large_volume_is_no_work() {
    let (cache, _disk) = cache(Arc::new(Vast), 16, None, 0);
    let all = range(0, cache.geometry().size_bytes());
    let on_flush = Durability::OnFlush;
    for request in
        [Request::Discard { range: all }, Request::WriteZeroes { range: all, durability: on_flush }]
    {
        let case = format!("{request:?}");
        read(&*cache, BLOCK, PAGE);
        assert!(execute(&*cache, request).result.is_ok(), "{case}");
        assert_eq!(cache.statistics().used_bytes, 0, "{case}");
    }
}

/// A database's page may lie across blocks: writing it must not cost its neighbours a read each.
#[test]
fn a_page_that_is_written_across_blocks_leaves_its_neighbours_here() {
    let world = World::new(16);
    let at = BLOCK + 12_288;
    world.write(0, &vec![3; 4 * PAGE]);
    world.warm(0, 4 * PAGE);
    let fills = world.statistics().fills;
    world.write(at, &[5; PAGE]);
    world.until("filled again", |statistics| statistics.fills == fills + 2);
    let reads = world.below.reads();
    let mut expected = vec![3; 4 * PAGE];
    expected[28_672..45_056].fill(5);
    assert_eq!(world.read(0, 4 * PAGE), expected);
    assert_eq!(world.below.reads(), reads);
}

#[test]
fn what_is_read_now_and_then_is_there_again_once_it_was_written() {
    let world = World::new(16);
    world.write(0, &vec![3; 2 * PAGE]);
    world.warm(0, PAGE);
    world.write(0, &vec![5; 2 * PAGE]);
    world.until("filled again", |statistics| statistics.fills == 2);
    let reads = world.below.reads();
    assert_eq!(world.read(0, PAGE), [5; PAGE]);
    assert_eq!(world.below.reads(), reads);
    assert_eq!(world.read(BLOCK, PAGE), [5; PAGE]);
    assert_eq!(world.below.reads(), reads + 1, "nobody had asked for that one");
}

/// The device below may have carried them out in another order than it answered in.
#[test]
fn of_writes_side_by_side_neither_is_kept() {
    for last_first in [false, true] {
        let world = World::new(16);
        let answers = Arc::new(Answers::default());
        world.warm(BLOCK, PAGE);
        world.below.hold();
        answers.submit(&*world.cache, 1, write_request(BLOCK, &[5; PAGE]));
        answers.submit(&*world.cache, 2, write_request(BLOCK, &[6; PAGE]));
        if last_first {
            world.below.release_last();
        }
        world.below.release();
        assert_eq!(answers.taken().len(), 2);
        let last_answered = if last_first { 5 } else { 6 };
        let carried_out_last = 11 - last_answered;
        world.change_below(BLOCK, &[carried_out_last; PAGE]);
        // Whatever was to be kept is kept once a later fill is.
        let fills = world.statistics().fills;
        world.warm(9 * BLOCK, PAGE);
        world.until("filled", |statistics| statistics.fills > fills);
        let found = world.read(BLOCK, PAGE);
        assert_eq!(found[0], carried_out_last, "{last_first}");
    }
}

#[test]
fn what_was_read_before_a_change_does_not_come_in_after_it() {
    let world = World::new(16);
    let answers = Arc::new(Answers::default());
    world.below.hold();
    answers.submit(&*world.cache, 1, read_request(BLOCK, PAGE));
    answers.submit(&*world.cache, 2, write_request(BLOCK, &[9; PAGE]));
    world.below.release();
    assert_eq!(answers.taken().len(), 2);
    assert_eq!(world.read(BLOCK, PAGE), [9; PAGE]);
    world.until("filled", |statistics| statistics.fills > 0);
    assert_eq!(world.read(BLOCK, PAGE), [9; PAGE]);
    let statistics = world.statistics();
    assert_eq!(statistics.fills, 1, "of what was written");
    assert!(statistics.hits > 0);
    assert_eq!(statistics.barred + statistics.refused, 1);
}

#[test]
fn what_was_read_beside_a_change_does_not_stay_after_it() {
    let world = World::new(16);
    let answers = Arc::new(Answers::default());
    // The change is on its way; the cache knows of it, the device below does not yet.
    let before = read(&*world.below, BLOCK, PAGE);
    world.below.hold();
    answers.submit(&*world.cache, 1, write_request(BLOCK, &[9; PAGE]));
    world.change_below(BLOCK, &before);
    answers.submit(&*world.cache, 2, read_request(BLOCK, PAGE));
    // The read is answered first, with the old bytes, and gets into the cache.
    world.below.release_last();
    world.until("filled", |statistics| statistics.fills == 1);
    assert_eq!(world.read(BLOCK, PAGE), before);
    // Now the change lands.
    world.change_below(BLOCK, &[9; PAGE]);
    world.below.release();
    assert_eq!(world.read(BLOCK, PAGE), [9; PAGE]);
}

#[test]
fn a_disk_that_rots_costs_time_and_nothing_else() {
    for world in [World::new(16), World::sealed(16)] {
        world.write(0, &vec![3; 2 * PAGE]);
        world.warm(0, 2 * PAGE);
        world.disk.rot();
        assert_eq!(world.read(0, PAGE), [3; PAGE]);
        assert_eq!(world.read(BLOCK + 9, 100), [3; 100]);
        world.until("filled again", |statistics| statistics.fills == 3);
        assert_eq!(world.read(0, PAGE), [3; PAGE]);
        let statistics = world.statistics();
        assert_eq!((statistics.checksum_failures, statistics.hits, statistics.on), (2, 1, true));
    }
}

#[test]
fn the_file_of_an_encrypted_volume_shows_nothing() {
    let pattern = *b"a row of a table";
    let page: Vec<u8> = pattern.iter().copied().cycle().take(PAGE).collect();
    for (world, shows) in [(World::new(16), true), (World::sealed(16), false)] {
        world.write(BLOCK, &page);
        assert_eq!(world.warm(BLOCK, PAGE), page);
        assert_eq!(world.disk.shows(&pattern), shows);
        let reads = world.below.reads();
        assert_eq!(world.read(BLOCK + 100, 9000), page[100..9100]);
        assert_eq!(world.below.reads(), reads, "from the file");
    }
}

#[test]
fn a_disk_that_fails_turns_the_cache_off_and_reads_go_on() {
    for fails_reads in [true, false] {
        let world = World::new(16);
        world.write(0, &vec![3; 2 * PAGE]);
        world.warm(0, PAGE);
        world.disk.fails_reads.store(fails_reads, Ordering::SeqCst);
        world.disk.fails_writes.store(!fails_reads, Ordering::SeqCst);
        assert_eq!(world.read(0, PAGE), [3; PAGE]);
        assert_eq!(world.read(BLOCK, PAGE), [3; PAGE]);
        world.until("off", |statistics| !statistics.on);
        let reason = world.cache.off_reason().unwrap();
        assert!(reason.contains(if fails_reads { "read" } else { "written" }), "{reason}");
        world.write(0, &[4; PAGE]);
        let hits = world.statistics().hits;
        assert_eq!(world.read(0, PAGE), [4; PAGE]);
        assert_eq!(world.statistics().hits, hits);
    }
}

#[test]
fn a_volume_without_a_disk_for_its_cache_is_a_volume() {
    let geometry = Geometry::new(1 << 20, BlockSize::B512).unwrap();
    for options in [
        Options::new(PathBuf::from("/dev/null/cache"), 1 << 20),
        Options { block_bytes: 5, ..Options::new(PathBuf::from("/not/used"), 1 << 20) },
        Options::new(PathBuf::from("/not/used"), 100),
    ] {
        let below = Arc::new(MemoryDevice::new(geometry).unwrap());
        let cache = ReadCache::new(below, &options);
        assert!(!cache.statistics().on && cache.off_reason().is_some());
        execute(&*cache, write_request(10, &[7; 100])).result.unwrap();
        assert_eq!(read(&*cache, 10, 100), [7; 100]);
        cache.forget_all();
        assert_eq!(cache.geometry(), geometry);
    }
}

#[test]
fn a_fenced_volume_is_not_read_from_the_cache() {
    let world = World::new(16);
    world.warm(0, PAGE);
    world.below.fence();
    let answer = execute(&*world.cache, write_request(BLOCK, &[1; 10]));
    assert!(matches!(answer.result, Err(DeviceError::Fenced)));
    let answer = execute(&*world.cache, read_request(0, PAGE));
    assert!(matches!(answer.result, Err(DeviceError::Fenced)));
    assert!(!world.statistics().on);
}

#[test]
fn what_cannot_be_written_in_time_is_dropped_and_answered_all_the_same() {
    let world = World::new(128);
    world.disk.stall(true);
    for block in 0..128 {
        assert_eq!(world.read(block * BLOCK, PAGE), [0; PAGE]);
    }
    // 64 blocks may wait, and one is being written. A failure here must not wait for the disk.
    let dropped = world.statistics().dropped;
    world.disk.stall(false);
    assert!((63..=64).contains(&dropped), "{dropped}");
    world.until("filled", |statistics| statistics.fills == 128 - dropped);
}

#[test]
fn the_end_of_a_volume_that_shrank_and_grew_is_not_what_it_was() {
    let world = World::new(300);
    let last = 255 * BLOCK;
    world.write(last, &[3; PAGE]);
    world.write(0, &[3; PAGE]);
    world.warm(last, PAGE);
    world.warm(0, PAGE);
    world.below.resize(geometry(100 * BLOCK));
    assert!(execute(&*world.cache, read_request(last, PAGE)).result.is_err());
    world.below.resize(geometry(256 * BLOCK));
    world.change_below(last, &[0; PAGE]);
    assert_eq!(world.read(last, PAGE), [0; PAGE]);
    let reads = world.below.reads();
    assert_eq!(world.read(0, PAGE), [3; PAGE]);
    assert_eq!(world.below.reads(), reads, "what lies before the end stayed");
}

#[test]
fn after_a_change_by_another_way_everything_can_be_forgotten() {
    let world = World::new(16);
    world.warm(0, PAGE);
    world.change_below(0, &[5; PAGE]);
    world.cache.forget_all();
    assert_eq!(world.read(0, PAGE), [5; PAGE]);
    assert_eq!(world.statistics().invalidations, 1);
}

#[test]
fn ends_hold_and_flushes_go_through() {
    let world = World::new(16);
    for request in [
        read_request(255 * BLOCK + 1, PAGE),
        write_request(255 * BLOCK + 1, &[1; PAGE]),
        Request::Discard { range: range(256 * BLOCK, 1) },
    ] {
        let result = execute(&*world.cache, request).result;
        assert!(matches!(result, Err(DeviceError::OutOfRange { .. })), "{result:?}");
    }
    execute(&*world.cache, Request::Flush).result.unwrap();
    execute(&*world.cache, read_request(5, 0)).result.unwrap();
    assert_eq!(world.read(255 * BLOCK, PAGE), [0; PAGE]);
}

#[test]
fn its_threads_end_with_it_and_requests_on_their_way_are_answered() {
    let world = World::new(16);
    world.warm(0, PAGE);
    let answers = Arc::new(Answers::default());
    world.below.hold();
    answers.submit(&*world.cache, 1, read_request(0, PAGE));
    answers.submit(&*world.cache, 2, read_request(BLOCK, PAGE));
    let World { below, cache, .. } = world;
    drop(cache);
    below.release();
    let mut tokens: Vec<_> = answers
        .taken()
        .into_iter()
        .map(|(token, outcome)| (token, outcome.result.is_ok()))
        .collect();
    tokens.sort_unstable();
    assert_eq!(tokens, [(1, true), (2, true)]);
    assert_eq!(Arc::strong_count(&below), 1, "no thread or request holds the device below");
}

#[test]
fn on_a_real_disk() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cache");
    let geometry = Geometry::new(1 << 20, BlockSize::B512).unwrap();
    let below = Arc::new(MemoryDevice::new(geometry).unwrap());
    let cache = ReadCache::new(
        below,
        &Options { readers: 2, key: Some(key()), ..Options::new(path, 1 << 20) },
    );
    assert_eq!(cache.off_reason(), None);
    execute(&*cache, write_request(0, &vec![7; 1 << 20])).result.unwrap();
    assert_eq!(read(&*cache, 0, 1 << 20), vec![7; 1 << 20]);
    while cache.statistics().fills < 64 {
        thread::yield_now();
    }
    assert_eq!(read(&*cache, 1, (1 << 20) - 1), vec![7; (1 << 20) - 1]);
    let statistics = cache.statistics();
    assert_eq!((statistics.hits, statistics.capacity_bytes, statistics.on), (1, 1 << 20, true));
}

#[derive(Debug, Clone)]
enum Op {
    Read(u64, usize),
    Write(u64, usize, u8),
    Zero(u64, usize),
    Rot,
}

fn op() -> impl Strategy<Value = Op> {
    let span = || (0..40 * BLOCK, 1..50_000_usize);
    let page = (0..160_u64, 1..5_usize).prop_map(|(at, count)| Op::Read(at * 4096, count * 4096));
    prop_oneof![
        6 => page,
        3 => span().prop_map(|(at, count)| Op::Read(at, count)),
        2 => (span(), any::<u8>()).prop_map(|((at, count), fill)| Op::Write(at, count, fill)),
        1 => span().prop_map(|(at, count)| Op::Zero(at, count)),
        1 => Just(Op::Rot),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn behaves_like_the_device_below_it(
        ops in prop::collection::vec(op(), 1..150), sealed in any::<bool>(), wide in any::<bool>(),
    ) {
        let world = World::with(12, sealed.then(key), if wide { REGION } else { 0 });
        let mut model = vec![0; usize::try_from(64 * BLOCK).unwrap()];
        for op in ops {
            match op {
                Op::Read(at, count) => {
                    let from = usize::try_from(at).unwrap();
                    prop_assert!(world.read(at, count) == model[from..from + count]);
                }
                Op::Write(at, count, fill) => {
                    let from = usize::try_from(at).unwrap();
                    world.write(at, &vec![fill; count]);
                    model[from..from + count].fill(fill);
                }
                Op::Zero(at, count) => {
                    let from = usize::try_from(at).unwrap();
                    let range = range(at, u64::try_from(count).unwrap());
                    execute(&*world.cache, Request::Discard { range }).result.unwrap();
                    model[from..from + count].fill(0);
                }
                Op::Rot => world.disk.rot(),
            }
        }
    }
}

/// Each writer has blocks of its own and writes ever higher numbers; a reader never sees one that
/// is lower than what was written before it asked.
#[test]
fn nothing_old_is_read_while_blocks_come_go_and_change() {
    nothing_old_is_read(None, 8, 0, 0);
}

/// Each write changes parts of two blocks, whose other parts others read and write.
#[test]
fn nothing_old_is_read_of_pages_that_lie_across_blocks() {
    nothing_old_is_read(None, 8, 0, 12_288);
    nothing_old_is_read(Some(key()), 8, 0, 4096);
}

#[test]
fn nothing_old_is_read_from_a_sealed_file_either() {
    nothing_old_is_read(Some(key()), 8, 0, 0);
}

/// With changes now and then there is room now and then.
#[test]
fn nothing_old_is_read_with_what_lies_around_it() {
    nothing_old_is_read(None, 20, 4 * BLOCK, 0);
}

fn nothing_old_is_read(key: Option<Arc<Key>>, slots: u32, region: u64, shift: u64) {
    const BLOCKS: u64 = 24;
    let (cache, _disk) = cache(Arc::new(Later::new()), slots, key, region);
    let written: Vec<AtomicU8> = (0..BLOCKS).map(|_| AtomicU8::new(0)).collect();
    let written = |block: u64| &written[usize::try_from(block).unwrap()];
    thread::scope(|scope| {
        for writer in 0..2 {
            let (cache, written) = (&*cache, &written);
            scope.spawn(move || {
                for number in 1..=100 {
                    for block in (0..BLOCKS).filter(|block| block % 2 == writer) {
                        let request = write_request(block * BLOCK + shift, &[number; PAGE]);
                        execute(cache, request).result.unwrap();
                        written(block).store(number, Ordering::SeqCst);
                    }
                }
            });
        }
        for reader in 0..3_u64 {
            let (cache, written) = (&*cache, &written);
            scope.spawn(move || {
                for step in 0..3000 {
                    let block = (step * 7 + reader * 5) % BLOCKS % (4 + step % 21);
                    let least = written(block).load(Ordering::SeqCst);
                    let page = read(cache, block * BLOCK + shift, PAGE);
                    assert!(page.iter().all(|byte| *byte >= least), "{block}: {least}");
                }
            });
        }
    });
    let statistics = cache.statistics();
    assert!(statistics.hits > 0 && statistics.evictions > 0, "{statistics:?}");
    assert_eq!(statistics.wide > 0, region > 0, "{statistics:?}");
    assert_eq!((statistics.checksum_failures, statistics.on), (0, true));
}
