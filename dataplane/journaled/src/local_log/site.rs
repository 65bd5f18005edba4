//! The name of a log: making what it stands for, opening it, moving it away.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use grampus_blockdev::Buffer;
use grampus_journal::{Aside, Ring};
use rustix::io::Errno;

use super::bounce::{read_all, write_all};
use super::disk::{self, Disk, DiskFile, Purpose, uninterrupted};
use super::error::{LocalLogError, is_no_space};
use super::layout::{
    BLOCK_BYTES, First, SLOTS_AT, aside_path, beside, classify_first, file_bytes, is_aside_name,
    unused_block,
};

const ZEROS_BYTES: usize = 1 << 20;

/// An open log.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) file: Box<dyn DiskFile>,
    pub(super) ring: Ring,
    pub(super) direct: bool,
    pub(super) length_bytes: u64,
}

impl Opened {
    /// Whether the file has the length of its shape. One whose record is broken may not.
    pub(super) fn is_whole(&self) -> bool {
        self.length_bytes == file_bytes(self.ring)
    }
}

/// Where a log is.
#[derive(Debug)]
pub(super) struct Site {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    /// Where the next one is made.
    unfinished: PathBuf,
}

impl Site {
    pub(super) fn new(disk: Arc<dyn Disk>, path: &Path) -> Self {
        Self { disk, path: path.to_owned(), unfinished: beside(path, ".new") }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    fn directory(&self) -> &Path {
        match self.path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        }
    }

    /// Lock the name, making the directory. The lock ends with the file, and with the process.
    pub(super) fn lock(&self) -> Result<File, LocalLogError> {
        self.ensure_directory(self.directory())?;
        let path = beside(&self.path, ".lock");
        disk::lock(&path).map_err(|source| match source.kind() {
            io::ErrorKind::WouldBlock => LocalLogError::InUse { path: self.path.clone() },
            _ => io_error("lock", &path, source),
        })
    }

    fn ensure_directory(&self, path: &Path) -> Result<(), LocalLogError> {
        if path.as_os_str().is_empty() || path.is_dir() {
            return Ok(());
        }
        let parent = path.parent().unwrap_or(Path::new("/"));
        self.ensure_directory(parent)?;
        match DirBuilder::new().mode(0o700).create(path) {
            // Somebody else made it meanwhile.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            result => result.map_err(|source| io_error("make the directory", path, source))?,
        }
        let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        self.sync(parent)
    }

    /// Open the log, or make one of the shape `wanted`.
    pub(super) fn open_or_make(&self, wanted: Ring) -> Result<Opened, LocalLogError> {
        self.discard_unfinished()?;
        match self.open_and_look(wanted) {
            // What was never used holds nothing, so it need not keep its shape.
            Ok((opened, First::Unused)) if !opened.is_whole() => {}
            Err(LocalLogError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
            opened => return Ok(opened?.0),
        }
        self.make(wanted, &unused_block())?;
        self.put_in_place()?;
        self.open(wanted)
    }

    /// Open the log that is there. Without a record to say so, its shape is `wanted`.
    pub(super) fn open(&self, wanted: Ring) -> Result<Opened, LocalLogError> {
        Ok(self.open_and_look(wanted)?.0)
    }

    fn open_and_look(&self, wanted: Ring) -> Result<(Opened, First), LocalLogError> {
        let refused = |source| io_error("open", &self.path, source);
        let (mut file, mut direct) = self.open_file(&self.path, Purpose::Use)?;
        let length_bytes = file.length_bytes().map_err(refused)?;
        let first = classify_first(&self.first_block(&*file)?);
        let ring = if let First::Of(record) = first { record.ring } else { wanted };
        let needed_bytes = file_bytes(ring);
        if matches!(first, First::Of(_)) && length_bytes < needed_bytes {
            let path = self.path.clone();
            return Err(LocalLogError::Truncated { path, file_bytes: length_bytes, needed_bytes });
        }
        if direct && !takes_pieces(&*file, ring).map_err(refused)? {
            file = self.disk.open(&self.path, Purpose::Use, false).map_err(refused)?;
            direct = false;
        }
        Ok((Opened { file, ring, direct, length_bytes }, first))
    }

    fn open_file(
        &self,
        path: &Path,
        purpose: Purpose,
    ) -> Result<(Box<dyn DiskFile>, bool), LocalLogError> {
        let refused = |source| io_error("open", path, source);
        match self.disk.open(path, purpose, true) {
            Err(error) if is_unsupported(&error) => {}
            file => return Ok((file.map_err(refused)?, true)),
        }
        if purpose == Purpose::Make {
            // The call that failed may have made the file.
            self.discard_unfinished()?;
        }
        Ok((self.disk.open(path, purpose, false).map_err(refused)?, false))
    }

    fn first_block(&self, file: &dyn DiskFile) -> Result<Vec<u8>, LocalLogError> {
        let refused = |source| io_error("read", &self.path, source);
        let mut block =
            Buffer::zeroed(BLOCK_BYTES).map_err(|error| refused(io::Error::other(error)))?;
        let read = read_all(file, 0, &mut block).map_err(refused)?;
        Ok(block.get(..read).unwrap_or_default().to_vec())
    }

    /// Make a whole log beside the one that has the name. When that fails there is none.
    pub(super) fn make(&self, ring: Ring, first_block: &[u8]) -> Result<(), LocalLogError> {
        self.discard_unfinished()?;
        let needed_bytes = file_bytes(ring);
        let made = self.fill(needed_bytes, first_block);
        if made.is_err() {
            // The failure above is the one to tell; what is left is removed by the next opening.
            if let Err(error) = self.discard_unfinished() {
                tracing::debug!(%error, "a half-made log is left behind");
            }
        }
        made.map_err(|error| match error {
            LocalLogError::Io { source, .. } if is_no_space(&source) => {
                LocalLogError::NoSpace { path: self.path.clone(), needed_bytes }
            }
            other => other,
        })
    }

    /// Blocks that are only allocated turn into written ones with a change of metadata, at the
    /// first append that meets them: so all of it is written here.
    fn fill(&self, needed_bytes: u64, first_block: &[u8]) -> Result<(), LocalLogError> {
        let refused = |source| io_error("make", &self.unfinished, source);
        let (file, _) = self.open_file(&self.unfinished, Purpose::Make)?;
        match uninterrupted(|| file.allocate(needed_bytes)) {
            Err(error) if is_unsupported(&error) => {}
            result => result.map_err(refused)?,
        }
        let mut zeros =
            Buffer::zeroed(ZEROS_BYTES).map_err(|error| refused(io::Error::other(error)))?;
        let mut at = 0;
        while at < needed_bytes {
            let piece = usize::try_from(needed_bytes - at)
                .map_or(ZEROS_BYTES, |left| left.min(ZEROS_BYTES));
            zeros.set_len(piece).map_err(|error| refused(io::Error::other(error)))?;
            write_all(&*file, at, &zeros).map_err(refused)?;
            at += u64::try_from(piece).unwrap_or(u64::MAX);
        }
        zeros.set_len(first_block.len()).map_err(|error| refused(io::Error::other(error)))?;
        zeros.copy_from_slice(first_block);
        write_all(&*file, 0, &zeros).map_err(refused)?;
        file.sync().map_err(refused)
    }

    fn discard_unfinished(&self) -> Result<(), LocalLogError> {
        match self.disk.remove(&self.unfinished) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            result => result.map_err(|source| io_error("remove", &self.unfinished, source)),
        }
    }

