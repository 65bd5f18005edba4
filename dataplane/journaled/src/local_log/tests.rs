//! The log on a real file system, on one that fails, and under a journal.

mod crashes;
mod faulty;
mod shipping;

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::thread;

use grampus_journal::{Aside, Epoch, Failure, FormatError, Record, Ring, VolumeId};
use tempfile::TempDir;

use super::{LocalLogError, LogFile};
use crate::ports::LocalLog;

const RING: Ring = Ring { segment_bytes: 16_384, segments: 3, align_bytes: 4096 };
const OTHER: Ring = Ring { segment_bytes: 8192, segments: 5, align_bytes: 512 };
const VOLUME: VolumeId = VolumeId([6; 16]);
const OLDER: Aside = Aside::Older { epoch: Epoch(3), volume: VOLUME };

fn place() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("volumes").join("one").join("log");
    (directory, path)
}

fn record(ring: Ring, epoch: u64) -> Vec<u8> {
    Record { epoch: Epoch(epoch), ..Record::fresh(VOLUME, ring) }.encode().to_vec()
}

/// What can be told from outside: the record and every slot.
fn contents(log: &LogFile, segments: u32) -> (Option<Vec<u8>>, Vec<Vec<u8>>) {
    let slots = (0..segments).map(|slot| log.read_slot(slot).unwrap()).collect();
    (log.read_record().unwrap(), slots)
}

/// A log with a record and one block in its last slot.
fn used(path: &Path) {
    let log = LogFile::open(path, RING).unwrap();
    log.write_record(&record(RING, 3)).unwrap();
    log.append(2, 4096, &[7; 4096]).unwrap();
}

fn used_contents() -> (Option<Vec<u8>>, Vec<Vec<u8>>) {
    let mut last = vec![0; 16_384];
    last[4096..8192].fill(7);
    (Some(record(RING, 3)), vec![vec![0; 16_384], vec![0; 16_384], last])
}

fn empty_contents(ring: Ring) -> (Option<Vec<u8>>, Vec<Vec<u8>>) {
    let slot = vec![0; usize::try_from(ring.segment_bytes).unwrap()];
    (None, vec![slot; usize::try_from(ring.segments).unwrap()])
}

#[test]
fn what_was_written_is_there_when_it_is_opened_again() {
    let (_directory, path) = place();
    assert_eq!(contents(&LogFile::open(&path, RING).unwrap(), 3), empty_contents(RING));
    used(&path);
    assert_eq!(contents(&LogFile::open(&path, RING).unwrap(), 3), used_contents());
}

#[test]
fn a_log_is_private_and_has_all_its_space_from_the_beginning() {
    let (directory, path) = place();
    let log = LogFile::open(&path, RING).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o600);
    assert_eq!(mode(path.parent().unwrap()), 0o700);
    assert_eq!(mode(&directory.path().join("volumes")), 0o700);
    let seen = || {
        let seen = fs::metadata(&path).unwrap();
        (seen.len(), seen.blocks())
    };
    let before = seen();
    assert!(before.1 * 512 >= before.0, "{before:?}");
    // A file system shows blocks that were allocated and never written as a hole.
    let file = File::open(&path).unwrap();
    let hole = rustix::fs::seek(&file, rustix::fs::SeekFrom::Hole(0)).unwrap();
    assert_eq!(hole, before.0);
    log.append(0, 0, &[1; 16_384]).unwrap();
    log.append(2, 12_288, &[1; 4096]).unwrap();
    assert_eq!(seen(), before);
}

