//! The part of librados that reads and changes objects.

use std::ffi::{c_char, c_int, c_void};
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::{iter, mem, ptr, slice};

use libc::{size_t, time_t};

use crate::asynchronous::{Callback, Carried, Completion, wait_while_held};
use crate::rados::PoolHandle;
use crate::state::{Object, State, enter, post, state, text_of};

/// `LIBRADOS_OPERATION_FULL_TRY`.
const FULL_TRY: c_int = 64;
/// An attribute's longest value, as OSDs have it by default.
const MAX_ATTRIBUTE_BYTES: usize = 65536;

/// Memory of the caller, which the real library may copy when it is told of it, or not. This one
/// does not, to show a caller that frees or changes it too soon.
#[derive(Clone, Copy)]
pub(crate) struct Memory(*const u8, usize);

// SAFETY: the caller promises that the memory is left alone until the operation was answered.
unsafe impl Send for Memory {}

impl Memory {
    pub(crate) fn new(from: *const u8, length: usize) -> Self {
        Self(from, length)
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: the caller gives so many bytes, and leaves them alone.
        unsafe { slice::from_raw_parts(self.0, self.1) }
    }
}

pub(crate) enum Step {
    AssertExists,
    Create,
    CompareAttribute(String, Memory),
    CompareRange(u64, Memory),
    Replace(Memory),
    Write(u64, Memory),
    SetAttribute(String, Memory),
    SetKey(String, Memory),
    RemoveKeys(String, String),
    Remove,
}

/// What becomes of an object, or the answer to give.
fn carry_out(mut object: Option<Object>, steps: &[Step]) -> Result<Option<Object>, i64> {
    for step in steps {
        match step {
            Step::AssertExists | Step::Remove if object.is_none() => {
                return Err(-i64::from(libc::ENOENT));
            }
            Step::AssertExists => {}
            Step::Remove => object = None,
            Step::Create if object.is_some() => return Err(-i64::from(libc::EEXIST)),
            Step::Create => object = Some(Object::default()),
            Step::CompareAttribute(key, value) => {
                // As an OSD: one that is missing is compared as if it were empty.
                let found = object.as_ref().and_then(|object| object.attributes.get(key));
                if found.map_or(&[][..], Vec::as_slice) != value.bytes() {
                    return Err(-i64::from(libc::ECANCELED));
                }
            }
            Step::CompareRange(offset_bytes, expected) => {
                let start = usize::try_from(*offset_bytes).unwrap_or(usize::MAX);
                let there = object.as_ref().and_then(|object| object.bytes.get(start..));
                // As an OSD: zeros are taken for what is not there.
                let there = there.unwrap_or_default().iter().chain(iter::repeat(&0));
                let mut pairs = (0..).zip(expected.bytes().iter().zip(there));
                if let Some((at, _)) = pairs.find(|(_, (wanted, is))| wanted != is) {
                    let at: i64 = at;
                    return Err(-4095 - at);
                }
            }
            Step::Replace(bytes) => {
                object.get_or_insert_default().bytes = bytes.bytes().to_vec();
            }
            Step::Write(offset_bytes, bytes) => {
                let start = usize::try_from(*offset_bytes).unwrap_or(usize::MAX);
                let end = start.saturating_add(bytes.1);
                if end > 128 << 20 {
                    return Err(-i64::from(libc::EFBIG));
                }
                let there = &mut object.get_or_insert_default().bytes;
                there.resize(there.len().max(end), 0);
                if let Some(part) = there.get_mut(start..end) {
                    part.copy_from_slice(bytes.bytes());
                }
            }
            Step::SetAttribute(_, value) if value.1 > MAX_ATTRIBUTE_BYTES => {
                return Err(-i64::from(libc::E2BIG));
            }
            Step::SetAttribute(key, value) => {
                let attributes = &mut object.get_or_insert_default().attributes;
                attributes.insert(key.clone(), value.bytes().to_vec());
            }
            Step::SetKey(key, value) => {
                let pairs = &mut object.get_or_insert_default().pairs;
                pairs.insert(key.clone(), value.bytes().to_vec());
            }
            Step::RemoveKeys(first, end) => {
                let pairs = &mut object.get_or_insert_default().pairs;
                pairs.retain(|key, _| key < first || key >= end);
            }
        }
    }
    Ok(object)
}

