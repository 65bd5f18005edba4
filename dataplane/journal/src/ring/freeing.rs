//! Which slots keep small frames that nobody needs any more, and when they are freed of them.
//!
//! A small frame is a key-value pair of its slot's object: its OSDs keep it in their database until
//! it is removed. A segment that comes round again would do that, but in an idle volume nothing
//! comes round. So a slot is freed once everything small in it lies before the durable tail.

use std::collections::BTreeMap;

use crate::format::ring::{Place, Ring};

/// How many slots are freed at a time. One operation removes up to a segment of pairs, and shares
/// the OSDs with the appends that somebody waits for.
const MAX_IN_FLIGHT: usize = 2;

#[derive(Debug)]
pub(crate) struct Freeing {
    /// By slot: where its newest small frame lies.
    newest: BTreeMap<u32, u64>,
    in_flight: BTreeMap<u32, u64>,
    /// Something may be due.
    look: bool,
}

impl Freeing {
    /// Of a journal that was opened: any slot may have what earlier owners left before `tail`.
    pub(crate) fn new(ring: Ring, tail: u64) -> Self {
        let left = tail.checked_sub(1);
        let newest = left.into_iter().flat_map(|left| (0..ring.segments).map(move |it| (it, left)));
        Self { newest: newest.collect(), in_flight: BTreeMap::new(), look: true }
    }

    /// A small frame goes there.
    pub(crate) fn put(&mut self, place: Place) {
        self.newest.insert(place.slot, place.position);
    }

    /// The record moved on.
    pub(crate) fn look(&mut self) {
        self.look = true;
    }

    /// A slot to free of what is before `tail`. One that holds small frames behind it, too, is left
    /// for later: it would be freed of some of them again and again.
    pub(crate) fn next(&mut self, tail: u64) -> Option<u32> {
        if !self.look || self.in_flight.len() >= MAX_IN_FLIGHT {
            return None;
        }
        let due = |(slot, newest): (&u32, &u64)| {
            (*newest < tail && !self.in_flight.contains_key(slot)).then_some((*slot, *newest))
        };
        let Some((slot, newest)) = self.newest.iter().find_map(due) else {
            self.look = false;
            return None;
        };
        self.newest.remove(&slot);
        self.in_flight.insert(slot, newest);
        Some(slot)
    }

    /// An answer came. What failed is tried again when the record moves on.
    pub(crate) fn freed(&mut self, slot: u32, succeeded: bool) {
        let Some(newest) = self.in_flight.remove(&slot) else { return };
        if !succeeded {
            self.newest.entry(slot).or_insert(newest);
        }
    }

    /// Whether more is to be freed now.
    pub(crate) fn is_busy(&self) -> bool {
        self.look || !self.in_flight.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RING: Ring = Ring { segment_bytes: 64 << 10, segments: 4, align_bytes: 4096 };

    fn due(freeing: &mut Freeing, tail: u64) -> Vec<u32> {
        std::iter::from_fn(|| freeing.next(tail)).collect()
    }

    #[test]
    fn a_slot_is_freed_once_the_tail_is_past_all_that_is_small_in_it() {
        let mut freeing = Freeing::new(RING, 0);
        assert_eq!((due(&mut freeing, 0), freeing.is_busy()), (vec![], false), "a new journal");
        freeing.put(RING.place(0));
        freeing.put(RING.place(8192));
        freeing.put(RING.place(64 << 10));
        freeing.look();
        assert_eq!(due(&mut freeing, 8192), [], "half of it is needed");
        freeing.look();
        assert_eq!(due(&mut freeing, 12288), [0]);
        assert_eq!(due(&mut freeing, 12288), []);
        freeing.freed(0, true);
        freeing.look();
        assert_eq!(due(&mut freeing, 128 << 10), [1]);
        freeing.freed(1, true);
        assert!(!freeing.is_busy());
    }

    #[test]
    fn of_what_earlier_owners_left_all_slots_are_freed_a_few_at_a_time() {
        let mut freeing = Freeing::new(RING, 300 << 10);
        // The next round begins in one of them meanwhile.
        freeing.put(RING.place(320 << 10));
        assert_eq!(due(&mut freeing, 300 << 10), [0, 2]);
        freeing.freed(2, true);
        freeing.freed(0, true);
        assert_eq!(due(&mut freeing, 300 << 10), [3]);
        freeing.freed(3, true);
        assert!(!freeing.is_busy(), "slot 1 waits for the tail");
    }

    #[test]
    fn what_failed_is_due_when_the_record_moves_on() {
        let mut freeing = Freeing::new(RING, 0);
        freeing.put(RING.place(4096));
        freeing.look();
        assert_eq!(due(&mut freeing, 8192), [0]);
        freeing.freed(0, false);
        freeing.freed(0, false);
        assert_eq!((due(&mut freeing, 8192), freeing.is_busy()), (vec![], false));
        freeing.look();
        assert_eq!(due(&mut freeing, 16384), [0]);
        // A newer one that came while it was under way counts.
        freeing.put(RING.place(256 << 10));
        freeing.freed(0, false);
        freeing.look();
        assert_eq!(due(&mut freeing, 16384), []);
        freeing.look();
        assert_eq!(due(&mut freeing, 260 << 10), [0]);
    }
}
