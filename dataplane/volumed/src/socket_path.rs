//! Sockets at paths of any length.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// A path to a socket that is short enough to bind and connect to, as long as this lives.
///
/// The address of a socket holds at most 107 bytes (unix(7)). Paths below a home or a data directory
/// that a user has chosen may be longer, so the path leads through a descriptor of the directory.
#[derive(Debug)]
pub(crate) struct SocketPath {
    path: PathBuf,
    _directory: File,
}

impl SocketPath {
    /// The one that leads to `path`, which need not exist yet; its directory must.
    ///
    /// # Errors
    /// [`io::Error`] when the directory cannot be opened or `path` names no file.
    pub(crate) fn of(path: &Path) -> io::Result<Self> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let parent = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let flags = libc::O_PATH | libc::O_DIRECTORY;
        let directory = OpenOptions::new().read(true).custom_flags(flags).open(parent)?;
        let path = PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd())).join(name);
        Ok(Self { path, _directory: directory })
    }
}

impl AsRef<Path> for SocketPath {
    fn as_ref(&self) -> &Path {
        &self.path
    }
}
