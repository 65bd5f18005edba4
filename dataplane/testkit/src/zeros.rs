//! Every alignment of a zeroed range, one after the other.

use std::io;

use serde::Serialize;
use thiserror::Error;

use crate::aligned::AlignedBuffer;
use crate::exercise::part_mut;
use crate::random::Random;
use crate::target::Target;

/// Ranges begin and end around these places: sectors, pages, and the 64 KiB under which librbd's
/// own discard skips what it is given (`rbd_discard_granularity_bytes`).
const EDGES_BYTES: [u64; 6] = [0, 512, 4096, 8192, 65_536, 131_072];
/// What each range is cut from, with room on both sides.
const WINDOW_BYTES: u64 = 256 << 10;

/// What was tried.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct SweepSummary {
    /// Ranges zeroed and compared.
    pub ranges: u64,
}

/// Why a sweep ended early.
#[derive(Debug, Error)]
pub enum SweepError {
    /// The target has no room for one window.
    #[error("the target ends before {WINDOW_BYTES} bytes after the offset")]
    TooSmall,
    /// The target failed.
    #[error("{what} failed: {source}")]
    Io {
        /// What was asked of it.
        what: String,
        /// Its error.
        source: io::Error,
    },
    /// A byte inside is not zero, or one outside has changed.
    #[error("after {what}: byte {at:#x} is {found:#04x} and should be {expected:#04x}")]
    Wrong {
        /// What was asked of it.
        what: String,
        /// The byte's place on the target.
        at: u64,
        /// What is there.
        found: u8,
        /// What should be there.
        expected: u8,
    },
}

type Zero = fn(&dyn Target, u64, u64) -> io::Result<()>;

/// Zero ranges with all pairs of edges in each way that the target has, in the window at
/// `offset_bytes`, and compare the whole window after each.
///
/// # Errors
/// [`SweepError`], the first one met.
pub fn sweep_zeros(target: &dyn Target, offset_bytes: u64) -> Result<SweepSummary, SweepError> {
    let failed = |what: &str, source| SweepError::Io { what: what.to_owned(), source };
    let size = target.size_bytes().map_err(|source| failed("asking the size", source))?;
    if size < offset_bytes.saturating_add(WINDOW_BYTES) {
        return Err(SweepError::TooSmall);
    }
    let mut ways: Vec<(&str, Zero)> = vec![
        ("punch-hole", |target, at, count| target.punch_hole(at, count)),
        ("zero-range", |target, at, count| target.zero_range(at, count)),
    ];
    if target.has_discard() {
        ways.push(("discard", |target, at, count| target.discard(at, count)));
    }
    let window = usize::try_from(WINDOW_BYTES).unwrap_or_default();
    let mut pattern = AlignedBuffer::zeroed(window);
    Random::new(0).fill(&mut pattern);
    for byte in pattern.iter_mut() {
        *byte |= 1; // never zero, so that what stays is told from what was zeroed
    }
    let mut found = AlignedBuffer::zeroed(window);
    let mut summary = SweepSummary::default();
    for (number, (from, to)) in ranges(target.alignment().range_bytes).into_iter().enumerate() {
        // Each range in one way, in turn: a way meets each kind of edge often enough.
        let Some((way, zero)) = ways.get(number % ways.len()) else { continue };
        target.write_at(&pattern, offset_bytes).map_err(|source| failed("a write", source))?;
        let (start, end) = (offset_bytes + from, offset_bytes + to);
        let what = format!("{way} {start:#x}..{end:#x}");
        zero(target, start, to - from).map_err(|source| failed(&what, source))?;
        target.read_at(&mut found, offset_bytes).map_err(|source| failed("a read", source))?;
        let mut expected = pattern.to_vec();
        part_mut(&mut expected, from, to).fill(0);
        // Whole slices first: looking at each byte is slow, and rarely needed.
        if *expected != *found {
            let places = expected.iter().zip(found.iter()).zip(offset_bytes..);
            for ((&expected, &found), at) in places {
                if expected != found {
                    return Err(SweepError::Wrong { what, at, found, expected });
                }
            }
        }
        summary.ranges += 1;
    }
    Ok(summary)
}

/// All pairs of places just before, at and just after an edge, in multiples of `align`.
fn ranges(align: u64) -> Vec<(u64, u64)> {
    let mut places: Vec<u64> = EDGES_BYTES
        .iter()
        .flat_map(|edge| [edge.saturating_sub(align), *edge, edge + align])
        .map(|place| place / align * align)
        .collect();
    places.sort_unstable();
    places.dedup();
    let pairs = |from: u64| places.iter().filter(move |&&to| to > from).map(move |&to| (from, to));
    places.iter().flat_map(|&from| pairs(from)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faulty::{Fault, FaultyTarget};

    #[test]
    fn a_right_target_passes() {
        for align in [1, 512, 4096] {
            let target = FaultyTarget::new(300 << 10, align, None);
            let summary = sweep_zeros(&target, 8192).expect("passes");
            assert!(summary.ranges > 30, "{align}: {summary:?}");
        }
    }

    #[test]
    fn a_byte_that_stays_and_one_too_many_are_found() {
        for fault in [Fault::ShortZero, Fault::LongZero, Fault::SkippedDiscard] {
            let target = FaultyTarget::new(300 << 10, 1, Some((fault, 7)));
            let error = sweep_zeros(&target, 4096).expect_err("finds it");
            assert!(matches!(error, SweepError::Wrong { .. }), "{fault:?}: {error}");
            assert_eq!(target.struck(), 1);
        }
    }

    #[test]
    fn a_short_target_is_refused() {
        let target = FaultyTarget::new(256 << 10, 1, None);
        assert!(matches!(sweep_zeros(&target, 1), Err(SweepError::TooSmall)));
    }
}
