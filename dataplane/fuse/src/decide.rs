//! What an operation is answered with, or what the device is asked for. Pure.

use std::io::ErrorKind;

use grampus_blockdev::{
    BlockDevice, Buffer, ByteRange, DeviceError, Durability, Geometry, Length, Offset, Request,
};
use rustix::io::Errno;
use zerocopy::IntoBytes;

use crate::message::Operation;
use crate::protocol::{AttrOut, OpenOut, ROOT_NODE, StatfsOut, fallocate_mode, open_flag};

/// The unit of `st_blocks`, whatever the block size.
const STAT_BLOCK_BYTES: u64 = 512;
/// A regular file that its owner reads and writes.
const MODE: u32 = libc::S_IFREG | 0o600;

/// What an operation is judged by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FileFace {
    /// The file's shape now.
    pub(crate) geometry: Geometry,
    /// Answered as every time stamp, in seconds since 1970.
    pub(crate) mounted_s: u64,
    /// The most that a read or write carries.
    pub(crate) max_transfer_bytes: u32,
}

impl FileFace {
    pub(crate) fn of(device: &dyn BlockDevice, mounted_s: u64, max_transfer_bytes: u32) -> Self {
        Self { geometry: device.geometry(), mounted_s, max_transfer_bytes }
    }
}

/// What is to be done about an operation.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    Silent,
    Refuse(Errno),
    Answer(Answer),
    Submit(Job),
}

/// An answer that needs no device.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Empty,
    Attributes(AttrOut),
    Opened(OpenOut),
    FileSystem(StatfsOut),
    /// Of a write of nothing.
    Written(u32),
}

impl Answer {
    /// Put the answer's bytes at the front of `into`; how many there are, at most 104.
    pub(crate) fn encode(&self, into: &mut [u8]) -> usize {
        match self {
            Self::Empty => 0,
            Self::Attributes(answer) => place(answer.as_bytes(), into),
            Self::Opened(answer) => place(answer.as_bytes(), into),
            Self::FileSystem(answer) => place(answer.as_bytes(), into),
            Self::Written(bytes) => place(&written(*bytes), into),
        }
    }
}

/// The answer to a write: how many bytes were written.
pub(crate) fn written(bytes: u32) -> [u8; 8] {
    let mut answer = [0; 8];
    place(bytes.as_bytes(), &mut answer);
    answer
}

/// The bytes placed: all, or none where they do not fit.
pub(crate) fn place(bytes: &[u8], into: &mut [u8]) -> usize {
    match into.get_mut(..bytes.len()) {
        Some(front) => {
            front.copy_from_slice(bytes);
            bytes.len()
        }
        None => 0,
    }
}

/// What the device is asked for, without the buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Job {
    Read { offset: Offset, bytes: u32 },
    Write { offset: Offset, bytes: u32, durability: Durability },
    WriteZeroes { range: ByteRange },
    Discard { range: ByteRange },
    Flush,
}

/// What the outcome of a job becomes in its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnswerKind {
    /// The buffer's bytes.
    Data,
    /// How long the buffer is.
    Count,
    /// Nothing.
    Empty,
}

impl Job {
    pub(crate) fn answer_kind(self) -> AnswerKind {
        match self {
            Self::Read { .. } => AnswerKind::Data,
            Self::Write { .. } => AnswerKind::Count,
            Self::WriteZeroes { .. } | Self::Discard { .. } | Self::Flush => AnswerKind::Empty,
        }
    }

    /// The request, and `buffer` again where the request carries none.
    ///
    /// # Errors
    /// `buffer`, when it is too small for the job.
    pub(crate) fn into_request(
        self,
        mut buffer: Buffer,
    ) -> Result<(Request, Option<Buffer>), Buffer> {
        Ok(match self {
            Self::Read { offset, bytes } => {
                if !resize(&mut buffer, bytes) {
                    return Err(buffer);
                }
                (Request::Read { offset, buffer }, None)
            }
            Self::Write { offset, bytes, durability } => {
                if !resize(&mut buffer, bytes) {
                    return Err(buffer);
                }
                (Request::Write { offset, buffer, durability }, None)
            }
            Self::WriteZeroes { range } => {
                (Request::WriteZeroes { range, durability: Durability::OnFlush }, Some(buffer))
            }
            Self::Discard { range } => (Request::Discard { range }, Some(buffer)),
            Self::Flush => (Request::Flush, Some(buffer)),
        })
    }
}

fn resize(buffer: &mut Buffer, bytes: u32) -> bool {
    usize::try_from(bytes).is_ok_and(|bytes| buffer.set_len(bytes).is_ok())
}

