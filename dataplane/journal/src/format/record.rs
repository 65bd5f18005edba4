//! The record: the one small thing that says where a log begins and who owns it.

use crate::format::error::FormatError;
use crate::format::ids::{Epoch, Owner, VolumeId};
use crate::format::ring::Ring;
use crate::format::wire::{array, require_checksum, u32_at, u64_at};

/// The length of an encoded record. It fits one sector, which a disk writes whole or not at all.
pub const RECORD_BYTES: usize = 100;
const MAGIC: [u8; 8] = *b"GRMPREC1";
/// Of a log of sealed frames: another mark, so that who knows nothing of seals opens no such log.
const SEALED_MAGIC: [u8; 8] = *b"GRMPREC2";
/// The same two of a log that is *keyed*, for the same reason.
const KEYED_MAGIC: [u8; 8] = *b"GRMPREC3";
const KEYED_SEALED_MAGIC: [u8; 8] = *b"GRMPREC4";
const CHECKSUM_AT: usize = RECORD_BYTES - 4;
/// Far above what any log reaches, far below where sums of positions overflow.
const MAX_POSITION: u64 = 1 << 62;

/// Where a log begins and who owns it.
///
/// In RADOS it is replaced only by compare-and-swap of the whole record. In a local log it lies in
/// the first sector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// Whose log it is.
    pub volume: VolumeId,
    /// The highest owner: the fence. An owner whose epoch is lower is shut out.
    pub epoch: Epoch,
    /// The last owner that took writes. A takeover that did not finish raised only `epoch`.
    pub opened: Epoch,
    /// The owner of every frame from the tail on; frames of others are remains.
    pub written_by: Epoch,
    /// Where the first frame that is still needed lies, or the next one will.
    pub tail: u64,
    /// The sequence of that frame's first batch.
    pub first: u64,
    /// A batch that is durable in the log or applied. A scan must come at least this far.
    pub durable: u64,
    /// The log's shape.
    pub ring: Ring,
    /// The fingerprint of the secret that every frame is sealed with, never 0; None: with none.
    pub sealed_by: Option<u64>,
    /// Frames may lie elsewhere in a slot than among its bytes, where who wrote this log's first
    /// version would not look for them. Of the log in the cluster; the port knows where.
    pub keyed: bool,
}

impl Record {
    /// Of a log in which nothing was ever written.
    #[must_use]
    pub fn fresh(volume: VolumeId, ring: Ring) -> Self {
        let epoch = Epoch(0);
        Self {
            volume,
            epoch,
            opened: epoch,
            written_by: epoch,
            tail: 0,
            first: 1,
            durable: 0,
            ring,
            sealed_by: None,
            keyed: false,
        }
    }

    /// The highest owner.
    #[must_use]
    pub fn owner(&self) -> Owner {
        Owner { volume: self.volume, epoch: self.epoch }
    }

    /// The record of the same journal once all that it held is given up: its slots may be missing
    /// from then on, and no frame and no log on a host is of an owner that it knows.
    #[must_use]
    pub fn emptied(&self) -> Self {
        let (epoch, opened) = (self.epoch.next(), Epoch(0));
        let tail = self.ring.next_segment(self.tail) + self.ring.capacity_bytes();
        let durable = self.durable.max(self.first - 1);
        Self { epoch, opened, written_by: epoch, tail, first: durable + 1, durable, ..*self }
    }

