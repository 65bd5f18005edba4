//! Which part of a log is used.

use crate::format::ring::{Place, Ring};

/// What is used of a ring.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LogSpace {
    pub(crate) ring: Ring,
    /// Nothing before it is needed, and a durable record says so.
    pub(crate) tail: u64,
    /// The end of the last frame.
    pub(crate) head: u64,
}

impl LogSpace {
    pub(crate) fn empty_at(ring: Ring, position: u64) -> Self {
        Self { ring, tail: position, head: position }
    }

    pub(crate) fn used_bytes(&self) -> u64 {
        self.head - self.tail
    }

    /// Room for a frame, or None until the tail moves on.
    pub(crate) fn reserve(&mut self, length: u64) -> Option<Place> {
        let start = self.ring.fit(self.head, length);
        if length > self.ring.segment_bytes
            || start + length > self.tail + self.ring.capacity_bytes()
        {
            return None;
        }
        self.head = start + length;
        // What lies before the tail may be written over, what lies behind it never.
        debug_assert!(self.tail <= start && self.used_bytes() <= self.ring.capacity_bytes());
        Some(self.ring.place(start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RING: Ring = Ring { segment_bytes: 4096, segments: 3, align_bytes: 512 };

    #[test]
    fn frames_do_not_cross_segments_and_never_reach_the_tail() {
        let mut space = LogSpace::empty_at(RING, 8192);
        let place = |position, slot, offset| Some(Place { position, slot, offset });
        assert_eq!(space.reserve(3072), place(8192, 2, 0));
        assert_eq!(space.reserve(1024), place(11264, 2, 3072));
        assert_eq!(space.reserve(3072), place(12288, 0, 0));
        assert_eq!(space.reserve(2048), place(16384, 1, 0));
        assert_eq!(space.reserve(4096), None, "slot 2 holds the tail");
        assert_eq!(space.reserve(2048), place(18432, 1, 2048));
        space.tail = 11264;
        assert_eq!(space.reserve(3072), place(20480, 2, 0));
        assert_eq!(space.reserve(512), None);
        assert_eq!(space.reserve(8192), None, "longer than a segment");
    }
}