/// Decide what to do about `operation`.
pub(crate) fn decide_operation(operation: Operation, face: &FileFace) -> Decision {
    match operation {
        Operation::Silent => Decision::Silent,
        Operation::GetAttributes => Decision::Answer(Answer::Attributes(attributes(face))),
        Operation::SetAttributes { size_bytes, ownership } => {
            let resizes = size_bytes.is_some_and(|size| size != face.geometry.size_bytes());
            // The size is the device's and the owner is root; time stamps mean nothing here.
            if resizes || ownership {
                return Decision::Refuse(Errno::PERM);
            }
            Decision::Answer(Answer::Attributes(attributes(face)))
        }
        Operation::Open => Decision::Answer(Answer::Opened(OpenOut {
            fh: 0,
            open_flags: open_flag::DIRECT_IO | open_flag::PARALLEL_DIRECT_WRITES,
            backing_id: 0,
        })),
        Operation::Nothing => Decision::Answer(Answer::Empty),
        Operation::StatFs => Decision::Answer(Answer::FileSystem(file_system(face))),
        Operation::Lookup => Decision::Refuse(Errno::NOTDIR),
        Operation::Read { offset, bytes } => decide_read(offset, bytes, face),
        Operation::Write { offset, bytes, durable } => decide_write(offset, bytes, durable, face),
        Operation::Sync => Decision::Submit(Job::Flush),
        Operation::Allocate { offset, length, mode } => decide_allocate(offset, length, mode, face),
        Operation::Ioctl => Decision::Refuse(Errno::NOTTY),
        // The kernel remembers ENOSYS and does without; never an answer to FSYNC or FALLOCATE.
        Operation::Unknown => Decision::Refuse(Errno::NOSYS),
    }
}

/// A file's read ends at the file's end; a device's request must not cross it.
fn decide_read(offset: u64, bytes: u32, face: &FileFace) -> Decision {
    if bytes > face.max_transfer_bytes {
        return Decision::Refuse(Errno::INVAL);
    }
    let left = face.geometry.size_bytes().saturating_sub(offset);
    let bytes = u32::try_from(left).map_or(bytes, |left| left.min(bytes));
    match Offset::new(offset) {
        Ok(offset) if bytes > 0 => Decision::Submit(Job::Read { offset, bytes }),
        _ => Decision::Answer(Answer::Empty),
    }
}

/// A write that crosses the end changes nothing: there is no more space there.
fn decide_write(offset: u64, bytes: u32, durable: bool, face: &FileFace) -> Decision {
    if bytes > face.max_transfer_bytes {
        return Decision::Refuse(Errno::INVAL);
    }
    if bytes == 0 {
        return Decision::Answer(Answer::Written(0));
    }
    let Ok(range) = within(offset, u64::from(bytes), face) else {
        return Decision::Refuse(Errno::NOSPC);
    };
    let durability = if durable { Durability::Fua } else { Durability::OnFlush };
    Decision::Submit(Job::Write { offset: range.offset, bytes, durability })
}

fn decide_allocate(offset: u64, length: u64, mode: u32, face: &FileFace) -> Decision {
    const PUNCH: u32 = fallocate_mode::PUNCH_HOLE | fallocate_mode::KEEP_SIZE;
    let kept = mode & !fallocate_mode::KEEP_SIZE;
    if mode != PUNCH && kept != fallocate_mode::ZERO_RANGE {
        return Decision::Refuse(Errno::OPNOTSUPP);
    }
    if length == 0 {
        return Decision::Refuse(Errno::INVAL);
    }
    if mode == PUNCH {
        // Past the end there is nothing to punch: as file systems do it.
        let left = face.geometry.size_bytes().saturating_sub(offset);
        return match within(offset, length.min(left), face) {
            Ok(range) if !range.is_empty() => Decision::Submit(Job::Discard { range }),
            _ => Decision::Answer(Answer::Empty),
        };
    }
    within(offset, length, face).map_or(Decision::Refuse(Errno::NOSPC), |range| {
        Decision::Submit(Job::WriteZeroes { range })
    })
}

/// The range, where it lies wholly on the device.
fn within(offset: u64, length: u64, face: &FileFace) -> Result<ByteRange, Errno> {
    let (Ok(offset), Ok(length)) = (Offset::new(offset), Length::new(length)) else {
        return Err(Errno::FBIG);
    };
    let range = ByteRange { offset, length };
    face.geometry.require(range).map_or(Err(Errno::FBIG), |()| Ok(range))
}

