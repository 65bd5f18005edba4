//! librbd's calls, with C's pointers and buffers on one side and Rust's values on the other.
//!
//! Answers are as librbd gives them: 0 or more, or a negative errno.
#![allow(unsafe_code, reason = "calls into librbd")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;

use crate::symbols::{
    CompletionCallback, CompletionHandle, ConfigOption, ENCRYPTION_AES256, ENCRYPTION_LUKS,
    ENCRYPTION_LUKS2, EncryptionSpec, ImageHandle, LOCK_MODE_EXCLUSIVE, Luks2Options, LuksOptions,
    PoolHandle, Rbd, SNAP_CREATE_SKIP_QUIESCE, SnapshotInfo, WRITE_ZEROES_THICK, WatchCallback,
};

/// More owners of an exclusive lock than there can be.
const MAX_OWNERS: usize = 8;
/// More than an image's id can take.
const MAX_ID_BYTES: usize = 4096;

/// The version of librbd's interface.
pub(crate) fn version(rbd: &Rbd) -> (i32, i32, i32) {
    let (mut major, mut minor, mut extra) = (0, 0, 0);
    // SAFETY: writes three ints.
    unsafe { (rbd.rbd_version)(&raw mut major, &raw mut minor, &raw mut extra) };
    (major, minor, extra)
}

/// The answer of a call that has been started.
///
/// # Safety
/// `completion` was given to a callback that has neither released nor left it.
pub(crate) unsafe fn take_answer(rbd: &Rbd, completion: CompletionHandle) -> i64 {
    // SAFETY: as the caller says; it is released once, here, and not used again.
    unsafe {
        let answer = (rbd.rbd_aio_get_return_value)(completion);
        (rbd.rbd_aio_release)(completion);
        i64_of(answer)
    }
}

/// An asynchronous call. Memory that it points at must stay valid, and be left alone, until its
/// callback runs.
pub(crate) enum Call {
    Read {
        offset_bytes: u64,
        into: *mut u8,
        length: usize,
    },
    Write {
        offset_bytes: u64,
        from: *const u8,
        length: usize,
    },
    /// `keep_space`: allocated afterwards, as if zeros had been written.
    Zero {
        offset_bytes: u64,
        length: usize,
        keep_space: bool,
    },
    Flush,
}

/// An open image.
///
/// Its methods are sound until `close` was called; [`crate::core::Core`] sees to that order.
pub(crate) struct Image {
    pub(crate) rbd: Rbd,
    handle: ImageHandle,
}

// SAFETY: librbd locks for itself; an `rbd_image_t` may be used by any thread, also at once.
unsafe impl Send for Image {}
// SAFETY: as above.
unsafe impl Sync for Image {}

impl Image {
    /// # Safety
    /// `pool` is open, and stays so until the image is closed.
    pub(crate) unsafe fn open(
        rbd: &Rbd,
        pool: PoolHandle,
        name: &CStr,
        snapshot: Option<&CStr>,
        read_only: bool,
    ) -> Result<Self, i64> {
        let call = if read_only { rbd.rbd_open_read_only } else { rbd.rbd_open };
        let snapshot = snapshot.map_or(ptr::null(), CStr::as_ptr);
        let mut handle = ptr::null_mut();
        // SAFETY: the pool is open; the texts end in NUL or are NULL; the handle is written.
        let answer = unsafe { call(pool, name.as_ptr(), &raw mut handle, snapshot) };
        if answer < 0 { Err(answer.into()) } else { Ok(Self { rbd: *rbd, handle }) }
    }

    /// Close it.
    ///
    /// # Safety
    /// Called once; no call is in progress and none follows.
    pub(crate) unsafe fn close(&self) -> i64 {
        // SAFETY: as the caller says.
        unsafe { (self.rbd.rbd_close)(self.handle) }.into()
    }

