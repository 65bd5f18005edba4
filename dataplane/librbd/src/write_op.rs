//! An operation of librados that changes one object: all of its steps are done, or none is.
//!
//! Answers are as librados gives them: 0 or more, a negative errno, or [`MISMATCH`] and below.
#![allow(unsafe_code, reason = "calls into librados")]

use std::borrow::Cow;
use std::ffi::{CStr, CString, c_char, c_void};
use std::ops::Deref;
use std::ptr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::cluster::Pool;
use crate::operation;
use crate::symbols::{
    ATTRIBUTE_EQUALS, CREATE_EXCLUSIVE, CompletionHandle, OPERATION_FULL_TRY, Rados, WriteOpHandle,
};

/// The answer when the first byte differs in [`Step::CompareStart`]; one less for each byte after
/// it. (`-MAX_ERRNO - offset` in `rados_write_op_cmpext`'s words: no errno is so large.)
pub(crate) const MISMATCH: i64 = -4095;

/// What happens to the object, in order.
pub(crate) enum Step<'a> {
    /// Fail with ENOENT when there is no such object.
    AssertExists,
    /// Make the object; fail with EEXIST when it is there.
    Create,
    /// Fail with ECANCELED unless the attribute has this value. An absent one counts as empty.
    CompareAttribute {
        key: Cow<'a, CStr>,
        value: Cow<'a, [u8]>,
    },
    /// Fail with [`MISMATCH`] unless the object begins with these bytes. Past its end it counts
    /// as zeros, and what follows the bytes is not looked at.
    CompareStart {
        bytes: Cow<'a, [u8]>,
    },
    /// Let these be all bytes of the object.
    Replace {
        bytes: Cow<'a, [u8]>,
    },
    Write {
        offset_bytes: u64,
        bytes: Cow<'a, [u8]>,
    },
    SetAttribute {
        key: Cow<'a, CStr>,
        value: Cow<'a, [u8]>,
    },
    /// Of the object's key-value pairs.
    SetKey {
        key: Cow<'a, CStr>,
        value: Cow<'a, [u8]>,
    },
    /// Remove the pairs whose key is before this one.
    RemoveKeysBefore {
        key: Cow<'a, CStr>,
    },
    Remove,
}

/// Carry an operation out, and wait for its answer.
pub(crate) fn run(pool: &Pool, name: &CStr, steps: &[Step]) -> i64 {
    // SAFETY: the steps are borrowed until the operation is over.
    let Some(op) = (unsafe { WriteOp::new(pool.rados(), steps) }) else {
        return -i64::from(libc::ENOMEM);
    };
    let (call, now) = (op.rados.rados_write_op_operate, ptr::null_mut());
    // SAFETY: pool and operation are open, the name ends in NUL; NULL stands for the present time.
    unsafe { call(op.handle, pool.handle(), name.as_ptr(), now, OPERATION_FULL_TRY) }.into()
}

/// Start an operation; a thread of librados answers it, perhaps before this returns. One that
/// cannot be started is answered here.
pub(crate) fn start(pool: &Pool, flight: Flight) {
    let rados = pool.rados();
    // SAFETY: the flight owns what the steps point at, on the heap, until the operation is over.
    let Some(op) = (unsafe { WriteOp::new(rados, &flight.steps) }) else {
        return flight.land(-i64::from(libc::ENOMEM));
    };
    let name = flight.name.as_ptr();
    let owned = Box::into_raw(Box::new(flight));
    let mut completion = ptr::null_mut();
    // SAFETY: writes the handle; `on_answer` takes such an argument.
    let mut started = unsafe {
        (rados.rados_aio_create_completion2)(owned.cast(), on_answer, &raw mut completion)
    };
    if started >= 0 {
        let (call, now) = (rados.rados_aio_write_op_operate, ptr::null_mut());
        // SAFETY: pool, operation and completion are open. The name and what the steps point at
        // belong to the flight, which nobody touches until librados hands it to `on_answer`, and
        // they keep their addresses. NULL stands for the present time.
        started =
            unsafe { call(op.handle, pool.handle(), completion, name, now, OPERATION_FULL_TRY) };
        if started < 0 {
            // SAFETY: the call was refused, so the completion is still this function's.
            unsafe { (rados.rados_aio_release)(completion) };
        }
    }
    if started < 0 {
        // SAFETY: refused, so no callback comes and the flight is still this function's.
        unsafe { Box::from_raw(owned) }.land(started.into());
    }
}

/// librados' callback.
unsafe extern "C" fn on_answer(completion: CompletionHandle, argument: *mut c_void) {
    // SAFETY: `start` made the argument from a Box and gave it up; it comes back once.
    let flight = unsafe { Box::from_raw(argument.cast::<Flight>()) };
    let rados = &flight.ticket.rados;
    // SAFETY: this is the callback of that completion, released once and not used again.
    let answer = unsafe {
        let answer = (rados.rados_aio_get_return_value)(completion);
        (rados.rados_aio_release)(completion);
        answer
    };
    operation::call_back(|| flight.land(answer.into()));
}

/// Takes an answer, once.
pub(crate) type Finish = Box<dyn FnOnce(i64) + Send>;

