//! The memory that a request carries data in.

use std::ops::{Deref, DerefMut};

use crate::limits::{LimitError, MAX_TRANSFER_BYTES};
use crate::mapping::Mapping;

/// What a buffer's bytes begin at a multiple of: one page, so that a request of one page touches
/// one page where the kernel copies or pins it. (An allocator's large blocks begin 16 bytes late.)
const ALIGNMENT_BYTES: usize = 4096;

/// Buffers of zeros from this length on are pages of the kernel's, which take what was touched of
/// them. Below it a call into the kernel would cost more than the memory is worth.
const MAPPED_FROM_BYTES: usize = 128 << 10;

/// Memory of fixed capacity, of which the first `len()` bytes are in use.
///
/// It travels with its request and comes back with the outcome, so a front end allocates its
/// buffers once. Its bytes keep their address for its whole life: a ring of the kernel or a
/// call into librbd may point at them.
#[derive(Debug)]
pub struct Buffer {
    bytes: Memory,
    /// What lies before the first byte of the buffer, for its alignment.
    skipped_bytes: usize,
    capacity_bytes: usize,
    used_bytes: usize,
}

/// Whose memory it is.
#[derive(Debug)]
enum Memory {
    Allocated(Box<[u8]>),
    Mapped(Mapping),
}

impl Buffer {
    /// A buffer of zeros, all in use, that begins at a page's start. A long one takes no memory
    /// before it is used.
    ///
    /// # Errors
    /// [`LimitError::Buffer`] past [`MAX_TRANSFER_BYTES`].
    pub fn zeroed(capacity_bytes: usize) -> Result<Self, LimitError> {
        let used_bytes = within(capacity_bytes, MAX_TRANSFER_BYTES)?;
        let mapped = (used_bytes >= MAPPED_FROM_BYTES).then(|| Mapping::new(used_bytes));
        if let Some(Ok(mapping)) = mapped {
            let bytes = Memory::Mapped(mapping);
            return Ok(Self { bytes, skipped_bytes: 0, capacity_bytes: used_bytes, used_bytes });
        }
        // Short, or the kernel refuses another mapping.
        let bytes = vec![0; used_bytes + ALIGNMENT_BYTES].into_boxed_slice();
        let skipped_bytes = bytes.as_ptr().align_offset(ALIGNMENT_BYTES).min(ALIGNMENT_BYTES);
        let bytes = Memory::Allocated(bytes);
        Ok(Self { bytes, skipped_bytes, capacity_bytes: used_bytes, used_bytes })
    }

    /// Give the memory behind the first `kept_bytes` of the capacity back to the kernel, where it
    /// came from there; it reads as zeros then. The bytes keep their address.
    pub fn release_behind(&mut self, kept_bytes: usize) {
        if let Memory::Mapped(mapping) = &mut self.bytes {
            mapping.release_behind(kept_bytes);
        }
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
        let bytes = Memory::Allocated(bytes.into_boxed_slice());
        Ok(Self { bytes, skipped_bytes: 0, capacity_bytes: used_bytes, used_bytes })
    }
}

impl Deref for Memory {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Allocated(bytes) => bytes,
            Self::Mapped(mapping) => mapping,
        }
    }
}

impl DerefMut for Memory {
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Allocated(bytes) => bytes,
            Self::Mapped(mapping) => mapping,
        }
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

    /// The memory of this process, in bytes, that is not of a file.
    fn resident_bytes() -> usize {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10
    }

    #[test]
    fn a_long_buffer_takes_what_was_touched_and_gives_it_back() {
        const BUFFERS: usize = 64;
        const CAPACITY_BYTES: usize = 1 << 20;
        let before = resident_bytes();
        let mut buffers: Vec<_> =
            (0..BUFFERS).map(|_| Buffer::zeroed(CAPACITY_BYTES).unwrap()).collect();
        let quarter = BUFFERS * CAPACITY_BYTES / 4; // other tests run beside this one
        assert!(resident_bytes() < before + quarter, "nothing is touched yet");
        for buffer in &mut buffers {
            buffer.fill(7);
        }
        assert!(resident_bytes() > before + 3 * quarter);
        for buffer in &mut buffers {
            let address = buffer.as_ptr();
            buffer.release_behind(10_000);
            assert_eq!(buffer.as_ptr(), address);
            assert!(buffer[..12_288].iter().all(|byte| *byte == 7), "whole pages stay");
            assert!(buffer[65_536..].iter().all(|byte| *byte == 0));
            buffer.release_behind(10_000); // reading touched them again
            buffer[CAPACITY_BYTES - 1] = 9;
            assert_eq!(buffer[CAPACITY_BYTES - 1], 9);
        }
        assert!(resident_bytes() < before + quarter);
    }

    #[test]
    fn memory_of_an_allocator_stays_as_it_is() {
        let mut buffer = Buffer::try_from(vec![7; 256 << 10]).unwrap();
        buffer.release_behind(0);
        assert!(buffer.iter().all(|byte| *byte == 7));
    }

    #[test]
    fn one_transfer_has_a_limit() {
        assert!(Buffer::zeroed(MAX_TRANSFER_BYTES).is_ok());
        assert!(Buffer::zeroed(MAX_TRANSFER_BYTES + 1).is_err());
    }
}
