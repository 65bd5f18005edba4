//! What the threads of the shell are given to do, and how they tell the journal what came of it.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use grampus_blockdev::{CompletionSink, Outcome, Token};
use grampus_journal::{Change, Event, Failure, Frame, Owner, Place, Record, Span};

use crate::engine::Engine;
use crate::error::failure_of;

/// For the journal thread: into the cluster.
#[derive(Debug)]
pub(crate) enum Outbound {
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

/// The duty to tell the journal what came of something. Dropped, it tells a failure: whoever loses
/// a call must not leave flushes waiting.
#[derive(Debug)]
pub(crate) struct Reply {
    engine: Option<Arc<Engine>>,
    asked: Asked,
}

impl Reply {
    pub(crate) fn new(engine: &Arc<Engine>, asked: Asked) -> Self {
        Self { engine: Some(Arc::clone(engine)), asked }
    }

    pub(crate) fn answer(mut self, result: Result<(), Failure>) {
        self.tell(result);
    }

    fn tell(&mut self, result: Result<(), Failure>) {
        if let Some(engine) = self.engine.take() {
            engine.event(self.asked.answered(result));
        }
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        self.tell(Err(Failure::Io));
    }
}

/// Where the image's answers come back.
#[derive(Debug)]
pub(crate) struct ImageSink {
    pub(crate) engine: Arc<Engine>,
    pub(crate) asked: Asked,
}

impl CompletionSink for ImageSink {
    fn complete(&self, _token: Token, outcome: Outcome) {
        let result = outcome.result.map_err(|error| failure_of(&error));
        drop(outcome.buffer); // before the lock: a megabyte is given back to the system
        self.engine.event(self.asked.answered(result));
    }
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
