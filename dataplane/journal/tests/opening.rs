//! Recovery step by step: what is asked in which order, and when it refuses to open.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test may fail loudly"
)]

use std::collections::HashMap;
use std::time::Duration;

use grampus_blockdev::{Durability, Offset, Token};
use grampus_journal::{
    Action, Answer, Aside, Config, Content, Damage, Epoch, Event, Failure, FormatError, Journal,
    Log, Opened, Payload, Record, Recovery, RecoveryConfig, RecoveryError, Ring, SealMismatch,
    Sealing, Segment, SlotFault, Step, VolumeId,
};
use grampus_sealing::Secret;

const VOLUME: VolumeId = VolumeId([7; 16]);
const RING: Ring = Ring { segment_bytes: 64 << 10, segments: 4, align_bytes: 4096 };
const SIZE: u64 = 1 << 20;

/// A cluster that does as it is told.
#[derive(Default)]
struct Cluster {
    record: Option<Record>,
    slots: HashMap<u32, Vec<u8>>,
    image: Vec<u8>,
    local_record: Option<Vec<u8>>,
    local_slots: HashMap<u32, Vec<u8>>,
    steps: Vec<String>,
    /// The volume's secret, as it is given.
    secret: Option<Secret>,
    openings: u8,
    sealing: Option<Sealing>,
}

fn config(local: Option<Ring>) -> RecoveryConfig {
    RecoveryConfig {
        volume: VOLUME,
        ring: RING,
        local,
        max_held_bytes: 32 << 10,
        accept_damage: false,
    }
}

impl Cluster {
    fn new() -> Self {
        Self { image: vec![0; usize::try_from(SIZE).unwrap()], ..Self::default() }
    }

