//! Where frames lie: a ring of segments of one size.

use thiserror::Error;

use crate::format::ids::Epoch;

/// The shape of a log: `segments` slots of `segment_bytes`, frames padded to `align_bytes`.
///
/// A *position* counts the bytes of an endless log. Its segment `position / segment_bytes` lies in
/// slot `segment % segments`. In RADOS a slot is one object; in a local log a stretch of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ring {
    /// Bytes of one slot, a multiple of `align_bytes`.
    pub segment_bytes: u64,
    /// How many slots, at least 2.
    pub segments: u32,
    /// 512 to 65,536, a power of two: what the disk below writes whole, such as 4,096.
    pub align_bytes: u32,
}

/// A ring with no usable shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "a log of {} segments of {} bytes, aligned to {}, cannot work: use 2 to 65,536 segments of whole \
     aligned blocks, at most 1 GiB each",
    .0.segments, .0.segment_bytes, .0.align_bytes
)]
pub struct RingError(pub Ring);

/// Where a frame is put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Counted from the log's beginning; never comes again.
    pub position: u64,
    /// The slot it lies in.
    pub slot: u32,
    /// The first byte within the slot.
    pub offset: u64,
}

/// A segment that is read back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// Its first byte: the beginning of its slot.
    pub place: Place,
    /// Its length in bytes.
    pub bytes: u64,
    /// The owner whose frames are looked for. Others may have written at the same positions: what
    /// they put behind a frame that they lost.
    pub written_by: Epoch,
}

impl Ring {
    /// # Errors
    /// [`RingError`] for a shape whose arithmetic could overflow or that holds nothing.
    pub fn validate(&self) -> Result<(), RingError> {
        let align = u64::from(self.align_bytes);
        let sound = self.align_bytes.is_power_of_two()
            && (512..=65_536).contains(&self.align_bytes)
            && (align..=1 << 30).contains(&self.segment_bytes)
            && self.segment_bytes % align == 0
            && (2..=1 << 16).contains(&self.segments);
        if sound { Ok(()) } else { Err(RingError(*self)) }
    }

    /// What it holds in all.
    #[must_use]
    pub fn capacity_bytes(&self) -> u64 {
        self.segment_bytes * u64::from(self.segments)
    }

    /// Where `position` lies.
    #[must_use]
    pub fn place(&self, position: u64) -> Place {
        let slot = position / self.segment_bytes % u64::from(self.segments);
        Place {
            position,
            slot: u32::try_from(slot).unwrap_or_default(), // less than `segments`
            offset: position % self.segment_bytes,
        }
    }

    /// The segment that `position` lies in, as this owner wrote it.
    #[must_use]
    pub fn segment(&self, position: u64, written_by: Epoch) -> Segment {
        let place = self.place(position - position % self.segment_bytes);
        Segment { place, bytes: self.segment_bytes, written_by }
    }

    /// The first position of the segment after the one `position` lies in; `position` itself when
    /// it is the first of its segment.
    #[must_use]
    pub fn next_segment(&self, position: u64) -> u64 {
        position.div_ceil(self.segment_bytes) * self.segment_bytes
    }

    /// Where a frame of `length` bytes goes when the log ends at `position`: frames do not cross
    /// segments.
    pub(crate) fn fit(&self, position: u64, length: u64) -> u64 {
        if position % self.segment_bytes + length <= self.segment_bytes {
            position
        } else {
            self.next_segment(position)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RING: Ring = Ring { segment_bytes: 4096, segments: 3, align_bytes: 512 };

    #[test]
    fn a_segment_begins_with_its_slot() {
        for (position, start, slot) in
            [(0, 0, 0), (4095, 0, 0), (4096, 4096, 1), (20_000, 16384, 1)]
        {
            let place = Place { position: start, slot, offset: 0 };
            let expected = Segment { place, bytes: 4096, written_by: Epoch(7) };
            assert_eq!(RING.segment(position, Epoch(7)), expected, "{position}");
        }
    }

    #[test]
    fn shapes_are_checked() {
        assert!(RING.validate().is_ok());
        for wrong in [
            Ring { align_bytes: 500, ..RING },
            Ring { align_bytes: 256, ..RING },
            Ring { segment_bytes: 0, ..RING },
            Ring { segment_bytes: 4097, ..RING },
            Ring { segment_bytes: 1 << 31, ..RING },
            Ring { segments: 1, ..RING },
        ] {
            assert!(wrong.validate().is_err(), "{wrong:?}");
        }
    }
}
