//! The memory that a request carries data in.

use std::ops::{Deref, DerefMut};

use crate::error::LimitError;

/// The most that one read or write may carry: 16 MiB. FUSE sends at most 1 MiB at a time.
pub const MAX_TRANSFER_BYTES: usize = 16 << 20;

/// What a buffer's bytes begin at a multiple of: one page, so that a request of one page touches
/// one page where the kernel copies or pins it. (An allocator's large blocks begin 16 bytes late.)
const ALIGNMENT_BYTES: usize = 4096;

/// Memory of fixed capacity, of which the first `len()` bytes are in use.
///
/// It travels with its request and comes back with the outcome, so a front end allocates its
/// buffers once. Its bytes keep their address for its whole life: a ring of the kernel or a
/// call into librbd may point at them.
#[derive(Debug)]
pub struct Buffer {
    bytes: Box<[u8]>,
    /// What lies before the first byte of the buffer, for its alignment.
    skipped_bytes: usize,
    capacity_bytes: usize,
    used_bytes: usize,
}

impl Buffer {
    /// A buffer of zeros, all in use, that begins at a page's start.
    ///
    /// # Errors
    /// [`LimitError::Buffer`] past [`MAX_TRANSFER_BYTES`].
    pub fn zeroed(capacity_bytes: usize) -> Result<Self, LimitError> {
        let used_bytes = within(capacity_bytes, MAX_TRANSFER_BYTES)?;
        let bytes = vec![0; used_bytes + ALIGNMENT_BYTES].into_boxed_slice();
        let skipped_bytes = bytes.as_ptr().align_offset(ALIGNMENT_BYTES).min(ALIGNMENT_BYTES);
        Ok(Self { bytes, skipped_bytes, capacity_bytes: used_bytes, used_bytes })
    }

    /// The most it can hold, in bytes.
    #[must_use]
    pub fn capacity_bytes(&self) -> usize {
        self.capacity_bytes
    }

    /// Put the first `used_bytes` in use; bytes that come into use keep what they last held.
    ///
    /// # Errors
    /// [`LimitError::Buffer`] past the capacity; the buffer is as before.
    pub fn set_len(&mut self, used_bytes: usize) -> Result<(), LimitError> {
        self.used_bytes = within(used_bytes, self.capacity_bytes)?;
        Ok(())
    }
}

fn within(bytes: usize, limit_bytes: usize) -> Result<usize, LimitError> {
    if bytes > limit_bytes { Err(LimitError::Buffer { bytes, limit_bytes }) } else { Ok(bytes) }
}

impl TryFrom<Vec<u8>> for Buffer {
    type Error = LimitError;

    fn try_from(bytes: Vec<u8>) -> Result<Self, LimitError> {
        let used_bytes = within(bytes.len(), MAX_TRANSFER_BYTES)?;
        let bytes = bytes.into_boxed_slice();
        Ok(Self { bytes, skipped_bytes: 0, capacity_bytes: used_bytes, used_bytes })
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes.get(self.skipped_bytes..self.skipped_bytes + self.used_bytes).unwrap_or_default()
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        let used = self.skipped_bytes..self.skipped_bytes + self.used_bytes;
        self.bytes.get_mut(used).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capacity_is_fixed_and_the_bytes_stay_where_they_are() {
        let mut buffer = Buffer::try_from(vec![7; 4096]).unwrap();
        let address = buffer.as_ptr();
        buffer.set_len(16).unwrap();
        assert_eq!((buffer.len(), buffer.capacity_bytes()), (16, 4096));
        assert!(buffer.set_len(4097).is_err());
        buffer.set_len(4096).unwrap();
        let moved = Box::new(buffer);
        assert_eq!(moved.as_ptr(), address);
        assert!(moved.iter().all(|byte| *byte == 7));
    }

    #[test]
    fn a_buffer_made_for_transfers_is_zeros_from_a_page_on() {
        for capacity_bytes in [0, 1, 4096, 5000, 1 << 20] {
            let buffer = Buffer::zeroed(capacity_bytes).unwrap();
            assert_eq!((buffer.len(), buffer.capacity_bytes()), (capacity_bytes, capacity_bytes));
            assert_eq!(buffer.as_ptr().align_offset(4096), 0, "{capacity_bytes}");
            assert!(buffer.iter().all(|byte| *byte == 0));
        }
    }

    #[test]
    fn one_transfer_has_a_limit() {
        assert!(Buffer::zeroed(MAX_TRANSFER_BYTES).is_ok());
        assert!(Buffer::zeroed(MAX_TRANSFER_BYTES + 1).is_err());
    }
}
