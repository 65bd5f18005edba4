//! Places on a device. Each type states its limit, so a value that exists is valid.

use std::fmt;

use crate::buffer::Buffer;
use crate::limits::{LimitError, MAX_DEVICE_BYTES, within_limit};

/// A place on a device, in bytes from its start: 0 to [`MAX_DEVICE_BYTES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Offset(u64);

/// A number of bytes on a device: 0 to [`MAX_DEVICE_BYTES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Length(u64);

impl Offset {
    /// The start of the device.
    pub const ZERO: Self = Self(0);

    /// # Errors
    /// [`LimitError::TooLarge`] past [`MAX_DEVICE_BYTES`].
    pub fn new(bytes: u64) -> Result<Self, LimitError> {
        within_limit(bytes).map(Self)
    }

    /// The offset in bytes.
    #[must_use]
    pub fn bytes(self) -> u64 {
        self.0
    }
}

impl Length {
    /// # Errors
    /// [`LimitError::TooLarge`] past [`MAX_DEVICE_BYTES`].
    pub fn new(bytes: u64) -> Result<Self, LimitError> {
        within_limit(bytes).map(Self)
    }

    /// How much `buffer` carries.
    #[must_use]
    pub fn of(buffer: &Buffer) -> Self {
        // A buffer holds at most 16 MiB, so the conversion cannot fail on any platform.
        Self(u64::try_from(buffer.len()).unwrap_or(MAX_DEVICE_BYTES))
    }

    /// The length in bytes.
    #[must_use]
    pub fn bytes(self) -> u64 {
        self.0
    }
}

/// Bytes of a device that follow one another; may be empty, may lie past a device's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ByteRange {
    /// The first byte.
    pub offset: Offset,
    /// How many bytes.
    pub length: Length,
}

impl ByteRange {
    /// The byte after the last one, at most twice [`MAX_DEVICE_BYTES`].
    #[must_use]
    pub fn end_bytes(self) -> u64 {
        self.offset.0 + self.length.0
    }

    /// Whether it holds no byte.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.length.0 == 0
    }
}

impl fmt::Display for ByteRange {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "bytes {}..{}", self.offset.0, self.end_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_and_lengths_end_at_the_limit_and_add_up_without_overflow() {
        assert_eq!(
            Offset::new(MAX_DEVICE_BYTES + 1),
            Err(LimitError::TooLarge { bytes: (1 << 60) + 1 })
        );
        assert!(Length::new(u64::MAX).is_err());
        let range = ByteRange {
            offset: Offset::new(MAX_DEVICE_BYTES).unwrap(),
            length: Length::new(MAX_DEVICE_BYTES).unwrap(),
        };
        assert!(i64::try_from(range.end_bytes()).is_ok());
    }
}