/// An operation that has been started, and all memory that it points at.
pub(crate) struct Flight {
    steps: Vec<Step<'static>>,
    name: CString,
    finish: Finish,
    ticket: Ticket,
}

impl Flight {
    pub(crate) fn new(
        steps: Vec<Step<'static>>,
        name: CString,
        finish: Finish,
        ticket: Ticket,
    ) -> Self {
        Self { steps, name, finish, ticket }
    }

    fn land(self, answer: i64) {
        let Self { steps, finish, ticket, .. } = self;
        drop(steps);
        finish(answer);
        // Last: the operation counts as in flight until it has been answered.
        drop(ticket);
    }
}

/// How many operations of one open pool are in flight.
pub(crate) struct Flights {
    rados: Rados,
    count: Mutex<u64>,
    landed: Condvar,
}

impl Flights {
    pub(crate) fn new(rados: &Rados) -> Arc<Self> {
        Arc::new(Self { rados: *rados, count: Mutex::new(0), landed: Condvar::new() })
    }

    /// Count one in flight.
    pub(crate) fn ticket(self: &Arc<Self>) -> Ticket {
        *self.count() += 1;
        Ticket(Arc::clone(self))
    }

    /// Wait until none is in flight.
    pub(crate) fn wait(&self) {
        let mut count = self.count();
        while *count > 0 {
            count = self.landed.wait(count).unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub(crate) fn count(&self) -> MutexGuard<'_, u64> {
        self.count.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One operation in flight, counted until it is dropped.
pub(crate) struct Ticket(Arc<Flights>);

impl Deref for Ticket {
    type Target = Flights;

    fn deref(&self) -> &Flights {
        &self.0
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut count = self.count();
        *count -= 1;
        if *count == 0 {
            self.landed.notify_all();
        }
    }
}

/// `rados_write_op_t`. It may be dropped as soon as it has been handed over: librados moves the
/// steps out of it.
struct WriteOp<'a> {
    rados: &'a Rados,
    handle: WriteOpHandle,
}

impl<'a> WriteOp<'a> {
    /// None when there is no memory for it.
    ///
    /// # Safety
    /// What the steps point at stays, unchanged, until the operation has been answered. (librados
    /// copies it, without promising to.)
    unsafe fn new(rados: &'a Rados, steps: &[Step]) -> Option<Self> {
        // SAFETY: makes a handle from nothing.
        let handle = unsafe { (rados.rados_create_write_op)() };
        if handle.is_null() {
            return None;
        }
        let op = Self { rados, handle };
        for step in steps {
            // SAFETY: as the caller says.
            unsafe { op.add(step) };
        }
        Some(op)
    }

    /// # Safety
    /// As for [`WriteOp::new`].
    unsafe fn add(&self, step: &Step) {
        let Self { rados, handle } = *self;
        // SAFETY: the handle is open; keys end in NUL; each memory has the length that goes with
        // it. NULL is for a category and a place for the comparison's own answer, not wanted.
        unsafe {
            match step {
                Step::AssertExists => (rados.rados_write_op_assert_exists)(handle),
                Step::Create => {
                    (rados.rados_write_op_create)(handle, CREATE_EXCLUSIVE, ptr::null());
                }
                Step::CompareAttribute { key, value } => {
                    let (from, length) = memory(value);
                    let compare = rados.rados_write_op_cmpxattr;
                    compare(handle, key.as_ptr(), ATTRIBUTE_EQUALS, from, length);
                }
                Step::CompareStart { bytes } => {
                    let (from, length) = memory(bytes);
                    (rados.rados_write_op_cmpext)(handle, from, length, 0, ptr::null_mut());
                }
                Step::Replace { bytes } => {
                    let (from, length) = memory(bytes);
                    (rados.rados_write_op_write_full)(handle, from, length);
                }
                Step::Write { offset_bytes, bytes } => {
                    let (from, length) = memory(bytes);
                    (rados.rados_write_op_write)(handle, from, length, *offset_bytes);
                }
                Step::SetAttribute { key, value } => {
                    let (from, length) = memory(value);
                    (rados.rados_write_op_setxattr)(handle, key.as_ptr(), from, length);
                }
                Step::SetKey { key, value } => {
                    let (from, length) = memory(value);
                    // librados makes a map of these at once; they tell it where all else is.
                    let (keys, values, lengths) = ([key.as_ptr()], [from], [length]);
                    let set = rados.rados_write_op_omap_set;
                    set(handle, keys.as_ptr(), values.as_ptr(), lengths.as_ptr(), keys.len());
                }
                Step::RemoveKeysBefore { key } => {
                    let (first, (end, length)) = (c"".as_ptr(), memory(key.to_bytes()));
                    (rados.rados_write_op_omap_rm_range2)(handle, first, 0, end, length);
                }
                Step::Remove => (rados.rados_write_op_remove)(handle),
            }
        }
    }
}

impl Drop for WriteOp<'_> {
    fn drop(&mut self) {
        // SAFETY: made by `new`, released once.
        unsafe { (self.rados.rados_release_write_op)(self.handle) };
    }
}

fn memory(bytes: &[u8]) -> (*const c_char, usize) {
    (bytes.as_ptr().cast(), bytes.len())
}
