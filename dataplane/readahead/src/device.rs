//! The device.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use grampus_blockdev::{
    BlockDevice, Buffer, ByteRange, Completion, CompletionSink, DeviceError, Geometry, Length,
    Offset, Outcome, Request, Token,
};

use crate::stream::{Plan, Stream};

/// A device that reads ahead for a while, and then passes everything on.
#[derive(Debug)]
pub struct ReadAhead {
    shared: Arc<Shared>,
}

struct Shared {
    below: Arc<dyn BlockDevice>,
    ends: Instant,
    is_over: AtomicBool,
    stream: Mutex<Stream>,
    answered: AtomicU64,
    fetched: AtomicU64,
}

impl ReadAhead {
    /// A device in front of `below`, which nobody else may change meanwhile, that reads ahead for so
    /// long from now on: until a file system on it is mounted.
    #[must_use]
    pub fn new(below: Arc<dyn BlockDevice>, active_for: Duration) -> Self {
        let shared = Shared {
            below,
            ends: Instant::now() + active_for,
            is_over: AtomicBool::new(false),
            stream: Mutex::default(),
            answered: AtomicU64::new(0),
            fetched: AtomicU64::new(0),
        };
        Self { shared: Arc::new(shared) }
    }

    fn read(&self, offset: Offset, mut buffer: Buffer, completion: Completion) {
        let shared = &self.shared;
        let asked = positions(ByteRange { offset, length: Length::of(&buffer) });
        let size_bytes = shared.below.geometry().size_bytes();
        let mut stream = shared.stream();
        match stream.read(&asked, size_bytes) {
            Plan::Copy(at) => {
                let is_whole = copy(stream.bytes(at), &mut buffer);
                drop(stream);
                if is_whole {
                    shared.answered.fetch_add(1, Ordering::Relaxed);
                    return completion.complete(Outcome { result: Ok(()), buffer: Some(buffer) });
                }
                shared.below.submit(Request::Read { offset, buffer }, completion);
            }
            Plan::Ahead(range) => {
                drop(stream);
                self.fetch(&range, Asked { offset, buffer, completion });
            }
            Plan::Forward => {
                drop(stream);
                shared.below.submit(Request::Read { offset, buffer }, completion);
            }
        }
    }

    fn fetch(&self, range: &Range<u64>, asked: Asked) {
        let shared = &self.shared;
        let length = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
        let Ok(buffer) = Buffer::zeroed(length) else {
            shared.stream().fetched(None);
            return asked.send(&shared.below);
        };
        let offset = asked.offset;
        shared.fetched.fetch_add(1, Ordering::Relaxed);
        let fetch = Fetch { shared: Arc::clone(shared), asked: Mutex::new(Some(asked)) };
        let completion = Completion::new(Arc::new(fetch), Token(0));
        shared.below.submit(Request::Read { offset, buffer }, completion);
    }

    fn change(&self, range: ByteRange, request: Request, completion: Completion) {
        let shared = Arc::clone(&self.shared);
        shared.stream().change_begins(&positions(range));
        let change = Change { shared, upper: Mutex::new(Some(completion)) };
        self.shared.below.submit(request, Completion::new(Arc::new(change), Token(0)));
    }
}

impl BlockDevice for ReadAhead {
    fn geometry(&self) -> Geometry {
        self.shared.below.geometry()
    }

    fn submit(&self, request: Request, completion: Completion) {
        let below = &self.shared.below;
        if self.shared.is_over() {
            return below.submit(request, completion);
        }
        let Some(range) = request.range() else { return below.submit(request, completion) };
        if range.is_empty() || below.geometry().require(range).is_err() {
            // The device below says what is wrong; nothing is changed.
            return below.submit(request, completion);
        }
        match request {
            Request::Read { offset, buffer } => self.read(offset, buffer, completion),
            change => self.change(range, change, completion),
        }
    }
}

