//! Which operation comes next: decided from a random sequence alone.

use std::fmt;
use std::ops::Range;

use crate::random::Random;
use crate::target::Alignment;

const PAGE_BYTES: u64 = 4096;

/// What to do with a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Read, and compare with the model.
    Read,
    /// Write random bytes.
    Write,
    /// Punch a hole.
    PunchHole,
    /// Zero, keeping the space.
    ZeroRange,
    /// Discard (block devices).
    Discard,
    /// Make everything durable.
    Sync,
}

/// One operation; the range of a [`Kind::Sync`] is empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation {
    /// What to do.
    pub kind: Kind,
    /// Where, in bytes of the target.
    pub at: u64,
    /// How much, in bytes.
    pub count: u64,
    /// The seed of the bytes that a write writes.
    pub fill: u64,
}

impl Operation {
    /// The range that the operation touches.
    #[must_use]
    pub fn range(&self) -> Range<u64> {
        self.at..self.at + self.count
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.kind == Kind::Sync {
            return write!(to, "sync");
        }
        let name = match self.kind {
            Kind::Read => "read",
            Kind::Write => "write",
            Kind::PunchHole => "punch-hole",
            Kind::ZeroRange => "zero-range",
            Kind::Discard => "discard",
            Kind::Sync => "sync",
        };
        write!(to, "{name} {:#x}..{:#x} ({} bytes)", self.at, self.at + self.count, self.count)
    }
}

/// What a worker may do.
#[derive(Debug, Clone)]
pub struct Bounds {
    /// The bytes that are its own, at multiples of the stripe alignment.
    pub range: Range<u64>,
    /// What its operations are multiples of.
    pub alignment: Alignment,
    /// The longest operation.
    pub max_transfer_bytes: u64,
    /// Whether discards are asked for.
    pub has_discard: bool,
}

/// The next operation of a worker.
#[must_use]
pub fn decide_operation(random: &mut Random, bounds: &Bounds) -> Operation {
    // Out of 100. Changes outnumber reads: every change is read back by the checker too.
    let kind = match random.below(100) {
        0..30 => Kind::Read,
        30..38 => Kind::PunchHole,
        38..46 => Kind::ZeroRange,
        46..50 if bounds.has_discard => Kind::Discard,
        46..94 => Kind::Write,
        _ => Kind::Sync,
    };
    let fill = random.next_u64();
    if kind == Kind::Sync {
        return Operation { kind, at: bounds.range.start, count: 0, fill };
    }
    let align = match kind {
        Kind::Read | Kind::Write | Kind::Sync => bounds.alignment.io_bytes,
        Kind::PunchHole | Kind::ZeroRange | Kind::Discard => bounds.alignment.range_bytes,
    };
    let (at, count) = decide_range(random, &bounds.range, align, bounds.max_transfer_bytes);
    Operation { kind, at, count, fill }
}

/// A range within `within` of at least one and at most `max_bytes` bytes, in multiples of `align`.
pub fn decide_range(
    random: &mut Random,
    within: &Range<u64>,
    align: u64,
    max_bytes: u64,
) -> (u64, u64) {
    let length = within.end - within.start;
    // Few bytes, one page, some pages, and anything: each size finds faults of its own.
    let limit = match random.below(4) {
        0 => 64 * align,
        1 => PAGE_BYTES,
        2 => 4 * PAGE_BYTES,
        _ => max_bytes,
    };
    let units = (limit.min(max_bytes).min(length) / align).max(1);
    let count = (1 + random.below(units)) * align;
    let last = length - count.min(length);
    let wanted = match random.below(8) {
        0 => 0,
        1 => last,
        // Just before, at, or just after the edge of a page.
        2 | 3 => (random.below(last + 1) / PAGE_BYTES * PAGE_BYTES + random.below(3) * align)
            .saturating_sub(align)
            .min(last),
        _ => random.below(last + 1),
    };
    // The stripe begins at a multiple of the alignment, so rounding down keeps inside it.
    (within.start + wanted / align * align, count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_keep_inside_their_stripe_and_their_alignment() {
        let cases = [(1, 1, 0..10_000), (1, 512, 8192..40_960), (4096, 4096, 4096..1 << 20)];
        for (io_bytes, range_bytes, range) in cases {
            let alignment = Alignment { io_bytes, range_bytes, stripe_bytes: range_bytes };
            let bounds = Bounds {
                range: range.clone(),
                alignment,
                max_transfer_bytes: 128 << 10,
                has_discard: true,
            };
            let mut random = Random::new(5);
            let mut unaligned = 0;
            for _ in 0..5000 {
                let operation = decide_operation(&mut random, &bounds);
                if operation.kind == Kind::Sync {
                    continue;
                }
                let align = match operation.kind {
                    Kind::Read | Kind::Write => io_bytes,
                    _ => range_bytes,
                };
                assert!(operation.count > 0 && operation.count <= 128 << 10, "{operation}");
                assert!(range.start <= operation.at, "{operation}");
                assert!(operation.range().end <= range.end, "{operation}");
                assert_eq!((operation.at % align, operation.count % align), (0, 0), "{operation}");
                unaligned += u32::from(operation.at % 512 != 0);
            }
            assert_eq!(unaligned > 0, io_bytes == 1);
        }
    }

    #[test]
    fn every_kind_comes_and_discard_only_where_it_is_known() {
        let alignment = Alignment { io_bytes: 1, range_bytes: 1, stripe_bytes: 1 };
        for has_discard in [false, true] {
            let range = 0..65536;
            let bounds = Bounds { range, alignment, max_transfer_bytes: 8192, has_discard };
            let mut random = Random::new(9);
            let kinds: Vec<Kind> =
                (0..1000).map(|_| decide_operation(&mut random, &bounds).kind).collect();
            for kind in [Kind::Read, Kind::Write, Kind::PunchHole, Kind::ZeroRange, Kind::Sync] {
                assert!(kinds.contains(&kind), "{kind:?}");
            }
            assert_eq!(kinds.contains(&Kind::Discard), has_discard);
        }
    }
}
