//! The part of librados that reads and changes the key-value pairs of objects.

use std::ffi::{c_char, c_int, c_void};
use std::ops::Bound;
use std::{ptr, slice};

use libc::size_t;

use crate::objects::{Memory, Step, add, int, object_at};
use crate::state::{enter, state, text_of};

/// An OSD gives 1,024 at once, as Ceph is set up by default; this one far fewer, so that tests see
/// what asks only once.
const MOST_AT_ONCE: u64 = 3;

/// # Safety
/// There are `length` bytes of UTF-8.
unsafe fn text_in(text: *const c_char, length: size_t) -> String {
    // SAFETY: as the caller says.
    let bytes = unsafe { slice::from_raw_parts(text.cast::<u8>(), length) };
    String::from_utf8_lossy(bytes).into_owned()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rados_write_op_omap_set(
    op: *mut c_void,
    keys: *const *const c_char,
    values: *const *const c_char,
    lengths: *const size_t,
    number: size_t,
) {
    for at in 0..number {
        // SAFETY: the caller gives so many C texts, values and lengths, and an open operation.
        unsafe {
            let value = Memory::new((*values.add(at)).cast(), *lengths.add(at));
            add(op, Step::SetKey(text_of(*keys.add(at)), value));
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rados_write_op_omap_rm_range2(
    op: *mut c_void,
    first: *const c_char,
    first_bytes: size_t,
    end: *const c_char,
    end_bytes: size_t,
) {
    // SAFETY: the caller gives an open operation and two texts of these lengths.
    unsafe {
        add(op, Step::RemoveKeys(text_in(first, first_bytes), text_in(end, end_bytes)));
    }
}

/// What a read finds, gone through from its end: told in reverse.
struct Found {
    left: Vec<(String, Vec<u8>)>,
    /// What was told last; the caller may look at it until it asks for the next.
    told: (String, Vec<u8>),
}

/// One request for pairs.
struct KeysRead {
    after: String,
    most: u64,
    found: *mut Found,
    more: *mut u8,
    answer: *mut c_int,
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rados_create_read_op() -> *mut c_void {
    state().open_operations += 1;
    Box::into_raw(Box::<Option<KeysRead>>::default()).cast()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rados_release_read_op(op: *mut c_void) {
    state().open_operations -= 1;
    // SAFETY: made by `rados_create_read_op`, released once.
    drop(unsafe { Box::from_raw(op.cast::<Option<KeysRead>>()) });
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rados_read_op_omap_get_vals2(
    op: *mut c_void,
    after: *const c_char,
    prefix: *const c_char,
    most: u64,
    found: *mut *mut c_void,
    more: *mut u8,
    answer: *mut c_int,
) {
    state().open_operations += 1;
    let empty = Found { left: Vec::new(), told: (String::new(), Vec::new()) };
    let made = Box::into_raw(Box::new(empty));
    // SAFETY: the caller gives an open operation, C texts, and places for the answers.
    unsafe {
        assert_eq!(text_of(prefix), "", "the binding asks for all keys");
        *found = made.cast();
        let read = KeysRead { after: text_of(after), most, found: made, more, answer };
        *op.cast::<Option<KeysRead>>() = Some(read);
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rados_read_op_operate(
    op: *mut c_void,
    pool: *mut c_void,
    name: *const c_char,
    _flags: c_int,
) -> c_int {
    let mut state = match enter("rados_read_op_operate") {
        // A positive number means: tell of more, and give none.
        Err(answer) if answer > 0 => {
            // SAFETY: the caller gives an open operation; its places for answers outlive it.
            unsafe {
                if let Some(read) = (*op.cast::<Option<KeysRead>>()).take() {
                    *read.more = 1;
                }
            }
            return 0;
        }
        Err(answer) => return int(answer),
        Ok(state) => state,
    };
    // SAFETY: the caller gives an open operation, an open pool and a C text.
    let (read, name) = unsafe {
        let name = object_at(&mut state, "rados_read_op_operate", pool, name);
        ((*op.cast::<Option<KeysRead>>()).take(), name)
    };
    if state.is_blocklisted {
        return -libc::ESHUTDOWN;
    }
    let Some(read) = read else { return 0 };
    let Some(object) = state.objects.get(&name) else { return -libc::ENOENT };
    let range = (Bound::Excluded(read.after), Bound::Unbounded);
    let mut found: Vec<_> =
        object.pairs.range(range).map(|(key, value)| (key.clone(), value.clone())).collect();
    let most = usize::try_from(read.most.min(MOST_AT_ONCE)).unwrap_or(usize::MAX);
    let is_cut = found.len() > most;
    found.truncate(most);
    found.reverse();
    // SAFETY: the places for the answers outlive the operation.
    unsafe {
        (*read.found).left = found;
        *read.more = u8::from(is_cut);
        *read.answer = 0;
    }
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rados_omap_get_next2(
    found: *mut c_void,
    key: *mut *mut c_char,
    value: *mut *mut c_char,
    key_bytes: *mut size_t,
    value_bytes: *mut size_t,
) -> c_int {
    // SAFETY: made by `rados_read_op_omap_get_vals2`, not yet ended; places for the answers.
    unsafe {
        let found = &mut *found.cast::<Found>();
        let Some(next) = found.left.pop() else {
            (*key, *value, *key_bytes, *value_bytes) = (ptr::null_mut(), ptr::null_mut(), 0, 0);
            return 0;
        };
        found.told = next;
        let (told_key, told_value) = (&mut found.told.0, &mut found.told.1);
        (*key_bytes, *value_bytes) = (told_key.len(), told_value.len());
        (*key, *value) = (told_key.as_mut_ptr().cast(), told_value.as_mut_ptr().cast());
    }
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rados_omap_get_end(found: *mut c_void) {
    state().open_operations -= 1;
    // SAFETY: made by `rados_read_op_omap_get_vals2`, ended once.
    drop(unsafe { Box::from_raw(found.cast::<Found>()) });
}