    /// Give what was made its name, in place of what has it.
    pub(super) fn put_in_place(&self) -> Result<(), LocalLogError> {
        let renamed = self.disk.rename(&self.unfinished, &self.path);
        renamed.map_err(|source| io_error("rename", &self.unfinished, source))?;
        self.sync(self.directory())
    }

    /// Take the name away from the log that has it; under which one it is kept.
    pub(super) fn move_aside(&self, why: Aside) -> Result<PathBuf, LocalLogError> {
        let refused = |source| io_error("rename", &self.path, source);
        let free = |path: &PathBuf| fs::symlink_metadata(path).is_err();
        // Nobody else makes such names: the lock is ours.
        let aside = (1..=u32::MAX)
            .map(|number| aside_path(&self.path, why, number))
            .find(free)
            .ok_or_else(|| refused(io::ErrorKind::AlreadyExists.into()))?;
        self.disk.rename(&self.path, &aside).map_err(refused)?;
        self.sync(self.directory())?;
        Ok(aside)
    }

    fn sync(&self, directory: &Path) -> Result<(), LocalLogError> {
        let synced = self.disk.sync_directory(directory);
        synced.map_err(|source| io_error("make durable the names in", directory, source))
    }

    pub(super) fn asides(&self) -> Result<Vec<PathBuf>, LocalLogError> {
        let directory = self.directory();
        let refused = |source| io_error("read", directory, source);
        let own = self.path.file_name().unwrap_or_default().to_string_lossy();
        let mut found = Vec::new();
        for entry in fs::read_dir(directory).map_err(refused)? {
            let entry = entry.map_err(refused)?;
            if is_aside_name(&entry.file_name().to_string_lossy(), &own) {
                found.push(entry.path());
            }
        }
        found.sort();
        Ok(found)
    }
}

/// Whether `O_DIRECT` takes pieces as small as the ring's alignment: a disk may have larger
/// sectors.
fn takes_pieces(file: &dyn DiskFile, ring: Ring) -> io::Result<bool> {
    let piece = usize::try_from(ring.align_bytes).unwrap_or(BLOCK_BYTES);
    let mut buffer = Buffer::zeroed(piece).map_err(io::Error::other)?;
    match read_all(file, SLOTS_AT + u64::from(ring.align_bytes), &mut buffer) {
        Err(error) if is_unsupported(&error) => Ok(false),
        result => result.map(|_| true),
    }
}

fn is_unsupported(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    matches!(errno, Some(Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS))
}

fn io_error(action: &'static str, path: &Path, source: io::Error) -> LocalLogError {
    LocalLogError::Io { action, path: path.to_owned(), source }
}
