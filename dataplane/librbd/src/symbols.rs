//! The functions of librados and librbd, with the types that their headers give them.
//!
//! Checked against `librados.h` and `librbd.h` of Ceph 16.2 and the symbols of 18.2 and 20.2.
#![allow(unsafe_code, reason = "finding a C function by name cannot check its type")]

use std::ffi::{c_char, c_int, c_void};
use std::path::Path;

use libc::{size_t, ssize_t, time_t};
use libloading::os::unix::Library;

use crate::error::LoadError;

/// `rados_t`.
pub(crate) type RadosHandle = *mut c_void;
/// `rados_ioctx_t`.
pub(crate) type PoolHandle = *mut c_void;
/// `rbd_image_t`.
pub(crate) type ImageHandle = *mut c_void;
/// `rados_write_op_t`.
pub(crate) type WriteOpHandle = *mut c_void;
/// `rados_read_op_t`.
pub(crate) type ReadOpHandle = *mut c_void;
/// `rados_omap_iter_t`.
pub(crate) type KeysHandle = *mut c_void;
/// `rbd_completion_t` and `rados_completion_t`.
pub(crate) type CompletionHandle = *mut c_void;
/// `rbd_callback_t` and `rados_callback_t`.
pub(crate) type CompletionCallback = unsafe extern "C" fn(CompletionHandle, *mut c_void);
/// `rbd_update_callback_t`.
pub(crate) type WatchCallback = unsafe extern "C" fn(*mut c_void);
/// `librbd_progress_fn_t`.
pub(crate) type ProgressCallback = unsafe extern "C" fn(u64, u64, *mut c_void) -> c_int;
/// `rbd_lock_mode_t`, an enumeration from 0 on; only `RBD_LOCK_MODE_EXCLUSIVE` is used.
pub(crate) type LockMode = c_int;

/// `RBD_LOCK_MODE_EXCLUSIVE`.
pub(crate) const LOCK_MODE_EXCLUSIVE: LockMode = 0;
/// `RBD_WRITE_ZEROES_FLAG_THICK_PROVISION`.
pub(crate) const WRITE_ZEROES_THICK: c_int = 1;
/// `RBD_SNAP_CREATE_SKIP_QUIESCE`.
pub(crate) const SNAP_CREATE_SKIP_QUIESCE: u32 = 1;
/// `LIBRADOS_CMPXATTR_OP_EQ`.
pub(crate) const ATTRIBUTE_EQUALS: u8 = 1;
/// `LIBRADOS_CREATE_EXCLUSIVE`.
pub(crate) const CREATE_EXCLUSIVE: c_int = 1;
/// `LIBRADOS_OPERATION_FULL_TRY`.
pub(crate) const OPERATION_FULL_TRY: c_int = 64;

/// `rbd_snap_info_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct SnapshotInfo {
    pub(crate) id: u64,
    pub(crate) size: u64,
    pub(crate) name: *const c_char,
}

/// `rbd_config_option_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct ConfigOption {
    pub(crate) name: *const c_char,
    pub(crate) value: *const c_char,
    /// `rbd_config_source_t`, an enumeration.
    pub(crate) source: c_int,
}

/// `RBD_ENCRYPTION_FORMAT_LUKS2`, `RBD_ENCRYPTION_FORMAT_LUKS` (any version; Ceph 18), and
/// `RBD_ENCRYPTION_ALGORITHM_AES256`.
pub(crate) const ENCRYPTION_LUKS2: c_int = 1;
pub(crate) const ENCRYPTION_LUKS: c_int = 2;
pub(crate) const ENCRYPTION_AES256: c_int = 1;

/// `rbd_encryption_luks_format_options_t`.
#[repr(C)]
pub(crate) struct LuksOptions {
    pub(crate) passphrase: *const c_char,
    pub(crate) passphrase_size: size_t,
}

/// `rbd_encryption_luks2_format_options_t`.
#[repr(C)]
pub(crate) struct Luks2Options {
    /// Of what is formatted; what is loaded says its own.
    pub(crate) algorithm: c_int,
    pub(crate) passphrase: *const c_char,
    pub(crate) passphrase_size: size_t,
}

/// `rbd_encryption_spec_t`.
#[repr(C)]
pub(crate) struct EncryptionSpec {
    pub(crate) format: c_int,
    pub(crate) options: *mut c_void,
    pub(crate) options_size: size_t,
}

