//! What a crash, a full disk or a failed write leaves.

use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use grampus_journal::{Failure, Ring};

use super::super::{LocalLogError, LogFile};
use super::faulty::{Faulty, Shared};
use super::{OLDER, OTHER, RING, contents, empty_contents, place, record, used, used_contents};
use crate::ports::LocalLog;

#[test]
fn a_log_is_durable_before_it_has_its_name_and_its_name_before_it_is_used() {
    let (_directory, path) = place();
    let disk = Shared::new(Faulty::default());
    let log = disk.open(&path, RING).unwrap();
    let taken = || std::mem::take(&mut *disk.0.events.lock().unwrap());
    let made = ["make", "allocate", "write", "write", "sync", "rename", "sync names"];
    let directories = ["sync names"; 2];
    assert_eq!(taken(), [&directories[..], &made].concat());
    log.write_record(&record(RING, 3)).unwrap();
    log.append(0, 0, &[1; 4096]).unwrap();
    assert_eq!(taken(), ["write", "write"], "appends and records do no more");
    log.set_aside(OLDER).unwrap();
    let (new, rename) = made.split_at(5);
    assert_eq!(taken(), [new, rename, rename].concat());
    log.write_record(&record(OTHER, 4)).unwrap();
    assert_eq!(taken(), made);
}

/// Stop at every call, one after another, and look at what an honest disk finds then.
fn at_every_crash(
    prepare: impl Fn(&Path),
    act: impl Fn(&Shared, &Path) -> bool,
    check: impl Fn(&Path, u64),
) {
    for calls in 0.. {
        let (_directory, path) = place();
        prepare(&path);
        let limited = Faulty { calls: Some(AtomicU64::new(calls)), ..Faulty::default() };
        let done = act(&Shared::new(limited), &path);
        check(&path, calls);
        if done {
            assert!(calls >= 5, "there was something to crash");
            return;
        }
    }
}

#[test]
fn a_crash_leaves_no_half_made_log() {
    at_every_crash(
        |_| {},
        |disk, path| disk.open(path, RING).is_ok(),
        |path, calls| {
            let log = LogFile::open(path, RING).unwrap();
            assert_eq!(contents(&log, 3), empty_contents(RING), "after {calls} calls");
            assert!(!path.with_file_name("log.new").exists(), "after {calls} calls");
        },
    );
}

#[test]
fn a_crash_while_a_log_is_set_aside_keeps_it_whole() {
    at_every_crash(
        used,
        |disk, path| {
            let log = disk.open(path, OTHER).unwrap();
            let done = log.set_aside(OLDER);
            // Where it failed half way, nothing more may land in the old one by this handle.
            if done.is_err() && !path.exists() {
                assert_eq!(log.append(0, 0, &[9; 4096]), Err(Failure::Io));
            }
            done.is_ok()
        },
        |path, calls| {
            let log = LogFile::open(path, OTHER).unwrap();
            let asides = log.asides().unwrap();
            let Some(aside) = asides.first() else {
                assert_eq!(contents(&log, 3), used_contents(), "after {calls} calls");
                return;
            };
            assert_eq!(contents(&log, 5), empty_contents(OTHER), "after {calls} calls");
            let kept = LogFile::open(aside, OTHER).unwrap();
            assert_eq!(contents(&kept, 3), used_contents(), "after {calls} calls");
        },
    );
}

#[test]
fn a_crash_while_a_log_gets_another_shape_leaves_the_old_one_or_the_new() {
    at_every_crash(
        used,
        |disk, path| {
            disk.open(path, OTHER).is_ok_and(|log| log.write_record(&record(OTHER, 4)).is_ok())
        },
        |path, calls| {
            let log = LogFile::open(path, OTHER).unwrap();
            if log.read_record().unwrap() == Some(record(RING, 3)) {
                assert_eq!(contents(&log, 3), used_contents(), "after {calls} calls");
            } else {
                let (_, empty) = empty_contents(OTHER);
                let expected = (Some(record(OTHER, 4)), empty);
                assert_eq!(contents(&log, 5), expected, "after {calls} calls");
            }
        },
    );
}