#[test]
fn a_write_is_durable_when_it_returns_and_goes_past_the_page_cache_where_that_can_be() {
    let (_directory, path) = place();
    let log = LogFile::open(&path, RING).unwrap();
    let path = path.canonicalize().unwrap();
    let flags: Vec<i32> = fs::read_dir("/proc/self/fd")
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|link| fs::read_link(link).is_ok_and(|target| target == path))
        .map(|link| {
            let about = link.to_str().unwrap().replace("/fd/", "/fdinfo/");
            let about = fs::read_to_string(about).unwrap();
            let flags = about.lines().find_map(|line| line.strip_prefix("flags:\t")).unwrap();
            i32::from_str_radix(flags, 8).unwrap()
        })
        .collect();
    let [flags] = flags[..] else { panic!("{flags:?}") };
    assert_eq!(flags & 0o10_000, 0o10_000, "O_DSYNC");
    let direct = rustix::fs::OFlags::DIRECT.bits();
    assert_eq!(u32::try_from(flags).unwrap() & direct == direct, log.is_direct());
}

#[test]
fn one_at_a_time_uses_a_log() {
    let (_directory, path) = place();
    let log = LogFile::open(&path, RING).unwrap();
    let second = LogFile::open(&path, RING);
    assert!(matches!(second, Err(LocalLogError::InUse { .. })), "{second:?}");
    log.set_aside(OLDER).unwrap();
    let second = LogFile::open(&path, RING);
    assert!(matches!(second, Err(LocalLogError::InUse { .. })), "{second:?}");
    drop(log);
    LogFile::open(&path, RING).unwrap();
}

#[test]
fn appends_at_once_land_each_in_its_place() {
    let (_directory, path) = place();
    let log = LogFile::open(&path, RING).unwrap();
    thread::scope(|scope| {
        for writer in 0..4_u8 {
            let log = &log;
            scope.spawn(move || {
                for slot in 0..3 {
                    let fill = writer * 3 + u8::try_from(slot).unwrap() + 1;
                    log.append(slot, u64::from(writer) * 4096, &[fill; 4096]).unwrap();
                }
            });
        }
    });
    for slot in 0..3_u8 {
        let bytes = log.read_slot(u32::from(slot)).unwrap();
        for (writer, block) in (0..4_u8).zip(bytes.chunks(4096)) {
            assert!(block.iter().all(|byte| *byte == writer * 3 + slot + 1), "{slot} {writer}");
        }
    }
}

#[test]
fn an_append_outside_its_slot_changes_nothing() {
    let (_directory, path) = place();
    used(&path);
    let log = LogFile::open(&path, RING).unwrap();
    for (slot, offset, bytes) in
        [(3, 0, 4096), (0, 16_384, 4096), (0, 12_288, 8192), (0, 512, 4096), (0, 0, 100)]
    {
        assert_eq!(log.append(slot, offset, &vec![9; bytes]), Err(Failure::Io), "{slot} {offset}");
    }
    assert_eq!(log.read_slot(3), Err(Failure::Io));
    assert_eq!(log.write_record(b"no record"), Err(Failure::Io));
    assert_eq!(contents(&log, 3), used_contents());
    log.append(0, 0, &[9; 4096]).unwrap();
}

#[test]
fn a_frame_longer_than_a_buffer_is_written_whole() {
    let (_directory, path) = place();
    let ring = Ring { segment_bytes: 10 << 20, segments: 2, align_bytes: 4096 };
    let log = LogFile::open(&path, ring).unwrap();
    let bytes: Vec<u8> = (0..=250).cycle().take((9 << 20) + 4096).collect();
    log.append(1, 4096, &bytes).unwrap();
    let slot = log.read_slot(1).unwrap();
    assert!(slot[4096..4096 + bytes.len()] == bytes[..]);
    assert!(slot[..4096].iter().chain(&slot[4096 + bytes.len()..]).all(|byte| *byte == 0));
}

