//! Reads: from memory what the journal holds, from the image the rest.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use grampus_blockdev::{
    BlockDevice, Buffer, ByteRange, Completion, CompletionSink, Offset, Outcome, Request, Token,
};
use grampus_journal::{Payload, ReadPlan, Source, Span};

use crate::engine::Engine;

thread_local! {
    /// Kept, so that a read of what is not held allocates nothing.
    static PLAN: RefCell<ReadPlan> = RefCell::default();
}

/// What is put over the bytes of the image: a place in the buffer, and bytes or (None) zeros.
type Patch = (Range<usize>, Option<Payload>);

/// Where a read goes.
enum Route {
    /// Nothing of it is held: the request is the image's, with its buffer and its completion.
    Image,
    /// All of it is held.
    Memory(Vec<Patch>),
    /// Held in part. The image is asked for everything from the start to the last gap, in one
    /// request into the same buffer: less than a request for each gap costs, and no buffer more.
    Both { from_image: usize, patches: Vec<Patch> },
}

/// Carry out a read of bytes that lie on the device.
pub(crate) fn read(
    engine: &Arc<Engine>,
    image: &Arc<dyn BlockDevice>,
    (offset, mut buffer): (Offset, Buffer),
    range: ByteRange,
    completion: Completion,
) {
    let route = {
        let core = engine.lock();
        if let Some(error) = core.refusal() {
            drop(core);
            return completion.complete(Outcome { result: Err(error), buffer: Some(buffer) });
        }
        PLAN.with_borrow_mut(|plan| {
            core.journal.plan_read(range.into(), plan);
            drop(core);
            let route = decide_route(range.into(), plan);
            if !matches!(route, Route::Image) {
                // It holds on to what was held for the read.
                *plan = ReadPlan::default();
            }
            route
        })
    };
    match route {
        Route::Image => image.submit(Request::Read { offset, buffer }, completion),
        Route::Memory(patches) => {
            apply(&patches, &mut buffer);
            completion.complete(Outcome { result: Ok(()), buffer: Some(buffer) });
        }
        Route::Both { from_image, patches } => {
            let length = buffer.len();
            if buffer.set_len(from_image).is_err() {
                return; // shorter than it was: it cannot fail; dropped, the completion answers
            }
            let patched = Patched { length, waiting: Mutex::new(Some((patches, completion))) };
            let completion = Completion::new(Arc::new(patched), Token(0));
            image.submit(Request::Read { offset, buffer }, completion);
        }
    }
}

fn decide_route(span: Span, plan: &ReadPlan) -> Route {
    let at = |place: u64| usize::try_from(place.saturating_sub(span.start())).unwrap_or(usize::MAX);
    let mut gaps = plan.pieces().iter().filter(|(_, source)| matches!(source, Source::Image));
    let last_gap = gaps.next_back().map(|(gap, _)| at(gap.end()));
    if last_gap.is_some() && plan.pieces().len() == 1 {
        return Route::Image;
    }
    let patch = |(piece, source): &(Span, Source)| {
        let place = at(piece.start())..at(piece.end());
        match source {
            Source::Memory(payload) => Some((place, Some(payload.clone()))),
            Source::Zeros => Some((place, None)),
            Source::Image => None,
        }
    };
    let patches = plan.pieces().iter().filter_map(patch).collect();
    match last_gap {
        None => Route::Memory(patches),
        Some(from_image) => Route::Both { from_image, patches },
    }
}

fn apply(patches: &[Patch], buffer: &mut Buffer) {
    for (place, payload) in patches {
        let Some(into) = buffer.get_mut(place.clone()) else { continue };
        match payload {
            Some(payload) => into.copy_from_slice(payload.as_slice()),
            None => into.fill(0),
        }
    }
}

/// Waits for the image's part of a read and puts what was held over it.
struct Patched {
    /// Of the whole read, in bytes.
    length: usize,
    waiting: Mutex<Option<(Vec<Patch>, Completion)>>,
}

impl CompletionSink for Patched {
    fn complete(&self, _token: Token, mut outcome: Outcome) {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some((patches, completion)) = waiting else { return };
        if let Some(buffer) = &mut outcome.buffer {
            if buffer.set_len(self.length).is_ok() && outcome.result.is_ok() {
                apply(&patches, buffer);
            }
        }
        drop(patches);
        completion.complete(outcome);
    }
}
