//! A disk under a log that does as it is told.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use grampus_journal::Ring;
use rustix::io::Errno;

use super::super::disk::{Disk, DiskFile, HostDisk, Purpose};
use super::super::{LocalLogError, LogFile};

/// A disk that stops working, as it is told to. What it did before stays done.
#[derive(Debug, Default)]
pub(super) struct Faulty {
    /// Calls that change something and still succeed, if there is such a limit.
    pub(super) calls: Option<AtomicU64>,
    /// Bytes that can still be written, if there is such a limit.
    pub(super) space_bytes: Option<AtomicU64>,
    /// Fails one write with `EIO`, after half of it.
    pub(super) tears: AtomicBool,
    pub(super) has_no_direct: bool,
    /// `O_DIRECT` takes multiples of this only.
    pub(super) sector_bytes: usize,
    pub(super) events: Mutex<Vec<&'static str>>,
}

#[derive(Debug)]
struct FaultyFile {
    disk: Arc<Faulty>,
    file: Box<dyn DiskFile>,
    direct: bool,
}

#[derive(Debug, Clone)]
pub(super) struct Shared(pub(super) Arc<Faulty>);

impl Shared {
    pub(super) fn new(faulty: Faulty) -> Self {
        Self(Arc::new(faulty))
    }

    pub(super) fn open(&self, path: &Path, ring: Ring) -> Result<LogFile, LocalLogError> {
        LogFile::open_on(Arc::new(self.clone()), path, ring)
    }
}

impl Faulty {
    fn change(&self, event: &'static str) -> io::Result<()> {
        let spent = |left: u64| left.checked_sub(1);
        let alive = self.calls.as_ref().is_none_or(|calls| {
            calls.fetch_update(Ordering::SeqCst, Ordering::SeqCst, spent).is_ok()
        });
        if !alive {
            return Err(Errno::IO.into());
        }
        self.events.lock().unwrap().push(event);
        Ok(())
    }
}

impl Disk for Shared {
    fn open(&self, path: &Path, purpose: Purpose, direct: bool) -> io::Result<Box<dyn DiskFile>> {
        if purpose == Purpose::Make {
            self.0.change("make")?;
        }
        if direct && self.0.has_no_direct {
            if purpose == Purpose::Make {
                File::create(path)?; // as Linux does before it refuses
            }
            return Err(Errno::INVAL.into());
        }
        let file = HostDisk.open(path, purpose, direct)?;
        Ok(Box::new(FaultyFile { disk: Arc::clone(&self.0), file, direct }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.change("rename")?;
        HostDisk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        if !path.exists() {
            return Err(Errno::NOENT.into());
        }
        self.0.change("remove")?;
        HostDisk.remove(path)
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        self.0.change("sync names")?;
        HostDisk.sync_directory(path)
    }
}

impl FaultyFile {
    fn require_sectors(&self, bytes: usize, at: u64) -> io::Result<()> {
        let sector = self.disk.sector_bytes.max(1);
        let fits = bytes % sector == 0 && at % u64::try_from(sector).unwrap() == 0;
        if self.direct && !fits { Err(Errno::INVAL.into()) } else { Ok(()) }
    }
}

impl DiskFile for FaultyFile {
    fn length_bytes(&self) -> io::Result<u64> {
        self.file.length_bytes()
    }

    fn allocate(&self, length_bytes: u64) -> io::Result<()> {
        self.disk.change("allocate")?;
        // As on a file system that cannot: what is full shows in the middle of writing.
        let limited = self.disk.space_bytes.is_some();
        if limited { Err(Errno::OPNOTSUPP.into()) } else { self.file.allocate(length_bytes) }
    }

    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize> {
        self.require_sectors(into.len(), at)?;
        self.file.read_at(into, at)
    }

    fn write_at(&self, from: &[u8], at: u64) -> io::Result<usize> {
        self.require_sectors(from.len(), at)?;
        let half = from.split_at(from.len() / 2 / 512 * 512).0;
        if let Err(error) = self.disk.change("write") {
            self.file.write_at(half, at)?;
            return Err(error);
        }
        if self.disk.tears.swap(false, Ordering::SeqCst) {
            self.file.write_at(half, at)?;
            return Err(Errno::IO.into());
        }
        let bytes = u64::try_from(from.len()).unwrap();
        if let Some(space) = &self.disk.space_bytes {
            let left = |left: u64| left.checked_sub(bytes);
            if space.fetch_update(Ordering::SeqCst, Ordering::SeqCst, left).is_err() {
                return Err(Errno::NOSPC.into());
            }
        }
        self.file.write_at(from, at)
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.change("sync")?;
        self.file.sync()
    }
}