    /// Load the image's encryption, and that of all it is a clone of, with one passphrase: from
    /// then on the image is what was encrypted. An ancestor that is not encrypted is read as it
    /// is. None when the library cannot.
    pub(crate) fn load_encryption(&self, passphrase: &[u8]) -> Option<i64> {
        let (text, size) = (passphrase.as_ptr().cast::<c_char>(), passphrase.len());
        if let Some(load) = self.rbd.rbd_encryption_load2 {
            let mut options = LuksOptions { passphrase: text, passphrase_size: size };
            let spec = EncryptionSpec {
                format: ENCRYPTION_LUKS,
                options: (&raw mut options).cast(),
                options_size: size_of::<LuksOptions>(),
            };
            // SAFETY: the image is open; one spec, its options and the passphrase live through the
            // call, which keeps copies.
            return Some(unsafe { load(self.handle, &raw const spec, 1) }.into());
        }
        let load = self.rbd.rbd_encryption_load?;
        let mut options =
            Luks2Options { algorithm: ENCRYPTION_AES256, passphrase: text, passphrase_size: size };
        let length = size_of::<Luks2Options>();
        // SAFETY: as above, with the options that belong to the format.
        let answer =
            unsafe { load(self.handle, ENCRYPTION_LUKS2, (&raw mut options).cast(), length) };
        Some(answer.into())
    }

    /// Start a call; `callback` gets `argument` on a thread of librbd, perhaps before this
    /// returns. A negative answer means that it was not started and no callback comes.
    ///
    /// # Safety
    /// What `call` points at is as [`Call`] demands, and `callback` may be given `argument`.
    pub(crate) unsafe fn start(
        &self,
        call: &Call,
        callback: CompletionCallback,
        argument: *mut c_void,
    ) -> i64 {
        let rbd = &self.rbd;
        let mut completion = ptr::null_mut();
        // SAFETY: writes the handle; the argument is only passed on.
        let made =
            unsafe { (rbd.rbd_aio_create_completion)(argument, callback, &raw mut completion) };
        if made < 0 {
            return made.into();
        }
        let handle = self.handle;
        let started = match *call {
            // SAFETY: image and completion are open, the memory is the caller's promise.
            Call::Read { offset_bytes, into, length } => unsafe {
                (rbd.rbd_aio_read)(handle, offset_bytes, length, into.cast(), completion)
            },
            // SAFETY: as above.
            Call::Write { offset_bytes, from, length } => unsafe {
                (rbd.rbd_aio_write)(handle, offset_bytes, length, from.cast(), completion)
            },
            Call::Zero { offset_bytes, length, keep_space } => match rbd.rbd_aio_write_zeroes {
                Some(write_zeroes) => {
                    let flags = if keep_space { WRITE_ZEROES_THICK } else { 0 };
                    // SAFETY: as above; no memory is involved.
                    unsafe { write_zeroes(handle, offset_bytes, length, completion, flags, 0) }
                }
                None => -libc::ENOSYS,
            },
            // SAFETY: as above.
            Call::Flush => unsafe { (rbd.rbd_aio_flush)(handle, completion) },
        };
        if started < 0 {
            // SAFETY: the call was refused, so the completion is still this function's.
            unsafe { (rbd.rbd_aio_release)(completion) };
        }
        started.into()
    }

    pub(crate) fn flush(&self) -> i64 {
        // SAFETY: the image is open.
        unsafe { (self.rbd.rbd_flush)(self.handle) }.into()
    }

    /// The image's id, which stays when it is renamed.
    pub(crate) fn id(&self) -> Result<String, i64> {
        let mut capacity = 128;
        loop {
            let mut id = vec![0_u8; capacity];
            // SAFETY: the image is open; at most `capacity` bytes are written, ending in NUL.
            let answer = unsafe {
                (self.rbd.rbd_get_id)(self.handle, id.as_mut_ptr().cast::<c_char>(), capacity)
            };
            match answer {
                // How much it takes is not told.
                code if code == -libc::ERANGE && capacity < MAX_ID_BYTES => capacity *= 2,
                code if code < 0 => return Err(code.into()),
                _ => return Ok(CStr::from_bytes_until_nul(&id).map(shown).unwrap_or_default()),
            }
        }
    }

