//! The system calls under a file device, behind a port that tests can make fail.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::fs::{FallocateFlags, fallocate};

/// A file, or what a test puts in its place. Each method is one system call and may do what
/// that call may do: move fewer bytes than asked for, be interrupted, not be supported.
pub trait PositionedFile: Send + Sync {
    /// The file's length now.
    ///
    /// # Errors
    /// As `fstat`.
    fn length_bytes(&self) -> io::Result<u64>;

    /// Bytes read into the front of `into`; 0 only at or past the end of the file.
    ///
    /// # Errors
    /// As `pread`.
    fn read_at(&self, into: &mut [u8], offset_bytes: u64) -> io::Result<usize>;

    /// Bytes written from the front of `from`.
    ///
    /// # Errors
    /// As `pwrite`.
    fn write_at(&self, from: &[u8], offset_bytes: u64) -> io::Result<usize>;

    /// Make what was written durable, with the metadata that reading it back needs.
    ///
    /// # Errors
    /// As `fdatasync`.
    fn sync_data(&self) -> io::Result<()>;

    /// Zero a range that keeps its space.
    ///
    /// # Errors
    /// As `fallocate` with `FALLOC_FL_ZERO_RANGE`; tmpfs, for one, does not support it.
    fn zero_range(&self, offset_bytes: u64, length_bytes: u64) -> io::Result<()>;

    /// Zero a range and give its space back.
    ///
    /// # Errors
    /// As `fallocate` with `FALLOC_FL_PUNCH_HOLE`.
    fn punch_hole(&self, offset_bytes: u64, length_bytes: u64) -> io::Result<()>;
}

impl PositionedFile for File {
    fn length_bytes(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, into: &mut [u8], offset_bytes: u64) -> io::Result<usize> {
        FileExt::read_at(self, into, offset_bytes)
    }

    fn write_at(&self, from: &[u8], offset_bytes: u64) -> io::Result<usize> {
        FileExt::write_at(self, from, offset_bytes)
    }

    fn sync_data(&self) -> io::Result<()> {
        File::sync_data(self)
    }

    fn zero_range(&self, offset_bytes: u64, length_bytes: u64) -> io::Result<()> {
        let how = FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE;
        Ok(fallocate(self, how, offset_bytes, length_bytes)?)
    }

    fn punch_hole(&self, offset_bytes: u64, length_bytes: u64) -> io::Result<()> {
        let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        Ok(fallocate(self, how, offset_bytes, length_bytes)?)
    }
}
