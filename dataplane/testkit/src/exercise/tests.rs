//! That every fault is found, and that a right target passes.

use std::sync::PoisonError;

use super::*;
use crate::faulty::{Fault, FaultyTarget};
use crate::target::OpenTarget;

fn plan(size: u64, operations: u64) -> Plan {
    Plan {
        seed: 11,
        operations,
        workers: 3,
        range: 0..size,
        max_transfer_bytes: 16 << 10,
        time_limit: None,
    }
}

#[test]
fn a_right_target_passes_at_every_alignment() {
    for align in [1, 512, 4096] {
        let target = FaultyTarget::new(256 << 10, align, None);
        let summary = exercise(&target, &plan(256 << 10, 600)).expect("passes");
        assert_eq!(summary.operations, 600);
        assert!(summary.compared_bytes >= 256 << 10);
        assert!(summary.changed_bytes > 0);
    }
}

#[test]
fn a_real_file_passes_and_bytes_outside_the_range_stay() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    file.as_file().set_len(300_000).expect("its length");
    let target = OpenTarget::open(file.path(), false, None, false).expect("opens");
    let plan = Plan { range: 1000..250_001, ..plan(0, 400) };
    exercise(&target, &plan).expect("passes");
    let bytes = std::fs::read(file.path()).expect("reads");
    assert_eq!(bytes.len(), 300_000);
    assert!(bytes[..1000].iter().chain(&bytes[250_001..]).all(|&byte| byte == 0));
    assert!(bytes[1000..250_001].iter().any(|&byte| byte != 0));
}

#[test]
fn each_fault_is_found_and_told_with_the_seed_of_its_story() {
    let faults = [
        Fault::LostWrite,
        Fault::TornWrite,
        Fault::ShiftedWrite,
        Fault::WidenedWrite,
        Fault::StaleRead,
        Fault::ShortZero,
        Fault::LongZero,
        Fault::SkippedDiscard,
    ];
    for fault in faults {
        // Late enough that the story is longer than what is shown, and that little is left that
        // was never written: a discard of zeros may be skipped. A later change may hide one fault
        // before anybody reads it, so each is tried until it shows, at most twenty times.
        let found = (0..20).any(|after| {
            let target = FaultyTarget::new(128 << 10, 1, Some((fault, 15 + after)));
            let result = exercise(&target, &plan(128 << 10, 900));
            assert!(target.struck() == 1, "{fault:?} had no occasion");
            match result {
                Ok(_) => false,
                Err(ExerciseError::Mismatch(mismatch)) => {
                    assert!(mismatch.wrong_bytes > 0);
                    assert_ne!(mismatch.expected, mismatch.found);
                    assert!(mismatch.to_string().contains("found by"), "{mismatch}");
                    true
                }
                Err(other) => panic!("{fault:?}: {other}"),
            }
        });
        assert!(found, "{fault:?} was never found");
    }
}

#[test]
fn a_story_names_what_touched_the_byte() {
    let mut stripe = Stripe::new(2, 4096, vec![0; 8192]);
    let write = Operation { kind: Kind::Write, at: 5000, count: 100, fill: 1 };
    let elsewhere = Operation { kind: Kind::Write, at: 9000, count: 10, fill: 2 };
    stripe.apply(&write, &mut [0; 100]);
    stripe.apply(&elsewhere, &mut [0; 10]);
    let mismatch = stripe.compare("a read", 4096, &[0; 8192]).expect_err("differs");
    assert_eq!(mismatch.at, 5000);
    let story = mismatch.story.join("\n");
    assert!(story.contains("#0 write 0x1388..0x13ec"), "{story}");
    assert!(!story.contains("#1"), "{story}");
}

#[test]
fn operations_repeat_from_the_seed() {
    let contents = |seed| {
        let target = FaultyTarget::new(64 << 10, 1, None);
        exercise(&target, &Plan { seed, ..plan(64 << 10, 300) }).expect("passes");
        target.bytes()
    };
    assert_eq!(contents(1), contents(1));
    assert_ne!(contents(1), contents(2));
}

#[test]
fn a_target_that_fails_is_no_mismatch() {
    // Again and again: the checker reads the same place in the meantime, or does not.
    for _ in 0..50 {
        let target = FaultyTarget::new(64 << 10, 1, Some((Fault::FailedWrite, 5)));
        let error = exercise(&target, &plan(64 << 10, 300)).expect_err("fails");
        assert!(matches!(error, ExerciseError::Io { .. }), "{error}");
        assert!(error.to_string().starts_with("write 0x"), "{error}");
    }
}

#[test]
fn what_a_failed_operation_left_is_not_compared() {
    let plan = plan(64 << 10, 1);
    let target = FaultyTarget::new(64 << 10, 1, None);
    let exercise = Exercise {
        target: &target,
        plan: &plan,
        stripes: vec![Mutex::new(Stripe::new(0, 0, vec![1; 64 << 10]))],
        alignment: target.alignment(),
        deadline: None,
        working: AtomicUsize::new(1),
        failed: AtomicBool::new(false),
        failure: Mutex::new(None),
    };
    let mut into = [0; 512];
    let found = exercise.compare(0, &mut into, "a reader");
    assert!(matches!(found, Err(ExerciseError::Mismatch(_))));
    exercise.fail(ExerciseError::Plan("a write failed".to_owned()));
    assert!(exercise.compare(0, &mut into, "a reader").is_ok());
}

#[test]
fn plans_that_do_not_fit_are_refused() {
    let target = FaultyTarget::new(64 << 10, 4096, None);
    let cases = [
        (Plan { workers: 0, ..plan(64 << 10, 1) }, "worker"),
        (Plan { workers: 17, ..plan(64 << 10, 1) }, "worker"),
        (plan(68 << 10, 1), "after the target"),
        (Plan { range: 1..40_961, ..plan(0, 1) }, "begin and end"),
        (Plan { range: 0..8 << 30, ..plan(0, 1) }, "4 GiB"),
        (Plan { max_transfer_bytes: 512, ..plan(64 << 10, 1) }, "sector"),
    ];
    for (plan, says) in cases {
        match exercise(&target, &plan) {
            Err(ExerciseError::Plan(why)) => assert!(why.contains(says), "{why}"),
            other => panic!("{says}: {other:?}"),
        }
    }
}

#[test]
fn stripes_cover_the_range_without_overlap() {
    for (range, workers, align) in [(0..10_007, 4, 1), (512..51_200, 7, 512)] {
        let parts = split(&range, workers, align).expect("fits");
        assert_eq!(parts.len(), workers);
        assert_eq!((parts[0].start, parts[workers - 1].end), (range.start, range.end));
        assert!(parts.windows(2).all(|pair| pair[0].end == pair[1].start));
    }
}

#[test]
fn a_failure_is_kept_when_another_follows() {
    let plan = plan(64 << 10, 1);
    let target = FaultyTarget::new(64 << 10, 1, None);
    let exercise = Exercise {
        target: &target,
        plan: &plan,
        stripes: Vec::new(),
        alignment: target.alignment(),
        deadline: None,
        working: AtomicUsize::new(0),
        failed: AtomicBool::new(false),
        failure: Mutex::new(None),
    };
    exercise.fail(ExerciseError::Plan("first".to_owned()));
    exercise.fail(ExerciseError::Plan("second".to_owned()));
    assert!(exercise.is_over());
    let kept = exercise.failure.lock().unwrap_or_else(PoisonError::into_inner).take();
    assert!(matches!(kept, Some(ExerciseError::Plan(why)) if why == "first"));
}
