//! The part of librados that the binding uses.

use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr;

use crate::state::{CHANGED, enter, state, text_of};

fn int(answer: i64) -> c_int {
    c_int::try_from(answer).unwrap_or(-libc::EIO)
}

/// A handle that is never freed, so that its use after the end can be told.
fn new_handle() -> *mut c_void {
    Box::into_raw(Box::new(0_u64)).cast()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rados_create2(
    cluster: *mut *mut c_void,
    _name: *const c_char,
    _user: *const c_char,
    _flags: u64,
) -> c_int {
    match enter("rados_create2") {
        Err(answer) => int(answer),
        Ok(mut state) => {
            state.open_clusters += 1;
            // SAFETY: the caller gives a place for a handle.
            unsafe { *cluster = new_handle() };
            0
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rados_conf_read_file(_cluster: *mut c_void, path: *const c_char) -> c_int {
    // SAFETY: a C text.
    let path = unsafe { text_of(path) };
    match enter("rados_conf_read_file") {
        Err(answer) => int(answer),
        Ok(_) if path.contains("missing") => -libc::ENOENT,
        Ok(_) => 0,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rados_conf_set(
    _cluster: *mut c_void,
    key: *const c_char,
    value: *const c_char,
) -> c_int {
    // SAFETY: C texts.
    let (key, value) = unsafe { (text_of(key), text_of(value)) };
    match enter("rados_conf_set") {
        Err(answer) => int(answer),
        Ok(_) if key == "no_such_option" => -libc::ENOENT,
        Ok(mut state) => {
            state.settings.push(format!("{key}={value}"));
            0
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rados_connect(_cluster: *mut c_void) -> c_int {
    enter("rados_connect").map_or_else(int, |_| 0)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rados_shutdown(_cluster: *mut c_void) {
    if let Ok(mut state) = enter("rados_shutdown") {
        if state.open_pools > 0 {
            state.violations.push("a cluster was shut down with an open pool".to_owned());
        }
        state.open_clusters -= 1;
        CHANGED.notify_all();
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rados_ioctx_create(
    _cluster: *mut c_void,
    name: *const c_char,
    pool: *mut *mut c_void,
) -> c_int {
    // SAFETY: a C text.
    let name = unsafe { text_of(name) };
    match enter("rados_ioctx_create") {
        Err(answer) => int(answer),
        Ok(_) if name != "rbd" => -libc::ENOENT,
        Ok(mut state) => {
            state.open_pools += 1;
            // SAFETY: the caller gives a place for a handle.
            unsafe { *pool = new_handle() };
            0
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rados_ioctx_set_namespace(_pool: *mut c_void, name: *const c_char) {
    // SAFETY: a C text.
    let name = unsafe { text_of(name) };
    state().settings.push(format!("namespace={name}"));
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rados_ioctx_destroy(_pool: *mut c_void) {
    if let Ok(mut state) = enter("rados_ioctx_destroy") {
        if state.open_images > 0 {
            state.violations.push("a pool was closed with an open image".to_owned());
        }
        state.open_pools -= 1;
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rados_getaddrs(_cluster: *mut c_void, addresses: *mut *mut c_char) -> c_int {
    if let Err(answer) = enter("rados_getaddrs") {
        return int(answer);
    }
    let text = CString::new("v2:10.1.0.5:0/123456").map_or(ptr::null_mut(), CString::into_raw);
    // SAFETY: the caller gives a place for a text.
    unsafe { *addresses = text };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rados_buffer_free(text: *mut c_char) {
    // SAFETY: made by `rados_getaddrs`.
    drop(unsafe { CString::from_raw(text) });
}