/// Declare a table of functions, and how to fill it from a library.
macro_rules! table {
    (
        $(#[$note:meta])*
        $table:ident,
        required: { $($name:ident: fn($($argument:ty),*) $(-> $result:ty)?;)* }
        optional: { $($extra:ident: fn($($extra_argument:ty),*) $(-> $extra_result:ty)?;)* }
    ) => {
        $(#[$note])*
        #[derive(Clone, Copy)]
        #[allow(clippy::struct_field_names, reason = "the functions' own names are looked up")]
        pub(crate) struct $table {
            $(pub(crate) $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
            $(pub(crate) $extra:
                Option<unsafe extern "C" fn($($extra_argument),*) $(-> $extra_result)?>,)*
        }

        impl $table {
            pub(crate) fn find_in(library: &Library, path: &Path) -> Result<Self, LoadError> {
                Ok(Self {
                    // SAFETY: the type is the one that the header declares for this name.
                    $($name: unsafe { find(library, stringify!($name)) }.ok_or_else(|| {
                        LoadError::Symbol { path: path.to_owned(), symbol: stringify!($name) }
                    })?,)*
                    // SAFETY: as above.
                    $($extra: unsafe { find(library, stringify!($extra)) },)*
                })
            }
        }
    };
}

table! {
    /// What is used of librados.
    Rados,
    required: {
        rados_create2: fn(*mut RadosHandle, *const c_char, *const c_char, u64) -> c_int;
        rados_conf_read_file: fn(RadosHandle, *const c_char) -> c_int;
        rados_conf_set: fn(RadosHandle, *const c_char, *const c_char) -> c_int;
        rados_connect: fn(RadosHandle) -> c_int;
        rados_shutdown: fn(RadosHandle);
        rados_ioctx_create: fn(RadosHandle, *const c_char, *mut PoolHandle) -> c_int;
        rados_ioctx_set_namespace: fn(PoolHandle, *const c_char);
        rados_ioctx_destroy: fn(PoolHandle);
        rados_read: fn(PoolHandle, *const c_char, *mut c_char, size_t, u64) -> c_int;
        rados_getxattr:
            fn(PoolHandle, *const c_char, *const c_char, *mut c_char, size_t) -> c_int;
        rados_create_write_op: fn() -> WriteOpHandle;
        rados_release_write_op: fn(WriteOpHandle);
        rados_write_op_assert_exists: fn(WriteOpHandle);
        rados_write_op_cmpext: fn(WriteOpHandle, *const c_char, size_t, u64, *mut c_int);
        rados_write_op_cmpxattr: fn(WriteOpHandle, *const c_char, u8, *const c_char, size_t);
        rados_write_op_create: fn(WriteOpHandle, c_int, *const c_char);
        rados_write_op_write: fn(WriteOpHandle, *const c_char, size_t, u64);
        rados_write_op_write_full: fn(WriteOpHandle, *const c_char, size_t);
        rados_write_op_setxattr: fn(WriteOpHandle, *const c_char, *const c_char, size_t);
        rados_write_op_omap_set: fn(
            WriteOpHandle, *const *const c_char, *const *const c_char, *const size_t, size_t
        );
        rados_write_op_omap_rm_range2:
            fn(WriteOpHandle, *const c_char, size_t, *const c_char, size_t);
        rados_write_op_remove: fn(WriteOpHandle);
        rados_write_op_operate:
            fn(WriteOpHandle, PoolHandle, *const c_char, *mut time_t, c_int) -> c_int;
        rados_aio_write_op_operate: fn(
            WriteOpHandle, PoolHandle, CompletionHandle, *const c_char, *mut time_t, c_int
        ) -> c_int;
        rados_create_read_op: fn() -> ReadOpHandle;
        rados_release_read_op: fn(ReadOpHandle);
        rados_read_op_omap_get_vals2: fn(
            ReadOpHandle, *const c_char, *const c_char, u64, *mut KeysHandle, *mut u8, *mut c_int
        );
        rados_read_op_operate: fn(ReadOpHandle, PoolHandle, *const c_char, c_int) -> c_int;
        rados_omap_get_next2: fn(
            KeysHandle, *mut *mut c_char, *mut *mut c_char, *mut size_t, *mut size_t
        ) -> c_int;
        rados_omap_get_end: fn(KeysHandle);
        rados_aio_create_completion2:
            fn(*mut c_void, CompletionCallback, *mut CompletionHandle) -> c_int;
        rados_aio_get_return_value: fn(CompletionHandle) -> c_int;
        rados_aio_release: fn(CompletionHandle);
    }
    optional: {
        rados_getaddrs: fn(RadosHandle, *mut *mut c_char) -> c_int;
        rados_buffer_free: fn(*mut c_char);
    }
}

table! {
    /// What is used of librbd.
    Rbd,
    required: {
        rbd_version: fn(*mut c_int, *mut c_int, *mut c_int);
        rbd_open: fn(PoolHandle, *const c_char, *mut ImageHandle, *const c_char) -> c_int;
        rbd_open_read_only: fn(PoolHandle, *const c_char, *mut ImageHandle, *const c_char) -> c_int;
        rbd_close: fn(ImageHandle) -> c_int;
        rbd_get_id: fn(ImageHandle, *mut c_char, size_t) -> c_int;
        rbd_get_size: fn(ImageHandle, *mut u64) -> c_int;
        rbd_resize2: fn(ImageHandle, u64, bool, ProgressCallback, *mut c_void) -> c_int;
        rbd_update_watch: fn(ImageHandle, *mut u64, WatchCallback, *mut c_void) -> c_int;
        rbd_update_unwatch: fn(ImageHandle, u64) -> c_int;
        rbd_is_exclusive_lock_owner: fn(ImageHandle, *mut c_int) -> c_int;
        rbd_lock_acquire: fn(ImageHandle, LockMode) -> c_int;
        rbd_lock_release: fn(ImageHandle) -> c_int;
        rbd_lock_get_owners: fn(ImageHandle, *mut LockMode, *mut *mut c_char, *mut size_t) -> c_int;
        rbd_lock_get_owners_cleanup: fn(*mut *mut c_char, size_t);
        rbd_lock_break: fn(ImageHandle, LockMode, *const c_char) -> c_int;
        rbd_metadata_get: fn(ImageHandle, *const c_char, *mut c_char, *mut size_t) -> c_int;
        rbd_metadata_set: fn(ImageHandle, *const c_char, *const c_char) -> c_int;
        rbd_snap_list: fn(ImageHandle, *mut SnapshotInfo, *mut c_int) -> c_int;
        rbd_snap_list_end: fn(*mut SnapshotInfo);
        rbd_snap_create: fn(ImageHandle, *const c_char) -> c_int;
        rbd_snap_remove: fn(ImageHandle, *const c_char) -> c_int;
        rbd_flush: fn(ImageHandle) -> c_int;
        rbd_aio_create_completion:
            fn(*mut c_void, CompletionCallback, *mut CompletionHandle) -> c_int;
        rbd_aio_get_return_value: fn(CompletionHandle) -> ssize_t;
        rbd_aio_release: fn(CompletionHandle);
        rbd_aio_read: fn(ImageHandle, u64, size_t, *mut c_char, CompletionHandle) -> c_int;
        rbd_aio_write: fn(ImageHandle, u64, size_t, *const c_char, CompletionHandle) -> c_int;
        rbd_aio_flush: fn(ImageHandle, CompletionHandle) -> c_int;
    }
    optional: {
        rbd_aio_write_zeroes:
            fn(ImageHandle, u64, size_t, CompletionHandle, c_int, c_int) -> c_int;
        rbd_compare_and_write: fn(
            ImageHandle, u64, size_t, *const c_char, *const c_char, *mut u64, c_int
        ) -> ssize_t;
        rbd_snap_create2: fn(
            ImageHandle, *const c_char, u32, ProgressCallback, *mut c_void
        ) -> c_int;
        rbd_quiesce_watch:
            fn(ImageHandle, WatchCallback, WatchCallback, *mut c_void, *mut u64) -> c_int;
        rbd_quiesce_complete: fn(ImageHandle, u64, c_int);
        rbd_quiesce_unwatch: fn(ImageHandle, u64) -> c_int;
        rbd_encryption_load: fn(ImageHandle, c_int, *mut c_void, size_t) -> c_int;
        rbd_encryption_load2: fn(ImageHandle, *const EncryptionSpec, size_t) -> c_int;
        rbd_get_features: fn(ImageHandle, *mut u64) -> c_int;
        rbd_config_image_list: fn(ImageHandle, *mut ConfigOption, *mut c_int) -> c_int;
        rbd_config_image_list_cleanup: fn(*mut ConfigOption, c_int);
    }
}

/// The function called `name`, or None.
///
/// # Safety
/// `F` is a function pointer of the type that the function called `name` has.
unsafe fn find<F: Copy>(library: &Library, name: &str) -> Option<F> {
    // SAFETY: the caller says that `F` is right; the pointer outlives `library` since the
    // library is never unloaded (`libraries::open`).
    unsafe { library.get::<F>(name.as_bytes()) }.ok().map(|symbol| *symbol)
}
