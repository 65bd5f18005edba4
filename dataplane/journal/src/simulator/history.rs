//! What was written, and whether a volume is a prefix of it: the checker (INV-1).

use std::time::Duration;

use crate::extent::span::Span;

/// Compared at once.
const GRAIN: usize = 512;

#[derive(Debug, Clone)]
pub(super) struct Op {
    pub(super) span: Span,
    /// What the span becomes; zeros for zeroes, discards and what a resize cuts off.
    pub(super) bytes: Vec<u8>,
    /// The batch that carries it.
    pub(super) sequence: u64,
}

/// An acknowledged flush: when, and how many operations it covers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ack {
    pub(super) at: Duration,
    pub(super) covers: usize,
}

/// All operations since the last recovery.
#[derive(Debug)]
pub(super) struct History {
    base: Vec<u8>,
    current: Vec<u8>,
    ops: Vec<Op>,
    pub(super) acks: Vec<Ack>,
}

fn range(span: Span) -> std::ops::Range<usize> {
    usize::try_from(span.start()).unwrap()..usize::try_from(span.end()).unwrap()
}

impl History {
    pub(super) fn new(size: usize) -> Self {
        Self { base: vec![0; size], current: vec![0; size], ops: Vec::new(), acks: Vec::new() }
    }

    /// What the volume holds now, as its user sees it.
    pub(super) fn current(&self) -> &[u8] {
        &self.current
    }

    pub(super) fn bytes(&self, span: Span) -> &[u8] {
        &self.current[range(span)]
    }

    pub(super) fn len(&self) -> usize {
        self.ops.len()
    }

    pub(super) fn push(&mut self, op: Op) {
        self.current[range(op.span)].copy_from_slice(&op.bytes);
        self.ops.push(op);
    }

    /// Whether one of the operations from `since` on touches `span`.
    pub(super) fn changed_since(&self, since: usize, span: Span) -> bool {
        self.ops.iter().skip(since).any(|op| op.span.overlaps(span))
    }

    /// How many operations are in batches up to `sequence`.
    pub(super) fn through(&self, sequence: u64) -> usize {
        self.ops.partition_point(|op| op.sequence <= sequence)
    }

    /// How many operations the acknowledged flushes cover.
    pub(super) fn acknowledged(&self) -> usize {
        self.acks.iter().map(|ack| ack.covers).max().unwrap_or(0)
    }

    /// The longest prefix that `volume` is. It must hold `required` operations.
    pub(super) fn check(&self, volume: &[u8], required: usize) -> Result<usize, String> {
        let mut model = self.base.clone();
        let differs = |model: &[u8], grain: usize| {
            let at = grain * GRAIN..(grain + 1) * GRAIN;
            model[at.clone()] != volume[at]
        };
        let mut wrong: Vec<bool> =
            (0..volume.len() / GRAIN).map(|grain| differs(&model, grain)).collect();
        let mut count = wrong.iter().filter(|wrong| **wrong).count();
        let mut longest = (count == 0).then_some(0);
        let mut nearest = (count, 0);
        for (number, op) in self.ops.iter().enumerate() {
            let at = range(op.span);
            model[at.clone()].copy_from_slice(&op.bytes);
            let touched = at.start / GRAIN..at.end.div_ceil(GRAIN);
            for (grain, wrong) in wrong.iter_mut().enumerate().take(touched.end).skip(touched.start)
            {
                let now = differs(&model, grain);
                count = count + usize::from(now) - usize::from(*wrong);
                *wrong = now;
            }
            if count == 0 {
                longest = Some(number + 1);
            }
            nearest = nearest.min((count, number + 1));
        }
        match longest {
            Some(length) if length >= required => Ok(length),
            Some(length) => Err(format!(
                "the volume is the prefix of {length} operations, {required} were promised, of {}",
                self.ops.len()
            )),
            None => Err(format!(
                "the volume is no prefix of its history: nearest is {} of {} operations with {} \
                 wrong blocks; {required} were promised",
                nearest.1,
                self.ops.len(),
                nearest.0
            )),
        }
    }

    /// Acknowledged work that a prefix of `length` lost, in time.
    pub(super) fn lost(&self, length: usize) -> Duration {
        let lost = || self.acks.iter().filter(|ack| ack.covers > length).map(|ack| ack.at);
        lost().max().unwrap_or_default().saturating_sub(lost().min().unwrap_or_default())
    }

    /// Go on from what was recovered.
    pub(super) fn restart(&mut self, volume: &[u8]) {
        self.base.copy_from_slice(volume);
        self.current.copy_from_slice(volume);
        self.ops.clear();
        self.acks.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn op(start: u64, fill: u8, length: usize, sequence: u64) -> Op {
        let span = Span::new(start, u64::try_from(length).unwrap()).unwrap();
        Op { span, bytes: vec![fill; length], sequence }
    }

    #[test]
    fn it_tells_prefixes_from_mixtures() {
        let mut history = History::new(2048);
        history.push(op(0, 1, 600, 1));
        history.push(op(500, 2, 600, 1));
        history.push(op(0, 3, 600, 2));
        let volume = |pieces: &[(usize, u8, usize)]| {
            let mut volume = vec![0; 2048];
            for (at, fill, length) in pieces {
                volume[*at..at + length].fill(*fill);
            }
            volume
        };
        assert_eq!(history.check(&volume(&[]), 0), Ok(0));
        assert_eq!(history.check(&volume(&[(0, 1, 600)]), 1), Ok(1));
        assert_eq!(history.check(&volume(&[(0, 1, 600), (500, 2, 600)]), 1), Ok(2));
        let all = [(0, 1, 600), (500, 2, 600), (0, 3, 600)];
        assert_eq!(history.check(&volume(&all), 3), Ok(3));
        assert!(history.check(&volume(&all[..2]), 3).unwrap_err().contains("promised"));
        let mixed = [(0, 3, 600)];
        assert!(history.check(&volume(&mixed), 0).unwrap_err().contains("no prefix"));
        assert_eq!((history.through(1), history.through(2)), (2, 3));
    }
}
