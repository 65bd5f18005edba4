//! Memory and commands that are shared with the kernel: all that is unsafe about the rings.
//!
//! The rule that makes it sound: an entry is either with the kernel, from the submission of its
//! command until that command's completion, or here. While it is with the kernel, nothing here looks
//! at its header or payload; while it is here, the kernel does not. `Entry` in `worker` keeps
//! the rule by its state.

use std::cell::UnsafeCell;
use std::mem;

use grampus_blockdev::Buffer;
use io_uring::squeue::Entry128;
use io_uring::{IoUring, cqueue, opcode, types};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

use crate::protocol::{ARGUMENT_BYTES, IN_HEADER_BYTES, OutHeader};

pub(crate) type Ring = IoUring<Entry128, cqueue::Entry>;

const REGISTER: u32 = 1;
const COMMIT_AND_FETCH: u32 = 2;
/// Header and payload.
const PARTS: u32 = 2;
/// Where `len` stands in a submission queue entry.
const SQE_LEN_BYTES: std::ops::Range<usize> = 24..28;
/// The connection's file among those registered with a ring.
const CONNECTION: types::Fixed = types::Fixed(0);

/// `struct fuse_uring_req_header`.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
struct RawHeader {
    /// The request's header, and in its answer `OutHeader`.
    in_out: [u8; 128],
    /// The operation's own structure.
    argument: [u8; 128],
    flags: u64,
    commit_id: u64,
    payload_bytes: u32,
    padding: u32,
    reserved: u64,
}

/// `struct fuse_uring_cmd_req`, filled up to a command's 80 bytes.
#[derive(Debug, IntoBytes, Immutable)]
#[repr(C)]
struct RawCommand {
    flags: u64,
    commit_id: u64,
    queue: u16,
    padding: [u8; 62],
}

const _: () = {
    assert!(size_of::<RawHeader>() == 288);
    assert!(size_of::<RawCommand>() == 80);
    assert!(size_of::<Entry128>() == 128);
};

/// A request's header in memory that the kernel writes.
#[derive(Debug)]
pub(crate) struct SharedHeader {
    raw: Box<UnsafeCell<RawHeader>>,
    /// What REGISTER points at.
    parts: Box<[libc::iovec; 2]>,
}

// SAFETY: the pointers in `parts` are only ever read by the kernel; they name memory that is owned
// here (`raw`) or by the entry's buffer, and nothing about it belongs to one thread.
#[allow(unsafe_code, reason = "raw pointers are not Send by themselves")]
unsafe impl Send for SharedHeader {}

/// A copy of what matters of a request's header, as the kernel wrote it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestHeader {
    pub(crate) header: [u8; IN_HEADER_BYTES],
    pub(crate) argument: [u8; ARGUMENT_BYTES],
    pub(crate) commit_id: u64,
    pub(crate) payload_bytes: usize,
}

impl SharedHeader {
    /// A header for an entry with the payload `buffer`, of which the kernel uses the capacity.
    pub(crate) fn new(buffer: &mut Buffer) -> Self {
        let raw = Box::new(UnsafeCell::new(RawHeader::new_zeroed()));
        let parts = Box::new([
            libc::iovec { iov_base: raw.get().cast(), iov_len: size_of::<RawHeader>() },
            libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.capacity_bytes() },
        ]);
        Self { raw, parts }
    }

    /// Copy the header; only while the entry is here.
    #[allow(unsafe_code, reason = "the kernel writes this memory")]
    pub(crate) fn read(&self) -> RequestHeader {
        // SAFETY: the entry is here, so the kernel does not write; the cell is not shared between
        // threads (no Sync), so no one else does; any bytes are a valid header. The reference
        // lives only in this call.
        let raw = unsafe { &*self.raw.get() };
        RequestHeader {
            header: raw.in_out.first_chunk().copied().unwrap_or([0; IN_HEADER_BYTES]),
            argument: raw.argument.first_chunk().copied().unwrap_or([0; ARGUMENT_BYTES]),
            commit_id: raw.commit_id,
            payload_bytes: usize::try_from(raw.payload_bytes).unwrap_or(usize::MAX),
        }
    }

    /// Put an answer with `payload_bytes` of payload into the header; only while the entry is here.
    #[allow(unsafe_code, reason = "the kernel reads this memory")]
    pub(crate) fn write_answer(&self, answer: OutHeader, payload_bytes: u32) {
        // SAFETY: as in `read`; the reference lives only in this call.
        let raw = unsafe { &mut *self.raw.get() };
        crate::decide::place(answer.as_bytes(), &mut raw.in_out);
        raw.payload_bytes = payload_bytes;
    }

    /// The command that gives the entry to the kernel for the first time. `self` and the buffer
    /// must outlive it.
    #[allow(unsafe_code, reason = "the builder has no way to set `len`")]
    pub(crate) fn register(&self, queue: u16, user_data: u64) -> Entry128 {
        let parts = u64::try_from(self.parts.as_ptr().addr()).unwrap_or_default();
        let command = RawCommand { flags: 0, commit_id: 0, queue, padding: [0; 62] };
        let entry = opcode::UringCmd80::new(CONNECTION, REGISTER)
            .cmd(zerocopy::transmute!(command))
            .addr(Some(parts))
            .build()
            .user_data(user_data);
        // SAFETY: a submission queue entry is 128 plain bytes (asserted above), all of them set.
        let mut bytes: [u8; 128] = unsafe { mem::transmute(entry) };
        if let Some(len) = bytes.get_mut(SQE_LEN_BYTES) {
            len.copy_from_slice(&PARTS.to_ne_bytes());
        }
        // SAFETY: as above; any value of `len` makes a valid entry.
        unsafe { mem::transmute(bytes) }
    }
}

