//! That a right device passes, and that each fault of a wrong one is found.

use std::io;

use super::*;
use crate::faulty::{Fault as DeviceFault, FaultyTarget};

const BLOCKS: u64 = 32;

type Change = fn(&mut [u8]);

/// Keeps everything, and ends the writers after so many records.
struct Memory {
    records: Vec<Record>,
    stamps: Vec<Stamp>,
    ends_after: usize,
}

impl Memory {
    fn new(ends_after: usize) -> Self {
        Self { records: Vec::new(), stamps: Vec::new(), ends_after }
    }
}

impl Account for Memory {
    fn record(&mut self, record: &Record) -> io::Result<()> {
        self.records.push(record.clone());
        Ok(())
    }

    fn stamp(&mut self, stamp: &Stamp) -> io::Result<()> {
        self.stamps.push(*stamp);
        Ok(())
    }

    fn is_stopped(&self) -> bool {
        self.records.len() >= self.ends_after
    }
}

fn plan() -> WritePlan {
    WritePlan {
        run: 77,
        seed: 3,
        offset_bytes: 4096,
        blocks: BLOCKS,
        writers: 3,
        writes_per_flush: 4,
        writes_per_s: None,
        time_limit: None,
        keep_trying: false,
    }
}

fn target() -> FaultyTarget {
    FaultyTarget::new((usize::try_from(BLOCKS).expect("fits") + 2) * BLOCK_BYTES, 4096, None)
}

fn written(target: &FaultyTarget, account: &mut Memory, plan: &WritePlan) -> WriteSummary {
    write_ledger(target, account, plan, None).expect("writes")
}

fn check(target: &FaultyTarget, account: &Memory) -> Verification {
    let history = History::replay(&account.records).expect("replays");
    verify(target, &history).expect("reads")
}

#[test]
fn a_right_device_passes_and_bytes_around_the_range_stay() {
    let (target, mut account) = (target(), Memory::new(200));
    let summary = written(&target, &mut account, &plan());
    assert_eq!((summary.failures, summary.run), (0, 77));
    assert!(summary.writes > 100 && summary.flushes > 60, "{summary:?}");
    let result = check(&target, &account);
    assert_eq!((result.blocks, result.faults, result.in_doubt), (BLOCKS, 0, 0));
    assert_eq!(result.flushed_writes, summary.writes);
    let bytes = target.bytes();
    let (first, last) = (&bytes[..BLOCK_BYTES], &bytes[bytes.len() - BLOCK_BYTES..]);
    assert!(first.iter().chain(last).all(|&byte| byte == 0x5a));
}

#[test]
fn stamps_tell_each_answer_once() {
    let (target, mut account) = (target(), Memory::new(100));
    let summary = written(&target, &mut account, &plan());
    let window = observe_window(&account.stamps).expect("writes");
    assert_eq!(window.writes, summary.writes);
    assert_eq!(Some(window.last_answered_ns), summary.last_write_ns);
    assert_eq!(account.stamps.len(), usize::try_from(summary.writes + summary.flushes).expect(""));
}

#[test]
fn lost_and_torn_writes_are_found_however_late() {
    for fault in [DeviceFault::LostWrite, DeviceFault::TornWrite] {
        // The last versions of some blocks are written late: let each of the last writes fail in
        // turn, by letting a run of the same seed tell how many there are.
        let one_writer = WritePlan { writers: 1, ..plan() };
        let mut account = Memory::new(60);
        let writes = written(&target(), &mut account, &one_writer).writes;
        let found = (0..10).filter(|back| {
            let faulty = target();
            faulty.inject(fault, u32::try_from(writes - back).expect("fits"));
            let mut account = Memory::new(60);
            written(&faulty, &mut account, &one_writer);
            faulty.struck() == 1 && check(&faulty, &account).faults == 1
        });
        assert!(found.count() >= 8, "{fault:?}");
    }
}

#[test]
fn a_device_that_returns_to_an_earlier_flush_is_found() {
    let (target, mut account) = (target(), Memory::new(60));
    written(&target, &mut account, &plan());
    let earlier = target.bytes();
    let history = History::replay(&account.records).expect("replays");
    account.ends_after = 120;
    write_ledger(&target, &mut account, &plan(), Some(&history)).expect("goes on");
    assert_eq!(check(&target, &account).faults, 0);
    target.corrupt(|bytes| bytes.copy_from_slice(&earlier));
    let result = check(&target, &account);
    assert!(result.faults > BLOCKS / 2, "{result:?}");
    assert!(result.described[0].contains("a flushed write is lost"), "{result:?}");
}

