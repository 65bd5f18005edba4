//! What is tested: a file or a block device, behind a port.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::{FallocateFlags, OFlags, fallocate, ioctl_blksszget};

/// What a block of the page cache holds, and the most that a device writes as one.
const PAGE_BYTES: u64 = 4096;

/// Where the operations of a target may begin and end: multiples of these, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Alignment {
    /// Reads and writes.
    pub io_bytes: u64,
    /// Holes, zeroed ranges and discards.
    pub range_bytes: u64,
    /// The edges between threads that do not know of each other.
    pub stripe_bytes: u64,
}

/// A file or block device, or what a test puts in its place.
pub trait Target: Send + Sync {
    /// Its size now.
    ///
    /// # Errors
    /// As `lseek`.
    fn size_bytes(&self) -> io::Result<u64>;

    /// What its operations must be multiples of.
    fn alignment(&self) -> Alignment;

    /// Whether [`Target::discard`] is something else than [`Target::punch_hole`].
    fn has_discard(&self) -> bool;

    /// Read as much as `into` holds.
    ///
    /// # Errors
    /// As `pread`; `UnexpectedEof` past the end.
    fn read_at(&self, into: &mut [u8], offset_bytes: u64) -> io::Result<()>;

    /// Write all of `from`.
    ///
    /// # Errors
    /// As `pwrite`.
    fn write_at(&self, from: &[u8], offset_bytes: u64) -> io::Result<()>;

    /// Make all that was written durable.
    ///
    /// # Errors
    /// As `fdatasync`.
    fn sync(&self) -> io::Result<()>;

    /// Zero a range and give its space back.
    ///
    /// # Errors
    /// As `fallocate` with `FALLOC_FL_PUNCH_HOLE`.
    fn punch_hole(&self, offset_bytes: u64, length_bytes: u64) -> io::Result<()>;

    /// Zero a range that keeps its space.
    ///
    /// # Errors
    /// As `fallocate` with `FALLOC_FL_ZERO_RANGE`.
    fn zero_range(&self, offset_bytes: u64, length_bytes: u64) -> io::Result<()>;

    /// Discard a range of a block device.
    ///
    /// # Errors
    /// As the `blkdiscard` program.
    fn discard(&self, offset_bytes: u64, length_bytes: u64) -> io::Result<()>;
}

/// An open file or block device.
#[derive(Debug)]
pub struct OpenTarget {
    file: File,
    path: PathBuf,
    is_block_device: bool,
    alignment: Alignment,
}

impl OpenTarget {
    /// Open `path` for reading and writing, past the page cache when `direct`.
    ///
    /// `align_bytes` overrides what reads and writes must be multiples of (by default a sector
    /// of a block device when `direct`, a page of a file when `direct`, else a byte). `create`
    /// makes a regular file that is not there.
    ///
    /// # Errors
    /// As `open`, and as the ioctl that asks for a block device's sector.
    pub fn open(
        path: &Path,
        direct: bool,
        align_bytes: Option<u64>,
        create: bool,
    ) -> io::Result<Self> {
        let flags = if direct { OFlags::DIRECT } else { OFlags::empty() };
        let flags = i32::try_from(flags.bits()).map_err(io::Error::other)?;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(create)
            .truncate(false)
            .custom_flags(flags)
            .open(path)?;
        let is_block_device = file.metadata()?.file_type().is_block_device();
        let sector_bytes =
            if is_block_device { u64::from(ioctl_blksszget(&file)?) } else { PAGE_BYTES };
        let io_bytes = align_bytes.unwrap_or(if direct { sector_bytes } else { 1 }).max(1);
        let range_bytes = if is_block_device { sector_bytes.max(io_bytes) } else { io_bytes };
        // Two threads may share a page of a file, but a discard on a block device drops pages.
        let stripe_bytes = if is_block_device { range_bytes.max(PAGE_BYTES) } else { range_bytes };
        let alignment = Alignment { io_bytes, range_bytes, stripe_bytes };
        Ok(Self { file, path: path.to_owned(), is_block_device, alignment })
    }

    fn fallocate(&self, how: FallocateFlags, offset_bytes: u64, length: u64) -> io::Result<()> {
        Ok(fallocate(&self.file, how | FallocateFlags::KEEP_SIZE, offset_bytes, length)?)
    }
}

impl Target for OpenTarget {
    fn size_bytes(&self) -> io::Result<u64> {
        // A block device's metadata say 0; only its end tells its size.
        let mut file = &self.file;
        file.seek(SeekFrom::End(0))
    }

    fn alignment(&self) -> Alignment {
        self.alignment
    }

    fn has_discard(&self) -> bool {
        self.is_block_device
    }

    fn read_at(&self, into: &mut [u8], offset_bytes: u64) -> io::Result<()> {
        self.file.read_exact_at(into, offset_bytes)
    }

    fn write_at(&self, from: &[u8], offset_bytes: u64) -> io::Result<()> {
        self.file.write_all_at(from, offset_bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn punch_hole(&self, offset_bytes: u64, length_bytes: u64) -> io::Result<()> {
        self.fallocate(FallocateFlags::PUNCH_HOLE, offset_bytes, length_bytes)
    }

    fn zero_range(&self, offset_bytes: u64, length_bytes: u64) -> io::Result<()> {
        // On a block device this is what the BLKZEROOUT ioctl does.
        self.fallocate(FallocateFlags::ZERO_RANGE, offset_bytes, length_bytes)
    }

    fn discard(&self, offset_bytes: u64, length_bytes: u64) -> io::Result<()> {
        // A program of its own: the BLKDISCARD ioctl has no safe call, and this crate has no
        // unsafe code.
        let ended = Command::new("blkdiscard")
            .arg("--force")
            .args(["--offset", &offset_bytes.to_string()])
            .args(["--length", &length_bytes.to_string()])
            .arg(&self.path)
            .stdin(Stdio::null())
            .output()?;
        if ended.status.success() {
            return Ok(());
        }
        Err(io::Error::other(String::from_utf8_lossy(&ended.stderr).trim().to_owned()))
    }
}
