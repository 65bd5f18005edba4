//! A request on its way through librbd: one call, or several after each other.
#![allow(unsafe_code, reason = "ownership goes to librbd as a pointer and comes back so")]

use std::cell::Cell;
use std::ffi::c_void;
use std::sync::mpsc;

use grampus_blockdev::{Buffer, ByteRange, Completion, DeviceError, Durability, Outcome, Request};

use crate::calls::{self, Call};
use crate::core::{Core, FollowUp, Ticket, Unfinished};
use crate::symbols::CompletionHandle;
use crate::zeros::{ZEROS, decide_piece};

thread_local! {
    /// Whether this is a thread of Ceph's in a callback of ours, or one of this crate's own.
    static MUST_NOT_CLOSE: Cell<bool> = const { Cell::new(false) };
}

/// Whether closing an image or a pool would wait for this very thread.
pub(crate) fn must_not_close() -> bool {
    MUST_NOT_CLOSE.get()
}

/// Do the work of a callback on one of Ceph's threads.
pub(crate) fn call_back(work: impl FnOnce()) {
    let outer = MUST_NOT_CLOSE.replace(true);
    work();
    MUST_NOT_CLOSE.set(outer);
}

/// Mark a thread of this crate.
pub(crate) fn forbid_closing() {
    MUST_NOT_CLOSE.set(true);
}

/// Start what comes in until told to stop.
pub(crate) fn follow_up(core: &Core, queue: mpsc::Receiver<FollowUp>) {
    forbid_closing();
    for follow_up in queue {
        match follow_up {
            FollowUp::Continue(request) => request.go_on(core),
            FollowUp::Stop => return,
        }
    }
}

enum Stage {
    Read {
        offset_bytes: u64,
    },
    Write {
        offset_bytes: u64,
    },
    Zero {
        range: ByteRange,
        keep_space: bool,
        done_bytes: u64,
        /// Of the call in flight.
        piece_bytes: u64,
    },
    /// A flush asked for, or the second half of a change with FUA.
    Flush,
}

/// A request that librbd or the follow-up thread has. Dropped, it answers `Abandoned`.
pub(crate) struct Operation {
    stage: Stage,
    buffer: Option<Buffer>,
    durability: Durability,
    completion: Completion,
    // Last, so that the request counts as in flight until it has been answered.
    ticket: Ticket,
}

impl Operation {
    /// The way of `request`, which lies on the image and is not empty.
    pub(crate) fn new(request: Request, completion: Completion, ticket: Ticket) -> Self {
        let zero =
            |range, keep_space| Stage::Zero { range, keep_space, done_bytes: 0, piece_bytes: 0 };
        let (stage, durability) = match &request {
            Request::Read { offset, .. } => {
                (Stage::Read { offset_bytes: offset.bytes() }, Durability::OnFlush)
            }
            Request::Write { offset, durability, .. } => {
                (Stage::Write { offset_bytes: offset.bytes() }, *durability)
            }
            Request::WriteZeroes { range, durability } => (zero(*range, true), *durability),
            Request::Discard { range } => (zero(*range, false), Durability::OnFlush),
            Request::Flush => (Stage::Flush, Durability::OnFlush),
        };
        let buffer = request.into_buffer();
        Self { stage, buffer, durability, completion, ticket }
    }

    /// The call that comes next. Pointers in it are to the buffer, whose bytes keep their address.
    fn next_call(&mut self) -> Call {
        match &mut self.stage {
            Stage::Read { offset_bytes } => {
                let bytes = self.buffer.as_deref_mut().unwrap_or_default();
                Call::Read {
                    offset_bytes: *offset_bytes,
                    into: bytes.as_mut_ptr(),
                    length: bytes.len(),
                }
            }
            Stage::Write { offset_bytes } => {
                let bytes = self.buffer.as_deref().unwrap_or_default();
                Call::Write {
                    offset_bytes: *offset_bytes,
                    from: bytes.as_ptr(),
                    length: bytes.len(),
                }
            }
            Stage::Zero { range, keep_space, done_bytes, piece_bytes } => {
                let by_writing = self.ticket.image.rbd.rbd_aio_write_zeroes.is_none();
                let (offset_bytes, left_bytes) = decide_piece(*range, *done_bytes, by_writing);
                // Pieces are far shorter than any usize.
                let length = usize::try_from(left_bytes).unwrap_or(ZEROS.len());
                *piece_bytes = left_bytes;
                if by_writing {
                    let length = length.min(ZEROS.len());
                    Call::Write { offset_bytes, from: ZEROS.as_ptr(), length }
                } else {
                    Call::Zero { offset_bytes, length, keep_space: *keep_space }
                }
            }
            Stage::Flush => Call::Flush,
        }
    }

