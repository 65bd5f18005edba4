//! The calls of librbd that answer later.

use std::ffi::{c_char, c_int, c_void};
use std::slice;
use std::sync::{MutexGuard, PoisonError};

use libc::{size_t, ssize_t};

use crate::image::is_open;
use crate::state::{CHANGED, State, call_back, enter, post, state};

pub(crate) type Callback = unsafe extern "C" fn(*mut c_void, *mut c_void);

pub(crate) struct Completion {
    callback: Callback,
    argument: *mut c_void,
    answer: i64,
}

impl Completion {
    pub(crate) fn open(callback: Callback, argument: *mut c_void) -> *mut c_void {
        Box::into_raw(Box::new(Self { callback, argument, answer: 0 })).cast()
    }

    /// # Safety
    /// `completion` was made by `open` and is not released.
    pub(crate) unsafe fn answer(completion: *mut c_void) -> i64 {
        // SAFETY: as the caller says.
        unsafe { (*completion.cast::<Self>()).answer }
    }

    /// # Safety
    /// `completion` was made by `open`, and is released once.
    pub(crate) unsafe fn release(completion: *mut c_void) {
        // SAFETY: as the caller says.
        drop(unsafe { Box::from_raw(completion.cast::<Self>()) });
    }

    /// Answer.
    ///
    /// # Safety
    /// As for `answer`; the callback may release it.
    pub(crate) unsafe fn call_back(completion: &Carried<Self>, answer: i64) {
        // SAFETY: as the caller says.
        let (callback, argument) = unsafe {
            let completion = completion.pointer();
            (*completion).answer = answer;
            ((*completion).callback, (*completion).argument)
        };
        // SAFETY: the binding gave this callback with this argument.
        call_back(|| unsafe { callback(completion.pointer().cast(), argument) });
    }
}

/// The state, once nothing is held any more.
pub(crate) fn wait_while_held() -> MutexGuard<'static, State> {
    let mut state = state();
    while state.is_held {
        state = CHANGED.wait(state).unwrap_or_else(PoisonError::into_inner);
    }
    state
}

/// A pointer of the caller that goes to the library's thread and back.
pub(crate) struct Carried<T>(pub(crate) *mut T);

// SAFETY: the caller promises that the memory is left alone until the callback.
unsafe impl<T> Send for Carried<T> {}

impl<T> Carried<T> {
    /// As a method, so that closures take the whole and not the pointer in it.
    pub(crate) fn pointer(&self) -> *mut T {
        self.0
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rbd_aio_create_completion(
    argument: *mut c_void,
    callback: Callback,
    completion: *mut *mut c_void,
) -> c_int {
    match enter("rbd_aio_create_completion") {
        Err(answer) => c_int::try_from(answer).unwrap_or(-libc::EIO),
        Ok(mut state) => {
            state.open_completions += 1;
            // SAFETY: the caller gives a place for a handle.
            unsafe { *completion = Completion::open(callback, argument) };
            0
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rbd_aio_get_return_value(completion: *mut c_void) -> ssize_t {
    // SAFETY: a completion that was not released.
    let answer = unsafe { Completion::answer(completion) };
    ssize_t::try_from(answer).unwrap_or(-1)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rbd_aio_release(completion: *mut c_void) {
    state().open_completions -= 1;
    // SAFETY: made by `rbd_aio_create_completion`, released once.
    unsafe { Completion::release(completion) };
}

/// Do `work` later and answer with what it answers.
fn start(
    function: &'static str,
    image: *mut c_void,
    completion: *mut c_void,
    is_change: bool,
    work: impl FnOnce(&mut State) -> i64 + Send + 'static,
) -> c_int {
    let refusal = match enter(function) {
        Ok(mut state) => {
            is_open(&mut state, image, function);
            None
        }
        // A positive number means: refuse the call itself.
        Err(answer) if answer > 0 => return -c_int::try_from(answer).unwrap_or(libc::EIO),
        Err(answer) => Some(answer),
    };
    let completion = Carried(completion.cast::<Completion>());
    post(Box::new(move || {
        let mut state = wait_while_held();
        let answer = match refusal {
            Some(answer) => answer,
            None if state.is_blocklisted => -i64::from(libc::ESHUTDOWN),
            None if is_change && state.owner.as_deref().is_some_and(|owner| owner != "me") => {
                -i64::from(libc::EROFS)
            }
            None => work(&mut state),
        };
        drop(state);
        // SAFETY: the completion lives until its callback releases it.
        unsafe { Completion::call_back(&completion, answer) };
    }));
    0
}

/// How much of a range lies on the image; librbd cuts at its end.
fn clipped(state: &State, offset_bytes: u64, length: usize) -> usize {
    let left = state.shown_bytes().saturating_sub(offset_bytes);
    usize::try_from(left).map_or(length, |left| left.min(length))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rbd_aio_read(
    image: *mut c_void,
    offset_bytes: u64,
    length: size_t,
    into: *mut c_char,
    completion: *mut c_void,
) -> c_int {
    let into = Carried(into.cast::<u8>());
    start("rbd_aio_read", image, completion, false, move |state| {
        let length = clipped(state, offset_bytes, length);
        // SAFETY: the caller keeps the memory until the callback.
        let into = unsafe { slice::from_raw_parts_mut(into.pointer(), length) };
        state.read(state.place(offset_bytes), into);
        i64::try_from(length).unwrap_or(-1)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rbd_aio_write(
    image: *mut c_void,
    offset_bytes: u64,
    length: size_t,
    from: *const c_char,
    completion: *mut c_void,
) -> c_int {
    let from = Carried(from.cast_mut().cast::<u8>());
    start("rbd_aio_write", image, completion, true, move |state| {
        let length = clipped(state, offset_bytes, length);
        // SAFETY: the caller keeps the memory until the callback.
        let from = unsafe { slice::from_raw_parts(from.pointer(), length) };
        let at = state.place(offset_bytes);
        state.write(at, from);
        0
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rbd_aio_write_zeroes(
    image: *mut c_void,
    offset_bytes: u64,
    length: size_t,
    completion: *mut c_void,
    zero_flags: c_int,
    _operation_flags: c_int,
) -> c_int {
    start("rbd_aio_write_zeroes", image, completion, true, move |state| {
        *state.calls.entry(format!("zero-flags-{zero_flags}")).or_default() += 1;
        let at = state.place(offset_bytes);
        state.zero(at, u64::try_from(length).unwrap_or(0));
        0
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rbd_aio_flush(image: *mut c_void, completion: *mut c_void) -> c_int {
    start("rbd_aio_flush", image, completion, true, |_| 0)
}
