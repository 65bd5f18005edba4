//! What a part of the target must hold, and what was done to it last.

use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;

use super::operation::{Kind, Operation};
use crate::random::Random;

/// Operations remembered per stripe: enough to see what touched a wrong byte.
const REMEMBERED: usize = 400;
/// Operations shown with a mismatch.
const SHOWN: usize = 24;
/// Bytes shown of what was expected and what was found.
const EXCERPT_BYTES: usize = 16;

/// The model of one worker's part.
#[derive(Debug)]
pub(crate) struct Stripe {
    worker: usize,
    start: u64,
    bytes: Vec<u8>,
    done: u64,
    log: VecDeque<(u64, Operation)>,
}

/// Bytes that differ from the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// The first wrong byte of the target.
    pub at: u64,
    /// How many bytes of the read were wrong.
    pub wrong_bytes: usize,
    /// What should have been there, from `at` on.
    pub expected: Vec<u8>,
    /// What was there, from `at` on.
    pub found: Vec<u8>,
    /// Which read found it, and the stripe's last operations, oldest first.
    pub story: Vec<String>,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(to, "{} wrong bytes, the first at {:#x}", self.wrong_bytes, self.at)?;
        writeln!(to, "  expected {:02x?}", self.expected)?;
        write!(to, "  found    {:02x?}", self.found)?;
        for line in &self.story {
            write!(to, "\n  {line}")?;
        }
        Ok(())
    }
}

/// The part of `bytes` from `from` to `to`, empty when it is not within.
fn part(bytes: &[u8], from: u64, to: u64) -> &[u8] {
    let (Ok(from), Ok(to)) = (usize::try_from(from), usize::try_from(to)) else {
        return &[];
    };
    bytes.get(from..to).unwrap_or_default()
}

/// As [`part`], to be changed.
pub(crate) fn part_mut(bytes: &mut [u8], from: u64, to: u64) -> &mut [u8] {
    let (Ok(from), Ok(to)) = (usize::try_from(from), usize::try_from(to)) else {
        return &mut [];
    };
    bytes.get_mut(from..to).unwrap_or_default()
}

impl Stripe {
    /// A stripe that holds `bytes` from `start` on.
    pub(crate) fn new(worker: usize, start: u64, bytes: Vec<u8>) -> Self {
        Self { worker, start, bytes, done: 0, log: VecDeque::new() }
    }

    pub(crate) fn range(&self) -> Range<u64> {
        // No platform has a usize wider than 64 bits.
        self.start..self.start + u64::try_from(self.bytes.len()).unwrap_or_default()
    }

    /// What `operation` makes of the model; what a write writes is made in `payload`.
    pub(crate) fn apply(&mut self, operation: &Operation, payload: &mut [u8]) {
        let from = operation.at - self.start;
        let model = part_mut(&mut self.bytes, from, from + operation.count);
        match operation.kind {
            Kind::Read | Kind::Sync => {}
            Kind::Write => {
                Random::new(operation.fill).fill(payload);
                for (to, from) in model.iter_mut().zip(payload.iter()) {
                    *to = *from;
                }
            }
            Kind::PunchHole | Kind::ZeroRange | Kind::Discard => model.fill(0),
        }
        if self.log.len() == REMEMBERED {
            self.log.pop_front();
        }
        self.log.push_back((self.done, *operation));
        self.done += 1;
    }

    /// Compare `found`, read from `at` on (a place of the target), where it meets this stripe.
    pub(crate) fn compare(&self, reader: &str, at: u64, found: &[u8]) -> Result<(), Box<Mismatch>> {
        let own = self.range();
        let end = at + u64::try_from(found.len()).unwrap_or_default();
        let (from, to) = (at.max(own.start), end.min(own.end));
        if from >= to {
            return Ok(());
        }
        let expected = part(&self.bytes, from - own.start, to - own.start);
        let found = part(found, from - at, to - at);
        if expected == found {
            return Ok(());
        }
        Err(Box::new(self.describe(reader, from, expected, found)))
    }

    fn describe(&self, reader: &str, from: u64, expected: &[u8], found: &[u8]) -> Mismatch {
        let differs = || expected.iter().zip(found).map(|(left, right)| left != right);
        let first = differs().position(|is_wrong| is_wrong).unwrap_or_default();
        let excerpt =
            |bytes: &[u8]| bytes.iter().skip(first).take(EXCERPT_BYTES).copied().collect();
        let at = from + u64::try_from(first).unwrap_or_default();
        let touching =
            |operation: &Operation| operation.kind == Kind::Sync || operation.range().contains(&at);
        let mut story = vec![
            format!("found by {reader}"),
            format!("worker {} did last, at this byte or to all of it:", self.worker),
        ];
        let relevant: Vec<_> = self.log.iter().filter(|(_, done)| touching(done)).collect();
        let skipped = relevant.len().saturating_sub(SHOWN);
        story.extend(
            relevant.iter().skip(skipped).map(|(number, done)| format!("  #{number} {done}")),
        );
        Mismatch {
            at,
            wrong_bytes: differs().filter(|&is_wrong| is_wrong).count(),
            expected: excerpt(expected),
            found: excerpt(found),
            story,
        }
    }
}
