//! The log of one volume in a file on the host's disk.
//!
//! The first block holds the record, the slots follow from [`layout::SLOTS_AT`] on. A log is made
//! under another name, allocated and filled with zeros, made durable, and only then renamed to its
//! own: whatever has the name is whole, and an append changes no metadata. It is opened with
//! `O_DSYNC`, so a write is durable when it returns, and with `O_DIRECT` where the file system has
//! it.
//!
//! The lock is on a file beside the log, not on the log: a log that is set aside or made anew is
//! another file under the same name, and a lock on a file is not one on its name.

mod bounce;
mod disk;
mod error;
mod layout;
mod site;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{
    Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
};

use grampus_journal::{Aside, Failure, RECORD_BYTES, Record, Ring};

use self::bounce::BouncePool;
use self::disk::{Disk, HostDisk};
use self::error::is_no_space;
use self::layout::{First, classify_first};
use self::site::{Opened, Site};
use crate::ports::LocalLog;

pub use self::error::LocalLogError;

/// A log in a file; see [`LocalLog`] for what it promises.
///
/// A write that failed leaves the log failed until it is opened anew (INV-6), except when the log
/// is made anew: set aside, or given another shape.
#[derive(Debug)]
pub struct LogFile {
    site: Site,
    /// The shape of a log that is made.
    wanted: Ring,
    log: RwLock<OpenLog>,
    bounce: BouncePool,
    /// Without `O_DIRECT` one write at a time: the kernel reports a page it could not write back
    /// to one caller only, and another that writes alongside would be told that all is well.
    alone: Mutex<()>,
    /// Closed last, so that nobody else has the log while it is open here.
    _lock: File,
}

#[derive(Debug)]
struct OpenLog {
    opened: Opened,
    failed: OnceLock<Failure>,
}

impl OpenLog {
    fn new(opened: Opened) -> Self {
        Self { opened, failed: OnceLock::new() }
    }

    fn require_sound(&self) -> Result<(), Failure> {
        self.failed.get().map_or(Ok(()), |failure| Err(*failure))
    }

    /// Nothing more is written; the first failure is the one that is told.
    fn fail(&self, failure: Failure) -> Failure {
        *self.failed.get_or_init(|| failure)
    }
}

impl LogFile {
    /// Open the log at `path`, or make it, of the shape `ring`, with its directories.
    ///
    /// One that is there keeps the shape that its record has until [`LocalLog::write_record`]
    /// gives it another. What was left half made is removed.
    ///
    /// # Errors
    /// [`LocalLogError`].
    pub fn open(path: &Path, ring: Ring) -> Result<Self, LocalLogError> {
        Self::open_on(Arc::new(HostDisk), path, ring)
    }

    fn open_on(disk: Arc<dyn Disk>, path: &Path, wanted: Ring) -> Result<Self, LocalLogError> {
        wanted.validate()?;
        let site = Site::new(disk, path);
        let lock = site.lock()?;
        let opened = site.open_or_make(wanted)?;
        Ok(Self {
            site,
            wanted,
            log: RwLock::new(OpenLog::new(opened)),
            bounce: BouncePool::default(),
            alone: Mutex::default(),
            _lock: lock,
        })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.site.path()
    }

    /// Whether it is written past the page cache.
    #[must_use]
    pub fn is_direct(&self) -> bool {
        self.read_log().opened.direct
    }

    /// The logs that were set aside here, now or ever. They are kept until somebody moves them.
    ///
    /// # Errors
    /// [`LocalLogError::Io`] when the directory cannot be read.
    pub fn asides(&self) -> Result<Vec<PathBuf>, LocalLogError> {
        self.site.asides()
    }

