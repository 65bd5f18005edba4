//! The system calls under a log, behind a port that tests can make fail.

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{FallocateFlags, FlockOperation, Mode, OFlags, fallocate, flock, open};

/// A log is a file of its own, not what a link leads to, and no child process has it.
const PRIVATE: OFlags = OFlags::RDWR.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const OWNER_ONLY: Mode = Mode::RUSR.union(Mode::WUSR);

/// What a file is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// To be made: it must not exist. Writes are durable after [`DiskFile::sync`].
    Make,
    /// To be used: it must exist. Writes are durable when they return.
    Use,
}

/// The names of a file system. Each method is one system call.
pub(super) trait Disk: Send + Sync + fmt::Debug {
    /// As `open`; with `direct`, `EINVAL` where the file system has no `O_DIRECT`.
    fn open(&self, path: &Path, purpose: Purpose, direct: bool) -> io::Result<Box<dyn DiskFile>>;

    /// As `rename`.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// As `unlink`.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Make the names in a directory durable.
    fn sync_directory(&self, path: &Path) -> io::Result<()>;
}

/// An open file. Each method is one system call and may do less than asked for.
pub(super) trait DiskFile: Send + Sync + fmt::Debug {
    /// As `fstat`.
    fn length_bytes(&self) -> io::Result<u64>;

    /// As `fallocate`: `ENOSPC` before anything is written.
    fn allocate(&self, length_bytes: u64) -> io::Result<()>;

    /// As `pread`.
    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize>;

    /// As `pwrite`.
    fn write_at(&self, from: &[u8], at: u64) -> io::Result<usize>;

    /// As `fsync`.
    fn sync(&self) -> io::Result<()>;
}

/// Make the file if it is missing, and lock it. The lock ends with the file, and with the process.
pub(super) fn lock(path: &Path) -> io::Result<File> {
    let file = File::from(open(path, PRIVATE | OFlags::CREATE, OWNER_ONLY)?);
    flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    Ok(file)
}

/// The host's own.
#[derive(Debug)]
pub(super) struct HostDisk;

impl Disk for HostDisk {
    fn open(&self, path: &Path, purpose: Purpose, direct: bool) -> io::Result<Box<dyn DiskFile>> {
        let mut flags = PRIVATE;
        flags |= match purpose {
            Purpose::Make => OFlags::CREATE | OFlags::EXCL,
            Purpose::Use => OFlags::DSYNC,
        };
        if direct {
            flags |= OFlags::DIRECT;
        }
        let file = File::from(open(path, flags, OWNER_ONLY)?);
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("it is not a regular file"));
        }
        Ok(Box::new(file))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }
}

impl DiskFile for File {
    fn length_bytes(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn allocate(&self, length_bytes: u64) -> io::Result<()> {
        Ok(fallocate(self, FallocateFlags::empty(), 0, length_bytes)?)
    }

    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize> {
        FileExt::read_at(self, into, at)
    }

    fn write_at(&self, from: &[u8], at: u64) -> io::Result<usize> {
        FileExt::write_at(self, from, at)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_all()
    }
}

pub(super) fn uninterrupted<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}