    /// Take the answer of the call; None when another call must follow.
    fn advance(&mut self, answer: i64) -> Option<Result<(), DeviceError>> {
        let core = &*self.ticket;
        match &mut self.stage {
            Stage::Read { .. } if answer < 0 => Some(Err(core.request_failure("read", answer))),
            Stage::Read { .. } => {
                let wanted = self.buffer.as_deref().map_or(0, <[u8]>::len);
                let whole = usize::try_from(answer).is_ok_and(|read| read == wanted);
                Some(if whole { Ok(()) } else { Err(Core::short_read()) })
            }
            Stage::Write { .. } if answer < 0 => Some(Err(core.request_failure("write", answer))),
            Stage::Write { .. } => self.secure(),
            Stage::Zero { .. } if answer < 0 => {
                Some(Err(core.request_failure("zero a range", answer)))
            }
            Stage::Zero { range, done_bytes, piece_bytes, .. } => {
                *done_bytes += *piece_bytes;
                if *done_bytes < range.length.bytes() { None } else { self.secure() }
            }
            Stage::Flush if answer < 0 => Some(Err(core.flush_failure(answer))),
            // Another flush may have failed while this one ran: then this proves nothing (INV-6).
            Stage::Flush => Some(core.refusal().map_or(Ok(()), Err)),
        }
    }

    fn secure(&mut self) -> Option<Result<(), DeviceError>> {
        match self.durability {
            Durability::OnFlush => Some(Ok(())),
            Durability::Fua if self.ticket.writes_through() => Some(Ok(())),
            Durability::Fua => {
                self.stage = Stage::Flush;
                None
            }
        }
    }

    fn finish(self, result: Result<(), DeviceError>) {
        let Self { buffer, completion, ticket, .. } = self;
        completion.complete(Outcome { result, buffer });
        drop(ticket);
    }
}

impl Unfinished for Operation {
    fn go_on(self: Box<Self>, core: &Core) {
        start(core, self);
    }
}

/// Start the next call of `operation`, a request on `core`; a thread of librbd answers it.
///
/// The image must not be closed before this returns: the operation alone does not see to that,
/// for it may be over sooner.
pub(crate) fn start(core: &Core, operation: Box<Operation>) {
    let owned = Box::into_raw(operation);
    // SAFETY: the pointer is a Box's, and nobody else has it yet.
    let call = unsafe { (*owned).next_call() };
    // SAFETY: the buffer that the call points into belongs to the operation, which nobody touches
    // until librbd hands it to `on_answer`.
    let started = unsafe { core.image.start(&call, on_answer, owned.cast()) };
    if started < 0 {
        // SAFETY: refused, so no callback comes and the operation is still this function's.
        resume(unsafe { Box::from_raw(owned) }, started);
    }
}

/// librbd's callback.
unsafe extern "C" fn on_answer(completion: CompletionHandle, argument: *mut c_void) {
    // SAFETY: `start` made the argument from a Box and gave it up; it comes back once.
    let operation = unsafe { Box::from_raw(argument.cast::<Operation>()) };
    // SAFETY: this is the callback of that completion.
    let answer = unsafe { calls::take_answer(&operation.ticket.image.rbd, completion) };
    call_back(|| resume(operation, answer));
}

fn resume(mut operation: Box<Operation>, answer: i64) {
    if let Some(result) = operation.advance(answer) {
        operation.finish(result);
    } else {
        let queue = operation.ticket.follow_ups.clone();
        // The thread lives until nothing is in flight. Were it gone, the operation that comes
        // back would be dropped, and so answered.
        drop(queue.send(FollowUp::Continue(operation)));
    }
}
