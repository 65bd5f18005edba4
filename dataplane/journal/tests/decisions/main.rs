//! Single decisions through the public face: who is answered when, what is sent where.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test may fail loudly"
)]

mod bench;
mod freeing;

use std::time::Duration;

use grampus_blockdev::{Durability, Offset, Token};
use grampus_journal::{
    Action, Admission, Config, Event, Failure, Frame, Payload, ReadPlan, Refusal, Report, Source,
    Span, State,
};

use crate::bench::{Bench, CACHE, config, ms};

#[test]
fn flushes_that_wait_share_a_batch_and_are_answered_in_order() {
    let mut bench = Bench::new(config());
    for token in 1..=4 {
        bench.write(token * 4096, &[1; 4096]);
        bench.flush(token);
    }
    assert_eq!(bench.appends(), [(1, 1), (2, 2)], "two in flight; 3 and 4 gather");
    bench.appended(2, Ok(()));
    assert_eq!(bench.answers, [], "the first is not durable");
    bench.appended(1, Ok(()));
    assert_eq!(bench.answers, [(1, Ok(())), (2, Ok(()))]);
    assert_eq!(bench.appends(), [(1, 1), (2, 2), (3, 3)]);
    bench.appended(3, Ok(()));
    assert_eq!(bench.answers[2..], [(3, Ok(())), (4, Ok(()))], "one batch for both");
    bench.flush(5);
    assert_eq!(bench.answers.last(), Some(&(5, Ok(()))), "nothing to do");
    assert_eq!(bench.journal.statistics().appends, 3);
}

#[test]
fn a_failed_append_fails_every_flush_from_then_on() {
    let mut bench = Bench::new(config());
    for token in 1..=3 {
        bench.write(token * 4096, &[1; 4096]);
        bench.flush(token);
    }
    bench.appended(1, Err(Failure::Io));
    let failed = Err(Failure::Io);
    bench.answers.sort_by_key(|(token, _)| *token);
    assert_eq!(bench.answers, [(1, failed), (2, failed), (3, failed)]);
    bench.appended(2, Ok(()));
    bench.flush(4);
    assert_eq!(bench.answers.last(), Some(&(4, failed)));
    assert_eq!(bench.journal.admission(bench.now, 512), {
        Admission::Refused(Refusal::Failed(Failure::Io))
    });
    assert_eq!(bench.journal.status().state, State::Failed(Failure::Io));
    assert_eq!(bench.reports, [Report::Failed(Failure::Io)]);
}

#[test]
fn no_space_is_tried_again_with_the_same_frame_and_ends_in_an_error() {
    let place = |action: &Action| match action {
        Action::Append { frame, place } => (frame.sequences(), *place),
        other => panic!("{other:?}"),
    };
    let mut bench = Bench::new(config());
    bench.write(0, &[1; 512]);
    bench.flush(1);
    bench.appended(1, Err(Failure::NoSpace));
    assert_eq!(bench.reports, [Report::Retrying(Failure::NoSpace)]);
    assert_eq!(bench.journal.next_tick(), Some(ms(500)));
    bench.at(ms(500));
    assert_eq!(place(&bench.wanted[0]), place(&bench.wanted[1]));
    bench.appended(1, Ok(()));
    assert_eq!(bench.answers, [(1, Ok(()))]);
    assert_eq!(bench.reports.last(), Some(&Report::Recovered));

    let mut bench = Bench::new(config());
    bench.write(0, &[1; 512]);
    bench.flush(1);
    while bench.answers.is_empty() {
        assert!(bench.now <= ms(30_000), "it hangs");
        bench.appended(1, Err(Failure::NoSpace));
        if let Some(next) = bench.journal.next_tick() {
            bench.at(next);
        }
    }
    assert_eq!((bench.now, bench.answers[0]), (ms(30_000), (1, Err(Failure::NoSpace))));
}

#[test]
fn fua_completes_with_its_batch_and_not_before() {
    let mut bench = Bench::new(config());
    let accepted = bench
        .journal
        .write(bench.now, Offset::ZERO, Payload::copy_of(&[1; 512]), Durability::Fua, Token(9))
        .unwrap();
    assert!(!accepted.complete);
    bench.collect();
    assert_eq!((bench.appends(), bench.answers.len()), (vec![(1, 1)], 0));
    bench.appended(1, Ok(()));
    assert_eq!(bench.answers, [(9, Ok(()))]);
}