    // A thread that panicked left the log as it was: poison means nothing.
    fn read_log(&self) -> RwLockReadGuard<'_, OpenLog> {
        self.log.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_log(&self) -> RwLockWriteGuard<'_, OpenLog> {
        self.log.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn alone_unless_direct(&self, log: &OpenLog) -> Option<MutexGuard<'_, ()>> {
        (!log.opened.direct).then(|| self.alone.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn write_at(&self, log: &OpenLog, at: u64, bytes: &[u8]) -> Result<(), Failure> {
        let _alone = self.alone_unless_direct(log);
        log.require_sound()?;
        let written = self.bounce.write(&*log.opened.file, at, bytes);
        written.map_err(|error| log.fail(self.told("write", &error)))
    }

    /// None: the log has not the shape `ring`.
    fn write_record_in_place(
        &self,
        log: &OpenLog,
        ring: Ring,
        block: &[u8],
    ) -> Option<Result<(), Failure>> {
        let fits = log.opened.ring == ring && log.opened.is_whole();
        fits.then(|| self.write_at(log, 0, block))
    }

    /// Open what `rename` gave the log's name to.
    fn renew<T>(
        &self,
        log: &mut OpenLog,
        ring: Ring,
        rename: impl FnOnce() -> Result<T, LocalLogError>,
    ) -> Result<T, Failure> {
        match rename().and_then(|renamed| Ok((renamed, self.site.open(ring)?))) {
            Ok((renamed, opened)) => {
                *log = OpenLog::new(opened);
                Ok(renamed)
            }
            // The name may stand for another file now than the one that is open.
            Err(error) => Err(log.fail(self.told_of(&error))),
        }
    }

    fn read_at(&self, log: &OpenLog, at: u64, bytes: usize) -> Result<Vec<u8>, Failure> {
        let read = self.bounce.read(&*log.opened.file, at, bytes);
        read.map_err(|error| self.told("read", &error))
    }

    /// A [`Failure`] has no room for the cause, so it is said here.
    fn told(&self, action: &str, error: &io::Error) -> Failure {
        tracing::warn!(path = %self.path().display(), %error, "cannot {action} the local log");
        if is_no_space(error) { Failure::NoSpace } else { Failure::Io }
    }

    fn told_of(&self, error: &LocalLogError) -> Failure {
        let cause = std::error::Error::source(error).map(ToString::to_string);
        tracing::warn!(path = %self.path().display(), %error, cause, "the local log failed");
        error.failure()
    }
}

impl LocalLog for LogFile {
    fn read_record(&self) -> Result<Option<Vec<u8>>, Failure> {
        let log = self.read_log();
        let block = self.bounce.read_head(&*log.opened.file).map_err(|e| self.told("read", &e))?;
        if classify_first(&block) == First::Unused {
            return Ok(None);
        }
        Ok(Some(block.get(..RECORD_BYTES).unwrap_or(&block).to_vec()))
    }

    fn write_record(&self, record: &[u8]) -> Result<(), Failure> {
        let decoded = Record::decode(record).map_err(|error| {
            tracing::error!(%error, "what should be a record of the local log is none");
            Failure::Io
        })?;
        let block = layout::record_block(record);
        if let Some(written) = self.write_record_in_place(&self.read_log(), decoded.ring, &block) {
            return written;
        }
        let mut log = self.write_log();
        // Another thread may have been first.
        if let Some(written) = self.write_record_in_place(&log, decoded.ring, &block) {
            return written;
        }
        // Another shape. The record that is written says that the old contents count no more.
        self.site.make(decoded.ring, &block).map_err(|error| self.told_of(&error))?;
        self.renew(&mut log, decoded.ring, || self.site.put_in_place())
    }

    fn read_slot(&self, slot: u32) -> Result<Vec<u8>, Failure> {
        let log = self.read_log();
        let ring = log.opened.ring;
        let (Some(at), Ok(bytes)) =
            (layout::slot_at(ring, slot), usize::try_from(ring.segment_bytes))
        else {
            tracing::error!(slot, ?ring, "the local log has no such slot");
            return Err(Failure::Io);
        };
        self.read_at(&log, at, bytes)
    }

    fn append(&self, slot: u32, offset: u64, bytes: &[u8]) -> Result<(), Failure> {
        let log = self.read_log();
        let ring = log.opened.ring;
        let Some(at) = layout::append_at(ring, slot, offset, bytes.len()) else {
            tracing::error!(slot, offset, bytes = bytes.len(), ?ring, "no place in the local log");
            return Err(Failure::Io);
        };
        if !log.opened.is_whole() {
            let path = self.path().display();
            tracing::error!(%path, "the local log has another length than its shape");
            return Err(Failure::Io);
        }
        self.write_at(&log, at, bytes)
    }

    fn set_aside(&self, why: Aside) -> Result<(), Failure> {
        let mut log = self.write_log();
        // First the new one: if there is no room for it, nothing has changed.
        let made = self.site.make(self.wanted, &layout::unused_block());
        made.map_err(|error| self.told_of(&error))?;
        let aside = self.renew(&mut log, self.wanted, || {
            let aside = self.site.move_aside(why)?;
            self.site.put_in_place()?;
            Ok(aside)
        })?;
        tracing::warn!(?why, aside = %aside.display(), "a local log was set aside and is kept");
        Ok(())
    }
}
