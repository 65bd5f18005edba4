//! The file under a cache, behind a port that tests can make fail or rot.

use std::fmt;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::Path;

use rustix::fs::{FallocateFlags, Mode, OFlags, fallocate, open};
use rustix::io::Errno;

/// Bytes that need not outlive the process.
pub(crate) trait Store: Send + Sync + fmt::Debug {
    /// Fill `into` with what was written at `at`. Both are whole sectors, in memory too.
    fn read(&self, into: &mut [u8], at: u64) -> io::Result<()>;

    /// Write whole sectors.
    fn write(&self, from: &[u8], at: u64) -> io::Result<()>;
}

/// A file without a name, past the page cache where the file system can do that.
#[derive(Debug)]
pub(crate) struct FileStore {
    file: File,
}

impl FileStore {
    /// Make the file in place of anything that has its name, allocate it, and take the name away.
    pub(crate) fn make(path: &Path, size_bytes: u64) -> io::Result<Self> {
        if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
        }
        remove(path)?;
        let file = match make_file(path, OFlags::DIRECT) {
            Err(error) if is_unsupported(&error) => {
                // The call that failed may have made it.
                remove(path)?;
                make_file(path, OFlags::empty())?
            }
            file => file?,
        };
        // From here on the space is given back when the process ends, however it ends.
        fs::remove_file(path)?;
        match fallocate(&file, FallocateFlags::empty(), 0, size_bytes) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => file.set_len(size_bytes)?,
            result => result?,
        }
        Ok(Self { file })
    }
}

impl Store for FileStore {
    fn read(&self, into: &mut [u8], at: u64) -> io::Result<()> {
        self.file.read_exact_at(into, at)
    }

    fn write(&self, from: &[u8], at: u64) -> io::Result<()> {
        self.file.write_all_at(from, at)
    }
}

fn make_file(path: &Path, direct: OFlags) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | direct;
    Ok(File::from(open(path, flags, Mode::RUSR | Mode::WUSR)?))
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

fn is_unsupported(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS))
}

#[cfg(test)]
mod tests {
    use grampus_blockdev::Buffer;

    use super::*;

    #[test]
    fn it_holds_bytes_has_no_name_and_ignores_what_was_there() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a").join("cache");
        fs::create_dir(path.parent().unwrap()).unwrap();
        fs::write(&path, b"of an earlier life").unwrap();
        let store = FileStore::make(&path, 1 << 20).unwrap();
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 0);
        let mut buffer = Buffer::zeroed(8192).unwrap();
        buffer.fill(7);
        store.write(&buffer, 4096).unwrap();
        buffer.fill(0);
        store.read(&mut buffer, 4096).unwrap();
        assert!(buffer.iter().all(|byte| *byte == 7));
        store.read(&mut buffer, 0).unwrap();
        assert!(buffer[..4096].iter().all(|byte| *byte == 0));
        assert!(store.read(&mut buffer, 1 << 20).is_err());
    }

    #[test]
    fn a_name_that_cannot_be_had_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        assert!(FileStore::make(directory.path(), 1 << 20).is_err());
        let file = directory.path().join("file");
        fs::write(&file, b"").unwrap();
        assert!(FileStore::make(&file.join("cache"), 1 << 20).is_err());
    }
}
