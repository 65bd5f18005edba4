//! The part of librados that the binding uses.

use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::state::{CHANGED, enter, state, text_of};

fn int(answer: i64) -> c_int {
    c_int::try_from(answer).unwrap_or(-libc::EIO)
}

/// A connection's handle; never freed, so that its use after the end can be told.
#[derive(Default)]
struct ClusterHandle {
    open_pools: AtomicI64,
}

/// A pool's handle; never freed either.
pub(crate) struct PoolHandle {
    cluster: &'static ClusterHandle,
    pub(crate) is_open: AtomicBool,
    pub(crate) namespace: Mutex<String>,
    pub(crate) open_images: AtomicI64,
    /// Operations on objects that were started through it and have not been carried out.
    pub(crate) in_flight: AtomicI64,
}

impl PoolHandle {
    /// # Safety
    /// `pool` was made by `rados_ioctx_create`.
    pub(crate) unsafe fn at(pool: *mut c_void) -> &'static Self {
        // SAFETY: as the caller says; handles are never freed.
        unsafe { &*pool.cast::<Self>() }
    }
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
            unsafe { *cluster = Box::into_raw(Box::<ClusterHandle>::default()).cast() };
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
unsafe extern "C" fn rados_shutdown(cluster: *mut c_void) {
    // SAFETY: a connection's handle.
    let cluster = unsafe { &*cluster.cast::<ClusterHandle>() };
    if let Ok(mut state) = enter("rados_shutdown") {
        if cluster.open_pools.load(Ordering::SeqCst) > 0 {
            state.violations.push("a cluster was shut down with an open pool".to_owned());
        }
        state.open_clusters -= 1;
        CHANGED.notify_all();
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rados_ioctx_create(
    cluster: *mut c_void,
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
            // SAFETY: a connection's handle; handles are never freed.
            let cluster = unsafe { &*cluster.cast::<ClusterHandle>() };
            cluster.open_pools.fetch_add(1, Ordering::SeqCst);
            let handle = PoolHandle {
                cluster,
                is_open: AtomicBool::new(true),
                namespace: Mutex::default(),
                open_images: AtomicI64::new(0),
                in_flight: AtomicI64::new(0),
            };
            // SAFETY: the caller gives a place for a handle.
            unsafe { *pool = Box::into_raw(Box::new(handle)).cast() };
            0
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rados_ioctx_set_namespace(pool: *mut c_void, name: *const c_char) {
    // SAFETY: a pool's handle and a C text.
    let (pool, name) = unsafe { (PoolHandle::at(pool), text_of(name)) };
    state().settings.push(format!("namespace={name}"));
    *pool.namespace.lock().unwrap_or_else(PoisonError::into_inner) = name;
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rados_ioctx_destroy(pool: *mut c_void) {
    // SAFETY: a pool's handle.
    let pool = unsafe { PoolHandle::at(pool) };
    if let Ok(mut state) = enter("rados_ioctx_destroy") {
        if pool.open_images.load(Ordering::SeqCst) > 0 {
            state.violations.push("a pool was closed with an open image".to_owned());
        }
        if pool.in_flight.load(Ordering::SeqCst) > 0 {
            state.violations.push("a pool was closed with operations in flight".to_owned());
        }
        if !pool.is_open.swap(false, Ordering::SeqCst) {
            state.violations.push("a pool was closed twice".to_owned());
        }
        pool.cluster.open_pools.fetch_sub(1, Ordering::SeqCst);
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