    /// The image's size in bytes.
    pub(crate) fn size_bytes(&self) -> Result<u64, i64> {
        let mut size_bytes = 0;
        // SAFETY: the image is open; writes one u64.
        let answer = unsafe { (self.rbd.rbd_get_size)(self.handle, &raw mut size_bytes) };
        if answer < 0 { Err(answer.into()) } else { Ok(size_bytes) }
    }

    /// The image's feature bits; None when the library cannot say.
    pub(crate) fn features(&self) -> Option<u64> {
        let mut features = 0;
        // SAFETY: the image is open; writes one u64.
        let answer = unsafe { self.rbd.rbd_get_features?(self.handle, &raw mut features) };
        (answer >= 0).then_some(features)
    }

    /// What librbd's settings are for this image, from wherever each was set; None when the
    /// library cannot say.
    pub(crate) fn settings(&self) -> Option<Vec<(String, String)>> {
        let (list, clean_up) =
            (self.rbd.rbd_config_image_list?, self.rbd.rbd_config_image_list_cleanup?);
        let unset = ConfigOption { name: ptr::null(), value: ptr::null(), source: 0 };
        let mut capacity: usize = 256;
        loop {
            let mut found = vec![unset; capacity];
            let mut count = c_int::try_from(capacity).ok()?;
            // SAFETY: the image is open; at most `count` entries are written, and `count` set.
            let answer = unsafe { list(self.handle, found.as_mut_ptr(), &raw mut count) };
            let listed = usize::try_from(count).unwrap_or(0);
            if answer == -libc::ERANGE && listed > capacity {
                capacity = listed;
                continue;
            } else if answer < 0 {
                return None;
            }
            // SAFETY: the call set both texts of the first `count` entries to texts of its own.
            let pair =
                |option: &ConfigOption| unsafe { (text_at(option.name), text_at(option.value)) };
            let settings = found.iter().take(listed).map(pair).collect();
            // SAFETY: these are the entries of the call above, freed once.
            unsafe { clean_up(found.as_mut_ptr(), count) };
            return Some(settings);
        }
    }

    /// Make it larger; EINVAL for smaller.
    pub(crate) fn grow(&self, size_bytes: u64) -> i64 {
        // SAFETY: the image is open; the callback looks at nothing.
        unsafe { (self.rbd.rbd_resize2)(self.handle, size_bytes, false, unheard, ptr::null_mut()) }
            .into()
    }

    pub(crate) fn lock(&self) -> i64 {
        // SAFETY: the image is open.
        unsafe { (self.rbd.rbd_lock_acquire)(self.handle, LOCK_MODE_EXCLUSIVE) }.into()
    }

    pub(crate) fn unlock(&self) -> i64 {
        // SAFETY: the image is open.
        unsafe { (self.rbd.rbd_lock_release)(self.handle) }.into()
    }

    pub(crate) fn break_lock(&self, owner: &CStr) -> i64 {
        let call = self.rbd.rbd_lock_break;
        // SAFETY: the image is open; the text ends in NUL.
        unsafe { call(self.handle, LOCK_MODE_EXCLUSIVE, owner.as_ptr()) }.into()
    }

    /// Whether this client holds the lock; asks the OSD.
    pub(crate) fn is_lock_owner(&self) -> Result<bool, i64> {
        let mut owner = 0;
        // SAFETY: the image is open; writes one int.
        let answer = unsafe { (self.rbd.rbd_is_exclusive_lock_owner)(self.handle, &raw mut owner) };
        if answer < 0 { Err(answer.into()) } else { Ok(owner != 0) }
    }