#[test]
fn writes_that_nobody_flushes_are_sealed_by_size_and_by_age() {
    let mut bench = Bench::new(config());
    bench.write(0, &[1; 16 << 10]);
    assert_eq!(bench.journal.next_tick(), Some(ms(1000)));
    bench.write(16 << 10, &[1; 15 << 10]);
    assert_eq!(bench.appends(), []);
    bench.write(32 << 10, &[1; 16 << 10]);
    assert_eq!(bench.appends(), [(1, 1)], "the third did not fit");
    bench.at(ms(1000));
    assert_eq!(bench.appends(), [(1, 1), (2, 2)]);
}

#[test]
fn a_read_sees_the_newest_of_all_layers() {
    let mut bench = Bench::new(config());
    let look = |bench: &Bench| {
        let mut plan = ReadPlan::default();
        bench.journal.plan_read(Span::new(0, 12).unwrap(), &mut plan);
        let mut seen = String::new();
        for (span, source) in plan.pieces() {
            match source {
                Source::Memory(payload) => {
                    seen.push_str(std::str::from_utf8(payload.as_slice()).unwrap());
                }
                Source::Zeros => seen.extend((0..span.length()).map(|_| '0')),
                Source::Image => seen.extend((0..span.length()).map(|_| '.')),
            }
        }
        seen
    };
    bench.write(1, b"aaaaaaaaa");
    bench.flush(1);
    bench.appended(1, Ok(())); // durable, not applied
    bench.write(3, b"bbb");
    bench.flush(2); // closed, not durable
    let span = Span::new(5, 2).unwrap();
    bench.journal.zero(bench.now, span, true, Durability::OnFlush, Token(0)).unwrap();
    assert_eq!(look(&bench), ".aabb00aaa..");
    bench.handle(Event::Quiesce(Token(3)));
    bench.answer_all();
    assert_eq!(look(&bench), "............");
}

#[test]
fn drawing_down_applies_at_once_and_lets_changes_in_more_slowly() {
    let mut bench = Bench::new(config());
    bench.write(0, &[1; 4096]);
    bench.flush(1);
    bench.appended(1, Ok(()));
    assert!(matches!(bench.wanted[..], [Action::Append { .. }]), "it may be overwritten soon");
    bench.wanted.clear();
    bench.handle(Event::DrawDown(true));
    assert!(matches!(bench.wanted[..], [Action::Apply { .. }]), "{:?}", bench.wanted);
    assert_eq!(bench.journal.admission(bench.now, 4096), Admission::Now);
    bench.write(8192, &[2; 4096]);
    assert!(matches!(bench.journal.admission(bench.now, 4096), Admission::At(_)));
    bench.handle(Event::DrawDown(false));
    bench.now += Duration::from_secs(1);
    bench.write(8192, &[2; 4096]);
    assert_eq!(bench.journal.admission(bench.now, 4096), Admission::Now);
}

#[test]
fn a_held_image_stays_as_it_is_while_changes_become_durable() {
    let mut bench = Bench::new(config());
    bench.handle(Event::HoldImage(true));
    bench.write(0, &[1; 4096]);
    assert_eq!(bench.journal.admission(bench.now, 512), Admission::Now, "it was not quiet");
    bench.handle(Event::Quiesce(Token(7)));
    bench.answer_all();
    bench.handle(Event::HoldImage(true));
    assert_eq!(bench.journal.status().state, State::Running);
    bench.write(8192, &[2; 4096]);
    bench.flush(1);
    bench.appended(2, Ok(()));
    assert_eq!(bench.answers.last(), Some(&(1, Ok(()))));
    bench.now += Duration::from_secs(60);
    bench.handle(Event::Tick);
    bench.handle(Event::DrawDown(true));
    bench.handle(Event::Quiesce(Token(8)));
    let changes = |bench: &Bench| {
        bench
            .wanted
            .iter()
            .any(|action| matches!(action, Action::Apply { .. } | Action::FlushImage))
    };
    assert!(!changes(&bench), "{:?}", bench.wanted);
    assert_eq!(bench.journal.status().state, State::Quiescing, "it waits for the end of the hold");
    bench.handle(Event::HoldImage(false));
    assert!(changes(&bench));
    bench.answer_all();
    assert_eq!(bench.answers.last(), Some(&(8, Ok(()))));
}

