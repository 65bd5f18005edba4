//! A journal that keeps its batches in the log, and a recovery that finds them there.

use std::fs;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use grampus_blockdev::{Durability, Offset, Token};
use grampus_journal::{
    Action, Answer, CacheConfig, Config, Epoch, Failure, FormatError, Frame, Journal, Log, Opened,
    Payload, Place, Record, Recovery, RecoveryConfig, RecoveryError, Ring, SealMismatch, Sealing,
    Step,
};
use grampus_sealing::Secret;

use super::super::LogFile;
use super::faulty::{Faulty, Shared};
use super::{VOLUME, place};
use crate::ports::LocalLog;

const RING: Ring = Ring { segment_bytes: 64 << 10, segments: 4, align_bytes: 4096 };
const SIZE_BYTES: u64 = 1 << 20;

fn opened_record() -> Record {
    let epoch = Epoch(1);
    Record { epoch, opened: epoch, written_by: epoch, ..Record::fresh(VOLUME, RING) }
}

fn sealing() -> Sealing {
    Sealing::new(Secret::parse(&[b'8'; 64]).unwrap(), [2; 16])
}

/// As the owner of an encrypted volume leaves it, with the fingerprint that its recovery finds.
fn sealed_record() -> Record {
    Record { sealed_by: Some(sealing().fingerprint(VOLUME)), ..opened_record() }
}

fn journal() -> Journal {
    let cache = CacheConfig {
        ring: RING,
        max_appends: 8,
        max_lag_bytes: 1 << 20,
        ..CacheConfig::default()
    };
    let config = Config {
        ring: RING,
        max_write_bytes: 16 << 10,
        max_batch_bytes: 32 << 10,
        max_held_bytes: 1 << 20,
        cache: Some(cache),
        ..Config::default()
    };
    let record = opened_record();
    let opened = Opened { record, local: Some(record), size_bytes: SIZE_BYTES };
    Journal::new(config, opened, Duration::ZERO).unwrap()
}

/// Frames of one write of `fill` each, as the journal wants them in the local log.
fn frames(fills: &[u8]) -> Vec<(Frame, Place)> {
    frames_of(journal(), fills)
}

fn frames_of(mut journal: Journal, fills: &[u8]) -> Vec<(Frame, Place)> {
    let mut frames = Vec::new();
    for fill in fills {
        let payload = Payload::copy_of(&[*fill; 9000]);
        let token = Token(u64::from(*fill));
        let offset = Offset::new(u64::from(*fill) * 10_000).unwrap();
        journal.write(Duration::ZERO, offset, payload, Durability::OnFlush, token).unwrap();
        journal.flush(Duration::ZERO, token);
        while let Some(action) = journal.next_action() {
            if let Action::AppendLocally { frame, place } = action {
                frames.push((frame, place));
            }
        }
    }
    frames
}

fn append(log: &LogFile, (frame, place): &(Frame, Place)) -> Result<(), Failure> {
    let mut bytes = Vec::new();
    frame.encode(&mut bytes);
    log.append(place.slot, place.offset, &bytes)
}

/// Where the frame should be: what is there.
fn found(log: &LogFile, place: Place) -> Result<(u64, u64), FormatError> {
    let slot = log.read_slot(place.slot).unwrap();
    let at = usize::try_from(place.offset).unwrap();
    Frame::decode(&slot[at..], VOLUME).map(|frame| frame.sequences())
}

/// Open the volume with what the cluster has, which is nothing but its record; the batches that
/// were shipped from the log.
fn recover(path: &Path) -> Vec<(u64, u64)> {
    recover_from(opened_record(), None, path).unwrap()
}