    /// As it is stored.
    #[must_use]
    pub fn encode(&self) -> [u8; RECORD_BYTES] {
        let mut bytes = Vec::with_capacity(RECORD_BYTES);
        let magic = match (self.sealed_by, self.keyed) {
            (None, false) => MAGIC,
            (Some(_), false) => SEALED_MAGIC,
            (None, true) => KEYED_MAGIC,
            (Some(_), true) => KEYED_SEALED_MAGIC,
        };
        bytes.extend_from_slice(&magic);
        bytes.extend_from_slice(&self.volume.0);
        for number in [
            self.epoch.0,
            self.opened.0,
            self.written_by.0,
            self.tail,
            self.first,
            self.durable,
            self.ring.segment_bytes,
        ] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&self.ring.segments.to_le_bytes());
        bytes.extend_from_slice(&self.ring.align_bytes.to_le_bytes());
        bytes.extend_from_slice(&self.sealed_by.unwrap_or_default().to_le_bytes());
        bytes.resize(CHECKSUM_AT, 0);
        let checksum = crc32c::crc32c(&bytes);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        // The fields above fill it to the byte; see the test.
        bytes.try_into().unwrap_or([0; RECORD_BYTES])
    }

    /// The record at the beginning of `bytes`.
    ///
    /// # Errors
    /// [`FormatError`] when there is none, whatever the bytes are.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let (sealed, keyed) = match array(bytes, 0)? {
            MAGIC => (false, false),
            SEALED_MAGIC => (true, false),
            KEYED_MAGIC => (false, true),
            KEYED_SEALED_MAGIC => (true, true),
            _ => return Err(FormatError::Magic),
        };
        require_checksum(bytes, CHECKSUM_AT, "record")?;
        let ring = Ring {
            segment_bytes: u64_at(bytes, 72)?,
            segments: u32_at(bytes, 80)?,
            align_bytes: u32_at(bytes, 84)?,
        };
        if ring.validate().is_err() {
            return Err(FormatError::Nonsense("the record's ring has no usable shape"));
        }
        let record = Self {
            volume: VolumeId(array(bytes, 8)?),
            epoch: Epoch(u64_at(bytes, 24)?),
            opened: Epoch(u64_at(bytes, 32)?),
            written_by: Epoch(u64_at(bytes, 40)?),
            tail: u64_at(bytes, 48)?,
            first: u64_at(bytes, 56)?,
            durable: u64_at(bytes, 64)?,
            ring,
            sealed_by: sealed.then(|| u64_at(bytes, 88)).transpose()?,
            keyed,
        };
        let sound = record.tail <= MAX_POSITION
            && (1..=MAX_POSITION).contains(&record.first)
            && record.durable <= MAX_POSITION
            && record.epoch.0 <= MAX_POSITION
            && record.opened <= record.epoch
            && record.written_by <= record.epoch
            && record.sealed_by != Some(0);
        if sound { Ok(record) } else { Err(FormatError::Nonsense("the record contradicts itself")) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const VOLUME: VolumeId = VolumeId([9; 16]);
    const RING: Ring = Ring { segment_bytes: 4 << 20, segments: 64, align_bytes: 4096 };

    fn record() -> Record {
        Record {
            epoch: Epoch(5),
            opened: Epoch(4),
            written_by: Epoch(3),
            tail: 4096,
            first: 17,
            durable: 20,
            ..Record::fresh(VOLUME, RING)
        }
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        assert_eq!(Record::decode(&record().encode()), Ok(record()));
        let fresh = Record::fresh(VOLUME, RING);
        assert_eq!(Record::decode(&fresh.encode()), Ok(fresh));
        for (sealed_by, keyed, magic) in [
            (None, false, b"GRMPREC1"),
            (Some(u64::MAX), false, b"GRMPREC2"),
            (None, true, b"GRMPREC3"),
            (Some(1), true, b"GRMPREC4"),
        ] {
            let marked = Record { sealed_by, keyed, ..record() };
            assert_eq!(Record::decode(&marked.encode()), Ok(marked));
            assert_eq!(&marked.encode()[..8], magic);
        }
    }

    #[test]
    fn contradictions_are_refused() {
        for wrong in [
            Record { opened: Epoch(6), ..record() },
            Record { written_by: Epoch(6), ..record() },
            Record { first: 0, ..record() },
            Record { tail: u64::MAX, ..record() },
            Record { sealed_by: Some(0), ..record() },
            Record { ring: Ring { segments: 0, ..RING }, ..record() },
        ] {
            let answer = Record::decode(&wrong.encode());
            assert!(matches!(answer, Err(FormatError::Nonsense(_))), "{wrong:?}");
        }
    }

    proptest! {
        #[test]
        fn any_change_is_noticed(at in 0..RECORD_BYTES, flip in 1..=255_u8) {
            let mut bytes = record().encode();
            bytes[at] ^= flip;
            prop_assert!(Record::decode(&bytes).is_err());
        }

        #[test]
        fn arbitrary_bytes_are_no_record(
            bytes in prop::collection::vec(any::<u8>(), 0..200),
        ) {
            prop_assert!(Record::decode(&bytes).is_err());
        }
    }
}
