//! Why a log on the host cannot be used.

use std::io;
use std::path::PathBuf;

use grampus_journal::{Failure, RingError};
use rustix::io::Errno;
use thiserror::Error;

/// A log cannot be used.
#[derive(Debug, Error)]
pub enum LocalLogError {
    /// Another process holds the lock.
    #[error("the log {path} is in use. End the process that has it, or choose another path.")]
    InUse {
        /// The log.
        path: PathBuf,
    },
    /// It is shorter than its own record says.
    #[error(
        "the log {path} has {file_bytes} bytes where its record speaks of {needed_bytes}: what was \
         acknowledged may be lost. Move it away to go on without it."
    )]
    Truncated {
        /// The log.
        path: PathBuf,
        /// How long it is.
        file_bytes: u64,
        /// How long it was made.
        needed_bytes: u64,
    },
    /// The disk is full. What there was before is as it was.
    #[error(
        "there is no room for the log {path} of {needed_bytes} bytes. Free space on its file \
         system, or choose a smaller log."
    )]
    NoSpace {
        /// The log.
        path: PathBuf,
        /// How long it would be.
        needed_bytes: u64,
    },
    /// A ring with no usable shape.
    #[error("the local log has no usable shape. Choose other sizes.")]
    Shape(#[from] RingError),
    /// The operating system refused.
    #[error("cannot {action} {path}. Look at the disk, and at who owns the file.")]
    Io {
        /// What was tried.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// Its reason.
        #[source]
        source: io::Error,
    },
}

impl LocalLogError {
    /// As the journal is told.
    #[must_use]
    pub fn failure(&self) -> Failure {
        if matches!(self, Self::NoSpace { .. }) { Failure::NoSpace } else { Failure::Io }
    }
}

/// Whether the disk, or somebody's share of it, is full.
pub(super) fn is_no_space(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::NOSPC | Errno::DQUOT | Errno::FBIG))
}
