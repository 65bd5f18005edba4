use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

const BLOCK: u32 = 16 << 10;

fn whole(block: u64) -> Sectors {
    Sectors { block, first: 0, count: 4 }
}

fn proofs(checksums: &[u32]) -> Proofs {
    Proofs::Checksums(checksums.into())
}

/// Read from below and put into the cache; where.
fn fill(index: &mut Index, sectors: Sectors, checksums: &[u32]) -> Option<Place> {
    let generation = index.generation(sectors.block);
    if !index.wants(sectors.block, generation) {
        return None;
    }
    let Reservation::Write { place, .. } = index.reserve(sectors, generation) else { return None };
    index.publish(place, &proofs(checksums)).then_some(place)
}

/// As a reader does: whether it was a hit.
fn access(index: &mut Index, block: u64) -> bool {
    index.note(block);
    if index.find(whole(block)).is_some() {
        return true;
    }
    fill(index, whole(block), &[0; 4]);
    false
}

/// The share of `blocks` that were hits, in percent.
fn hits(blocks: impl Iterator<Item = u64>, mut access: impl FnMut(u64) -> bool) -> u64 {
    let (mut hits, mut all) = (0, 0);
    for block in blocks {
        all += 1;
        hits += u64::from(access(block));
    }
    hits * 100 / all
}

/// The policy that a scan washes out, to show that the traces here tell the difference.
struct LeastRecent {
    slots: usize,
    clock: u64,
    last: HashMap<u64, u64>,
}

impl LeastRecent {
    fn access(&mut self, block: u64) -> bool {
        self.clock += 1;
        let hit = self.last.insert(block, self.clock).is_some();
        if self.last.len() > self.slots {
            let oldest = *self.last.iter().min_by_key(|(_, last)| **last).unwrap().0;
            self.last.remove(&oldest);
        }
        hit
    }
}

/// A hundred blocks that are read again and again, at random, from `first` on.
fn hot(first: u64, reads: u64, seed: u64) -> impl Iterator<Item = u64> {
    (0..reads).map(move |number| first + mix(number + seed * 1_000_000) % 100)
}

/// Between two reads of the hot set, `share` blocks that are read once and never again.
fn with_scan(reads: u64, share: u64, seed: u64) -> impl Iterator<Item = (u64, bool)> {
    hot(0, reads, seed).enumerate().flat_map(move |(number, block)| {
        let at = 1_000_000 + u64::try_from(number).unwrap() * share;
        (at..at + share).map(|block| (block, false)).chain([(block, true)])
    })
}

fn hot_hits(trace: impl Iterator<Item = (u64, bool)>, mut access: impl FnMut(u64) -> bool) -> u64 {
    let (mut hits, mut all) = (0, 0);
    for (block, is_hot) in trace {
        let hit = access(block);
        if is_hot {
            all += 1;
            hits += u64::from(hit);
        }
    }
    hits * 100 / all
}

#[test]
fn a_scan_does_not_wash_out_what_is_read_often() {
    let mut index = Index::new(128, BLOCK, false);
    assert!(hits(hot(0, 2000, 1), |block| access(&mut index, block)) >= 94);
    // 20,000 blocks go by, 150 times what the cache holds.
    let during = hot_hits(with_scan(2000, 10, 2), |block| access(&mut index, block));
    assert!(during >= 95, "{during} of 100 during the scan");
    let after = hits(hot(0, 200, 3), |block| access(&mut index, block));
    assert!(after >= 95, "{after} of 100 after the scan");

    let mut plain = LeastRecent { slots: 128, clock: 0, last: HashMap::new() };
    assert!(hits(hot(0, 2000, 1), |block| plain.access(block)) >= 94);
    let during = hot_hits(with_scan(2000, 10, 2), |block| plain.access(block));
    assert!(during < 50, "{during} of 100: the trace proves nothing");
}

#[test]
fn a_cache_that_a_scan_filled_first_learns_what_is_hot() {
    let mut index = Index::new(128, BLOCK, false);
    hits(5_000_000..5_000_500, |block| access(&mut index, block));
    hits(hot(0, 2000, 1), |block| access(&mut index, block));
    let then = hits(hot(0, 2000, 2), |block| access(&mut index, block));
    assert!(then >= 95, "{then} of 100");
}

#[test]
fn another_hot_set_takes_over() {
    let mut index = Index::new(128, BLOCK, false);
    hits(hot(0, 5000, 1), |block| access(&mut index, block));
    hits(hot(10_000, 5000, 2), |block| access(&mut index, block));
    let then = hits(hot(10_000, 2000, 3), |block| access(&mut index, block));
    assert!(then >= 90, "{then} of 100");
}

