//! Bytes of a volume that follow one another.

use std::fmt;

use grampus_blockdev::{ByteRange, MAX_DEVICE_BYTES};

/// From one byte up to, not including, another. Its ends stay below `2 *` [`MAX_DEVICE_BYTES`], so
/// that arithmetic on them cannot overflow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Span {
    start: u64,
    end: u64,
}

impl Span {
    /// `length` bytes from `start` on; None past [`MAX_DEVICE_BYTES`].
    #[must_use]
    pub fn new(start: u64, length: u64) -> Option<Self> {
        if start > MAX_DEVICE_BYTES || length > MAX_DEVICE_BYTES {
            return None;
        }
        Some(Self { start, end: start + length })
    }

    /// From `start` to `end`, two places that are valid already; empty when they are out of order.
    pub(crate) fn between(start: u64, end: u64) -> Self {
        Self { start, end: end.max(start) }
    }

    /// The first byte.
    #[must_use]
    pub fn start(self) -> u64 {
        self.start
    }

    /// The byte after the last.
    #[must_use]
    pub fn end(self) -> u64 {
        self.end
    }

    /// How many bytes.
    #[must_use]
    pub fn length(self) -> u64 {
        self.end - self.start
    }

    /// Whether it holds no byte.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.end == self.start
    }

    /// The bytes in both; None when there are none.
    #[must_use]
    pub fn intersection(self, other: Self) -> Option<Self> {
        let (start, end) = (self.start.max(other.start), self.end.min(other.end));
        (start < end).then_some(Self { start, end })
    }

    /// Whether a byte is in both.
    #[must_use]
    pub fn overlaps(self, other: Self) -> bool {
        self.intersection(other).is_some()
    }
}

impl From<ByteRange> for Span {
    fn from(range: ByteRange) -> Self {
        Self { start: range.offset.bytes(), end: range.end_bytes() }
    }
}

impl fmt::Display for Span {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "bytes {}..{}", self.start, self.end)
    }
}
