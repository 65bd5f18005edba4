//! A change on its way in: cut into pieces that the journal takes, parked while it takes none.

use grampus_blockdev::{Buffer, ByteRange, Completion, DeviceError, Durability, Length, Offset};
use grampus_journal::{Payload, Span, ZEROS_PER_BYTE};

use crate::waiting::Waiter;

/// What is to be changed.
#[derive(Debug)]
pub(crate) enum Change {
    Write { offset: Offset, buffer: Buffer, durability: Durability },
    Zero { span: Span, give_back: bool, durability: Durability },
}

/// As much of a change as the journal takes at once.
#[derive(Debug)]
pub(crate) enum Piece {
    Data { offset: Offset, payload: Payload },
    Zeros { span: Span, give_back: bool },
}

impl Piece {
    /// How long it is.
    pub(crate) fn length_bytes(&self) -> u64 {
        match self {
            Self::Data { payload, .. } => payload.length_bytes(),
            Self::Zeros { span, .. } => span.length(),
        }
    }
}

/// A change, how far it has come, and whom to answer.
#[derive(Debug)]
pub(crate) struct Intake {
    change: Change,
    completion: Completion,
    /// In bytes.
    taken: u64,
}

impl Intake {
    pub(crate) fn new(change: Change, completion: Completion) -> Self {
        Self { change, completion, taken: 0 }
    }

    /// What the next piece counts as in the journal.
    pub(crate) fn next_weight(&self, max_write_bytes: usize) -> u64 {
        let max_bytes = u64::try_from(max_write_bytes).unwrap_or(u64::MAX);
        let left = self.length_bytes().saturating_sub(self.taken);
        match &self.change {
            Change::Write { .. } => left.min(max_bytes),
            Change::Zero { .. } => left.min(longest_zeros(max_write_bytes)) / ZEROS_PER_BYTE,
        }
    }

    fn length_bytes(&self) -> u64 {
        match &self.change {
            Change::Write { buffer, .. } => u64::try_from(buffer.len()).unwrap_or(u64::MAX),
            Change::Zero { span, .. } => span.length(),
        }
    }

    /// The next piece: here the bytes of a write are copied, once. None for a place that no device
    /// has.
    pub(crate) fn piece(&self, max_write_bytes: usize) -> Option<Piece> {
        match &self.change {
            Change::Write { offset, buffer, .. } => {
                let taken = usize::try_from(self.taken).ok()?;
                let end = buffer.len().min(taken.saturating_add(max_write_bytes));
                let bytes = buffer.get(taken..end)?;
                let offset = Offset::new(offset.bytes().checked_add(self.taken)?).ok()?;
                Some(Piece::Data { offset, payload: Payload::copy_of(bytes) })
            }
            Change::Zero { span, give_back, .. } => {
                let start = span.start().checked_add(self.taken)?;
                let left = span.length().saturating_sub(self.taken);
                let span = Span::new(start, left.min(longest_zeros(max_write_bytes)))?;
                Some(Piece::Zeros { span, give_back: *give_back })
            }
        }
    }

    /// Whether nothing is left after a piece of this many bytes.
    pub(crate) fn ends_with(&self, piece_bytes: u64) -> bool {
        self.taken.saturating_add(piece_bytes) >= self.length_bytes()
    }

    /// Durability of its last piece. Batches become durable in order, so that one speaks for all.
    pub(crate) fn durability(&self) -> Durability {
        match &self.change {
            Change::Write { durability, .. } | Change::Zero { durability, .. } => *durability,
        }
    }

    /// A piece of this many bytes was taken.
    pub(crate) fn advance(&mut self, piece_bytes: u64) {
        self.taken = self.taken.saturating_add(piece_bytes);
    }

    /// Refuse it, since the volume ends at `size_bytes`.
    pub(crate) fn out_of_range(&self, size_bytes: u64) -> DeviceError {
        match range_of(&self.change) {
            Some(range) => DeviceError::OutOfRange { range, size_bytes },
            None => DeviceError::Abandoned,
        }
    }

    pub(crate) fn into_waiter(self) -> Waiter {
        let buffer = match self.change {
            Change::Write { buffer, .. } => Some(buffer),
            Change::Zero { .. } => None,
        };
        Waiter::Request { completion: self.completion, buffer }
    }
}

/// The longest piece of zeros: it weighs as much as the longest write.
fn longest_zeros(max_write_bytes: usize) -> u64 {
    u64::try_from(max_write_bytes).unwrap_or(u64::MAX).saturating_mul(ZEROS_PER_BYTE)
}

fn range_of(change: &Change) -> Option<ByteRange> {
    match change {
        Change::Write { offset, buffer, .. } => {
            Some(ByteRange { offset: *offset, length: Length::of(buffer) })
        }
        Change::Zero { span, .. } => Some(ByteRange {
            offset: Offset::new(span.start()).ok()?,
            length: Length::new(span.length()).ok()?,
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use grampus_blockdev::{CompletionSink, Outcome, Token};

    use super::*;

    struct Nobody;

    impl CompletionSink for Nobody {
        fn complete(&self, _token: Token, _outcome: Outcome) {}
    }

    /// As of an `fstrim`: what the image has to do for it counts, and comes in pieces.
    #[test]
    fn a_long_discard_is_taken_in_pieces_that_weigh_no_more_than_a_write() {
        const MAX_WRITE: usize = 1 << 20;
        let span = Span::new(4096, (150 << 20) + 512).unwrap();
        let change = Change::Zero { span, give_back: true, durability: Durability::OnFlush };
        let mut intake = Intake::new(change, Completion::new(Arc::new(Nobody), Token(1)));
        let (mut taken, mut weights) = (Vec::new(), Vec::new());
        loop {
            weights.push(intake.next_weight(MAX_WRITE));
            let Some(Piece::Zeros { span, give_back: true }) = intake.piece(MAX_WRITE) else {
                panic!("no piece of a discard");
            };
            taken.push((span.start(), span.length()));
            if intake.ends_with(span.length()) {
                break;
            }
            intake.advance(span.length());
        }
        let piece = 64 << 20;
        let rest = (22 << 20) + 512;
        assert_eq!(taken, [(4096, piece), (4096 + piece, piece), (4096 + 2 * piece, rest)]);
        assert_eq!(weights, [1 << 20, 1 << 20, rest / 64]);
    }
}
