//! What the threads of the shell are given to do.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use grampus_blockdev::{Buffer, ByteRange, Durability, Length, LimitError, Offset, Request};
use grampus_journal::{Change, Event, Failure, Frame, Owner, Place, Record, Span};

/// For the journal thread: into the cluster.
#[derive(Debug)]
pub(crate) enum ClusterWork {
    Append { frame: Frame, place: Place },
    Record { expected: Record, record: Record },
    FreeSlot { owner: Owner, slot: u32, before: u64 },
}

/// For the image thread.
#[derive(Debug)]
pub(crate) enum ImageWork {
    Apply { id: u64, span: Span, change: Change },
    Flush,
}

/// For a log thread.
#[derive(Debug)]
pub(crate) enum LogWork {
    Append { frame: Frame, place: Place },
    Record(Record),
}

/// Which question of the journal an answer belongs to.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Asked {
    Append(u64),
    AppendLocally(u64),
    Apply(u64),
    FlushImage,
    Record,
    RecordLocally,
    FreeSlot(u32),
}

impl Asked {
    pub(crate) fn answered(self, result: Result<(), Failure>) -> Event {
        match self {
            Self::Append(last) => Event::Appended { last, result },
            Self::AppendLocally(last) => Event::AppendedLocally { last, result },
            Self::Apply(id) => Event::Applied { id, result },
            Self::FlushImage => Event::ImageFlushed(result),
            Self::Record => Event::Recorded(result),
            Self::RecordLocally => Event::RecordedLocally(result),
            Self::FreeSlot(slot) => Event::SlotFreed { slot, result },
        }
    }
}

/// A change of the image as a request.
pub(crate) fn request_of(span: Span, change: &Change) -> Result<Request, LimitError> {
    let offset = Offset::new(span.start())?;
    let durability = Durability::OnFlush;
    let range = ByteRange { offset, length: Length::new(span.length())? };
    Ok(match change {
        Change::Data(payloads) => {
            let capacity = usize::try_from(span.length()).unwrap_or_default();
            let mut bytes = Vec::with_capacity(capacity);
            for payload in payloads {
                bytes.extend_from_slice(payload.as_slice());
            }
            Request::Write { offset, buffer: Buffer::try_from(bytes)?, durability }
        }
        Change::Zeros => Request::WriteZeroes { range, durability },
        Change::Discard => Request::Discard { range },
    })
}

/// Work for threads that do nothing else. Bounded by what the journal lets be in flight.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    state: Mutex<State<T>>,
    filled: Condvar,
}

#[derive(Debug)]
struct State<T> {
    items: VecDeque<T>,
    sleepers: usize,
    closed: bool,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        let state = State { items: VecDeque::new(), sleepers: 0, closed: false };
        Self { state: Mutex::new(state), filled: Condvar::new() }
    }
}

impl<T> Queue<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        // A list is right at every moment: poison means nothing.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn push_all(&self, items: Vec<T>) {
        if items.is_empty() {
            return;
        }
        let mut state = self.lock();
        if state.closed {
            return;
        }
        let wake = state.sleepers.min(items.len());
        state.items.extend(items);
        drop(state);
        for _ in 0..wake {
            self.filled.notify_one();
        }
    }

    /// The next item, once there is one; None when the queue was closed, whatever is left in it.
    pub(crate) fn pop(&self) -> Option<T> {
        let mut state = self.lock();
        loop {
            if state.closed {
                return None;
            }
            if let Some(item) = state.items.pop_front() {
                return Some(item);
            }
            state.sleepers += 1;
            state = self.filled.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.sleepers -= 1;
        }
    }

    /// Forget what nobody has begun.
    pub(crate) fn clear(&self) {
        let items = std::mem::take(&mut self.lock().items);
        drop(items); // without the lock
    }

    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.clear();
        self.filled.notify_all();
    }
}
