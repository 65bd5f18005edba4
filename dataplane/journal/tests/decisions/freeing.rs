//! What a journal gives back of the cluster.

use std::time::Duration;

use grampus_journal::{
    Action, Config, Epoch, Event, Failure, Journal, Opened, Record, Report, VolumeId,
};

use crate::bench::{Bench, RING, config, ms};

impl Bench {
    /// The slots that are to be freed, and before which position.
    fn frees(&self) -> Vec<(u32, u64)> {
        let free = |action: &Action| match action {
            Action::FreeSlot { slot, before, .. } => Some((*slot, *before)),
            _ => None,
        };
        self.wanted.iter().filter_map(free).collect()
    }
}

#[test]
fn a_drained_journal_keeps_no_small_frames_in_the_cluster() {
    let mut bench = Bench::new(Config { apply_after: Duration::ZERO, ..config() });
    let durable = |bench: &mut Bench, last: u64, bytes: usize| {
        bench.write(last * 16384, &vec![1; bytes]);
        bench.flush(last);
        bench.appended(last, Ok(()));
        bench.handle(Event::Applied { id: last, result: Ok(()) });
    };
    durable(&mut bench, 1, 4096);
    durable(&mut bench, 2, 8192); // not a small one
    bench.at(ms(1000));
    bench.handle(Event::ImageFlushed(Ok(())));
    assert_eq!(bench.frees(), [], "the tail of the durable record is before it");
    bench.handle(Event::Recorded(Ok(())));
    assert_eq!(bench.frees(), [(0, 20480)]);
    assert!(bench.journal.is_freeing());
    bench.handle(Event::SlotFreed { slot: 0, result: Err(Failure::NoSpace) });
    assert!(!bench.journal.is_freeing(), "it costs space, and nothing else");
    assert_eq!((&bench.reports[..], bench.journal.status().retrying), (&[][..], None));
    durable(&mut bench, 3, 4096);
    bench.at(ms(2000));
    bench.handle(Event::ImageFlushed(Ok(())));
    bench.handle(Event::Recorded(Ok(())));
    assert_eq!(bench.frees(), [(0, 20480), (0, 28672)]);
    bench.handle(Event::SlotFreed { slot: 0, result: Ok(()) });
    durable(&mut bench, 4, 8192);
    bench.at(ms(3000));
    bench.handle(Event::ImageFlushed(Ok(())));
    bench.handle(Event::Recorded(Ok(())));
    assert_eq!(bench.frees().len(), 2, "nothing small came since");
}

#[test]
fn a_journal_that_is_opened_frees_what_earlier_owners_left_and_notices_a_fence_by_it() {
    let record =
        Record { epoch: Epoch(4), tail: 300 << 10, ..Record::fresh(VolumeId([1; 16]), RING) };
    let opened = Opened { record, local: None, size_bytes: 1 << 20 };
    let mut bench = Bench::new(config());
    bench.journal = Journal::new(config(), opened, Duration::ZERO).unwrap();
    bench.at(ms(1));
    assert_eq!(bench.frees(), [(0, 300 << 10), (1, 300 << 10)]);
    bench.handle(Event::SlotFreed { slot: 1, result: Ok(()) });
    bench.handle(Event::SlotFreed { slot: 0, result: Ok(()) });
    assert_eq!(bench.frees()[2..], [(2, 300 << 10), (3, 300 << 10)]);
    bench.handle(Event::SlotFreed { slot: 2, result: Err(Failure::Fenced) });
    assert_eq!(bench.reports, [Report::Failed(Failure::Fenced)]);
    assert!(!bench.journal.is_freeing());
}

#[test]
fn many_small_frames_are_applied_before_their_time() {
    let limited = Config { max_small_frames: 3, max_appends: 9, ..config() };
    for (bytes, expected) in [(512, 1), (8192, 0)] {
        let mut bench = Bench::new(limited);
        for last in 1..=3 {
            assert!(!bench.wanted.iter().any(|action| matches!(action, Action::Apply { .. })));
            bench.write(last * 16384, &vec![1; bytes]);
            bench.flush(last);
            bench.appended(last, Ok(()));
        }
        let applies = bench.wanted.iter().filter(|it| matches!(it, Action::Apply { .. })).count();
        assert_eq!(applies, expected, "of {bytes} bytes");
    }
}
