//! Reading objects, as librados answers: bytes, or a negative errno.
#![allow(unsafe_code, reason = "calls into librados")]

use std::ffi::{CStr, c_int};

use crate::cluster::Pool;

/// Of one read. librados touches all of the memory that it is given, however short the object.
const PIECE_BYTES: usize = 4 << 20;
/// More than an OSD takes for an attribute.
const MAX_ATTRIBUTE_BYTES: usize = 16 << 20;

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

fn length_of(answer: c_int) -> Result<usize, i64> {
    usize::try_from(answer).map_err(|_| answer.into())
}