#[test]
fn a_log_keeps_the_shape_of_its_record_until_it_gets_another() {
    let (_directory, path) = place();
    used(&path);
    let log = LogFile::open(&path, OTHER).unwrap();
    assert_eq!(contents(&log, 3), used_contents());
    log.append(2, 4096, &[7; 4096]).unwrap();
    log.write_record(&record(OTHER, 4)).unwrap();
    let (_, empty) = empty_contents(OTHER);
    assert_eq!(contents(&log, 5), (Some(record(OTHER, 4)), empty.clone()));
    log.append(4, 7680, &[8; 512]).unwrap();
    drop(log);
    let log = LogFile::open(&path, OTHER).unwrap();
    assert_eq!(log.read_record().unwrap(), Some(record(OTHER, 4)));
    assert_eq!(log.read_slot(4).unwrap()[7680..], [8; 512]);
    assert!(log.asides().unwrap().is_empty());
}

#[test]
fn a_log_that_was_never_used_takes_the_shape_asked_for() {
    let (_directory, path) = place();
    drop(LogFile::open(&path, RING).unwrap());
    let log = LogFile::open(&path, OTHER).unwrap();
    assert_eq!(contents(&log, 5), empty_contents(OTHER));
    log.append(4, 7680, &[8; 512]).unwrap();
}

#[test]
fn logs_are_set_aside_under_names_of_their_own_and_none_is_lost() {
    let (_directory, path) = place();
    let mut kept = Vec::new();
    let broken = Aside::Broken(FormatError::Magic);
    for (why, name) in [
        (OLDER, "log.aside-3-1"),
        (OLDER, "log.aside-3-2"),
        (broken, "log.aside-broken-1"),
        (OLDER, "log.aside-3-3"),
    ] {
        used(&path);
        let log = LogFile::open(&path, OTHER).unwrap();
        log.set_aside(why).unwrap();
        assert_eq!(contents(&log, 5), empty_contents(OTHER));
        kept.push(path.with_file_name(name));
        kept.sort();
        assert_eq!(log.asides().unwrap(), kept);
        drop(log);
        fs::remove_file(&path).unwrap();
    }
    for aside in kept {
        let log = LogFile::open(&aside, OTHER).unwrap();
        assert_eq!(contents(&log, 3), used_contents(), "{}", aside.display());
    }
}

#[test]
fn what_is_no_record_is_shown_as_it_is_and_can_be_set_aside() {
    for damage in [vec![0; 4096], vec![9; 4096], Vec::new(), vec![1; 10]] {
        let (_directory, path) = place();
        used(&path);
        let mut file = OpenOptions::new().write(true).open(&path).unwrap();
        if damage.len() < 4096 {
            file.set_len(0).unwrap();
        }
        file.write_all(&damage).unwrap();
        drop(file);
        let log = LogFile::open(&path, RING).unwrap();
        let found = log.read_record().unwrap().expect("there is something");
        assert!(damage.starts_with(&found), "{found:?}");
        assert!(Record::decode(&found).is_err());
        log.set_aside(Aside::Broken(FormatError::Magic)).unwrap();
        assert_eq!(contents(&log, 3), empty_contents(RING));
        assert_eq!(log.asides().unwrap().len(), 1);
    }
}

#[test]
fn a_log_that_was_cut_short_is_refused() {
    let (_directory, path) = place();
    used(&path);
    OpenOptions::new().write(true).open(&path).unwrap().set_len(100_000).unwrap();
    let answer = LogFile::open(&path, RING);
    assert!(matches!(answer, Err(LocalLogError::Truncated { file_bytes: 100_000, .. })));
}

#[test]
fn only_a_regular_file_is_a_log() {
    let (_directory, path) = place();
    used(&path);
    let link = path.with_file_name("link");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    assert!(matches!(LogFile::open(&link, RING), Err(LocalLogError::Io { .. })));
    let directory = path.with_file_name("directory");
    fs::create_dir(&directory).unwrap();
    assert!(matches!(LogFile::open(&directory, RING), Err(LocalLogError::Io { .. })));
}

#[test]
fn the_lock_file_is_not_the_log() {
    let (_directory, path) = place();
    used(&path);
    let mut names: Vec<_> = fs::read_dir(path.parent().unwrap())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["log", "log.lock"]);
}