fn recover_from(
    mut cluster: Record,
    sealing: Option<Sealing>,
    path: &Path,
) -> Result<Vec<(u64, u64)>, RecoveryError> {
    let log = LogFile::open(path, RING).unwrap();
    let config = RecoveryConfig {
        volume: VOLUME,
        ring: RING,
        local: Some(RING),
        max_held_bytes: 1 << 20,
        accept_damage: false,
    };
    let mut recovery = Recovery::new(config).unwrap().sealed(sealing);
    let mut shipped = Vec::new();
    loop {
        let answer = match recovery.step() {
            Step::ReadRecord(Log::Cluster) => Answer::Record(Some(cluster.encode().to_vec())),
            Step::ReadRecord(Log::Local) => Answer::Record(log.read_record().unwrap()),
            Step::ReadSlot(Log::Cluster, _) => Answer::Slot(Vec::new()),
            Step::ReadSlot(Log::Local, segment) => {
                Answer::Slot(log.read_slot(segment.place.slot).unwrap())
            }
            Step::SwapRecord { record, .. } => {
                cluster = record;
                Answer::Swapped(true)
            }
            Step::Fence { .. } => Answer::Fenced { size_bytes: SIZE_BYTES, faulty: Vec::new() },
            Step::ReadHeads(segments) => Answer::Heads(vec![Vec::new(); segments.len()]),
            Step::Append { frame, .. } => {
                shipped.push(frame.sequences());
                Answer::Done
            }
            Step::Apply(_) | Step::FlushImage => Answer::Done,
            Step::SetLocalAside(why) => {
                log.set_aside(why).unwrap();
                Answer::Done
            }
            Step::WriteLocalRecord(record) => {
                log.write_record(&record.encode()).unwrap();
                Answer::Done
            }
            Step::Open(_) => return Ok(shipped),
            Step::Stop(error) => return Err(error),
        };
        recovery.answer(answer)?;
    }
}

#[test]
fn a_torn_frame_is_seen_as_such_and_ends_what_is_shipped() {
    let (_directory, path) = place();
    let disk = Shared::new(Faulty::default());
    let log = disk.open(&path, RING).unwrap();
    log.write_record(&opened_record().encode()).unwrap();
    let frames = frames(&[1, 2, 3, 4]);
    assert_eq!(frames.len(), 4, "one frame for each flush");
    // In any order, as several threads append.
    for index in [3, 0, 1] {
        append(&log, &frames[index]).unwrap();
        assert_eq!(found(&log, frames[index].1), Ok(frames[index].0.sequences()));
    }
    disk.0.tears.store(true, Ordering::SeqCst);
    assert_eq!(append(&log, &frames[2]), Err(Failure::Io));
    assert_eq!(found(&log, frames[2].1), Err(FormatError::Checksum("frame's body")));
    drop(log);
    assert_eq!(recover(&path), [(1, 1), (2, 2)], "the fourth lies behind a gap");
    assert_eq!(recover(&path), [], "the log begins anew with the next owner");
}

#[test]
fn the_log_of_an_encrypted_volume_shows_nothing_and_is_shipped_with_its_key_alone() {
    let (_directory, path) = place();
    let log = LogFile::open(&path, RING).unwrap();
    log.write_record(&sealed_record().encode()).unwrap();
    let frames = frames_of(journal().sealed(Some(&sealing())), &[0x51, 0x52, 0x53]);
    for frame in &frames {
        append(&log, frame).unwrap();
    }
    drop(log);
    let file = fs::read(&path).unwrap();
    let shows = |fill: u8| file.windows(16).any(|window| window == [fill; 16]);
    assert!(![0x51, 0x52, 0x53].into_iter().any(shows));

    let other = Sealing::new(Secret::parse(&[b'9'; 64]).unwrap(), [2; 16]);
    for (given, mismatch) in [(None, SealMismatch::NoKey), (Some(other), SealMismatch::OtherKey)] {
        // In the cluster's record, which comes first, all is as it is given.
        let sealed_by = given.as_ref().map(|given| given.fingerprint(VOLUME));
        let cluster = Record { sealed_by, ..opened_record() };
        let answer = recover_from(cluster, given, &path);
        assert_eq!(answer, Err(RecoveryError::Seal { log: Log::Local, mismatch }));
        assert_eq!(fs::read(&path).unwrap(), file, "nothing was touched");
    }
    let later = Sealing::new(Secret::parse(&[b'8'; 64]).unwrap(), [3; 16]);
    let shipped = recover_from(sealed_record(), Some(later), &path).unwrap();
    assert_eq!(shipped, [(1, 1), (2, 2), (3, 3)]);
}

#[test]
fn a_log_whose_owner_was_followed_is_set_aside_and_not_shipped() {
    let (_directory, path) = place();
    let log = LogFile::open(&path, RING).unwrap();
    let older = Record { volume: VOLUME, ..Record::fresh(VOLUME, RING) };
    log.write_record(&older.encode()).unwrap();
    append(&log, &frames(&[1])[0]).unwrap();
    drop(log);
    assert_eq!(recover(&path), []);
    let log = LogFile::open(&path, RING).unwrap();
    assert_eq!(log.asides().unwrap(), [path.with_file_name("log.aside-0-1")]);
    let kept = LogFile::open(&log.asides().unwrap()[0], RING).unwrap();
    assert_eq!(kept.read_record().unwrap().unwrap(), older.encode());
}