type Act = fn(&LogFile) -> Result<(), Failure>;

#[test]
fn a_full_disk_leaves_nothing_half_made() {
    let full = || {
        let space_bytes = Some(AtomicU64::new(0));
        Shared::new(Faulty { space_bytes, ..Faulty::default() })
    };
    let (_directory, path) = place();
    let answer = full().open(&path, RING).unwrap_err();
    assert!(matches!(answer, LocalLogError::NoSpace { needed_bytes: 114_688, .. }), "{answer:?}");
    assert_eq!(answer.failure(), Failure::NoSpace);
    let names = || fs::read_dir(path.parent().unwrap()).unwrap().count();
    assert_eq!(names(), 1, "the lock alone");

    used(&path);
    let acts: [Act; 3] = [
        |log| log.set_aside(OLDER),
        |log| log.write_record(&record(OTHER, 4)),
        |log| log.append(2, 8192, &[5; 4096]),
    ];
    for act in acts {
        let log = full().open(&path, OTHER).unwrap();
        assert_eq!(act(&log), Err(Failure::NoSpace));
        assert_eq!(contents(&log, 3), used_contents());
        assert_eq!(names(), 2);
    }
}

#[test]
fn after_a_failed_write_nothing_is_called_durable_until_it_is_opened_again() {
    for has_no_direct in [false, true] {
        let (_directory, path) = place();
        used(&path);
        let disk = Shared::new(Faulty { has_no_direct, ..Faulty::default() });
        let log = disk.open(&path, RING).unwrap();
        log.append(0, 0, &[1; 4096]).unwrap();
        disk.0.tears.store(true, Ordering::SeqCst);
        assert_eq!(log.append(0, 4096, &[2; 4096]), Err(Failure::Io));
        assert_eq!(log.append(0, 8192, &[3; 4096]), Err(Failure::Io));
        assert_eq!(log.write_record(&record(RING, 5)), Err(Failure::Io));
        assert_eq!(log.read_record().unwrap(), Some(record(RING, 3)));
        assert_eq!(log.read_slot(0).unwrap()[..4096], [1; 4096]);
        drop(log);
        LogFile::open(&path, RING).unwrap().append(0, 8192, &[3; 4096]).unwrap();
    }
}

#[test]
fn without_direct_io_or_with_larger_sectors_it_goes_through_the_page_cache() {
    for (faulty, direct) in [
        (Faulty { has_no_direct: true, ..Faulty::default() }, false),
        (Faulty { sector_bytes: 4096, ..Faulty::default() }, false),
        (Faulty { sector_bytes: 512, ..Faulty::default() }, true),
    ] {
        let (_directory, path) = place();
        let ring = Ring { segment_bytes: 2048, segments: 2, align_bytes: 512 };
        let log = Shared::new(faulty).open(&path, ring).unwrap();
        // Where the file system of the tests has no direct I/O, none can be asked for.
        assert!(!log.is_direct() || direct);
        log.write_record(&record(ring, 1)).unwrap();
        log.append(1, 512, &[4; 1024]).unwrap();
        drop(log);
        let log = LogFile::open(&path, ring).unwrap();
        assert_eq!(log.read_record().unwrap(), Some(record(ring, 1)));
        assert_eq!(log.read_slot(1).unwrap()[512..1536], [4; 1024]);
    }
}

#[test]
fn a_leftover_of_an_earlier_attempt_is_made_again() {
    let (_directory, path) = place();
    used(&path);
    fs::remove_file(&path).unwrap();
    let mut half = File::create(path.with_file_name("log.new")).unwrap();
    half.seek(SeekFrom::Start(65_536)).unwrap();
    half.write_all(&[9; 5000]).unwrap();
    let log = LogFile::open(&path, RING).unwrap();
    assert_eq!(contents(&log, 3), empty_contents(RING));
}
