//! The shape of a device.

use crate::error::DeviceError;
use crate::limits::{LimitError, within_limit};
use crate::range::ByteRange;

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

/// The shape of a device: at least one block, whole blocks, at most [`crate::MAX_DEVICE_BYTES`].
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
    use crate::limits::MAX_DEVICE_BYTES;

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
}