fn attributes(face: &FileFace) -> AttrOut {
    let size = face.geometry.size_bytes();
    AttrOut {
        // Never valid for later: `losetup -c` must see a resize at once.
        attr_valid: 0,
        attr_valid_nsec: 0,
        dummy: 0,
        ino: ROOT_NODE,
        size,
        blocks: size / STAT_BLOCK_BYTES,
        atime: face.mounted_s,
        mtime: face.mounted_s,
        ctime: face.mounted_s,
        atimensec: 0,
        mtimensec: 0,
        ctimensec: 0,
        mode: MODE,
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: face.geometry.block_size().bytes(),
        flags: 0,
    }
}

fn file_system(face: &FileFace) -> StatfsOut {
    let block = face.geometry.block_size().bytes();
    StatfsOut {
        blocks: face.geometry.size_bytes() / u64::from(block),
        bfree: 0,
        bavail: 0,
        files: 1,
        ffree: 0,
        bsize: block,
        namelen: 255,
        frsize: block,
        padding: 0,
        spare: [0; 6],
    }
}

/// What a user sees of a device's failure.
pub(crate) fn classify_failure(error: &DeviceError) -> Errno {
    match error {
        // The device became smaller between decision and request.
        DeviceError::OutOfRange { .. } => Errno::INVAL,
        // What a file system, and the database above it, can tell its user to do something about.
        DeviceError::Io { source, .. }
            if matches!(source.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded) =>
        {
            Errno::NOSPC
        }
        // Fenced, failed, truncated, lost: which one is for the daemon's log, not for an errno.
        _ => Errno::IO,
    }
}

#[cfg(test)]
mod tests {
    use grampus_blockdev::{BlockSize, MAX_DEVICE_BYTES};
    use proptest::prelude::*;

    use super::*;

    const SIZE: u64 = 1 << 20;

    fn face() -> FileFace {
        let geometry = Geometry::new(SIZE, BlockSize::B4096).unwrap();
        FileFace { geometry, mounted_s: 5, max_transfer_bytes: 64 << 10 }
    }

    fn range(offset: u64, length: u64) -> ByteRange {
        ByteRange { offset: Offset::new(offset).unwrap(), length: Length::new(length).unwrap() }
    }

    #[test]
    fn reads_end_at_the_end_of_the_file() {
        let cases = [
            (0, 4096, Some(4096)),
            (SIZE - 1, 4096, Some(1)),
            (SIZE, 4096, None),
            (u64::MAX, 4096, None),
            (MAX_DEVICE_BYTES, 1, None),
            (3, 0, None),
        ];
        for (offset, bytes, read) in cases {
            let decided = decide_operation(Operation::Read { offset, bytes }, &face());
            let expected = read.map_or(Decision::Answer(Answer::Empty), |bytes| {
                Decision::Submit(Job::Read { offset: Offset::new(offset).unwrap(), bytes })
            });
            assert_eq!(decided, expected, "{offset} {bytes}");
        }
    }

    #[test]
    fn a_user_is_told_of_want_of_space_and_of_other_failures_that_there_are_some() {
        let io = |errno: Errno| DeviceError::Io { action: "write", source: errno.into() };
        for (error, errno) in [
            (io(Errno::NOSPC), Errno::NOSPC),
            (io(Errno::DQUOT), Errno::NOSPC),
            (io(Errno::IO), Errno::IO),
            (DeviceError::Fenced, Errno::IO),
            (DeviceError::Failed, Errno::IO),
            (DeviceError::OutOfRange { range: range(0, 1), size_bytes: 0 }, Errno::INVAL),
        ] {
            assert_eq!(classify_failure(&error), errno, "{error:?}");
        }
    }

    #[test]
    fn writes_past_the_end_are_refused_whole() {
        let refused = Decision::Refuse(Errno::NOSPC);
        for (offset, bytes, valid) in [
            (SIZE - 4096, 4096, true),
            (SIZE - 4095, 4096, false),
            (SIZE, 1, false),
            (u64::MAX, 1, false),
            (u64::MAX - 1, 4096, false),
        ] {
            for (durable, durability) in [(false, Durability::OnFlush), (true, Durability::Fua)] {
                let decided =
                    decide_operation(Operation::Write { offset, bytes, durable }, &face());
                if valid {
                    let offset = Offset::new(offset).unwrap();
                    assert_eq!(decided, Decision::Submit(Job::Write { offset, bytes, durability }));
                } else {
                    assert_eq!(decided, refused, "{offset} {bytes}");
                }
            }
        }
    }

