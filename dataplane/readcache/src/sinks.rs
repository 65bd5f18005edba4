//! Requests on their way through the device below, and what their answers mean for the cache.

use std::sync::{Arc, Mutex, PoisonError};

use grampus_blockdev::{
    Buffer, ByteRange, Completion, CompletionSink, DeviceError, Length, Offset, Outcome, Request,
    Token,
};

use crate::index::Generation;
use crate::sectors::{Sectors, covered, overlap};
use crate::shared::Shared;
use crate::work::Fill;

/// Whoever asked, until there is an answer.
#[derive(Debug)]
struct Upper(Mutex<Option<Completion>>);

impl Upper {
    fn new(completion: Completion) -> Self {
        Self(Mutex::new(Some(completion)))
    }

    fn complete(&self, outcome: Outcome) {
        let waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(completion) = waiting {
            completion.complete(outcome);
        }
    }
}

/// A read that the cache could not answer.
#[derive(Debug)]
struct Miss {
    shared: Arc<Shared>,
    range: ByteRange,
    /// What may go into the cache, as it was before the device below was asked.
    wanted: Vec<(Sectors, Generation)>,
    upper: Upper,
}

/// Send a read below; what it brings may go into the cache.
pub(crate) fn forward_read(
    shared: &Arc<Shared>,
    offset: Offset,
    buffer: Buffer,
    completion: Completion,
) {
    let range = ByteRange { offset, length: Length::of(&buffer) };
    shared.counters.misses.add(1);
    shared.counters.miss_bytes.add(range.length.bytes());
    let request = Request::Read { offset, buffer };
    if !shared.is_on() {
        return shared.below.submit(request, completion);
    }
    let wanted = {
        let index = shared.index();
        let with_generation = |sectors: Sectors| (sectors, index.generation(sectors.block));
        covered(range, shared.block_bytes).map(with_generation).collect()
    };
    let upper = Upper::new(completion);
    let miss = Arc::new(Miss { shared: Arc::clone(shared), range, wanted, upper });
    shared.below.submit(request, Completion::new(miss, Token(0)));
}

impl Miss {
    /// The copies are made here, since the answer takes the buffer away.
    fn keep(&self, buffer: &[u8]) {
        for (sectors, generation) in &self.wanted {
            keep(&self.shared, self.range, buffer, *sectors, *generation);
        }
    }
}

/// Put sectors of `range`, whose bytes `buffer` has, into the cache if they are worth it.
pub(crate) fn keep(
    shared: &Shared,
    range: ByteRange,
    buffer: &[u8],
    sectors: Sectors,
    generation: Generation,
) {
    let (_, request) = overlap(sectors, range, shared.block_bytes);
    let weight = request.len();
    if !shared.fills.has_room(weight) {
        shared.counters.dropped.add(1);
        return;
    }
    if !shared.index().wants(sectors.block, generation) {
        shared.counters.refused.add(1);
        return;
    }
    let bytes = buffer.get(request).unwrap_or_default().to_vec();
    if shared.fills.push(Fill { sectors, generation, bytes }, weight).is_err() {
        shared.counters.dropped.add(1);
    }
}

impl CompletionSink for Miss {
    fn complete(&self, _token: Token, outcome: Outcome) {
        notice_fence(&self.shared, &outcome);
        if let (Ok(()), Some(buffer), true) =
            (&outcome.result, &outcome.buffer, self.shared.is_on())
        {
            self.keep(buffer);
        }
        self.upper.complete(outcome);
    }
}

/// A change on its way.
#[derive(Debug)]
struct Change {
    shared: Arc<Shared>,
    range: ByteRange,
    /// What the cache has of it once it is done: blocks that somebody reads, each with its
    /// generation when the change began. Only a write has any.
    rewritten: Vec<(Sectors, Generation)>,
    upper: Upper,
}

/// Send a change of `range` below.
///
/// What the cache has of it is forgotten before, so that nothing old is read once the change is
/// done; and again when it is done, whether it succeeded or not, since a read alongside may have
/// brought the old bytes meanwhile. Then what was written takes its place where it is read now and
/// then: what a database pushes out of its memory it reads again.
pub(crate) fn forward_change(
    shared: &Arc<Shared>,
    range: ByteRange,
    request: Request,
    completion: Completion,
) {
    let writes = matches!(request, Request::Write { .. });
    let rewritten = shared.begin_change(range, writes);
    let upper = Upper::new(completion);
    let change = Arc::new(Change { shared: Arc::clone(shared), range, rewritten, upper });
    shared.below.submit(request, Completion::new(change, Token(0)));
}

impl CompletionSink for Change {
    fn complete(&self, _token: Token, outcome: Outcome) {
        notice_fence(&self.shared, &outcome);
        let rewritten = self.shared.end_change(self.range, &self.rewritten);
        if let (Ok(()), Some(buffer), true) =
            (&outcome.result, &outcome.buffer, self.shared.is_on())
        {
            for (sectors, generation) in rewritten {
                keep(&self.shared, self.range, buffer, sectors, generation);
            }
        }
        self.upper.complete(outcome);
    }
}

/// Another owner may change the volume from now on: what the cache has is only what it was.
pub(crate) fn notice_fence(shared: &Shared, outcome: &Outcome) {
    if matches!(outcome.result, Err(DeviceError::Fenced)) {
        shared.turn_off("the volume was fenced".to_owned());
    }
}