#[test]
fn quiescing_brings_everything_into_the_image_and_holds_writes_back() {
    let mut bench = Bench::new(config());
    bench.write(0, &[1; 4096]);
    bench.handle(Event::Quiesce(Token(7)));
    assert_eq!(bench.journal.admission(bench.now, 512), Admission::Wait);
    let mut kinds = Vec::new();
    while let Some(action) = bench.wanted.pop() {
        kinds.push(format!("{action:?}").split([' ', '(']).next().unwrap().to_owned());
        bench.wanted.push(action);
        bench.answer_first();
    }
    assert_eq!(kinds, ["Append", "Apply", "FlushImage", "Record", "FreeSlot"]);
    assert_eq!(bench.answers, [(7, Ok(()))]);
    let status = bench.journal.status();
    assert_eq!((status.state, status.held_bytes, status.used_bytes), (State::Quiesced, 0, 0));
    bench.handle(Event::Resized(4096));
    bench.handle(Event::Unquiesce);
    assert_eq!(bench.journal.admission(bench.now, 512), Admission::Now);
    let past = bench.journal.write(
        bench.now,
        Offset::new(4000).unwrap(),
        Payload::copy_of(&[1; 97]),
        Durability::OnFlush,
        Token(0),
    );
    assert!(matches!(past, Err(Refusal::OutOfRange { .. })));
}

#[test]
fn memory_is_bounded_intake_slows_down_and_silence_is_waited_out() {
    let mut bench = Bench::new(config());
    let mut taken = 0;
    let (mut delayed, mut now) = (false, Duration::ZERO);
    loop {
        match bench.journal.admission(now, 4096) {
            Admission::Now => {
                bench.now = now;
                bench.write(taken * 4096 % (1 << 20), &[1; 4096]);
                taken += 1;
            }
            Admission::At(at) => {
                assert!(at > now);
                (now, delayed) = (at, true);
            }
            Admission::Wait => break,
            Admission::Refused(refusal) => panic!("{refusal}"),
        }
    }
    assert!(delayed, "it slows down before it stops");
    let held = bench.journal.status().held_bytes;
    assert!((120 << 10..=128 << 10).contains(&held), "{held}");
    assert!(matches!(
        bench.journal.write(
            now,
            Offset::ZERO,
            Payload::copy_of(&[1; 4096]),
            Durability::OnFlush,
            Token(0)
        ),
        Err(Refusal::Busy)
    ));
    // The cluster answers nothing for an hour: that ends no write (INV-68).
    let hour = now + ms(3_600_000);
    assert_eq!(bench.journal.admission(hour, 4096), Admission::Wait);
    bench.journal.handle(hour, Event::Tick);
    let status = bench.journal.status();
    assert_eq!((status.state, status.retrying), (State::Running, None));
    assert!(status.silent >= Some(ms(3_599_000)), "{status:?}");
    bench.now = hour;
    bench.answer_all();
    let later = bench.now + ms(60_000);
    assert_eq!(bench.journal.admission(later, 4096), Admission::Now);
    assert_eq!(bench.journal.status().silent, None);
}

/// What must be durable has no more than that ahead of it, also when nothing else is flushed.
#[test]
fn intake_waits_for_what_is_not_durable_if_that_is_bounded() {
    let bounded = Config { max_undurable_bytes: 40 << 10, ..config() };
    for (config, waits) in [(bounded, true), (config(), false)] {
        let mut bench = Bench::new(config);
        for block in 0..8 {
            assert_eq!(bench.journal.admission(ms(0), 4096), Admission::Now);
            bench.write(block * 4096, &[1; 4096]);
        }
        let answer = bench.journal.admission(ms(0), 16 << 10);
        assert_eq!(answer == Admission::Wait, waits, "{answer:?}");
        // Once it is durable there is room, though nothing is applied to the image yet.
        bench.at(bounded.close_after);
        for (_, last) in bench.appends() {
            bench.appended(last, Ok(()));
        }
        assert!(bench.journal.status().held_bytes > 32 << 10);
        assert_eq!(bench.journal.admission(bench.now, 16 << 10), Admission::Now);
    }
}

/// With a log on the host nobody waits for the cluster.
#[test]
fn with_a_local_log_intake_waits_for_memory_alone() {
    let config = Config { max_undurable_bytes: 40 << 10, cache: Some(CACHE), ..config() };
    let mut bench = Bench::new(config);
    for block in 0..12 {
        assert_eq!(bench.journal.admission(ms(0), 4096), Admission::Now);
        bench.write(block * 4096, &[1; 4096]);
    }
}