    /// The addresses of the lock's owners; none when it is free.
    pub(crate) fn lock_owners(&self) -> Result<Vec<String>, i64> {
        let mut owners = [ptr::null_mut(); MAX_OWNERS];
        let (mut mode, mut count) = (LOCK_MODE_EXCLUSIVE, MAX_OWNERS);
        // SAFETY: the image is open; at most `count` pointers are written, and `count` set.
        let answer = unsafe {
            let call = self.rbd.rbd_lock_get_owners;
            call(self.handle, &raw mut mode, owners.as_mut_ptr(), &raw mut count)
        };
        if answer == -libc::ENOENT {
            return Ok(Vec::new());
        } else if answer < 0 {
            return Err(answer.into());
        }
        // SAFETY: the call set the first `count` pointers to texts of its own.
        let texts = owners.iter().take(count).map(|owner| unsafe { text_at(*owner) }).collect();
        // SAFETY: these are the texts of the call above, freed once.
        unsafe { (self.rbd.rbd_lock_get_owners_cleanup)(owners.as_mut_ptr(), count) };
        Ok(texts)
    }

    pub(crate) fn set_metadata(&self, key: &CStr, value: &CStr) -> i64 {
        // SAFETY: the image is open; both texts end in NUL.
        unsafe { (self.rbd.rbd_metadata_set)(self.handle, key.as_ptr(), value.as_ptr()) }.into()
    }

    /// A value of the image's metadata; None when there is no such key.
    pub(crate) fn metadata(&self, key: &CStr) -> Result<Option<String>, i64> {
        let mut capacity = 4096;
        loop {
            let mut value = vec![0_u8; capacity];
            let mut length = capacity;
            // SAFETY: the image is open; at most `length` bytes are written, ending in NUL.
            let answer = unsafe {
                let into = value.as_mut_ptr().cast::<c_char>();
                (self.rbd.rbd_metadata_get)(self.handle, key.as_ptr(), into, &raw mut length)
            };
            match answer {
                code if code == -libc::ERANGE && length > capacity => capacity = length,
                code if code == -libc::ENOENT => return Ok(None),
                code if code < 0 => return Err(code.into()),
                _ => return Ok(CStr::from_bytes_until_nul(&value).ok().map(shown)),
            }
        }
    }

    /// Id, name and size in bytes of every snapshot.
    pub(crate) fn snapshots(&self) -> Result<Vec<(u64, String, u64)>, i64> {
        let mut capacity: usize = 32;
        loop {
            let unset = SnapshotInfo { id: 0, size: 0, name: ptr::null() };
            let mut found = vec![unset; capacity];
            let mut room = c_int::try_from(capacity).map_err(|_| -i64::from(libc::E2BIG))?;
            // SAFETY: the image is open; at most `room` entries are written.
            let answer =
                unsafe { (self.rbd.rbd_snap_list)(self.handle, found.as_mut_ptr(), &raw mut room) };
            if answer == -libc::ERANGE {
                // `room` is what it takes now; with one more in case another is taken meanwhile.
                capacity = usize::try_from(room).unwrap_or(0).max(capacity) + 1;
                continue;
            } else if answer < 0 {
                return Err(answer.into());
            }
            let count = usize::try_from(answer).unwrap_or(0);
            let listed = found.iter().take(count).map(|snapshot| {
                // SAFETY: the call set this entry's name to a text of its own.
                (snapshot.id, unsafe { text_at(snapshot.name) }, snapshot.size)
            });
            let listed = listed.collect();
            // SAFETY: frees the names up to the first that is NULL; librbd sets the one after the
            // last, since it refuses an array without room for it.
            unsafe { (self.rbd.rbd_snap_list_end)(found.as_mut_ptr()) };
            return Ok(listed);
        }
    }

    pub(crate) fn create_snapshot(&self, name: &CStr) -> i64 {
        // SAFETY: the image is open; the text ends in NUL.
        unsafe { (self.rbd.rbd_snap_create)(self.handle, name.as_ptr()) }.into()
    }

    /// Take a snapshot without asking any client to quiesce.
    pub(crate) fn create_quiesced_snapshot(&self, name: &CStr) -> i64 {
        let Some(create) = self.rbd.rbd_snap_create2 else {
            return self.create_snapshot(name); // so old that it asks nobody
        };
        let (flags, argument) = (SNAP_CREATE_SKIP_QUIESCE, ptr::null_mut());
        // SAFETY: the image is open; the text ends in NUL; the callback looks at nothing.
        unsafe { create(self.handle, name.as_ptr(), flags, unheard, argument) }.into()
    }

