//! A device over a regular file.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use rustix::io::Errno;

use crate::device::BlockDevice;
use crate::error::{DeviceError, OpenError};
use crate::geometry::{BlockSize, Geometry};
use crate::medium::{Medium, perform};
use crate::positioned_file::PositionedFile;
use crate::range::ByteRange;
use crate::request::{Completion, Request};

/// Written where the file system cannot zero a range itself.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// As large as its file, which no one else may change while the device is open.
///
/// It fails for good, with [`DeviceError::Failed`], once data is known to be lost: when the
/// file was truncated, or when a flush failed. (After a failed `fdatasync` Linux may drop the
/// dirty pages and report success next time.) Truncation is looked for before each request;
/// one in the midst of a write is found by the request after it.
#[derive(Debug)]
pub struct FileDevice<F = File> {
    file: F,
    geometry: Geometry,
    failed: AtomicBool,
    /// One flush at a time: the kernel reports a lost page to one caller only, and another
    /// that flushes alongside would be told all is well.
    flushing: Mutex<()>,
    /// Whether a flush waits until what was written is durable.
    syncs: bool,
}

impl FileDevice {
    /// Open the existing regular file at `path`.
    ///
    /// # Errors
    /// [`OpenError`] when it cannot be opened for reading and writing, is not a regular file,
    /// or does not consist of whole blocks.
    pub fn open(path: &Path, block_size: BlockSize) -> Result<Self, OpenError> {
        let refused = |source| OpenError::Io { path: path.to_owned(), source };
        let file = OpenOptions::new().read(true).write(true).open(path).map_err(refused)?;
        if !file.metadata().map_err(refused)?.is_file() {
            return Err(OpenError::NotRegular { path: path.to_owned() });
        }
        Self::over(file, block_size)
    }
}

impl<F: PositionedFile> FileDevice<F> {
    /// A device over a file that is open for reading and writing.
    ///
    /// # Errors
    /// [`OpenError`] when its length cannot be read or does not consist of whole blocks.
    pub fn over(file: F, block_size: BlockSize) -> Result<Self, OpenError> {
        let size_bytes = file.length_bytes().map_err(OpenError::Length)?;
        let geometry = Geometry::new(size_bytes, block_size)?;
        Ok(Self {
            file,
            geometry,
            failed: AtomicBool::new(false),
            flushing: Mutex::new(()),
            syncs: true,
        })
    }

    /// The same device, which answers a flush at once. What was written is in the kernel's memory:
    /// the end of this process loses none of it, a crash of the machine may.
    #[must_use]
    pub fn without_syncs(self) -> Self {
        Self { syncs: false, ..self }
    }

    /// Refuse to go on with a device that has lost data.
    fn require_whole(&self) -> Result<(), DeviceError> {
        if self.failed.load(Ordering::Acquire) {
            return Err(DeviceError::Failed);
        }
        let file_bytes =
            self.file.length_bytes().map_err(|source| cannot("read the file's length", source))?;
        if file_bytes < self.geometry.size_bytes() {
            self.failed.store(true, Ordering::Release);
            return Err(DeviceError::Truncated {
                file_bytes,
                size_bytes: self.geometry.size_bytes(),
            });
        }
        Ok(())
    }

    fn write_all(&self, mut offset_bytes: u64, mut from: &[u8]) -> Result<(), DeviceError> {
        while !from.is_empty() {
            let written = uninterrupted(|| self.file.write_at(from, offset_bytes))
                .map_err(|source| cannot("write", source))?;
            from = match from.get(written..) {
                Some(rest) if written > 0 => rest,
                _ => return Err(cannot("write", io::ErrorKind::WriteZero.into())),
            };
            offset_bytes += bytes_of(written);
        }
        Ok(())
    }

    fn write_zeros(&self, range: ByteRange) -> Result<(), DeviceError> {
        let mut offset_bytes = range.offset.bytes();
        while offset_bytes < range.end_bytes() {
            let left_bytes = range.end_bytes() - offset_bytes;
            let chunk = usize::try_from(left_bytes)
                .ok()
                .and_then(|left| ZEROS.get(..left))
                .unwrap_or(&ZEROS);
            self.write_all(offset_bytes, chunk)?;
            offset_bytes += bytes_of(chunk.len());
        }
        Ok(())
    }

    /// Ask the file system to zero `range` through `call`, else write the zeros.
    fn zero_through(
        &self,
        range: ByteRange,
        action: &'static str,
        call: impl Fn(&F, u64, u64) -> io::Result<()>,
    ) -> Result<(), DeviceError> {
        self.require_whole()?;
        match uninterrupted(|| call(&self.file, range.offset.bytes(), range.length.bytes())) {
            Err(error) if is_unsupported(&error) => self.write_zeros(range),
            result => result.map_err(|source| cannot(action, source)),
        }
    }
}

impl<F: PositionedFile> Medium for FileDevice<F> {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn read(&self, range: ByteRange, mut into: &mut [u8]) -> Result<(), DeviceError> {
        self.require_whole()?;
        let mut offset_bytes = range.offset.bytes();
        while !into.is_empty() {
            let read = uninterrupted(|| self.file.read_at(into, offset_bytes))
                .map_err(|source| cannot("read", source))?;
            if read == 0 {
                // Truncated since the look above: say so, and fail for good.
                self.require_whole()?;
                return Err(cannot("read", io::ErrorKind::UnexpectedEof.into()));
            }
            into = into.get_mut(read..).unwrap_or_default();
            offset_bytes += bytes_of(read);
        }
        Ok(())
    }

    fn write(&self, range: ByteRange, from: &[u8]) -> Result<(), DeviceError> {
        self.require_whole()?;
        self.write_all(range.offset.bytes(), from)
    }

    fn write_zeroes(&self, range: ByteRange) -> Result<(), DeviceError> {
        self.zero_through(range, "zero a range", F::zero_range)
    }

    fn discard(&self, range: ByteRange) -> Result<(), DeviceError> {
        self.zero_through(range, "punch a hole", F::punch_hole)
    }

    fn flush(&self) -> Result<(), DeviceError> {
        let _alone = self.flushing.lock().unwrap_or_else(PoisonError::into_inner);
        self.require_whole()?;
        if !self.syncs {
            return Ok(());
        }
        self.file.sync_data().map_err(|source| {
            self.failed.store(true, Ordering::Release);
            cannot("flush", source)
        })
    }
}

impl<F: PositionedFile> BlockDevice for FileDevice<F> {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Answers before it returns: the file's own time is spent on the caller's thread.
    fn submit(&self, request: Request, completion: Completion) {
        completion.complete(perform(self, request));
    }
}

fn cannot(action: &'static str, source: io::Error) -> DeviceError {
    DeviceError::Io { action, source }
}

fn uninterrupted<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

fn is_unsupported(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::OPNOTSUPP | Errno::NOSYS))
}

fn bytes_of(count: usize) -> u64 {
    // No platform has a usize wider than 64 bits.
    u64::try_from(count).unwrap_or(u64::MAX)
}