/// Else a large `fstrim` is let in at once, and a snapshot waits for all of it.
#[test]
fn a_discard_counts_by_its_length_until_it_is_in_the_image() {
    let mut bench = Bench::new(config());
    let span = Span::new(0, 1 << 20).unwrap();
    bench.journal.zero(bench.now, span, true, Durability::OnFlush, Token(1)).unwrap();
    let held = bench.journal.status().held_bytes;
    assert!((16 << 10..17 << 10).contains(&held), "{held}");
    bench.write(0, &[1; 16 << 10]);
    let held = bench.journal.status().held_bytes - (16 << 10);
    assert!((15 << 10..17 << 10).contains(&held), "what is overwritten counts no more: {held}");
    bench.handle(Event::Quiesce(Token(3)));
    bench.answer_all();
    assert_eq!(bench.journal.status().held_bytes, 0);
}

/// INV-5: want of space ends writes and flushes once it has lasted, and silence in between does not
/// count as such.
#[test]
fn a_full_pool_is_an_error_once_the_cluster_has_said_so_for_long_enough() {
    let mut bench = Bench::new(config());
    bench.write(0, &[1; 512]);
    bench.flush(1);
    bench.appended(1, Err(Failure::NoSpace));
    let retry = |bench: &mut Bench, at: Duration| {
        bench.at(at);
        bench.appended(1, Err(Failure::NoSpace));
    };
    retry(&mut bench, ms(29_000));
    assert_eq!(bench.answers, []);
    // Sent again, and nothing comes back.
    bench.at(ms(29_600));
    bench.at(ms(600_000));
    assert_eq!((bench.answers.as_slice(), bench.journal.status().state), (&[][..], State::Running));
    bench.appended(1, Err(Failure::NoSpace));
    assert_eq!(bench.answers, [(1, Err(Failure::NoSpace))]);
    assert_eq!(bench.journal.status().state, State::Failed(Failure::NoSpace));
}

#[test]
fn cache_answers_from_the_host_and_ships_merged_later() {
    let mut bench = Bench::new(Config { cache: Some(CACHE), ..config() });
    for token in 1..=3 {
        bench.write(0, &[1; 512]);
        bench.flush(token);
        bench.locally(token, Ok(()));
        assert_eq!(bench.answers.last(), Some(&(token, Ok(()))));
    }
    assert_eq!((bench.appends(), bench.journal.next_tick()), (vec![], Some(ms(25))));
    bench.at(ms(25));
    assert_eq!(bench.appends(), [(1, 3)]);
    let shipped = |frame: &Frame| frame.extents().len();
    let Some(Action::Append { frame, .. }) = bench.wanted.last() else { panic!() };
    assert_eq!(shipped(frame), 1, "overwrites do not travel");
    assert_eq!(bench.journal.status().lag, ms(25));
    bench.appended(3, Ok(()));
    let status = bench.journal.status();
    assert_eq!((status.lag_bytes, status.replicated), (0, 3));
}

#[test]
fn past_the_lag_flushes_wait_for_the_cluster() {
    let mut bench = Bench::new(Config { cache: Some(CACHE), ..config() });
    bench.write(0, &[1; 512]);
    bench.flush(1);
    bench.locally(1, Ok(()));
    bench.at(ms(101));
    bench.write(512, &[1; 512]);
    bench.flush(2);
    bench.locally(2, Ok(()));
    bench.flush(3); // nothing new, but what it asks about is too far behind
    assert_eq!(bench.answers, [(1, Ok(()))]);
    bench.appended(1, Ok(()));
    assert_eq!(bench.answers, [(1, Ok(())), (2, Ok(())), (3, Ok(()))]);

    let mut bench = Bench::new(Config { cache: Some(CACHE), ..config() });
    for token in 1..=3 {
        bench.write(token * 16384, &[1; 12 << 10]);
        bench.flush(token);
        bench.locally(token, Ok(()));
    }
    assert_eq!(bench.answers, [(1, Ok(())), (2, Ok(()))], "the third exceeds the bytes");
    assert!(bench.journal.status().lag_bytes <= CACHE.max_lag_bytes);
}

#[test]
fn a_failing_local_log_turns_cache_into_journal() {
    let mut bench = Bench::new(Config { cache: Some(CACHE), ..config() });
    bench.write(0, &[1; 512]);
    bench.flush(1);
    bench.locally(1, Err(Failure::Io));
    assert_eq!(bench.reports, [Report::Degraded(Failure::Io)]);
    assert_eq!((bench.answers.len(), bench.appends()), (0, vec![(1, 1)]));
    bench.appended(1, Ok(()));
    assert_eq!(bench.answers, [(1, Ok(()))], "nothing was lost, so nothing fails");
    bench.write(0, &[1; 512]);
    bench.flush(2);
    assert_eq!(bench.appends(), [(1, 1), (2, 2)]);
    let status = bench.journal.status();
    assert_eq!((status.local, status.degraded), (false, Some(Failure::Io)));
}

