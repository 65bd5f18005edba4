//! Devices that tear, lose what was not flushed, and obey fences.

use std::collections::BTreeMap;

use super::random::Random;
use crate::extent::content::Content;
use crate::format::frame::Frame;
use crate::format::ids::Epoch;
use crate::format::record::Record;
use crate::format::ring::{Place, Ring};
use crate::{Failure, RECORD_BYTES};

fn index(number: u64) -> usize {
    usize::try_from(number).unwrap()
}

/// Copy `bytes` to `at`, as far as a crash lets it: each sector is written or not.
fn tear(into: &mut [u8], at: usize, bytes: &[u8], sector: usize, random: &mut Random) {
    let end = at + bytes.len();
    let mut from = at;
    while from < end {
        let to = ((from / sector + 1) * sector).min(end);
        if random.chance(50) {
            into[from..to].copy_from_slice(&bytes[from - at..to - at]);
        }
        from = to;
    }
}

/// A frame as it travels. Of an encrypted volume it shows nothing of what it carries.
fn encode(frame: &Frame) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame.encode(&mut bytes);
    for (_, content) in frame.extents().iter().filter(|_| frame.is_sealed()) {
        let Content::Data(payload) = content else { continue };
        let start = payload.as_slice().get(..16).filter(|start| start.iter().any(|it| *it != 0));
        if let Some(start) = start {
            assert!(!bytes.windows(16).any(|window| window == start), "a frame shows what it has");
        }
    }
    bytes
}

/// The RBD image, held to what a `BlockDevice` promises and no more: what was not flushed may be
/// lost sector by sector, in any order.
#[derive(Debug)]
pub(super) struct Image {
    current: Vec<u8>,
    durable: Vec<u8>,
    /// What each sector held after each change since the last flush, with the change's number.
    versions: BTreeMap<usize, Vec<(u64, Vec<u8>)>>,
    changes: u64,
    sector: usize,
    fence: Epoch,
}

impl Image {
    pub(super) fn new(size: usize, sector: usize) -> Self {
        Self {
            current: vec![0; size],
            durable: vec![0; size],
            versions: BTreeMap::new(),
            changes: 0,
            sector,
            fence: Epoch(0),
        }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.current
    }

    pub(super) fn durable(&self) -> &[u8] {
        &self.durable
    }

    /// Nothing of an owner below `epoch` is taken any more.
    pub(super) fn fence(&mut self, epoch: Epoch) {
        self.fence = self.fence.max(epoch);
    }

    pub(super) fn fenced_below(&self) -> Epoch {
        self.fence
    }

    pub(super) fn write(&mut self, by: Epoch, at: u64, bytes: &[u8]) -> Result<(), Failure> {
        if by < self.fence {
            return Err(Failure::Fenced);
        }
        let at = index(at);
        self.current[at..at + bytes.len()].copy_from_slice(bytes);
        self.note(at, bytes.len());
        Ok(())
    }

    /// A write of which a crash leaves some sectors.
    pub(super) fn write_torn(&mut self, by: Epoch, at: u64, bytes: &[u8], random: &mut Random) {
        if by >= self.fence {
            tear(&mut self.current, index(at), bytes, self.sector, random);
            self.note(index(at), bytes.len());
        }
    }

    fn note(&mut self, at: usize, length: usize) {
        self.changes += 1;
        for sector in at / self.sector..(at + length).div_ceil(self.sector) {
            let from = sector * self.sector;
            let to = (from + self.sector).min(self.current.len());
            let version = (self.changes, self.current[from..to].to_vec());
            self.versions.entry(sector).or_default().push(version);
        }
    }

    /// What a flush that begins now will make durable.
    pub(super) fn begin_flush(&self) -> u64 {
        self.changes
    }

