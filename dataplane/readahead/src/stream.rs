//! Which read begins a bigger one, and what of it may answer others. No I/O.

use std::ops::Range;

use grampus_blockdev::Buffer;

/// What is asked for instead of a small read, in bytes: the records of some hundred commits.
pub(crate) const AHEAD_BYTES: u64 = 256 << 10;
/// Bigger reads are worth a request of their own, in bytes.
const SMALL_BYTES: u64 = 64 << 10;
/// So many small reads must have come one behind the other: a B-tree's descent now and then begins
/// two pages side by side.
const IN_A_ROW: u32 = 4;

/// What to do about a read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    /// The bytes are in the window, from here on.
    Copy(usize),
    /// Ask for this range, which begins with what was asked for.
    Ahead(Range<u64>),
    /// Send it on as it is.
    Forward,
}

/// How many places are remembered where reads ended: others come between those of a log.
const HEADS: usize = 4;

/// Where a read ended, and how many small ones led there one behind the other.
#[derive(Debug, Default, Clone, Copy)]
struct Head {
    end: u64,
    in_a_row: u32,
}

/// The reads of a moment ago, and what one of them brought.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    /// The one that was met last comes last.
    heads: [Head; HEADS],
    window: Option<(u64, Buffer)>,
    fetching: Option<Range<u64>>,
    /// What is being fetched was changed since it was asked for.
    is_stale: bool,
    changes_in_flight: usize,
}

impl Stream {
    /// Decide about a read of `range`, on a device of `size_bytes`.
    pub(crate) fn read(&mut self, range: &Range<u64>, size_bytes: u64) -> Plan {
        let length = range.end.saturating_sub(range.start);
        let window = self.window_range();
        let continues_window =
            !window.is_empty() && (window.start..=window.end).contains(&range.start);
        let in_a_row = self.note(range);
        if continues_window && range.end <= window.end {
            return usize::try_from(range.start - window.start).map_or(Plan::Forward, Plan::Copy);
        }
        let ahead = range.start..range.start.saturating_add(AHEAD_BYTES).min(size_bytes);
        let is_log = continues_window || in_a_row >= IN_A_ROW;
        // Old bytes could be read beside a change that is on its way, and be kept.
        let is_quiet = self.changes_in_flight == 0 && self.fetching.is_none();
        if is_log && is_quiet && length <= SMALL_BYTES && range.end < ahead.end {
            self.fetching = Some(ahead.clone());
            self.is_stale = false;
            return Plan::Ahead(ahead);
        }
        Plan::Forward
    }

    /// The window's bytes from `at` on; none when it is not there any more.
    pub(crate) fn bytes(&self, at: usize) -> &[u8] {
        self.window.as_ref().and_then(|(_, bytes)| bytes.get(at..)).unwrap_or_default()
    }

    /// What was asked for is here, or failed.
    pub(crate) fn fetched(&mut self, bytes: Option<Buffer>) {
        let range = self.fetching.take();
        if let (Some(range), Some(bytes), false) = (range, bytes, self.is_stale) {
            self.window = Some((range.start, bytes));
        }
    }

    /// A change of `range` is about to be sent.
    pub(crate) fn change_begins(&mut self, range: &Range<u64>) {
        self.changes_in_flight = self.changes_in_flight.saturating_add(1);
        if overlap(&self.window_range(), range) {
            self.window = None;
        }
        if self.fetching.as_ref().is_some_and(|fetched| overlap(fetched, range)) {
            self.is_stale = true;
        }
    }

    /// It was answered.
    pub(crate) fn change_ends(&mut self) {
        self.changes_in_flight = self.changes_in_flight.saturating_sub(1);
    }

    /// Keep nothing, now or of what is being fetched.
    pub(crate) fn forget(&mut self) {
        self.window = None;
        self.is_stale = true;
    }

    /// How many reads, with this one, came one behind the other.
    fn note(&mut self, range: &Range<u64>) -> u32 {
        let met = self.heads.iter().position(|head| head.in_a_row > 0 && head.end == range.start);
        let before = met.and_then(|at| self.heads.get(at)).map_or(0, |head| head.in_a_row);
        let now = Head { end: range.end, in_a_row: before.saturating_add(1) };
        // It comes last; the one that was met goes, or else the one that was met longest ago.
        if let Some(later) = self.heads.get_mut(met.unwrap_or(0)..) {
            later.rotate_left(1);
        }
        if let Some(last) = self.heads.last_mut() {
            *last = now;
        }
        now.in_a_row
    }

    fn window_range(&self) -> Range<u64> {
        let Some((start, bytes)) = &self.window else { return 0..0 };
        *start..start.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX))
    }
}

fn overlap(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start.max(other.start) < one.end.min(other.end)
}