#[test]
fn a_disk_that_hangs_is_given_up() {
    let mut bench = Bench::new(Config { cache: Some(CACHE), ..config() });
    bench.write(0, &[1; 512]);
    bench.flush(1);
    bench.at(ms(25));
    bench.appended(1, Ok(()));
    assert_eq!(bench.answers, [(1, Ok(()))], "the cluster has it");
    assert_eq!(bench.journal.next_tick(), Some(CACHE.give_up_after));
    bench.at(CACHE.give_up_after);
    assert_eq!(bench.reports, [Report::Degraded(Failure::TimedOut)]);
    bench.locally(1, Ok(())); // too late
    bench.write(0, &[2; 512]);
    bench.flush(2);
    assert_eq!(bench.appends(), [(1, 1), (2, 2)]);
}

#[test]
fn a_batch_is_not_acknowledged_over_a_gap_in_the_local_log() {
    let mut bench = Bench::new(Config { cache: Some(CACHE), ..config() });
    bench.write(0, &[1; 512]);
    bench.flush(1); // its local append takes long
    bench.at(ms(25));
    bench.appended(1, Ok(())); // the cluster has it
    bench.write(0, &[1; 512]);
    bench.flush(2);
    bench.locally(2, Ok(()));
    assert_eq!(bench.answers, [(1, Ok(()))], "a scan would end at 1, which is not there");
    bench.locally(1, Ok(()));
    assert_eq!(bench.answers, [(1, Ok(())), (2, Ok(()))]);
}

#[test]
fn what_nobody_adds_to_is_applied_soon_and_all_at_once() {
    let mut bench = Bench::new(Config { idle_after: ms(1000), ..config() });
    for block in 0..3 {
        bench.write(block * 8192, &[1; 512]);
    }
    bench.flush(1);
    bench.appended(1, Ok(()));
    assert_eq!(bench.journal.next_tick(), Some(ms(1000)));
    bench.at(ms(999));
    bench.write(0, &[2; 512]); // somebody is still at it
    bench.at(ms(1998));
    let applies = |bench: &Bench| {
        bench.wanted.iter().filter(|action| matches!(action, Action::Apply { .. })).count()
    };
    assert_eq!(applies(&bench), 0);
    bench.at(ms(1999));
    assert_eq!(applies(&bench), 3);
}

#[test]
fn a_failed_apply_is_tried_again_and_the_journal_is_not_trimmed_before() {
    let mut bench = Bench::new(Config { apply_after: Duration::ZERO, ..config() });
    bench.write(0, &[1; 512]);
    bench.flush(1);
    bench.appended(1, Ok(()));
    let apply = |bench: &Bench| match bench.wanted.last() {
        Some(Action::Apply { id, .. }) => *id,
        other => panic!("{other:?}"),
    };
    bench.handle(Event::Applied { id: apply(&bench), result: Err(Failure::NoSpace) });
    bench.at(ms(499));
    assert_eq!(bench.journal.status().applied, 0);
    bench.at(ms(500));
    bench.handle(Event::Applied { id: apply(&bench), result: Ok(()) });
    assert_eq!(bench.reports, [Report::Retrying(Failure::NoSpace), Report::Recovered]);
    bench.at(ms(1000));
    assert!(matches!(bench.wanted.last(), Some(Action::FlushImage)));
    assert_eq!(bench.journal.status().trimmed, 0);
    bench.handle(Event::ImageFlushed(Ok(())));
    bench.handle(Event::Recorded(Ok(())));
    assert_eq!(bench.journal.status().trimmed, 1);
}

#[test]
fn under_load_the_record_comes_before_the_next_flush_of_the_image() {
    let mut bench = Bench::new(Config { apply_after: Duration::ZERO, ..config() });
    let land = |bench: &mut Bench, last: u64| {
        bench.write(last * 4096, &[1; 4096]);
        bench.flush(last);
        bench.appended(last, Ok(()));
        bench.handle(Event::Applied { id: last, result: Ok(()) });
    };
    land(&mut bench, 1);
    bench.at(ms(1000));
    land(&mut bench, 2);
    bench.handle(Event::ImageFlushed(Ok(())));
    let Some(Action::Record { record, .. }) = bench.wanted.last() else { panic!("no record") };
    assert_eq!((record.first, record.durable), (2, 2), "only what was applied before the flush");
}
