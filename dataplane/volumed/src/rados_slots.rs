//! The journal of a volume as RADOS objects beside its image.

use std::sync::Arc;

use grampus_journal::{Epoch, Failure, Owner, Place, Record, Segment, SlotFault, VolumeId};
use grampus_journaled::{Done, Slots};
use grampus_librbd::{Change, GuardedWrite, ObjectDone, Objects, RbdError};

use crate::journal_place::JournalPlace;
use crate::slot_layout;
use crate::volume::chain;

/// The attribute of a slot that its appends are conditional on.
const EPOCH_KEY: &str = "grampus.epoch";
/// The header of any frame is within.
const HEAD_BYTES: usize = 4096;
/// Of the owners that may have put a frame at one position.
const HEAD_PAIRS: u64 = 8;
/// How often a slot is lost to another recovery before something is wrong with it.
const MAX_RAISES: u32 = 16;
/// More than any record takes.
const RECORD_LIMIT_BYTES: usize = 4096;
/// More than any slot holds: the journal's format allows 1 GiB.
const SLOT_LIMIT_BYTES: usize = 1 << 30;

/// The objects `grampus_journal.IMAGE-ID` (the record) and `grampus_journal.IMAGE-ID.SLOT`.
#[derive(Debug)]
pub struct RadosSlots {
    objects: Arc<Objects>,
    place: JournalPlace,
}

impl RadosSlots {
    /// The journal at this place, whether there is one or not; `objects` is its pool.
    #[must_use]
    pub fn new(objects: Arc<Objects>, place: JournalPlace) -> Self {
        Self { objects, place }
    }

    /// Where its objects are.
    #[must_use]
    pub fn place(&self) -> &JournalPlace {
        &self.place
    }

    /// Say in the record that all that the journal held is given up, so that slots which are missing
    /// from now on are not taken for damage. Then `0..slots` can be removed.
    ///
    /// # Errors
    /// [`Failure`]; [`Failure::Fenced`] when another client changed the record meanwhile.
    pub fn empty(&self) -> Result<(), Failure> {
        let found = self.read_record()?;
        // One that cannot be read says nothing that could be kept.
        let Some(bytes) = found else { return Ok(()) };
        let Ok(record) = Record::decode(&bytes) else { return Ok(()) };
        let emptied = self.swap_record(Some(&bytes), &record.emptied().encode())?;
        if emptied { Ok(()) } else { Err(Failure::Fenced) }
    }

    /// Remove slots `0..slots`, and then the record; what is not there is gone already.
    ///
    /// # Errors
    /// [`Failure`].
    pub fn remove(&self, slots: u32) -> Result<(), Failure> {
        for slot in 0..slots {
            self.objects.remove(&self.slot(slot)).map_err(|error| failure(&error))?;
        }
        self.objects.remove(&self.place.prefix).map(drop).map_err(|error| failure(&error))
    }

    /// The first bytes of a slot, which must be there: one that was removed is not an empty one.
    fn bytes(&self, name: &str, limit_bytes: usize) -> Result<Vec<u8>, Failure> {
        let found = self.objects.read(name, limit_bytes).map_err(|error| failure(&error))?;
        found.ok_or_else(|| {
            tracing::error!(slot = name, "an object of the journal is missing");
            Failure::Io
        })
    }

    /// Change a slot in one operation, if it is `owner`'s.
    fn start_change(&self, slot: u32, owner: Owner, changes: Vec<Change>, done: Done<()>) {
        let done: ObjectDone<GuardedWrite> = Box::new(move |answer| {
            done(match answer {
                Ok(GuardedWrite::Written) => Ok(()),
                Ok(GuardedWrite::Refused) => Err(Failure::Fenced),
                Err(error) => Err(failure(&error)),
            });
        });
        let (name, owner) = (self.slot(slot), encode_owner(owner));
        self.objects.start_guarded_write(&name, EPOCH_KEY, &owner, changes, done);
    }

    fn slot(&self, slot: u32) -> String {
        format!("{}.{slot:04x}", self.place.prefix)
    }
}