    pub(super) fn end_flush(&mut self, through: u64) {
        for (sector, versions) in &mut self.versions {
            let flushed = versions.partition_point(|(change, _)| *change <= through);
            if let Some((_, bytes)) = flushed.checked_sub(1).map(|last| &versions[last]) {
                let from = sector * self.sector;
                self.durable[from..from + bytes.len()].copy_from_slice(bytes);
            }
            versions.drain(..flushed);
        }
        self.versions.retain(|_, versions| !versions.is_empty());
    }

    /// Lose what was not flushed: each sector keeps what was durable or any later version.
    pub(super) fn crash(&mut self, random: &mut Random) {
        let versions = std::mem::take(&mut self.versions);
        for (sector, versions) in versions {
            let kept = random.below(versions.len() + 1);
            if let Some((_, bytes)) = kept.checked_sub(1).map(|kept| &versions[kept]) {
                let from = sector * self.sector;
                self.durable[from..from + bytes.len()].copy_from_slice(bytes);
            }
        }
        self.current.copy_from_slice(&self.durable);
    }

    /// Everything past `size` is gone. The image itself resizes atomically.
    pub(super) fn truncate(&mut self, size: u64) {
        self.end_flush(self.changes);
        self.current[index(size)..].fill(0);
        self.durable[index(size)..].fill(0);
    }
}

/// The journal's objects in the cluster. A write to one object is whole or absent once it is
/// acknowledged; to be strict, one that was never acknowledged may be torn.
#[derive(Debug, Clone)]
pub(super) struct Cluster {
    slots: Vec<Vec<u8>>,
    epochs: Vec<Epoch>,
    /// By slot and place in it: the position and the length of the small frames that lie there.
    small: Vec<BTreeMap<usize, (u64, usize)>>,
    /// Slots that are not there.
    missing: Vec<bool>,
    record: Option<[u8; RECORD_BYTES]>,
    sector: usize,
    /// Bytes that landed for an owner below the fence: always zero unless a test breaks it.
    pub(super) landed_after_fence: u64,
    pub(super) fence: Epoch,
}

impl Cluster {
    pub(super) fn new(ring: Ring, sector: usize) -> Self {
        let slots = usize::try_from(ring.segments).unwrap();
        Self {
            slots: vec![vec![0; index(ring.segment_bytes)]; slots],
            epochs: vec![Epoch(0); slots],
            small: vec![BTreeMap::new(); slots],
            missing: vec![true; slots],
            record: None,
            sector,
            landed_after_fence: 0,
            fence: Epoch(0),
        }
    }

    pub(super) fn slots(&self) -> usize {
        self.slots.len()
    }

    /// Whether the slot was missing; it is made only if `mend` says so.
    pub(super) fn raise(&mut self, slot: usize, epoch: Epoch, mend: bool) -> bool {
        let missing = self.missing[slot];
        if !missing || mend {
            self.epochs[slot] = self.epochs[slot].max(epoch);
            self.missing[slot] = false;
        }
        missing
    }

    /// Somebody removes an object.
    pub(super) fn remove(&mut self, slot: usize) {
        self.slots[slot].fill(0);
        self.epochs[slot] = Epoch(0);
        self.missing[slot] = true;
    }

    /// The slots are again what they were before a damage; fences stay.
    pub(super) fn mend(&mut self, before: Self) {
        self.slots = before.slots;
        self.missing = before.missing;
        for (epoch, old) in self.epochs.iter_mut().zip(before.epochs) {
            *epoch = (*epoch).max(old);
        }
    }

    /// A slot to look at and to damage.
    pub(super) fn slot_mut(&mut self, slot: usize) -> &mut [u8] {
        &mut self.slots[slot]
    }

    pub(super) fn read_slot(&self, slot: u32) -> Vec<u8> {
        self.slots[usize::try_from(slot).unwrap()].clone()
    }

    fn admit(&mut self, frame: &Frame, place: Place) -> Result<usize, Failure> {
        let slot = usize::try_from(place.slot).unwrap();
        if self.epochs[slot] > frame.epoch() || self.missing[slot] {
            return Err(Failure::Fenced);
        }
        if frame.epoch() < self.fence {
            self.landed_after_fence += frame.length_bytes();
        }
        Ok(slot)
    }

