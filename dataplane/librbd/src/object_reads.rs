//! Reading objects, as librados answers: bytes, or a negative errno.
#![allow(unsafe_code, reason = "calls into librados")]

use std::ffi::{CStr, CString, c_int};
use std::{ptr, slice};

use crate::cluster::Pool;
use crate::symbols::{KeysHandle, Rados, ReadOpHandle};

/// Of one read. librados touches all of the memory that it is given, however short the object.
const PIECE_BYTES: usize = 4 << 20;
/// An OSD gives at most 1,024 at once, as Ceph is set up by default.
const PAIRS_AT_ONCE: u64 = 512;
/// More than an OSD takes for an attribute.
const MAX_ATTRIBUTE_BYTES: usize = 16 << 20;

/// A key, which is any bytes but NUL, and its value.
pub(crate) type RawPair = (CString, Vec<u8>);

/// The first `max_bytes` of an object, or all that it has. More than [`PIECE_BYTES`] are read in
/// several operations: of an object that is written to meanwhile, a mix.
pub(crate) fn read(pool: &Pool, name: &CStr, max_bytes: usize) -> Result<Vec<u8>, i64> {
    let mut bytes = Vec::new();
    loop {
        let start = bytes.len();
        // A read of no bytes means one of the whole object.
        let wanted = (max_bytes - start).clamp(1, PIECE_BYTES);
        bytes.resize(start + wanted, 0);
        let into = bytes.get_mut(start..).unwrap_or_default();
        let offset = u64::try_from(start).unwrap_or(u64::MAX);
        // SAFETY: the pool is open; the name ends in NUL; at most so many bytes are written.
        let answer = unsafe {
            let (call, into) = (pool.rados().rados_read, into.as_mut_ptr().cast());
            call(pool.handle(), name.as_ptr(), into, wanted, offset)
        };
        let found = length_of(answer)?;
        bytes.truncate((start + found).min(max_bytes));
        if found < wanted || bytes.len() == max_bytes {
            bytes.shrink_to_fit();
            return Ok(bytes);
        }
    }
}

/// An attribute's value, of whatever length.
pub(crate) fn attribute(pool: &Pool, name: &CStr, key: &CStr) -> Result<Vec<u8>, i64> {
    let mut capacity = 256;
    loop {
        let mut value = vec![0; capacity];
        // SAFETY: the pool is open; both texts end in NUL; at most so many bytes are written.
        let answer = unsafe {
            let (call, into) = (pool.rados().rados_getxattr, value.as_mut_ptr().cast());
            call(pool.handle(), name.as_ptr(), key.as_ptr(), into, capacity)
        };
        if answer == -libc::ERANGE && capacity < MAX_ATTRIBUTE_BYTES {
            // How much it takes is not told.
            capacity *= 4;
            continue;
        }
        value.truncate(length_of(answer)?);
        return Ok(value);
    }
}

/// The key-value pairs of an object with keys after one and before another, in order. Read
/// [`PAIRS_AT_ONCE`] at a time: of an object that is changed meanwhile, a mix. With `at_most`, no
/// more than so many, which are read at once.
pub(crate) fn pairs(
    pool: &Pool,
    name: &CStr,
    after: &CStr,
    before: &CStr,
    at_most: Option<u64>,
) -> Result<Vec<RawPair>, i64> {
    let wanted = at_most.unwrap_or(PAIRS_AT_ONCE).min(PAIRS_AT_ONCE);
    let mut pairs = Vec::new();
    let mut from = after.to_owned();
    loop {
        let op = KeysRead::new(pool.rados());
        let (some, more) = op.run(pool, name, &from, wanted)?;
        let last = some.last().map(|(key, _)| key.clone());
        pairs.extend(some.into_iter().take_while(|(key, _)| key.as_c_str() < before));
        match last {
            Some(last) if more && at_most.is_none() && last.as_c_str() < before => from = last,
            // More, and none of it: whoever took that for the end would miss what follows.
            None if more => return Err(-i64::from(libc::EIO)),
            _ => return Ok(pairs),
        }
    }
}

/// One read of key-value pairs.
struct KeysRead<'a> {
    rados: &'a Rados,
    handle: ReadOpHandle,
    found: KeysHandle,
}

impl<'a> KeysRead<'a> {
    fn new(rados: &'a Rados) -> Self {
        // SAFETY: makes a handle from nothing.
        let handle = unsafe { (rados.rados_create_read_op)() };
        Self { rados, handle, found: ptr::null_mut() }
    }

    /// The pairs after this key, and whether there are more.
    fn run(
        mut self,
        pool: &Pool,
        name: &CStr,
        after: &CStr,
        wanted: u64,
    ) -> Result<(Vec<RawPair>, bool), i64> {
        if self.handle.is_null() {
            return Err(-i64::from(libc::ENOMEM));
        }
        let (mut more, mut answer) = (0, 0);
        // SAFETY: pool and operation are open; the texts end in NUL; the three places outlive the
        // operation, which is over when the second call returns.
        let operated = unsafe {
            (self.rados.rados_read_op_omap_get_vals2)(
                self.handle,
                after.as_ptr(),
                c"".as_ptr(),
                wanted,
                &raw mut self.found,
                &raw mut more,
                &raw mut answer,
            );
            let call = self.rados.rados_read_op_operate;
            call(self.handle, pool.handle(), name.as_ptr(), 0)
        };
        length_of(operated)?;
        length_of(answer)?;
        let mut pairs = Vec::new();
        while let Some(pair) = self.next()? {
            pairs.push(pair);
        }
        Ok((pairs, more != 0))
    }

    fn next(&mut self) -> Result<Option<RawPair>, i64> {
        let (mut key, mut value) = (ptr::null_mut(), ptr::null_mut());
        let (mut key_bytes, mut value_bytes) = (0, 0);
        // SAFETY: the read succeeded, so there is something to go through; the places are ours.
        let answer = unsafe {
            (self.rados.rados_omap_get_next2)(
                self.found,
                &raw mut key,
                &raw mut value,
                &raw mut key_bytes,
                &raw mut value_bytes,
            )
        };
        length_of(answer)?;
        if key.is_null() {
            return Ok(None);
        }
        // SAFETY: librados says that so many bytes are there, until the end is told.
        let (key, value) = unsafe {
            (memory(key.cast(), key_bytes).to_vec(), memory(value.cast(), value_bytes).to_vec())
        };
        // A key that no text can be is not one of this crate's.
        Ok(Some((CString::new(key).map_err(|_| -i64::from(libc::EBADMSG))?, value)))
    }
}

impl Drop for KeysRead<'_> {
    fn drop(&mut self) {
        // SAFETY: what was made is released, once.
        unsafe {
            if !self.found.is_null() {
                (self.rados.rados_omap_get_end)(self.found);
            }
            if !self.handle.is_null() {
                (self.rados.rados_release_read_op)(self.handle);
            }
        }
    }
}

/// # Safety
/// There are `length` bytes, or none and any pointer; nobody changes them as long as this is used.
unsafe fn memory<'a>(from: *const u8, length: usize) -> &'a [u8] {
    if length == 0 || from.is_null() {
        return &[];
    }
    // SAFETY: as the caller says.
    unsafe { slice::from_raw_parts(from, length) }
}

fn length_of(answer: c_int) -> Result<usize, i64> {
    usize::try_from(answer).map_err(|_| answer.into())
}
