//! What can go wrong with a mount.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// A device could not be served, or stopped being served.
#[derive(Debug, Error)]
pub enum FuseError {
    /// A value of the options is outside its limits.
    #[error("{what}")]
    Option {
        /// Which, and what it may be.
        what: String,
    },
    /// The mountpoint is no place for this mount.
    #[error("{path} cannot be a mountpoint: {reason}")]
    Mountpoint {
        /// The path asked for.
        path: PathBuf,
        /// Why, and what to do.
        reason: String,
    },
    /// The machine lacks what the transport asked for needs.
    #[error("{reason}")]
    Unavailable {
        /// What is missing, and what to do.
        reason: String,
    },
    /// A system call failed.
    #[error("cannot {action}: {source}")]
    Io {
        /// What was tried, such as `open /dev/fuse`.
        action: &'static str,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
    /// The kernel said something that this server does not understand.
    #[error("the kernel's FUSE message makes no sense: {what}")]
    Protocol {
        /// What was wrong with it.
        what: &'static str,
    },
    /// The connection ended on this side's account; what was in flight failed at its user.
    #[error("the mount was given up: {reason}")]
    GivenUp {
        /// Why.
        reason: String,
    },
}

impl FuseError {
    pub(crate) fn io(action: &'static str) -> impl FnOnce(rustix::io::Errno) -> Self {
        move |errno| Self::Io { action, source: errno.into() }
    }

    pub(crate) fn std_io(action: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { action, source }
    }
}
