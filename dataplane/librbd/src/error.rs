//! What can go wrong besides a request: with the libraries, the cluster, an image.

use std::io;
use std::path::PathBuf;

use grampus_blockdev::LimitError;
use thiserror::Error;

/// What Ceph answers a client that was shut out; the number of ESHUTDOWN.
pub(crate) const EBLOCKLISTED: i32 = libc::ESHUTDOWN;

/// The error for a negative errno.
pub(crate) fn io_error(code: i64) -> io::Error {
    match i32::try_from(code.unsigned_abs()) {
        Ok(errno) if code < 0 => io::Error::from_raw_os_error(errno),
        _ => io::Error::other(format!("unexpected answer {code}")),
    }
}

/// Ceph's client libraries cannot be used.
#[derive(Debug, Error)]
pub enum LoadError {
    /// The dynamic loader found no such library, or not all that it depends on.
    #[error("cannot load {path}: install Ceph's client libraries (librbd1, librados2)")]
    Library {
        /// What was asked for: a path, or a name that the loader looks up.
        path: PathBuf,
        /// The loader's reason.
        #[source]
        source: libloading::Error,
    },
    /// A function that every supported release has is not there.
    #[error("{path} has no function {symbol}: Ceph 16 or newer is needed")]
    Symbol {
        /// The library.
        path: PathBuf,
        /// The function.
        symbol: &'static str,
    },
}

/// The cluster or an image refused.
#[derive(Debug, Error)]
pub enum RbdError {
    /// A call failed; [`RbdError::errno`] says why.
    #[error("cannot {action} {subject}")]
    Call {
        /// What was tried, such as `open the image`.
        action: &'static str,
        /// With what, such as `rbd/disk`; may be empty.
        subject: String,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
    /// Another client that is alive holds the image's exclusive lock and keeps it.
    #[error("the image's exclusive lock is held by {owner}")]
    LockHeld {
        /// Its address, or `another client` when it could not be told.
        owner: String,
    },
    /// The cluster shut this client out.
    #[error("this client was fenced: the cluster takes nothing more from it")]
    Fenced,
    /// The image was closed.
    #[error("the image is closed")]
    Closed,
    /// The image, or one that it is a clone of, is encrypted with another passphrase.
    #[error("the key does not open the image's encryption")]
    Passphrase,
    /// The image is not encrypted in a way that librbd knows.
    #[error("the image is not encrypted")]
    NotEncrypted,
    /// The library found is too old for this.
    #[error("this librbd has no {symbol}: Ceph 16 or newer is needed")]
    Unsupported {
        /// The function that it lacks.
        symbol: &'static str,
    },
    /// Text that C cannot take.
    #[error("the {what} contains a NUL character")]
    Text {
        /// Which text.
        what: &'static str,
    },
    /// An image whose size makes no device.
    #[error("the image makes no device")]
    Limit(#[from] LimitError),
    /// A thread could not be started.
    #[error("cannot start a thread")]
    Thread(#[source] io::Error),
}

impl RbdError {
    /// The error of a call that answered `code`, a negative errno.
    pub(crate) fn of(action: &'static str, subject: impl Into<String>, code: i64) -> Self {
        if code == -i64::from(EBLOCKLISTED) {
            return Self::Fenced;
        }
        Self::Call { action, subject: subject.into(), source: io_error(code) }
    }

    /// The reason of a failed call as an errno.
    #[must_use]
    pub fn errno(&self) -> Option<i32> {
        match self {
            Self::Call { source, .. } | Self::Thread(source) => source.raw_os_error(),
            Self::Fenced => Some(EBLOCKLISTED),
            _ => None,
        }
    }

    /// Whether the cluster refused for want of space: it, the pool, or a quota is full.
    #[must_use]
    pub fn is_no_space(&self) -> bool {
        matches!(self.errno(), Some(libc::ENOSPC | libc::EDQUOT))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_cluster_and_a_full_quota_are_want_of_space() {
        for (code, expected) in [(-28, true), (-122, true), (-5, false), (-108, false), (28, false)]
        {
            assert_eq!(RbdError::of("write to", "rbd/x", code).is_no_space(), expected, "{code}");
        }
        assert!(!RbdError::Closed.is_no_space());
    }

    #[test]
    fn an_answer_that_is_no_negative_errno_is_still_an_error() {
        assert_eq!(io_error(-2).raw_os_error(), Some(2));
        for code in [0, 1, i64::MIN, i64::MAX] {
            assert_eq!(io_error(code).raw_os_error(), None, "{code}");
        }
    }
}
