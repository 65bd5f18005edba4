//! What an entry's payload has touched of its memory, and what it keeps of it. Pure.

/// How often unused memory is given back, in seconds.
pub(crate) const SWEEP_INTERVAL_S: u64 = 1;
/// What an entry in use keeps: giving so little back and taking it again is not worth it. Pages of
/// a database and most writes of its log fit.
const KEPT_BYTES: usize = 64 << 10;

/// The memory of one payload, over periods that end with [`Footprint::end_period`].
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Footprint {
    touched_bytes: usize,
    /// Used in this period.
    is_used: bool,
    /// Used for more than is kept, in this period and in the last.
    is_long: bool,
    was_long: bool,
}

impl Footprint {
    /// The payload carries so many bytes now; by how many more bytes it is touched.
    pub(crate) fn note(&mut self, carried_bytes: usize) -> usize {
        self.is_used = true;
        self.is_long |= carried_bytes > KEPT_BYTES;
        let more = carried_bytes.saturating_sub(self.touched_bytes);
        self.touched_bytes += more;
        more
    }

    /// What to keep of a payload that is in use for a short request, if there is more that nothing
    /// has needed lately.
    pub(crate) fn shrink(&mut self) -> Option<usize> {
        let is_too_long = self.touched_bytes > KEPT_BYTES && !self.is_long && !self.was_long;
        is_too_long.then(|| {
            self.touched_bytes = KEPT_BYTES;
            KEPT_BYTES
        })
    }

    /// Begin another period; whether nothing has used the payload in the one that ends, and all of
    /// its memory can be given back.
    pub(crate) fn end_period(&mut self) -> bool {
        let is_idle = !self.is_used && self.touched_bytes > 0;
        if is_idle {
            self.touched_bytes = 0;
        }
        (self.is_used, self.was_long, self.is_long) = (false, self.is_long, false);
        is_idle
    }

    /// How much of the memory was touched.
    pub(crate) fn touched_bytes(&self) -> usize {
        self.touched_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_payload_is_given_back_and_one_in_use_is_not() {
        let mut footprint = Footprint::default();
        assert!(!footprint.end_period(), "never used");
        assert_eq!(footprint.note(16 << 10), 16 << 10);
        assert_eq!(footprint.note(4096), 0);
        assert!(!footprint.end_period(), "used a moment ago");
        assert!(footprint.end_period());
        assert_eq!(footprint.touched_bytes(), 0);
        assert!(!footprint.end_period(), "nothing is left");
        assert_eq!(footprint.note(0), 0);
        assert!(!footprint.end_period());
        assert!(!footprint.end_period(), "a flush touches nothing");
    }

    #[test]
    fn what_only_a_long_request_needed_is_given_back_two_periods_later() {
        let mut footprint = Footprint::default();
        footprint.note(1 << 20);
        assert_eq!(footprint.shrink(), None);
        for _ in 0..2 {
            footprint.note(16 << 10);
            assert_eq!(footprint.shrink(), None, "long ones may come at once");
            assert!(!footprint.end_period());
        }
        footprint.note(16 << 10);
        assert_eq!(footprint.shrink(), Some(KEPT_BYTES));
        assert_eq!((footprint.touched_bytes(), footprint.shrink()), (KEPT_BYTES, None));
        assert_eq!(footprint.note(1 << 20), (1 << 20) - KEPT_BYTES);
    }
}
