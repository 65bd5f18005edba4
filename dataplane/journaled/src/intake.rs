//! A change on its way in: cut into pieces that the journal takes, parked while it takes none.

use grampus_blockdev::{Buffer, ByteRange, Completion, DeviceError, Durability, Length, Offset};
use grampus_journal::{Payload, Span};

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
    /// What of it is held in memory.
    pub(crate) fn payload_bytes(&self) -> u64 {
        match self {
            Self::Data { payload, .. } => payload.length_bytes(),
            Self::Zeros { .. } => 0,
        }
    }
}

/// A change, how far it has come, and whom to answer.
#[derive(Debug)]
pub(crate) struct Intake {
    change: Change,
    completion: Completion,
    /// Of a write, in bytes.
    taken: usize,
}

impl Intake {
    pub(crate) fn new(change: Change, completion: Completion) -> Self {
        Self { change, completion, taken: 0 }
    }

    /// The length of the next piece, as far as it is held in memory.
    pub(crate) fn next_bytes(&self, max_write_bytes: usize) -> u64 {
        match &self.change {
            Change::Write { buffer, .. } => {
                let left = buffer.len().saturating_sub(self.taken);
                u64::try_from(left.min(max_write_bytes)).unwrap_or(u64::MAX)
            }
            Change::Zero { .. } => 0,
        }
    }

    /// The next piece: here the bytes of a write are copied, once. None for a place that no device
    /// has.
    pub(crate) fn piece(&self, max_write_bytes: usize) -> Option<Piece> {
        match &self.change {
            Change::Write { offset, buffer, .. } => {
                let end = buffer.len().min(self.taken.saturating_add(max_write_bytes));
                let bytes = buffer.get(self.taken..end)?;
                let skipped = u64::try_from(self.taken).ok()?;
                let offset = Offset::new(offset.bytes().checked_add(skipped)?).ok()?;
                Some(Piece::Data { offset, payload: Payload::copy_of(bytes) })
            }
            Change::Zero { span, give_back, .. } => {
                Some(Piece::Zeros { span: *span, give_back: *give_back })
            }
        }
    }

    /// Whether nothing is left after a piece of this many bytes.
    pub(crate) fn ends_with(&self, piece_bytes: u64) -> bool {
        match &self.change {
            Change::Write { buffer, .. } => {
                let piece = usize::try_from(piece_bytes).unwrap_or(usize::MAX);
                self.taken.saturating_add(piece) >= buffer.len()
            }
            Change::Zero { .. } => true,
        }
    }

    /// Durability of its last piece. Batches become durable in order, so that one speaks for all.
    pub(crate) fn durability(&self) -> Durability {
        match &self.change {
            Change::Write { durability, .. } | Change::Zero { durability, .. } => *durability,
        }
    }

    /// A piece of this many bytes was taken.
    pub(crate) fn advance(&mut self, piece_bytes: u64) {
        self.taken = self.taken.saturating_add(usize::try_from(piece_bytes).unwrap_or(usize::MAX));
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
