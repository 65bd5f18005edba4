//! The journal of a volume as RADOS objects beside its image.

use std::sync::Arc;

use grampus_journal::{Epoch, Failure, Place, Segment};
use grampus_journaled::{Done, Slots};
use grampus_librbd::{GuardedWrite, Objects, RbdError};

use crate::rbd::chain;
use crate::slot_layout::{self, Sweeps};

/// The attribute of a slot that its appends are conditional on.
const EPOCH_KEY: &str = "grampus.epoch";
/// More than any record takes.
const RECORD_LIMIT_BYTES: usize = 4096;
/// More than any slot holds: the journal's format allows 1 GiB.
const SLOT_LIMIT_BYTES: usize = 1 << 30;

/// The objects `grampus_journal.IMAGE-ID` (the record) and `grampus_journal.IMAGE-ID.SLOT`.
#[derive(Debug)]
pub struct RadosSlots {
    objects: Arc<Objects>,
    prefix: String,
    sweeps: Arc<Sweeps>,
}

impl RadosSlots {
    /// The journal of the image with this id, whether there is one or not.
    #[must_use]
    pub fn new(objects: Arc<Objects>, image_id: &str) -> Self {
        let prefix = format!("grampus_journal.{image_id}");
        Self { objects, prefix, sweeps: Arc::default() }
    }

    /// What the names of its objects begin with; the record's is just this.
    #[must_use]
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Remove slots `0..slots`, and then the record; what is not there is gone already.
    ///
    /// # Errors
    /// [`Failure`].
    pub fn remove(&self, slots: u32) -> Result<(), Failure> {
        for slot in 0..slots {
            self.objects.remove(&self.slot(slot)).map_err(|error| failure(&error))?;
        }
        self.objects.remove(&self.prefix).map(drop).map_err(|error| failure(&error))
    }

    fn slot(&self, slot: u32) -> String {
        format!("{}.{slot:04x}", self.prefix)
    }
}

/// An epoch as an attribute's value: of one length, so that equal means equal.
fn encode_epoch(epoch: Epoch) -> Vec<u8> {
    format!("{:020}", epoch.0).into_bytes()
}

fn decode_epoch(value: &[u8]) -> Option<Epoch> {
    std::str::from_utf8(value).ok()?.parse().ok().map(Epoch)
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
        self.objects.read(&self.prefix, RECORD_LIMIT_BYTES).map_err(|error| failure(&error))
    }

    fn swap_record(&self, expected: Option<&[u8]>, record: &[u8]) -> Result<bool, Failure> {
        let swapped = self.objects.replace(&self.prefix, expected, record);
        if matches!(swapped, Ok(true)) {
            self.sweeps.note(record);
        }
        swapped.map_err(|error| failure(&error))
    }

    fn start_swap_record(&self, expected: Vec<u8>, record: Vec<u8>, done: Done<bool>) {
        let (sweeps, written) = (Arc::clone(&self.sweeps), record.clone());
        let done = Box::new(move |answer: Result<bool, RbdError>| {
            if matches!(answer, Ok(true)) {
                sweeps.note(&written);
            }
            done(answer.map_err(|error| failure(&error)));
        });
        self.objects.start_replace(&self.prefix, expected, record, done);
    }

    fn raise_epoch(&self, slot: u32, epoch: Epoch) -> Result<(), Failure> {
        let name = self.slot(slot);
        let value = encode_epoch(epoch);
        loop {
            let found =
                self.objects.attribute(&name, EPOCH_KEY).map_err(|error| failure(&error))?;
            match found.as_deref().map(decode_epoch) {
                Some(None) => {
                    tracing::error!(slot = name, "the slot's epoch cannot be read");
                    return Err(Failure::Io);
                }
                Some(Some(found)) if found > epoch => return Err(Failure::Fenced),
                Some(Some(found)) if found == epoch => return Ok(()),
                Some(Some(_)) | None => {}
            }
            let raised = self.objects.swap_attribute(&name, EPOCH_KEY, found.as_deref(), &value);
            // Lost to another recovery: look again whose it is.
            if raised.map_err(|error| failure(&error))? {
                return Ok(());
            }
        }
    }

    fn read_slot(&self, segment: Segment) -> Result<Vec<u8>, Failure> {
        let name = self.slot(segment.place.slot);
        let bytes = self.objects.read(&name, SLOT_LIMIT_BYTES).map_err(|error| failure(&error))?;
        let (after, before) = slot_layout::key_range(&segment);
        let pairs = self.objects.pairs(&name, &after, &before).map_err(|error| failure(&error))?;
        Ok(slot_layout::assemble(&segment, bytes.unwrap_or_default(), &pairs))
    }

    fn start_append(&self, place: Place, epoch: Epoch, frame: Vec<u8>, done: Done<()>) {
        let done = Box::new(move |answer: Result<GuardedWrite, RbdError>| {
            done(match answer {
                Ok(GuardedWrite::Written) => Ok(()),
                Ok(GuardedWrite::Refused) => Err(Failure::Fenced),
                Err(error) => Err(failure(&error)),
            });
        });
        // Only along with a pair; see `Change::RemoveKeysBefore`.
        let is_pair = slot_layout::is_pair(&frame);
        let sweep_before = if is_pair { self.sweeps.due(place) } else { None };
        let changes = slot_layout::append(place, epoch, frame, sweep_before);
        let (name, epoch) = (self.slot(place.slot), encode_epoch(epoch));
        self.objects.start_guarded_write(&name, EPOCH_KEY, &epoch, changes, done);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epochs_have_one_length_and_come_back() {
        for epoch in [Epoch(0), Epoch(7), Epoch(u64::MAX)] {
            assert_eq!(encode_epoch(epoch).len(), 20);
            assert_eq!(decode_epoch(&encode_epoch(epoch)), Some(epoch));
        }
        assert_eq!(decode_epoch(b"x"), None);
        assert_eq!(decode_epoch(&[0xff]), None);
    }
}