impl Shared {
    // Nothing that panics runs under this lock: poison means nothing.
    fn stream(&self) -> MutexGuard<'_, Stream> {
        self.stream.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_over(&self) -> bool {
        if self.is_over.load(Ordering::Acquire) {
            return true;
        }
        let is_over = Instant::now() >= self.ends;
        if is_over {
            self.end();
        }
        is_over
    }

    /// From now on nothing is kept: changes are no longer noticed.
    fn end(&self) {
        let mut stream = self.stream();
        // Under the lock: who has it finds either what was kept, or that nothing may be.
        if !self.is_over.swap(true, Ordering::AcqRel) {
            stream.forget();
            drop(stream);
            let answered = self.answered.load(Ordering::Relaxed);
            let fetched = self.fetched.load(Ordering::Relaxed);
            tracing::debug!(answered, fetched, "reading ahead is over");
        }
    }

    fn notice_fence(&self, outcome: &Outcome) {
        if matches!(outcome.result, Err(DeviceError::Fenced)) {
            // Another owner may change the volume from now on.
            self.end();
        }
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Shared").field("stream", &self.stream).finish_non_exhaustive()
    }
}

/// A read that somebody waits for.
#[derive(Debug)]
struct Asked {
    offset: Offset,
    buffer: Buffer,
    completion: Completion,
}

impl Asked {
    fn send(self, below: &Arc<dyn BlockDevice>) {
        let Self { offset, buffer, completion } = self;
        below.submit(Request::Read { offset, buffer }, completion);
    }
}

/// A bigger read on its way, and the small one that it begins with.
#[derive(Debug)]
struct Fetch {
    shared: Arc<Shared>,
    asked: Mutex<Option<Asked>>,
}

impl CompletionSink for Fetch {
    fn complete(&self, _token: Token, outcome: Outcome) {
        self.shared.notice_fence(&outcome);
        let Some(mut asked) = self.asked.lock().unwrap_or_else(PoisonError::into_inner).take()
        else {
            return;
        };
        let found = outcome.buffer.filter(|_| outcome.result.is_ok());
        let is_whole = found.as_ref().is_some_and(|found| copy(found, &mut asked.buffer));
        {
            let mut stream = self.shared.stream();
            let kept = found.filter(|_| !self.shared.is_over.load(Ordering::Acquire));
            stream.fetched(kept);
        }
        if is_whole {
            let Asked { buffer, completion, .. } = asked;
            return completion.complete(Outcome { result: Ok(()), buffer: Some(buffer) });
        }
        if matches!(outcome.result, Err(DeviceError::Fenced)) {
            let Asked { buffer, completion, .. } = asked;
            return completion
                .complete(Outcome { result: Err(DeviceError::Fenced), buffer: Some(buffer) });
        }
        // What lies behind it may be what cannot be read. Not from here: a sink must not submit.
        let below = Arc::clone(&self.shared.below);
        let again = thread::Builder::new().name("read-again".to_owned());
        if let Err(error) = again.spawn(move || asked.send(&below)) {
            // The completion went with the closure, and answers that it was abandoned.
            tracing::warn!(%error, "a read that failed cannot be tried again");
        }
    }
}

/// A change on its way.
#[derive(Debug)]
struct Change {
    shared: Arc<Shared>,
    upper: Mutex<Option<Completion>>,
}

impl CompletionSink for Change {
    fn complete(&self, _token: Token, outcome: Outcome) {
        self.shared.notice_fence(&outcome);
        self.shared.stream().change_ends();
        let upper = self.upper.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(completion) = upper {
            completion.complete(outcome);
        }
    }
}

fn positions(range: ByteRange) -> Range<u64> {
    range.offset.bytes()..range.end_bytes()
}

/// Fill `into` with the first of `bytes`; false, and nothing is changed, when they are too few.
fn copy(bytes: &[u8], into: &mut Buffer) -> bool {
    let Some(bytes) = bytes.get(..into.len()) else { return false };
    into.copy_from_slice(bytes);
    true
}
