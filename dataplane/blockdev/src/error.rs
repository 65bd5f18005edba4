//! What can go wrong on opening a device and in a request.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use crate::limits::LimitError;
use crate::range::ByteRange;

/// A device could not be opened.
#[derive(Debug, Error)]
pub enum OpenError {
    /// The operating system refused.
    #[error("cannot open {path}")]
    Io {
        /// The file asked for.
        path: PathBuf,
        /// Its reason.
        #[source]
        source: io::Error,
    },
    /// The length of an open file cannot be read.
    #[error("cannot read the file's length")]
    Length(#[source] io::Error),
    /// A directory, device or socket, whose size and holes mean something else.
    #[error("{path} is not a regular file")]
    NotRegular {
        /// The file asked for.
        path: PathBuf,
    },
    /// The file's size makes no device.
    #[error("the file makes no device")]
    Limit(#[from] LimitError),
}

/// A request failed. Unless it says otherwise, any part of its range may have been changed.
#[derive(Debug, Error)]
pub enum DeviceError {
    /// The range does not lie wholly on the device; nothing was read or changed.
    #[error("{range} is not within the device's {size_bytes} bytes")]
    OutOfRange {
        /// What was asked for.
        range: ByteRange,
        /// The device's size when it was asked.
        size_bytes: u64,
    },
    /// The file under the device became shorter than the device: data is lost.
    #[error("the file under the device was truncated to {file_bytes} of {size_bytes} bytes")]
    Truncated {
        /// How long the file is.
        file_bytes: u64,
        /// How long it was when the device was opened.
        size_bytes: u64,
    },
    /// The system call behind the request failed.
    #[error("cannot {action}")]
    Io {
        /// What was tried, such as `write`.
        action: &'static str,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
    /// An earlier failure lost data; the device refuses everything until it is opened again.
    #[error("the device lost data in an earlier failure and must be opened again")]
    Failed,
    /// The cluster shut this client out, so that another may take the volume over. Nothing that
    /// was not yet written will be, by this device or one opened through the same client.
    #[error("the volume was fenced: the cluster takes nothing more from this client")]
    Fenced,
    /// The device dropped the request without an answer, such as on its own shutdown.
    #[error("the device dropped the request")]
    Abandoned,
}