#[test]
fn one_that_was_read_often_does_not_guard_the_others() {
    let mut index = Index::new(4, BLOCK, false);
    (0..15).for_each(|_| index.note(0));
    for block in 0..4 {
        access(&mut index, block);
    }
    assert_eq!((1..=5).find(|_| access(&mut index, 100)), Some(3), "let in at the second");
    assert!(index.find(whole(0)).is_some());
}

#[test]
fn what_is_read_evenly_from_far_more_than_fits_is_not_written_over_and_over() {
    let mut index = Index::new(128, BLOCK, false);
    let mut writes = 0;
    for number in 0..20_000 {
        let block = mix(number) % 4096;
        index.note(block);
        if index.find(whole(block)).is_none() {
            writes += u64::from(fill(&mut index, whole(block), &[0; 4]).is_some());
        }
    }
    assert!((128..6000).contains(&writes), "{writes} of 20,000 reads wrote to the disk");
}

#[test]
fn sectors_come_in_one_by_one_and_are_there_only_together() {
    let mut index = Index::new(4, BLOCK, false);
    let part = |first, count| Sectors { block: 9, first, count };
    let place = fill(&mut index, part(1, 2), &[11, 12]).unwrap();
    assert_eq!(index.find(part(0, 2)), None);
    assert_eq!(index.find(part(1, 2)), Some(place));
    fill(&mut index, part(0, 1), &[10]).unwrap();
    let both = index.find(part(0, 2)).unwrap();
    assert_eq!(both.slot, place.slot);
    assert_eq!(index.judge(both, &proofs(&[10, 11])), Verdict::Sound);
    assert_eq!(
        index.judge(place, &proofs(&[11, 12])),
        Verdict::Sound,
        "the others stayed as they were"
    );
    let generation = index.generation(9);
    assert_eq!(index.reserve(part(1, 1), generation), Reservation::There);
    assert_eq!(index.used_slots(), 1);
}

#[test]
fn who_reads_what_is_written_over_is_told() {
    let mut index = Index::new(4, BLOCK, false);
    let part = |first, count| Sectors { block: 9, first, count };
    let place = fill(&mut index, part(0, 2), &[1, 2]).unwrap();
    let generation = index.generation(9);
    let wider = index.reserve(part(0, 4), generation);
    assert!(matches!(wider, Reservation::Write { .. }));
    assert_eq!(index.judge(place, &proofs(&[1, 2])), Verdict::Moved);
    assert_eq!(index.find(part(0, 1)), None);
}

#[test]
fn a_change_takes_blocks_out_and_bars_what_was_read_before() {
    let mut index = Index::new(4, BLOCK, false);
    let place = fill(&mut index, whole(5), &[1; 4]).unwrap();
    let before = index.generation(5);
    assert_eq!(index.invalidate(5..6), 1);
    assert_eq!(index.find(whole(5)), None);
    assert_eq!(index.judge(place, &proofs(&[1; 4])), Verdict::Moved);
    assert!(!index.wants(5, before));
    assert_eq!(index.reserve(whole(5), before), Reservation::Barred);
    // In the midst of writing it:
    let generation = index.generation(5);
    let Reservation::Write { place, .. } = index.reserve(whole(5), generation) else { panic!() };
    index.invalidate(0..1 << 40);
    assert!(!index.publish(place, &proofs(&[1; 4])));
    assert_eq!((index.find(whole(5)), index.used_slots()), (None, 0));
    assert!(fill(&mut index, whole(5), &[1; 4]).is_some());
}