    pub(super) fn append(&mut self, frame: &Frame, place: Place) -> Result<(), Failure> {
        let slot = self.admit(frame, place)?;
        let (bytes, at) = (encode(frame), index(place.offset));
        self.slots[slot][at..at + bytes.len()].copy_from_slice(&bytes);
        self.note(slot, frame, place);
        Ok(())
    }

    /// What lies where a frame was put: all of them are small here, so that all can be freed.
    fn note(&mut self, slot: usize, frame: &Frame, place: Place) {
        let (at, length) = (index(place.offset), index(frame.length_bytes()));
        let small = &mut self.small[slot];
        small.retain(|other, (_, old)| *other + *old <= at || at + length <= *other);
        small.insert(at, (place.position, length));
    }

    /// Free a slot of what was put before a position.
    pub(super) fn free(&mut self, by: Epoch, slot: u32, before: u64) -> Result<(), Failure> {
        let slot = usize::try_from(slot).unwrap();
        if self.epochs[slot] > by || self.missing[slot] {
            return Err(Failure::Fenced);
        }
        let bytes = &mut self.slots[slot];
        self.small[slot].retain(|at, (position, length)| {
            let stays = *position >= before;
            if !stays {
                bytes[*at..*at + *length].fill(0);
            }
            stays
        });
        Ok(())
    }

    pub(super) fn append_torn(&mut self, frame: &Frame, place: Place, random: &mut Random) {
        if let Ok(slot) = self.admit(frame, place) {
            let bytes = encode(frame);
            tear(&mut self.slots[slot], index(place.offset), &bytes, self.sector, random);
            self.note(slot, frame, place);
        }
    }

    pub(super) fn record(&self) -> Option<Vec<u8>> {
        self.record.map(|record| record.to_vec())
    }

    pub(super) fn swap_record(&mut self, expected: Option<Record>, record: Record) -> bool {
        let same = self.record == expected.map(|record| record.encode());
        if same {
            self.record = Some(record.encode());
        }
        same
    }
}

/// The local log on a host's disk. What was acknowledged is durable; what was under way is torn.
#[derive(Debug, Clone)]
pub(super) struct Disk {
    slots: Vec<Vec<u8>>,
    pub(super) record: Option<Vec<u8>>,
    sector: usize,
    /// A disk that fails every write from now on.
    pub(super) broken: bool,
}

impl Disk {
    pub(super) fn new(ring: Ring, sector: usize) -> Self {
        let slots = usize::try_from(ring.segments).unwrap();
        Self {
            slots: vec![vec![0; index(ring.segment_bytes)]; slots],
            record: None,
            sector,
            broken: false,
        }
    }

    pub(super) fn read_slot(&self, slot: u32) -> Vec<u8> {
        self.slots[usize::try_from(slot).unwrap()].clone()
    }

    pub(super) fn append(&mut self, frame: &Frame, place: Place) -> Result<(), Failure> {
        if self.broken {
            return Err(Failure::Io);
        }
        let (bytes, at) = (encode(frame), index(place.offset));
        let slot = usize::try_from(place.slot).unwrap();
        self.slots[slot][at..at + bytes.len()].copy_from_slice(&bytes);
        Ok(())
    }

    pub(super) fn append_torn(&mut self, frame: &Frame, place: Place, random: &mut Random) {
        let bytes = encode(frame);
        let slot = usize::try_from(place.slot).unwrap();
        tear(&mut self.slots[slot], index(place.offset), &bytes, self.sector, random);
    }

    pub(super) fn write_record(&mut self, record: &Record) -> Result<(), Failure> {
        if self.broken {
            return Err(Failure::Io);
        }
        self.record = Some(record.encode().to_vec());
        Ok(())
    }
}