/// Carry an operation out on an object, as a whole.
fn operate(state: &mut State, name: &(String, String), steps: &[Step], flags: c_int) -> i64 {
    if state.is_blocklisted {
        return -i64::from(libc::ESHUTDOWN);
    }
    let before = state.objects.get(name).cloned();
    let length = |object: &Option<Object>| {
        object.as_ref().map_or(-1, |object| i64::try_from(object.bytes.len()).unwrap_or(i64::MAX))
    };
    let length_before = length(&before);
    match carry_out(before, steps) {
        Err(answer) => answer,
        // One that does not ask to be refused is not answered as long as the pool is full.
        Ok(after) if state.full_errno != 0 && length(&after) > length_before => {
            if flags & FULL_TRY == 0 {
                state.violations.push("a change of a full pool would wait".to_owned());
            }
            -i64::from(state.full_errno)
        }
        Ok(Some(after)) => {
            state.objects.insert(name.clone(), after);
            0
        }
        Ok(None) => {
            state.objects.remove(name);
            0
        }
    }
}

/// The object that a call means; one through a closed pool is a violation.
///
/// # Safety
/// `pool` was made by `rados_ioctx_create`; `name` ends in NUL.
pub(crate) unsafe fn object_at(
    state: &mut State,
    function: &str,
    pool: *mut c_void,
    name: *const c_char,
) -> (String, String) {
    // SAFETY: as the caller says.
    let (pool, name) = unsafe { (PoolHandle::at(pool), text_of(name)) };
    if !pool.is_open.load(Ordering::SeqCst) {
        state.violations.push(format!("{function} was called on a closed pool"));
    }
    let namespace = pool.namespace.lock().unwrap_or_else(PoisonError::into_inner);
    (namespace.clone(), name)
}

pub(crate) fn int(answer: i64) -> c_int {
    c_int::try_from(answer).unwrap_or(-libc::EIO)
}