/// The command that hands in an answer and gives the entry to the kernel again.
pub(crate) fn commit(queue: u16, commit_id: u64, user_data: u64) -> Entry128 {
    let command = RawCommand { flags: 0, commit_id, queue, padding: [0; 62] };
    opcode::UringCmd80::new(CONNECTION, COMMIT_AND_FETCH)
        .cmd(zerocopy::transmute!(command))
        .build()
        .user_data(user_data)
}

/// Queue a command; submits what is queued when there is no room.
///
/// # Errors
/// As `io_uring_enter`; [`std::io::ErrorKind::WouldBlock`] when there still is no room.
#[allow(unsafe_code, reason = "the kernel will use the memory that a command names")]
pub(crate) fn push(ring: &mut Ring, command: &Entry128) -> std::io::Result<()> {
    // SAFETY: a command names an entry's header and payload, which live until the kernel has
    // completed every command (`worker` leaks them rather than free them early), the event,
    // which lives as long as the ring, or memory that is static.
    if unsafe { ring.submission().push(command) }.is_ok() {
        return Ok(());
    }
    ring.submit()?;
    // SAFETY: as above.
    unsafe { ring.submission().push(command) }.map_err(|_| std::io::ErrorKind::WouldBlock.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[allow(unsafe_code, reason = "a look at the bytes")]
    fn bytes(entry: Entry128) -> [u8; 128] {
        // SAFETY: as in `register`.
        unsafe { mem::transmute(entry) }
    }

    #[test]
    fn commands_have_the_layout_of_the_kernel() {
        let mut buffer = Buffer::zeroed(8192).unwrap();
        let header = SharedHeader::new(&mut buffer);
        let register = bytes(header.register(0x0102, 7));
        assert_eq!(register[0], 46, "IORING_OP_URING_CMD");
        assert_eq!(register[1] & 1, 1, "a registered file");
        assert_eq!(register[8..12], 1_u32.to_ne_bytes(), "the command");
        let parts = header.parts.as_ptr().addr().to_ne_bytes();
        assert_eq!(register[16..24], parts);
        assert_eq!(register[24..28], 2_u32.to_ne_bytes(), "two parts");
        assert_eq!(register[32..40], 7_u64.to_ne_bytes());
        assert_eq!(register[64..66], 0x0102_u16.to_ne_bytes());
        let commit = bytes(commit(3, 0x1122_3344_5566_7788, 9));
        assert_eq!(commit[8..12], 2_u32.to_ne_bytes());
        assert_eq!(commit[32..40], 9_u64.to_ne_bytes());
        assert_eq!(commit[56..64], 0x1122_3344_5566_7788_u64.to_ne_bytes());
        assert_eq!(commit[64..66], 3_u16.to_ne_bytes());
        assert_eq!(commit[16..24], [0; 8]);
    }

    #[test]
    fn an_answer_stands_where_the_request_stood() {
        let mut buffer = Buffer::zeroed(8192).unwrap();
        let header = SharedHeader::new(&mut buffer);
        header.write_answer(OutHeader { len: 16, error: -5, unique: 77 }, 9);
        let read = header.read();
        assert_eq!(read.header[4..8], (-5_i32).to_ne_bytes());
        assert_eq!(read.header[8..16], 77_u64.to_ne_bytes());
        assert_eq!(read.payload_bytes, 9);
    }
}
