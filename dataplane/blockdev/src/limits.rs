//! How much there may be of anything.

use thiserror::Error;

/// The most that one read or write may carry: 16 MiB. FUSE sends at most 1 MiB at a time.
pub const MAX_TRANSFER_BYTES: usize = 16 << 20;

/// The largest device, offset and length: 1 EiB.
///
/// An offset and a length together stay far below `i64::MAX`, the largest `off_t`, so adding
/// them cannot overflow.
pub const MAX_DEVICE_BYTES: u64 = 1 << 60;

/// A value outside the limits that its type states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum LimitError {
    /// An offset, length or size past [`MAX_DEVICE_BYTES`].
    #[error("{bytes} bytes is past the limit of {MAX_DEVICE_BYTES} bytes")]
    TooLarge {
        /// The value refused.
        bytes: u64,
    },
    /// No block size that a loop device accepts.
    #[error("{bytes} bytes is no block size: use 512, 1024, 2048 or 4096")]
    BlockSize {
        /// The value refused.
        bytes: u32,
    },
    /// A device size that is zero or ends inside a block.
    #[error("a device of {size_bytes} bytes does not consist of whole blocks of {block_bytes}")]
    PartialBlocks {
        /// The size refused.
        size_bytes: u64,
        /// The block size it was measured against.
        block_bytes: u32,
    },
    /// A buffer longer than [`MAX_TRANSFER_BYTES`] or than its own capacity.
    #[error("a buffer of {bytes} bytes is more than {limit_bytes} (at most {MAX_TRANSFER_BYTES})")]
    Buffer {
        /// The length refused.
        bytes: usize,
        /// What it may be here.
        limit_bytes: usize,
    },
    /// More than a memory device may take of the machine's memory.
    #[error("a memory device of {size_bytes} bytes is more than {limit_bytes}")]
    Memory {
        /// The size refused.
        size_bytes: u64,
        /// The largest memory device.
        limit_bytes: u64,
    },
}

/// `bytes`, if that is within [`MAX_DEVICE_BYTES`].
pub(crate) fn within_limit(bytes: u64) -> Result<u64, LimitError> {
    if bytes > MAX_DEVICE_BYTES { Err(LimitError::TooLarge { bytes }) } else { Ok(bytes) }
}