/// An owner as an attribute's value: of one length, so that equal means equal.
fn encode_owner(owner: Owner) -> Vec<u8> {
    format!("{:020}.{}", owner.epoch.0, owner.volume).into_bytes()
}

/// What a slot's attribute says: the epoch, and of which volume, which earlier versions left out.
fn decode_owner(value: &[u8]) -> Option<(Epoch, Option<VolumeId>)> {
    let text = std::str::from_utf8(value).ok()?;
    let (epoch, volume) =
        text.split_once('.').map_or((text, None), |(epoch, id)| (epoch, Some(id)));
    let volume = match volume {
        Some(id) if id.len() == 32 => {
            Some(VolumeId(u128::from_str_radix(id, 16).ok()?.to_be_bytes()))
        }
        Some(_) => return None,
        None => None,
    };
    Some((Epoch(epoch.parse().ok()?), volume))
}

/// What a takeover does with a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Raise {
    /// It is the owner's already.
    Done,
    /// Another owner came after this one.
    Overtaken,
    /// Change the attribute; what was wrong with the slot before, if anything was.
    Change(Option<SlotFault>),
}

/// Judge a slot by its attribute: None if it has none, or if there is no such slot.
fn decide_raise(found: Option<&[u8]>, exists: bool, owner: Owner) -> Raise {
    match found.map(decode_owner) {
        None if exists => Raise::Change(Some(SlotFault::Unmarked)),
        None => Raise::Change(Some(SlotFault::Missing)),
        Some(None) => Raise::Change(Some(SlotFault::Unmarked)),
        // Epochs of two journals do not compare.
        Some(Some((_, Some(volume)))) if volume != owner.volume => {
            Raise::Change(Some(SlotFault::Foreign))
        }
        Some(Some((epoch, _))) if epoch > owner.epoch => Raise::Overtaken,
        Some(Some((epoch, Some(_)))) if epoch == owner.epoch => Raise::Done,
        Some(Some(_)) => Raise::Change(None),
    }
}

/// The journal knows three failures, and reports and shows them. What it cannot tell, which object
/// and why, is said here, and only of what it does not expect.
fn failure(error: &RbdError) -> Failure {
    match error {
        RbdError::Fenced => Failure::Fenced,
        error if error.is_no_space() => Failure::NoSpace,
        error => {
            tracing::warn!(error = chain(error), "an object of the journal");
            Failure::Io
        }
    }
}

impl Slots for RadosSlots {
    fn read_record(&self) -> Result<Option<Vec<u8>>, Failure> {
        self.objects.read(&self.place.prefix, RECORD_LIMIT_BYTES).map_err(|error| failure(&error))
    }

    fn swap_record(&self, expected: Option<&[u8]>, record: &[u8]) -> Result<bool, Failure> {
        self.objects.replace(&self.place.prefix, expected, record).map_err(|error| failure(&error))
    }

    fn start_swap_record(&self, expected: Vec<u8>, record: Vec<u8>, done: Done<bool>) {
        let done: ObjectDone<bool> =
            Box::new(move |answer| done(answer.map_err(|error| failure(&error))));
        self.objects.start_replace(&self.place.prefix, expected, record, done);
    }

    fn raise_epoch(
        &self,
        slot: u32,
        owner: Owner,
        mend: bool,
    ) -> Result<Option<SlotFault>, Failure> {
        let objects = &self.objects;
        let name = self.slot(slot);
        let value = encode_owner(owner);
        let told = |error: RbdError| failure(&error);
        let mut first_fault = None;
        // A journal that begins has no slots: each is made by one operation then, without a look at
        // it before. Where there is one, nothing changes.
        if mend && objects.swap_attribute(&name, EPOCH_KEY, None, &value).map_err(told)? {
            return Ok(Some(SlotFault::Missing));
        }
        for _ in 0..MAX_RAISES {
            let found = objects.attribute(&name, EPOCH_KEY).map_err(told)?;
            let exists = found.is_some() || objects.exists(&name).map_err(told)?;
            let fault = match decide_raise(found.as_deref(), exists, owner) {
                Raise::Done => return Ok(first_fault),
                Raise::Overtaken => return Err(Failure::Fenced),
                Raise::Change(fault) => fault,
            };
            if let Some(fault) = fault {
                if !mend {
                    tracing::error!(slot = name, "an object of the journal {fault}");
                    return Ok(Some(fault));
                }
                first_fault = first_fault.or(Some(fault));
            }
            let raised = match (&found, exists) {
                (None, true) => objects.add_attribute(&name, EPOCH_KEY, &value),
                _ => objects.swap_attribute(&name, EPOCH_KEY, found.as_deref(), &value),
            };
            // Lost to another recovery: look again whose it is.
            if raised.map_err(told)? {
                return Ok(first_fault);
            }
        }
        tracing::error!(slot = name, "an object of the journal changes all the time");
        Err(Failure::Io)
    }

