//! The memory that a request carries data in.

use std::ops::{Deref, DerefMut};

use crate::error::LimitError;

/// The most that one read or write may carry: 16 MiB. FUSE sends at most 1 MiB at a time.
pub const MAX_TRANSFER_BYTES: usize = 16 << 20;

/// Memory of fixed capacity, of which the first `len()` bytes are in use.
///
/// It travels with its request and comes back with the outcome, so a front end allocates its
/// buffers once. Its bytes keep their address for its whole life: a ring of the kernel or a
/// call into librbd may point at them.
#[derive(Debug)]
pub struct Buffer {
    bytes: Box<[u8]>,
    used_bytes: usize,
}

impl Buffer {
    /// A buffer of zeros, all in use.
    ///
    /// # Errors
    /// [`LimitError::Buffer`] past [`MAX_TRANSFER_BYTES`].
    pub fn zeroed(capacity_bytes: usize) -> Result<Self, LimitError> {
        Self::try_from(within(capacity_bytes, MAX_TRANSFER_BYTES).map(|bytes| vec![0; bytes])?)
    }

    /// The most it can hold, in bytes.
    #[must_use]
    pub fn capacity_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Put the first `used_bytes` in use; bytes that come into use keep what they last held.
    ///
    /// # Errors
    /// [`LimitError::Buffer`] past the capacity; the buffer is as before.
    pub fn set_len(&mut self, used_bytes: usize) -> Result<(), LimitError> {
        self.used_bytes = within(used_bytes, self.bytes.len())?;
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
        Ok(Self { bytes: bytes.into_boxed_slice(), used_bytes })
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes.get(..self.used_bytes).unwrap_or_default()
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.bytes.get_mut(..self.used_bytes).unwrap_or_default()
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
    fn one_transfer_has_a_limit() {
        assert!(Buffer::zeroed(MAX_TRANSFER_BYTES).is_ok());
        assert!(Buffer::zeroed(MAX_TRANSFER_BYTES + 1).is_err());
    }
}
