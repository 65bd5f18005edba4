//! Memory that direct I/O accepts.

use std::ops::{Deref, DerefMut};

/// What the strictest devices ask of an address.
const ALIGNMENT_BYTES: usize = 4096;

/// Zeroed bytes whose first one stands on a page.
#[derive(Debug)]
pub struct AlignedBuffer {
    storage: Vec<u8>,
    start: usize,
    length: usize,
}

impl AlignedBuffer {
    /// A buffer of `length` bytes.
    #[must_use]
    pub fn zeroed(length: usize) -> Self {
        // A vector that is never grown never moves, so what is aligned here stays aligned.
        let storage = vec![0; length.saturating_add(ALIGNMENT_BYTES)];
        let start = storage.as_ptr().align_offset(ALIGNMENT_BYTES);
        Self { storage, start, length }
    }

    /// The first `length` bytes (or all there are).
    #[must_use]
    pub fn head(&self, length: usize) -> &[u8] {
        self.get(..length).unwrap_or(self)
    }

    /// The first `length` bytes (or all there are), to be changed.
    pub fn head_mut(&mut self, length: usize) -> &mut [u8] {
        let length = length.min(self.length);
        self.get_mut(..length).unwrap_or_default()
    }
}

impl Deref for AlignedBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.storage.get(self.start..self.start + self.length).unwrap_or_default()
    }
}

impl DerefMut for AlignedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.storage.get_mut(self.start..self.start + self.length).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_aligned_and_as_long_as_asked_for() {
        for length in [0, 1, 4095, 4096, 100_000] {
            let mut buffer = AlignedBuffer::zeroed(length);
            assert_eq!(buffer.len(), length);
            assert_eq!(buffer.as_ptr().align_offset(ALIGNMENT_BYTES), 0);
            assert_eq!(buffer.head(length + 1).len(), length);
            assert_eq!(buffer.head_mut(length / 2).len(), length / 2);
        }
    }
}
