//! Places and sizes on a device. Each type states its limit, so a value that exists is valid.

use std::fmt;

use crate::buffer::Buffer;
use crate::error::{DeviceError, LimitError};

/// The largest device, offset and length: 1 EiB.
///
/// An offset and a length together stay far below `i64::MAX`, the largest `off_t`, so adding
/// them cannot overflow.
pub const MAX_DEVICE_BYTES: u64 = 1 << 60;

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

fn within_limit(bytes: u64) -> Result<u64, LimitError> {
    if bytes > MAX_DEVICE_BYTES { Err(LimitError::TooLarge { bytes }) } else { Ok(bytes) }
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

/// The logical block size: 512, 1024, 2048 or 4096 bytes.
///
/// A loop device accepts no other on a machine with 4 KiB pages. It is what a front end
/// announces; requests need not be aligned to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BlockSize(u32);

impl BlockSize {
    /// The smallest, which every file system can use.
    pub const B512: Self = Self(512);
    /// One page on most machines, and a divisor of every database page.
    pub const B4096: Self = Self(4096);

    /// # Errors
    /// [`LimitError::BlockSize`] for any other value.
    pub fn new(bytes: u32) -> Result<Self, LimitError> {
        if bytes.is_power_of_two() && (512..=4096).contains(&bytes) {
            Ok(Self(bytes))
        } else {
            Err(LimitError::BlockSize { bytes })
        }
    }

    /// The block size in bytes.
    #[must_use]
    pub fn bytes(self) -> u32 {
        self.0
    }
}

/// The shape of a device: at least one block, whole blocks, at most [`MAX_DEVICE_BYTES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    size_bytes: u64,
    block_size: BlockSize,
}

impl Geometry {
    /// # Errors
    /// [`LimitError::TooLarge`], or [`LimitError::PartialBlocks`] when `size_bytes` is zero or
    /// no multiple of `block_size`.
    pub fn new(size_bytes: u64, block_size: BlockSize) -> Result<Self, LimitError> {
        within_limit(size_bytes)?;
        if size_bytes == 0 || size_bytes % u64::from(block_size.0) != 0 {
            return Err(LimitError::PartialBlocks { size_bytes, block_bytes: block_size.0 });
        }
        Ok(Self { size_bytes, block_size })
    }

    /// The device's size in bytes.
    #[must_use]
    pub fn size_bytes(self) -> u64 {
        self.size_bytes
    }

    /// The logical block size to announce.
    #[must_use]
    pub fn block_size(self) -> BlockSize {
        self.block_size
    }

    /// Refuse a range that does not lie wholly on the device.
    ///
    /// An empty range may stand at the end of the device, not past it.
    ///
    /// # Errors
    /// [`DeviceError::OutOfRange`].
    pub fn require(self, range: ByteRange) -> Result<(), DeviceError> {
        if range.end_bytes() > self.size_bytes {
            return Err(DeviceError::OutOfRange { range, size_bytes: self.size_bytes });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn block_sizes_are_those_a_loop_device_accepts() {
        for (bytes, valid) in [
            (0, false),
            (256, false),
            (511, false),
            (512, true),
            (513, false),
            (1024, true),
            (1536, false),
            (2048, true),
            (4096, true),
            (8192, false),
            (u32::MAX, false),
        ] {
            assert_eq!(BlockSize::new(bytes).is_ok(), valid, "{bytes}");
        }
    }

    #[test]
    fn a_device_is_whole_blocks_within_the_limit() {
        for (size_bytes, valid) in [
            (0, false),
            (512, false),
            (4095, false),
            (4096, true),
            (4097, false),
            (12288, true),
            (MAX_DEVICE_BYTES, true),
            (MAX_DEVICE_BYTES + 4096, false),
            (u64::MAX, false),
        ] {
            assert_eq!(Geometry::new(size_bytes, BlockSize::B4096).is_ok(), valid, "{size_bytes}");
        }
    }

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