#[test]
fn a_change_of_some_sectors_leaves_the_others() {
    let mut index = Index::new(4, BLOCK, false);
    let part = |first, count| Sectors { block: 9, first, count };
    let place = fill(&mut index, whole(9), &[1, 2, 3, 4]).unwrap();
    let before = index.generation(9);
    assert!(index.invalidate_part(part(3, 1)));
    assert_eq!((index.find(whole(9)), index.find(part(3, 1))), (None, None));
    assert_eq!(index.judge(place, &proofs(&[1, 2, 3, 4])), Verdict::Moved);
    let others = index.find(part(0, 3)).unwrap();
    assert_eq!(index.judge(others, &proofs(&[1, 2, 3])), Verdict::Sound);
    assert_eq!(index.reserve(part(3, 1), before), Reservation::Barred);
    // In the midst of writing sectors that are not here yet:
    let generation = index.generation(9);
    let reservation = index.reserve(part(3, 1), generation);
    let Reservation::Write { place, evicted: false } = reservation else { panic!() };
    assert!(index.invalidate_part(part(3, 1)));
    assert!(!index.publish(place, &proofs(&[4])));
    assert_eq!(index.find(part(3, 1)), None);
    fill(&mut index, part(3, 1), &[40]).unwrap();
    let all = index.find(whole(9)).unwrap();
    assert_eq!(index.judge(all, &proofs(&[1, 2, 3, 40])), Verdict::Sound);
    // With its last sector it gives up its slot.
    assert!(index.invalidate_part(part(0, 3)));
    assert_eq!(index.used_slots(), 1);
    assert!(index.invalidate_part(part(3, 1)));
    assert_eq!((index.used_slots(), index.free_slots()), (0, 4));
    assert!(!index.invalidate_part(part(3, 1)));
}

#[test]
fn what_rotted_is_read_anew() {
    let mut index = Index::new(4, BLOCK, false);
    let place = fill(&mut index, whole(5), &[1, 2, 3, 4]).unwrap();
    assert_eq!(index.judge(place, &proofs(&[1, 2, 0, 4])), Verdict::Rotten);
    assert_eq!(index.find(whole(5)), None);
    assert_eq!(index.judge(place, &proofs(&[1, 2, 3, 4])), Verdict::Moved);
}

#[derive(Debug, Clone)]
enum Op {
    Access(Sectors),
    Invalidate(u64, u64),
    Change(Sectors),
    /// Read below, then change, then try to put it in.
    Late(u64),
}

fn op() -> impl Strategy<Value = Op> {
    let sectors = || {
        (0..12_u64, 0..4_u32, 1..=4_u32).prop_map(|(block, first, count)| Sectors {
            block,
            first,
            count: count.min(4 - first),
        })
    };
    prop_oneof![
        8 => sectors().prop_map(Op::Access),
        2 => sectors().prop_map(Op::Change),
        1 => (0..12_u64, 0..20_u64).prop_map(|(first, count)| Op::Invalidate(first, count)),
        1 => (0..12_u64).prop_map(Op::Late),
    ]
}

proptest! {
    /// The checksum of a sector stands for its content: which version of it the cache has.
    #[test]
    fn what_is_found_is_the_newest_version(ops in prop::collection::vec(op(), 1..200)) {
        let mut index = Index::new(5, BLOCK, false);
        let mut versions = [[1_u32; 4]; 12];
        let at = |block: u64| usize::try_from(block).unwrap();
        let sums = |sectors: Sectors, versions: &[u32; 4]| -> Vec<u32> {
            let block = u32::try_from(sectors.block).unwrap();
            (sectors.first..sectors.first + sectors.count)
                .zip(&versions[usize::try_from(sectors.first).unwrap()..])
                .map(|(sector, version)| version * 1000 + block * 10 + sector)
                .collect()
        };
        for op in ops {
            match op {
                Op::Access(sectors) => {
                    index.note(sectors.block);
                    let now = sums(sectors, &versions[at(sectors.block)]);
                    if let Some(place) = index.find(sectors) {
                        prop_assert_eq!(index.judge(place, &proofs(&now)), Verdict::Sound);
                    } else {
                        fill(&mut index, sectors, &now);
                    }
                }
                Op::Invalidate(first, count) => {
                    for block in first..(first + count).min(12) {
                        versions[at(block)].iter_mut().for_each(|version| *version += 1);
                    }
                    index.invalidate(first..first + count);
                }
                Op::Change(sectors) => {
                    let first = usize::try_from(sectors.first).unwrap();
                    let count = usize::try_from(sectors.count).unwrap();
                    for version in &mut versions[at(sectors.block)][first..first + count] {
                        *version += 1;
                    }
                    index.invalidate_part(sectors);
                }
                Op::Late(block) => {
                    let generation = index.generation(block);
                    index.invalidate(block..block + 1);
                    versions[at(block)].iter_mut().for_each(|version| *version += 1);
                    prop_assert_eq!(index.reserve(whole(block), generation), Reservation::Barred);
                }
            }
            prop_assert_eq!(index.free.len() + index.by_block.len(), 5);
            let mut taken: Vec<u32> = index.by_block.values().chain(&index.free).copied().collect();
            taken.sort_unstable();
            prop_assert_eq!(taken, [0, 1, 2, 3, 4]);
        }
    }
}