    fn put(slots: &mut HashMap<u32, Vec<u8>>, slot: u32, at: u64, bytes: &[u8]) {
        let slot = slots.entry(slot).or_default();
        let at = usize::try_from(at).unwrap();
        slot.resize(slot.len().max(at + bytes.len()), 0);
        slot[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn take(&mut self, step: Step) -> Answer {
        let name = format!("{step:?}");
        self.steps.push(name.split([' ', '{', '(']).next().unwrap().to_owned());
        match step {
            Step::ReadRecord(Log::Cluster) => {
                Answer::Record(self.record.map(|record| record.encode().to_vec()))
            }
            Step::ReadRecord(Log::Local) => Answer::Record(self.local_record.clone()),
            Step::SwapRecord { expected, record } => {
                let same = expected == self.record;
                if same {
                    self.record = Some(record);
                }
                Answer::Swapped(same)
            }
            Step::Fence { mend, .. } => {
                let missing = |slot: &u32| !self.slots.contains_key(slot);
                let faulty: Vec<u32> = (0..RING.segments).filter(missing).collect();
                if mend {
                    for slot in &faulty {
                        self.slots.insert(*slot, Vec::new());
                    }
                }
                let faulty = faulty.into_iter().map(|slot| (slot, SlotFault::Missing)).collect();
                Answer::Fenced { size_bytes: SIZE, faulty }
            }
            Step::ReadHeads(segments) => {
                let head = |segment: &Segment| {
                    let slot = self.slots.get(&segment.place.slot).cloned().unwrap_or_default();
                    slot.into_iter().take(4096).collect()
                };
                Answer::Heads(segments.iter().map(head).collect())
            }
            // Objects that end where nothing was written behind.
            Step::ReadSlot(log, segment) => {
                let slots = if log == Log::Cluster { &self.slots } else { &self.local_slots };
                Answer::Slot(slots.get(&segment.place.slot).cloned().unwrap_or_default())
            }
            Step::Append { frame, place } => {
                let mut bytes = Vec::new();
                frame.encode(&mut bytes);
                Self::put(&mut self.slots, place.slot, place.offset, &bytes);
                Answer::Done
            }
            Step::Apply(extents) => {
                for (span, content) in extents.iter() {
                    let Content::Data(payload) = content else { panic!("only data here") };
                    let at = usize::try_from(span.start()).unwrap();
                    self.image[at..at + payload.as_slice().len()]
                        .copy_from_slice(payload.as_slice());
                }
                Answer::Done
            }
            Step::WriteLocalRecord(record) => {
                self.local_record = Some(record.encode().to_vec());
                Answer::Done
            }
            Step::FlushImage | Step::SetLocalAside(_) => Answer::Done,
            Step::Open(_) | Step::Stop(_) => panic!("no step to take"),
        }
    }

    fn open(&mut self, config: RecoveryConfig) -> Result<(Opened, Recovery), RecoveryError> {
        self.steps.clear();
        self.openings += 1;
        let salt = std::array::from_fn(|at| self.openings + u8::try_from(at).unwrap());
        self.sealing = self.secret.clone().map(|secret| Sealing::new(secret, salt));
        let mut recovery = Recovery::new(config)?.sealed(self.sealing.clone());
        loop {
            match recovery.step() {
                Step::Open(opened) => return Ok((opened, recovery)),
                step => recovery.answer(self.take(step))?,
            }
        }
    }

    /// Frames as an earlier version made them, which did not say what was durable.
    fn forget_what_frames_know(&mut self) {
        for slot in self.slots.values_mut() {
            for head in slot.chunks_mut(4096).filter(|head| head.starts_with(b"GRMPFRM1")) {
                head[64..68].fill(0);
                let checksum = crc32c::crc32c(&head[..68]);
                head[68..72].copy_from_slice(&checksum.to_le_bytes());
            }
        }
    }

    /// Batches of one page each, filled with their number, durable and not applied.
    fn write(&mut self, opened: Opened, pages: &[u8]) {
        let config = Config {
            ring: RING,
            max_write_bytes: 4096,
            max_batch_bytes: 8192,
            max_apply_bytes: 8192,
            ..Config::default()
        };
        let journal = Journal::new(config, opened, Duration::ZERO).unwrap();
        let mut journal = journal.sealed(self.sealing.as_ref());
        for (place, fill) in (0_u64..).zip(pages) {
            let payload = Payload::copy_of(&[*fill; 4096]);
            let (now, token) = (Duration::ZERO, Token(place));
            let offset = Offset::new(place * 4096).unwrap();
            journal.write(now, offset, payload, Durability::OnFlush, token).unwrap();
            journal.flush(now, token);
            while let Some(action) = journal.next_action() {
                if let Action::Append { frame, place } = action {
                    let last = frame.sequences().1;
                    let mut bytes = Vec::new();
                    frame.encode(&mut bytes);
                    Self::put(&mut self.slots, place.slot, place.offset, &bytes);
                    journal.handle(now, Event::Appended { last, result: Ok(()) });
                }
            }
        }
    }
}

#[test]
fn a_volume_without_a_journal_gets_one() {
    let mut cluster = Cluster::new();
    let (opened, recovery) = cluster.open(config(None)).unwrap();
    let expected = [
        "ReadRecord",
        "SwapRecord",
        "Fence",
        "ReadSlot",
        "ReadHeads",
        "Apply",
        "FlushImage",
        "SwapRecord",
        "SwapRecord",
    ];
    assert_eq!(cluster.steps, expected);
    let one = Epoch(1);
    let fresh = Record::fresh(VOLUME, RING);
    let owned = Record { epoch: one, opened: one, written_by: one, keyed: true, ..fresh };
    assert_eq!(opened.record, owned);
    assert_eq!((opened.size_bytes, recovery.epoch()), (SIZE, one));
    assert_eq!(cluster.record, Some(opened.record));
}

#[test]
fn everything_is_replayed_before_the_volume_opens_in_pieces_that_fit_into_memory() {
    let mut cluster = Cluster::new();
    let (opened, _) = cluster.open(config(None)).unwrap();
    let pages: Vec<u8> = (1..=20).collect();
    cluster.write(opened, &pages);
    let (opened, recovery) = cluster.open(config(None)).unwrap();
    assert_eq!(recovery.progress().frames, 20);
    assert_eq!((opened.record.first, opened.record.durable), (21, 20));
    for (page, fill) in cluster.image.chunks(4096).zip(&pages) {
        assert!(page.iter().all(|byte| byte == fill), "page {fill}");
    }
    let count = |name: &str| cluster.steps.iter().filter(|step| *step == name).count();
    assert!(count("Apply") > 1, "32 KiB at a time");
    assert_eq!(count("FlushImage"), 1, "before the ring is freed, and not before");
    let (again, _) = cluster.open(config(None)).unwrap();
    assert_eq!(again.record.first, 21);
}

#[test]
fn lost_frames_are_damage_and_not_a_shorter_history() {
    let mut cluster = Cluster::new();
    let (opened, _) = cluster.open(config(None)).unwrap();
    cluster.write(opened, &[1, 2, 3]);
    let record = Record { durable: 3, ..opened.record };
    cluster.record = Some(record);
    cluster.slots.get_mut(&0).unwrap()[8192 + 100] ^= 1; // in the second frame
    let error = cluster.open(config(None)).unwrap_err();
    assert_eq!(error, gap(2, 3, 8192));
    assert_eq!(cluster.image[0], 0, "nothing was touched");
    // Also where the record does not say so: the third knows that the second was durable.
    cluster.record = Some(opened.record);
    assert_eq!(cluster.open(config(None)).unwrap_err(), gap(2, 3, 8192));
    let accepted = RecoveryConfig { accept_damage: true, ..config(None) };
    let (again, recovery) = cluster.open(accepted).unwrap();
    assert_eq!(recovery.progress().given_up, Some(damage(2, 3, 8192)));
    assert_eq!((cluster.image[0], cluster.image[4096]), (1, 0));
    assert_eq!((again.record.first, again.record.durable), (2, 1));
    cluster.open(config(None)).unwrap();
}

fn damage(missing: u64, newest: u64, position: u64) -> Damage {
    Damage::Gap { log: Log::Cluster, missing, newest, place: RING.place(position) }
}

fn gap(missing: u64, newest: u64, position: u64) -> RecoveryError {
    RecoveryError::Damaged(damage(missing, newest, position))
}

/// A slot has room for eight frames of these: what is lost is the second slot of three.
#[test]
fn a_slot_that_lost_its_frames_is_damage_also_when_the_log_goes_on_far_behind_it() {
    for version_that_tells in [true, false] {
        let mut cluster = Cluster::new();
        let (opened, _) = cluster.open(config(None)).unwrap();
        let pages: Vec<u8> = (1..=21).collect();
        cluster.write(opened, &pages);
        if !version_that_tells {
            cluster.forget_what_frames_know();
        }
        let before = cluster.slots.clone();
        for slot in [0, 1] {
            cluster.slots.get_mut(&slot).unwrap().fill(0);
            let first = u64::from(slot) * 8 + 1;
            let position = u64::from(slot) << 16;
            let error = cluster.open(config(None)).unwrap_err();
            assert!(
                matches!(error, RecoveryError::Damaged(Damage::Gap { missing, place, .. })
                    if missing == first && place == RING.place(position)),
                "{error}"
            );
            cluster.slots.clone_from(&before);
        }
        let (_, recovery) = cluster.open(config(None)).unwrap();
        assert_eq!(recovery.progress().frames, 21);
    }
}

#[test]
fn a_slot_that_is_missing_is_damage_and_not_an_empty_one() {
    let mut cluster = Cluster::new();
    let (opened, _) = cluster.open(config(None)).unwrap();
    cluster.write(opened, &[1, 2, 3]);
    let before = cluster.slots.clone();
    for slot in 0..RING.segments {
        cluster.slots.remove(&slot);
        let expected = Damage::Slots { slot, slots: 1, fault: SlotFault::Missing };
        let error = cluster.open(config(None)).unwrap_err();
        assert_eq!(error, RecoveryError::Damaged(expected));
        assert!(!cluster.slots.contains_key(&slot), "it was not made again");
        cluster.slots.clone_from(&before);
    }
    cluster.slots.remove(&0);
    let accepted = RecoveryConfig { accept_damage: true, ..config(None) };
    let (_, recovery) = cluster.open(accepted).unwrap();
    let expected = Damage::Slots { slot: 0, slots: 1, fault: SlotFault::Missing };
    assert_eq!(recovery.progress().given_up, Some(expected));
    assert_eq!(cluster.image[0], 0);
    cluster.open(config(None)).unwrap();
}

#[test]
fn a_journal_that_was_given_up_opens_without_its_slots_and_without_its_frames() {
    let mut cluster = Cluster::new();
    let (opened, _) = cluster.open(config(None)).unwrap();
    cluster.write(opened, &[1, 2, 3]);
    cluster.record = Some(opened.record.emptied());
    cluster.slots.remove(&1);
    let (again, recovery) = cluster.open(config(None)).unwrap();
    assert_eq!((recovery.progress().frames, recovery.progress().given_up), (0, None));
    assert_eq!(cluster.image[0], 0);
    cluster.write(again, &[9]);
    cluster.open(config(None)).unwrap();
    assert_eq!(cluster.image[0], 9);
}

#[test]
fn whoever_is_overtaken_stops() {
    let mut cluster = Cluster::new();
    let mut slow = Recovery::new(config(None)).unwrap();
    while !matches!(slow.step(), Step::FlushImage) {
        let step = slow.step();
        slow.answer(cluster.take(step)).unwrap();
    }
    let (opened, _) = cluster.open(config(None)).unwrap();
    assert_eq!(opened.record.epoch, Epoch(2));
    slow.answer(Answer::Done).unwrap();
    let step = slow.step();
    let error = slow.answer(cluster.take(step)).unwrap_err();
    assert_eq!(error, RecoveryError::Overtaken(Epoch(1)));
    assert!(matches!(slow.step(), Step::Stop(_)), "a failed recovery never opens");
}

#[test]
fn what_cannot_be_read_is_refused() {
    let mut cluster = Cluster::new();
    let other = VolumeId([8; 16]);
    cluster.record = Some(Record::fresh(other, RING));
    let foreign = RecoveryError::Record(FormatError::OtherVolume(other));
    assert_eq!(cluster.open(config(None)).unwrap_err(), foreign);

    let mut recovery = Recovery::new(config(None)).unwrap();
    let broken = recovery.answer(Answer::Record(Some(vec![0; 100]))).unwrap_err();
    assert_eq!(broken, RecoveryError::Record(FormatError::Magic));

    let mut recovery = Recovery::new(config(None)).unwrap();
    assert_eq!(recovery.answer(Answer::Done), Err(RecoveryError::Protocol));
    let mut recovery = Recovery::new(config(None)).unwrap();
    let failed = RecoveryError::Io(Failure::Fenced);
    assert_eq!(recovery.answer(Answer::Failed(Failure::Fenced)), Err(failed));
}

#[test]
fn a_local_log_of_an_older_owner_is_set_aside_and_a_new_one_begun() {
    let mut cluster = Cluster::new();
    let cache = config(Some(RING));
    let (first, _) = cluster.open(cache).unwrap();
    assert_eq!(first.local.map(|local| local.epoch), Some(Epoch(1)));
    let old = cluster.local_record.clone();
    cluster.local_record = None; // another host
    let (second, _) = cluster.open(cache).unwrap();
    assert_eq!(second.local.map(|local| local.epoch), Some(Epoch(2)));
    cluster.local_record = old; // the first one is back
    let (third, recovery) = cluster.open(cache).unwrap();
    let older = Aside::Older { epoch: Epoch(1), volume: VOLUME };
    assert_eq!(recovery.progress().set_aside, Some(older));
    assert_eq!(third.local.map(|local| local.epoch), Some(Epoch(3)));

    cluster.local_record = Some(vec![1; 512]);
    let (_, recovery) = cluster.open(cache).unwrap();
    let broken = Aside::Broken(FormatError::Magic);
    assert_eq!(recovery.progress().set_aside, Some(broken));
}

/// Whoever wrote the first version of the log would miss frames: the record is not one to it.
#[test]
fn a_log_of_the_first_version_is_replayed_and_goes_on_as_the_second() {
    let mut cluster = Cluster::new();
    let (opened, _) = cluster.open(config(None)).unwrap();
    let first_version = Record { keyed: false, ..opened.record };
    cluster.record = Some(first_version);
    cluster.write(Opened { record: first_version, ..opened }, &[1, 2, 3]);
    let mut recovery = Recovery::new(config(None)).unwrap();
    while !matches!(recovery.step(), Step::ReadSlot(..)) {
        let step = recovery.step();
        recovery.answer(cluster.take(step)).unwrap();
    }
    assert!(!cluster.record.unwrap().keyed, "a claim alone changes nothing of it");
    let (opened, recovery) = cluster.open(config(None)).unwrap();
    assert_eq!((recovery.progress().frames, cluster.image[8192]), (3, 3));
    assert!(opened.record.keyed);
    assert_eq!(cluster.record, Some(opened.record));
}

fn secret(digit: u8) -> Secret {
    Secret::parse(&[digit; 64]).unwrap()
}

#[test]
fn an_encrypted_volume_is_replayed_and_its_journal_shows_nothing() {
    let mut cluster = Cluster { secret: Some(secret(b'a')), ..Cluster::new() };
    let (opened, _) = cluster.open(config(None)).unwrap();
    let pages: Vec<u8> = (1..=20).collect();
    cluster.write(opened, &pages);
    for slot in cluster.slots.values() {
        assert!(!slot.windows(32).any(|window| window[0] != 0 && window == [window[0]; 32]));
    }
    let (opened, recovery) = cluster.open(config(None)).unwrap();
    assert_eq!(recovery.progress().frames, 20);
    for (page, fill) in cluster.image.chunks(4096).zip(&pages) {
        assert!(page.iter().all(|byte| byte == fill), "page {fill}");
    }
    cluster.write(opened, &[99]);
    cluster.open(config(None)).unwrap();
    assert_eq!(cluster.image[0], 99);
}

#[test]
fn a_bit_flipped_in_a_sealed_frame_ends_recovery_there() {
    let mut cluster = Cluster { secret: Some(secret(b'a')), ..Cluster::new() };
    let (opened, _) = cluster.open(config(None)).unwrap();
    cluster.write(opened, &[1, 2, 3]);
    cluster.slots.get_mut(&0).unwrap()[8192 + 2000] ^= 1; // in the second frame
    let record = Record { durable: 3, ..opened.record };
    cluster.record = Some(record);
    let error = cluster.open(config(None)).unwrap_err();
    assert_eq!(error, gap(2, 3, 8192));
    // Where nothing was promised, what is before it counts.
    cluster.record = Some(opened.record);
    assert_eq!(cluster.open(config(None)).unwrap_err(), gap(2, 3, 8192));
    cluster.slots.get_mut(&0).unwrap()[2 * 8192..].fill(0); // the third
    let (_, recovery) = cluster.open(config(None)).unwrap();
    assert_eq!(recovery.progress().frames, 1);
    assert_eq!((cluster.image[0], cluster.image[4096]), (1, 0));
}

#[test]
fn a_journal_opens_with_the_key_that_it_was_begun_with_and_nothing_is_lost() {
    for (begun, given, mismatch) in [
        (Some(secret(b'a')), None, SealMismatch::NoKey),
        (Some(secret(b'a')), Some(secret(b'b')), SealMismatch::OtherKey),
        (None, Some(secret(b'a')), SealMismatch::NotSealed),
    ] {
        let mut cluster = Cluster { secret: begun.clone(), ..Cluster::new() };
        let (opened, _) = cluster.open(config(None)).unwrap();
        cluster.write(opened, &[1, 2, 3]);
        let (record, slots) = (cluster.record, cluster.slots.clone());
        cluster.secret = given;
        let error = cluster.open(config(None)).unwrap_err();
        assert_eq!(error, RecoveryError::Seal { log: Log::Cluster, mismatch });
        assert_eq!((cluster.record, &cluster.slots), (record, &slots), "nothing was touched");
        cluster.secret = begun;
        let (_, recovery) = cluster.open(config(None)).unwrap();
        assert_eq!(recovery.progress().frames, 3);
    }
}

#[test]
fn so_does_a_local_log_that_may_hold_what_is_nowhere_else() {
    let mut cluster = Cluster { secret: Some(secret(b'a')), ..Cluster::new() };
    let cache = config(Some(RING));
    let (opened, _) = cluster.open(cache).unwrap();
    let local = Record { sealed_by: None, ..opened.local.unwrap() };
    let kept = Some(local.encode().to_vec());
    cluster.local_record.clone_from(&kept);
    let error = cluster.open(cache).unwrap_err();
    let mismatch = SealMismatch::NotSealed;
    assert_eq!(error, RecoveryError::Seal { log: Log::Local, mismatch });
    assert_eq!(cluster.local_record, kept, "nothing was touched");
    cluster.local_record = opened.local.map(|local| local.encode().to_vec());
    cluster.open(cache).unwrap();
}
