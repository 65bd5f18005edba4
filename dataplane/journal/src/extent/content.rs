//! What a range of the volume holds.

use std::fmt;
use std::sync::Arc;

use crate::extent::interval::Part;
use crate::extent::number::{narrow, wide};

/// Bytes that many places can hold on to: copied once on the way in, then only counted.
#[derive(Clone)]
pub struct Payload {
    /// Apart from the count of its holders: with it, a page would not fit the allocator's block of
    /// a page's size, and an eighth of the next one would lie idle.
    backing: Arc<Box<[u8]>>,
    start: usize,
    length: usize,
}

impl Payload {
    /// A copy of `bytes`: the one copy that intake makes, since a front end wants its buffer back.
    #[must_use]
    pub fn copy_of(bytes: &[u8]) -> Self {
        Self { backing: Arc::new(Box::from(bytes)), start: 0, length: bytes.len() }
    }

    /// The bytes.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        self.backing.get(self.start..self.start + self.length).unwrap_or_default()
    }

    /// How many bytes.
    #[must_use]
    pub fn length_bytes(&self) -> u64 {
        wide(self.length)
    }

    /// `length` bytes from `from` on, clipped to what there is; shares the memory.
    #[must_use]
    pub fn slice(&self, from: u64, length: u64) -> Self {
        let from = narrow(from).min(self.length);
        let length = narrow(length).min(self.length - from);
        Self { backing: Arc::clone(&self.backing), start: self.start + from, length }
    }

    /// As `slice`, for keeping: a small rest of a large write gets memory of its own, so that what
    /// is held in memory is at most twice what is counted.
    fn keep(&self, from: u64, length: u64) -> Self {
        let slice = self.slice(from, length);
        if slice.length < slice.backing.len() / 2 { Self::copy_of(slice.as_slice()) } else { slice }
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Payload({} bytes)", self.length)
    }
}

/// So many bytes of zeros, or of discards, count as one of data. An object of 4 MiB counts as 64 KiB:
/// a journal of 256 MiB takes 4,096 of them, which a small cluster removes in some seconds. Were they
/// free, a large `fstrim` would let a snapshot wait for as long as all of it takes.
pub const ZEROS_PER_BYTE: u64 = 64;

/// What a range becomes.
#[derive(Debug, Clone)]
pub enum Content {
    /// These bytes, as many as the range has.
    Data(Payload),
    /// Zeros that keep their space provisioned.
    Zeros,
    /// Zeros whose space may be given back.
    Discard,
}

impl Content {
    /// The bytes it keeps in memory.
    #[must_use]
    pub fn payload_bytes(&self) -> u64 {
        match self {
            Self::Data(payload) => payload.length_bytes(),
            Self::Zeros | Self::Discard => 0,
        }
    }

    /// What `length` bytes of it count as in a journal: what they keep in memory, and zeros
    /// [`ZEROS_PER_BYTE`]th of their length, since the image takes time for them too.
    #[must_use]
    pub fn weight_bytes(&self, length: u64) -> u64 {
        match self {
            Self::Data(_) => length,
            Self::Zeros | Self::Discard => length / ZEROS_PER_BYTE,
        }
    }

    /// A part for a short look; see [`Payload::slice`].
    pub(crate) fn slice(&self, from: u64, length: u64) -> Self {
        match self {
            Self::Data(payload) => Self::Data(payload.slice(from, length)),
            Self::Zeros => Self::Zeros,
            Self::Discard => Self::Discard,
        }
    }

    /// Whether one change of the image may carry both.
    pub(crate) fn same_kind(&self, other: &Self) -> bool {
        matches!(
            (self, other),
            (Self::Data(_), Self::Data(_))
                | (Self::Zeros, Self::Zeros)
                | (Self::Discard, Self::Discard)
        )
    }
}

impl Part for Content {
    fn part(&self, from: u64, length: u64) -> Self {
        match self {
            Self::Data(payload) => Self::Data(payload.keep(from, length)),
            Self::Zeros => Self::Zeros,
            Self::Discard => Self::Discard,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_part_that_is_kept_does_not_hold_the_whole() {
        let payload = Payload::copy_of(&[7; 100]);
        assert_eq!(payload.keep(10, 20).backing.len(), 20);
        assert_eq!(payload.keep(10, 60).backing.len(), 100);
        assert_eq!(payload.slice(90, 60).as_slice(), [7; 10]);
        assert_eq!(payload.slice(101, 1).as_slice(), [0_u8; 0]);
    }
}