#[test]
fn zeros_swapped_blocks_and_another_runs_are_found() {
    let (target, mut account) = (target(), Memory::new(60));
    written(&target, &mut account, &plan());
    let right = target.bytes();
    let changes: [(&str, Change); 3] = [
        ("holds nothing", |bytes| bytes[4096..8192].fill(0)),
        ("holds block 1 of run", |bytes| bytes.copy_within(8192..12_288, 4096)),
        ("of run 0x1", |bytes| fill_block(&mut bytes[4096..8192], 1, 0, 1)),
    ];
    for (says, change) in changes {
        target.corrupt(|bytes| {
            bytes.copy_from_slice(&right);
            change(bytes);
        });
        let result = check(&target, &account);
        assert_eq!(result.faults, 1);
        assert!(result.described[0].contains(says), "{result:?}");
    }
}

#[test]
fn a_failure_ends_the_writers_and_leaves_what_was_flushed_certain() {
    for fault in [DeviceFault::FailedWrite, DeviceFault::FailedSync] {
        let target = target();
        target.inject(fault, 25);
        let mut account = Memory::new(10_000);
        let summary = written(&target, &mut account, &plan());
        assert_eq!(summary.failures, 1);
        let failure = &summary.described[0];
        assert_eq!(failure.errno, Some(5));
        assert_eq!(failure.operation == "write", failure.block.is_some());
        let result = check(&target, &account);
        assert_eq!(result.faults, 0, "{result:?}");
        assert!(result.in_doubt > 0, "{fault:?}");
        assert_eq!(account.stamps.iter().filter(|s| s.kind == StampKind::Failure).count(), 1);
    }
}

#[test]
fn a_writer_that_keeps_trying_goes_on_after_a_failure() {
    let target = target();
    target.inject(DeviceFault::FailedSync, 5);
    let mut account = Memory::new(150);
    let summary = written(&target, &mut account, &WritePlan { keep_trying: true, ..plan() });
    assert_eq!(summary.failures, 1);
    assert!(summary.flushes > 20);
    assert_eq!(check(&target, &account).faults, 0);
}

#[test]
fn a_write_that_comes_back_after_it_was_found_missing_is_a_ghost() {
    let (target, mut account) = (target(), Memory::new(20));
    written(&target, &mut account, &WritePlan { writers: 1, ..plan() });
    let history = History::replay(&account.records).expect("replays");
    let late = history.next_sequence;
    let writes = vec![(5, late)];
    account.records.push(Record::Issued { writer: 0, batch: history.next_batch, writes });
    let result = check(&target, &account);
    assert_eq!((result.faults, result.in_doubt, result.kept_unflushed), (0, 1, 0));
    account.records.push(result.settlement());
    target.corrupt(|bytes| fill_block(&mut bytes[6 * BLOCK_BYTES..7 * BLOCK_BYTES], 77, 5, late));
    let result = check(&target, &account);
    assert_eq!(result.faults, 1);
    assert!(result.described[0].contains("was not issued"), "{result:?}");
}

#[test]
fn a_version_never_issued_is_a_ghost() {
    let expectation = Expectation { floor: 4, in_doubt: vec![7] };
    let mut bytes = vec![0; BLOCK_BYTES];
    for (sequence, expected) in [
        (3, Err(Fault::Lost { found: 3, floor: 4 })),
        (4, Ok(4)),
        (5, Err(Fault::Ghost { found: 5 })),
        (7, Ok(7)),
        (8, Err(Fault::Ghost { found: 8 })),
    ] {
        fill_block(&mut bytes, 1, 2, sequence);
        assert_eq!(classify_block(&bytes, 1, 2, &expectation), expected);
    }
}

#[test]
fn an_account_that_fails_ends_the_writers() {
    struct Full;
    impl Account for Full {
        fn record(&mut self, record: &Record) -> io::Result<()> {
            match record {
                Record::Issued { .. } => Err(io::ErrorKind::StorageFull.into()),
                _ => Ok(()),
            }
        }
        fn stamp(&mut self, _stamp: &Stamp) -> io::Result<()> {
            Ok(())
        }
        fn is_stopped(&self) -> bool {
            false
        }
    }
    let error = write_ledger(&target(), &mut Full, &plan(), None).expect_err("fails");
    assert!(matches!(error, WriteError::Account(_)), "{error}");
}

#[test]
fn plans_without_work_are_refused() {
    let refused = [
        WritePlan { writers: 0, ..plan() },
        WritePlan { writers: BLOCKS + 1, ..plan() },
        WritePlan { writes_per_flush: 0, ..plan() },
    ];
    for plan in refused {
        let result = write_ledger(&target(), &mut Memory::new(9), &plan, None);
        assert!(matches!(result, Err(WriteError::Plan(_))));
    }
}

#[test]
fn a_rate_is_kept() {
    let (target, mut account) = (target(), Memory::new(usize::MAX));
    let limit = std::time::Duration::from_millis(200);
    let plan = WritePlan { writes_per_s: Some(200), time_limit: Some(limit), ..plan() };
    let summary = written(&target, &mut account, &plan);
    // 40 in that time, and each writer finishes the batch that it has begun.
    assert!((20..=40 + 3 * 8).contains(&summary.writes), "{summary:?}");
}