    #[test]
    fn a_transfer_longer_than_agreed_is_refused() {
        let bytes = (64 << 10) + 1;
        for operation in [
            Operation::Read { offset: 0, bytes },
            Operation::Write { offset: 0, bytes, durable: false },
        ] {
            assert_eq!(decide_operation(operation, &face()), Decision::Refuse(Errno::INVAL));
        }
    }

    #[test]
    fn fallocate_punches_zeroes_and_refuses_the_rest() {
        let cases = [
            (0x03, 0, 4096, Decision::Submit(Job::Discard { range: range(0, 4096) })),
            (0x03, SIZE - 1, 9, Decision::Submit(Job::Discard { range: range(SIZE - 1, 1) })),
            (0x03, SIZE, 9, Decision::Answer(Answer::Empty)),
            (0x03, u64::MAX, u64::MAX, Decision::Answer(Answer::Empty)),
            (0x11, 1, 7, Decision::Submit(Job::WriteZeroes { range: range(1, 7) })),
            (0x10, 1, 7, Decision::Submit(Job::WriteZeroes { range: range(1, 7) })),
            (0x11, SIZE - 1, 2, Decision::Refuse(Errno::NOSPC)),
            (0x10, u64::MAX, u64::MAX, Decision::Refuse(Errno::NOSPC)),
            (0x03, 0, 0, Decision::Refuse(Errno::INVAL)),
            (0x00, 0, 1, Decision::Refuse(Errno::OPNOTSUPP)),
            (0x01, 0, 1, Decision::Refuse(Errno::OPNOTSUPP)),
            (0x02, 0, 1, Decision::Refuse(Errno::OPNOTSUPP)),
            (0x08, 0, 1, Decision::Refuse(Errno::OPNOTSUPP)),
            (0x13, 0, 1, Decision::Refuse(Errno::OPNOTSUPP)),
            (0x20, 0, 1, Decision::Refuse(Errno::OPNOTSUPP)),
        ];
        for (mode, offset, length, expected) in cases {
            let decided = decide_operation(Operation::Allocate { offset, length, mode }, &face());
            assert_eq!(decided, expected, "{mode:#x} {offset} {length}");
        }
    }

    #[test]
    fn the_size_and_owner_stay_as_they_are() {
        for (size_bytes, ownership, allowed) in [
            (None, false, true),
            (Some(SIZE), false, true),
            (Some(0), false, false),
            (Some(SIZE + 1), false, false),
            (None, true, false),
        ] {
            let operation = Operation::SetAttributes { size_bytes, ownership };
            let refused = decide_operation(operation, &face()) == Decision::Refuse(Errno::PERM);
            assert_eq!(refused, !allowed, "{size_bytes:?} {ownership}");
        }
    }

    #[test]
    fn a_sync_is_a_flush_and_never_called_unknown() {
        let decided = decide_operation(Operation::Sync, &face());
        assert_eq!(decided, Decision::Submit(Job::Flush));
    }

    #[test]
    fn an_answer_is_placed_whole_or_not_at_all() {
        let Decision::Answer(answer) = decide_operation(Operation::GetAttributes, &face()) else {
            panic!("attributes need no device");
        };
        let mut room = [0xff; 128];
        assert_eq!(answer.encode(&mut room), 104);
        assert_eq!(room[..16], [0; 16], "attributes are never valid for later");
        assert_eq!(room[24..32], SIZE.to_ne_bytes());
        assert_eq!(answer.encode(&mut [0; 103]), 0);
        assert_eq!(Answer::Written(9).encode(&mut room), 8);
    }

    proptest! {
        #[test]
        fn whatever_is_asked_no_job_leaves_the_device(
            offset in prop_oneof![0..2 * SIZE, any::<u64>()],
            length in prop_oneof![0..2 * SIZE, any::<u64>()],
            bytes in prop_oneof![0..(128_u32 << 10), any::<u32>()],
            mode in prop_oneof![Just(3_u32), Just(0x10), Just(0x11), any::<u32>()],
        ) {
            let operations = [
                Operation::Read { offset, bytes },
                Operation::Write { offset, bytes, durable: false },
                Operation::Allocate { offset, length, mode },
            ];
            for operation in operations {
                let Decision::Submit(job) = decide_operation(operation, &face()) else { continue };
                let buffer = Buffer::zeroed(64 << 10).unwrap();
                let (request, _) = job.into_request(buffer).unwrap();
                let range = request.range().unwrap();
                prop_assert!(!range.is_empty());
                prop_assert!(face().geometry.require(range).is_ok());
            }
        }
    }
}