    pub(crate) fn remove_snapshot(&self, name: &CStr) -> i64 {
        // SAFETY: the image is open; the text ends in NUL.
        unsafe { (self.rbd.rbd_snap_remove)(self.handle, name.as_ptr()) }.into()
    }

    /// Write `write` at `offset_bytes` if `compare` is there. The answer, and where the first
    /// difference is if the answer is EILSEQ. None when the library cannot.
    pub(crate) fn compare_and_write(
        &self,
        offset_bytes: u64,
        compare: &[u8],
        write: &[u8],
    ) -> Option<(i64, u64)> {
        let call = self.rbd.rbd_compare_and_write?;
        let length = compare.len().min(write.len());
        let (compare, write) = (compare.as_ptr().cast(), write.as_ptr().cast());
        let mut mismatch_bytes = 0;
        // SAFETY: the image is open; both memories hold `length` bytes through the call.
        let answer = unsafe {
            call(self.handle, offset_bytes, length, compare, write, &raw mut mismatch_bytes, 0)
        };
        Some((i64_of(answer), mismatch_bytes))
    }

    /// # Safety
    /// `callback` may be given `argument` until the image is closed.
    pub(crate) unsafe fn watch_updates(
        &self,
        callback: WatchCallback,
        argument: *mut c_void,
    ) -> Result<u64, i64> {
        let mut watch = 0;
        // SAFETY: the image is open; writes the watch's handle; the rest is the caller's promise.
        let answer =
            unsafe { (self.rbd.rbd_update_watch)(self.handle, &raw mut watch, callback, argument) };
        if answer < 0 { Err(answer.into()) } else { Ok(watch) }
    }

    pub(crate) fn unwatch_updates(&self, watch: u64) -> i64 {
        // SAFETY: the image is open.
        unsafe { (self.rbd.rbd_update_unwatch)(self.handle, watch) }.into()
    }

    /// None when the library cannot.
    ///
    /// # Safety
    /// Both callbacks may be given `argument` until the image is closed.
    pub(crate) unsafe fn watch_quiesce(
        &self,
        quiesce: WatchCallback,
        unquiesce: WatchCallback,
        argument: *mut c_void,
    ) -> Option<Result<u64, i64>> {
        let call = self.rbd.rbd_quiesce_watch?;
        let mut watch = 0;
        // SAFETY: the image is open; writes the watch's handle; the rest is the caller's promise.
        let answer = unsafe { call(self.handle, quiesce, unquiesce, argument, &raw mut watch) };
        Some(if answer < 0 { Err(answer.into()) } else { Ok(watch) })
    }

    /// Say that a quiesce is done (0) or failed (a negative errno).
    pub(crate) fn complete_quiesce(&self, watch: u64, answer: i32) {
        if let Some(call) = self.rbd.rbd_quiesce_complete {
            // SAFETY: the image is open.
            unsafe { call(self.handle, watch, answer) };
        }
    }

    pub(crate) fn unwatch_quiesce(&self, watch: u64) -> i64 {
        // SAFETY: the image is open.
        self.rbd.rbd_quiesce_unwatch.map_or(0, |call| unsafe { call(self.handle, watch) }.into())
    }
}

/// A progress callback for who wants to hear nothing.
unsafe extern "C" fn unheard(_offset: u64, _total: u64, _argument: *mut c_void) -> c_int {
    0
}

/// # Safety
/// `text` is NULL or ends in NUL and lives through the call.
unsafe fn text_at(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: as the caller says.
    shown(unsafe { CStr::from_ptr(text) })
}

fn shown(text: &CStr) -> String {
    text.to_string_lossy().into_owned()
}

fn i64_of(answer: libc::ssize_t) -> i64 {
    // No platform has an ssize_t wider than 64 bits.
    i64::try_from(answer).unwrap_or(i64::MIN)
}