/// # Safety
/// `into` has room for `length` bytes.
unsafe fn answer_bytes(found: &[u8], into: *mut c_char, length: size_t) -> c_int {
    if found.len() > length {
        return -libc::ERANGE;
    }
    // SAFETY: there is room.
    unsafe { ptr::copy_nonoverlapping(found.as_ptr().cast(), into, found.len()) };
    c_int::try_from(found.len()).unwrap_or(c_int::MAX)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rados_read(
    pool: *mut c_void,
    name: *const c_char,
    into: *mut c_char,
    length: size_t,
    offset_bytes: u64,
) -> c_int {
    let mut state = match enter("rados_read") {
        Err(answer) => return int(answer),
        Ok(state) => state,
    };
    // SAFETY: the caller gives an open pool and a C text.
    let name = unsafe { object_at(&mut state, "rados_read", pool, name) };
    if state.is_blocklisted {
        return -libc::ESHUTDOWN;
    }
    let Some(object) = state.objects.get(&name) else { return -libc::ENOENT };
    let start = usize::try_from(offset_bytes).unwrap_or(usize::MAX).min(object.bytes.len());
    // As an OSD: no length means all.
    let wanted = if length == 0 { usize::MAX } else { length };
    let end = start.saturating_add(wanted).min(object.bytes.len());
    let found = object.bytes.get(start..end).unwrap_or_default();
    // SAFETY: the caller gives so much room.
    unsafe { answer_bytes(found, into, length) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rados_getxattr(
    pool: *mut c_void,
    name: *const c_char,
    key: *const c_char,
    into: *mut c_char,
    length: size_t,
) -> c_int {
    let mut state = match enter("rados_getxattr") {
        Err(answer) => return int(answer),
        Ok(state) => state,
    };
    // SAFETY: the caller gives an open pool and C texts.
    let (name, key) =
        unsafe { (object_at(&mut state, "rados_getxattr", pool, name), text_of(key)) };
    if state.is_blocklisted {
        return -libc::ESHUTDOWN;
    }
    let Some(object) = state.objects.get(&name) else { return -libc::ENOENT };
    let Some(value) = object.attributes.get(&key) else { return -libc::ENODATA };
    // SAFETY: the caller gives so much room.
    unsafe { answer_bytes(value, into, length) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rados_create_write_op() -> *mut c_void {
    state().open_operations += 1;
    Box::into_raw(Box::<Vec<Step>>::default()).cast()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rados_release_write_op(op: *mut c_void) {
    state().open_operations -= 1;
    // SAFETY: made by `rados_create_write_op`, released once.
    drop(unsafe { Box::from_raw(op.cast::<Vec<Step>>()) });
}

/// # Safety
/// `op` was made by `rados_create_write_op` and is not released.
pub(crate) unsafe fn add(op: *mut c_void, step: Step) {
    // SAFETY: as the caller says.
    unsafe { &mut *op.cast::<Vec<Step>>() }.push(step);
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rados_write_op_assert_exists(op: *mut c_void) {
    // SAFETY: the caller gives an open operation.
    unsafe { add(op, Step::AssertExists) };
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rados_write_op_create(
    op: *mut c_void,
    exclusive: c_int,
    _category: *const c_char,
) {
    assert_eq!(exclusive, 1, "the binding makes objects only where there are none");
    // SAFETY: the caller gives an open operation.
    unsafe { add(op, Step::Create) };
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rados_write_op_remove(op: *mut c_void) {
    // SAFETY: the caller gives an open operation.
    unsafe { add(op, Step::Remove) };
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rados_write_op_cmpext(
    op: *mut c_void,
    bytes: *const c_char,
    length: size_t,
    offset_bytes: u64,
    _answer: *mut c_int,
) {
    // SAFETY: the caller gives an open operation.
    unsafe { add(op, Step::CompareRange(offset_bytes, Memory(bytes.cast(), length))) };
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rados_write_op_cmpxattr(
    op: *mut c_void,
    key: *const c_char,
    operator: u8,
    value: *const c_char,
    length: size_t,
) {
    assert_eq!(operator, 1, "the binding asks for equality only");
    // SAFETY: the caller gives an open operation and a C text.
    unsafe { add(op, Step::CompareAttribute(text_of(key), Memory(value.cast(), length))) };
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rados_write_op_setxattr(
    op: *mut c_void,
    key: *const c_char,
    value: *const c_char,
    length: size_t,
) {
    // SAFETY: the caller gives an open operation and a C text.
    unsafe { add(op, Step::SetAttribute(text_of(key), Memory(value.cast(), length))) };
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rados_write_op_write(
    op: *mut c_void,
    bytes: *const c_char,
    length: size_t,
    offset_bytes: u64,
) {
    // SAFETY: the caller gives an open operation.
    unsafe { add(op, Step::Write(offset_bytes, Memory(bytes.cast(), length))) };
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rados_write_op_write_full(
    op: *mut c_void,
    bytes: *const c_char,
    length: size_t,
) {
    // SAFETY: the caller gives an open operation.
    unsafe { add(op, Step::Replace(Memory(bytes.cast(), length))) };
}

/// The steps of an operation that is being handed over.
///
/// # Safety
/// `op` was made by `rados_create_write_op` and is not released.
unsafe fn take_steps(op: *mut c_void) -> Vec<Step> {
    // SAFETY: as the caller says.
    mem::take(unsafe { &mut *op.cast::<Vec<Step>>() })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rados_write_op_operate(
    op: *mut c_void,
    pool: *mut c_void,
    name: *const c_char,
    _modified: *mut time_t,
    flags: c_int,
) -> c_int {
    // SAFETY: the caller gives an open operation.
    let steps = unsafe { take_steps(op) };
    let mut state = match enter("rados_write_op_operate") {
        Err(answer) => return int(answer),
        Ok(state) => state,
    };
    // SAFETY: the caller gives an open pool and a C text.
    let name = unsafe { object_at(&mut state, "rados_write_op_operate", pool, name) };
    int(operate(&mut state, &name, &steps, flags))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rados_aio_create_completion2(
    argument: *mut c_void,
    callback: Callback,
    completion: *mut *mut c_void,
) -> c_int {
    match enter("rados_aio_create_completion2") {
        Err(answer) => int(answer),
        Ok(mut state) => {
            state.open_operations += 1;
            // SAFETY: the caller gives a place for a handle.
            unsafe { *completion = Completion::open(callback, argument) };
            0
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rados_aio_get_return_value(completion: *mut c_void) -> c_int {
    // SAFETY: a completion that was not released.
    int(unsafe { Completion::answer(completion) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rados_aio_release(completion: *mut c_void) {
    state().open_operations -= 1;
    // SAFETY: made by `rados_aio_create_completion2`, released once.
    unsafe { Completion::release(completion) };
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rados_aio_write_op_operate(
    op: *mut c_void,
    pool: *mut c_void,
    completion: *mut c_void,
    name: *const c_char,
    _modified: *mut time_t,
    flags: c_int,
) -> c_int {
    // SAFETY: the caller gives an open operation.
    let steps = unsafe { take_steps(op) };
    let refusal = match enter("rados_aio_write_op_operate") {
        Ok(_) => None,
        // A positive number means: refuse the call itself.
        Err(answer) if answer > 0 => return -int(answer),
        Err(answer) => Some(answer),
    };
    // SAFETY: the caller gives an open pool and a C text.
    let (name, handle) = unsafe {
        let name = object_at(&mut state(), "rados_aio_write_op_operate", pool, name);
        (name, PoolHandle::at(pool))
    };
    handle.in_flight.fetch_add(1, Ordering::SeqCst);
    let completion = Carried(completion.cast::<Completion>());
    post(Box::new(move || {
        let mut state = wait_while_held();
        let answer = refusal.unwrap_or_else(|| operate(&mut state, &name, &steps, flags));
        drop(state);
        handle.in_flight.fetch_sub(1, Ordering::SeqCst);
        // SAFETY: the completion lives until its callback releases it.
        unsafe { Completion::call_back(&completion, answer) };
    }));
    0
}