    fn read_slot(&self, segment: Segment) -> Result<Vec<u8>, Failure> {
        let name = self.slot(segment.place.slot);
        let bytes = self.bytes(&name, SLOT_LIMIT_BYTES)?;
        let (after, before) = slot_layout::key_range(&segment);
        let pairs = self.objects.pairs(&name, &after, &before).map_err(|error| failure(&error))?;
        Ok(slot_layout::assemble(&segment, bytes, &pairs))
    }

    fn read_head(&self, segment: Segment) -> Result<Vec<u8>, Failure> {
        let name = self.slot(segment.place.slot);
        let bytes = self.bytes(&name, HEAD_BYTES)?;
        let (after, before) = slot_layout::first_key_range(&segment);
        let pairs = self.objects.first_pairs(&name, &after, &before, HEAD_PAIRS);
        let pairs = pairs.map_err(|error| failure(&error))?;
        Ok(slot_layout::assemble(&segment, bytes, &pairs))
    }

    fn start_append(&self, place: Place, owner: Owner, frame: Vec<u8>, done: Done<()>) {
        let change = slot_layout::append(place, owner.epoch, frame);
        self.start_change(place.slot, owner, vec![change], done);
    }

    fn start_free(&self, slot: u32, owner: Owner, before: u64, done: Done<()>) {
        self.start_change(slot, owner, slot_layout::free(before), done);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VOLUME: VolumeId = VolumeId([7; 16]);

    fn owner(epoch: u64) -> Owner {
        Owner { volume: VOLUME, epoch: Epoch(epoch) }
    }

    #[test]
    fn owners_have_one_length_and_come_back() {
        for epoch in [0, 7, u64::MAX] {
            let value = encode_owner(owner(epoch));
            assert_eq!(value.len(), 53);
            assert_eq!(decode_owner(&value), Some((Epoch(epoch), Some(VOLUME))));
        }
        assert_eq!(decode_owner(b"00000000000000000007"), Some((Epoch(7), None)));
        for other in [&b"x"[..], &[0xff], b"1.", b"1.77", b"1.zz777777777777777777777777777777"] {
            assert_eq!(decode_owner(other), None, "{other:?}");
        }
    }

    #[test]
    fn only_a_slot_of_this_journal_is_raised_as_a_matter_of_course() {
        let other = Owner { volume: VolumeId([8; 16]), epoch: Epoch(9) };
        let of = |owner| Some(encode_owner(owner));
        let earlier = |text: &str| Some(text.as_bytes().to_vec());
        for (found, exists, raise) in [
            (of(owner(4)), true, Raise::Change(None)),
            (of(owner(5)), true, Raise::Done),
            (of(owner(6)), true, Raise::Overtaken),
            (earlier("00000000000000000005"), true, Raise::Change(None)),
            (earlier("00000000000000000006"), true, Raise::Overtaken),
            (of(other), true, Raise::Change(Some(SlotFault::Foreign))),
            (earlier("rubbish"), true, Raise::Change(Some(SlotFault::Unmarked))),
            (None, true, Raise::Change(Some(SlotFault::Unmarked))),
            (None, false, Raise::Change(Some(SlotFault::Missing))),
        ] {
            assert_eq!(decide_raise(found.as_deref(), exists, owner(5)), raise, "{found:?}");
        }
    }
}
