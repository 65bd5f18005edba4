//! Requests that own what they need, and the way their outcome comes back.

use std::fmt;
use std::sync::Arc;

use crate::buffer::Buffer;
use crate::error::DeviceError;
use crate::range::{ByteRange, Length, Offset};

/// When a change must be durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// By the end of the next flush.
    OnFlush,
    /// Before this request completes ("force unit access"). Says nothing of other changes.
    Fua,
}

/// What a device is asked to do. Offsets and lengths need no alignment.
#[derive(Debug)]
pub enum Request {
    /// Fill `buffer` with the bytes from `offset` on.
    Read {
        /// The first byte.
        offset: Offset,
        /// As long as what is read.
        buffer: Buffer,
    },
    /// Write `buffer` from `offset` on.
    Write {
        /// The first byte.
        offset: Offset,
        /// As long as what is written.
        buffer: Buffer,
        /// When it must be durable.
        durability: Durability,
    },
    /// Make the range read as zeros and keep its space provisioned where the device can.
    WriteZeroes {
        /// Of any length: not bounded by the transfer limit.
        range: ByteRange,
        /// When it must be durable.
        durability: Durability,
    },
    /// Make the range read as zeros and give its space back where the device can.
    Discard {
        /// Of any length: not bounded by the transfer limit.
        range: ByteRange,
    },
    /// Make every change durable that completed before this was submitted.
    Flush,
}

impl Request {
    /// The bytes it is about; None for a flush.
    #[must_use]
    pub fn range(&self) -> Option<ByteRange> {
        match self {
            Self::Read { offset, buffer } | Self::Write { offset, buffer, .. } => {
                Some(ByteRange { offset: *offset, length: Length::of(buffer) })
            }
            Self::WriteZeroes { range, .. } | Self::Discard { range } => Some(*range),
            Self::Flush => None,
        }
    }

    /// The buffer of a read or write, to give it back.
    #[must_use]
    pub fn into_buffer(self) -> Option<Buffer> {
        match self {
            Self::Read { buffer, .. } | Self::Write { buffer, .. } => Some(buffer),
            Self::WriteZeroes { .. } | Self::Discard { .. } | Self::Flush => None,
        }
    }
}

/// How a request ended.
#[derive(Debug)]
pub struct Outcome {
    /// Done wholly, or failed. There is no partial success.
    pub result: Result<(), DeviceError>,
    /// The buffer of a read or write, back whether it succeeded or not; a failed read leaves
    /// anything in it. None for other requests and for one that was abandoned.
    pub buffer: Option<Buffer>,
}

/// Chosen by who submits, to know its request again; the device never looks at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Token(pub u64);

/// Where outcomes arrive, such as the mailbox of one FUSE queue.
pub trait CompletionSink: Send + Sync {
    /// Take the outcome of the request that was submitted with `token`.
    ///
    /// Called on any thread: librbd's own, or the submitting one before `submit` returns. It
    /// must not block and must not submit; it hands the outcome to the thread that goes on.
    fn complete(&self, token: Token, outcome: Outcome);
}

/// The duty to answer one request exactly once (INV-9).
///
/// Dropped unanswered it answers [`DeviceError::Abandoned`], so that no front end waits for
/// ever. Making one allocates nothing.
pub struct Completion {
    sink: Option<Arc<dyn CompletionSink>>,
    token: Token,
}

impl Completion {
    /// A completion that answers to `sink`.
    #[must_use]
    pub fn new(sink: Arc<dyn CompletionSink>, token: Token) -> Self {
        Self { sink: Some(sink), token }
    }

    /// Answer.
    pub fn complete(mut self, outcome: Outcome) {
        self.answer(outcome);
    }

    fn answer(&mut self, outcome: Outcome) {
        if let Some(sink) = self.sink.take() {
            sink.complete(self.token, outcome);
        }
    }
}

impl Drop for Completion {
    fn drop(&mut self) {
        self.answer(Outcome { result: Err(DeviceError::Abandoned), buffer: None });
    }
}

impl fmt::Debug for Completion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Completion").field("token", &self.token).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[derive(Default)]
    struct Recorder(Mutex<Vec<(Token, bool)>>);

    impl CompletionSink for Recorder {
        fn complete(&self, token: Token, outcome: Outcome) {
            self.0.lock().unwrap().push((token, outcome.result.is_ok()));
        }
    }

    #[test]
    fn a_request_is_answered_exactly_once_whatever_the_device_does() {
        let recorder = Arc::new(Recorder::default());
        let completion = |token| Completion::new(Arc::<Recorder>::clone(&recorder), Token(token));
        completion(1).complete(Outcome { result: Ok(()), buffer: None });
        drop(completion(2));
        assert_eq!(*recorder.0.lock().unwrap(), [(Token(1), true), (Token(2), false)]);
    }
}
