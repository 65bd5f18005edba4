//! An open `/dev/fuse`: messages in, answers and notifications out.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, Mode, OFlags, fcntl_getfl, fcntl_setfl, openat};
use rustix::io::{Errno, readv, writev};
use zerocopy::IntoBytes;

use crate::boundary::join_connection;
use crate::error::FuseError;
use crate::protocol::{
    ARGUMENT_BYTES, IN_HEADER_BYTES, NOTIFY_INVAL_INODE, NotifyInvalInode, OUT_HEADER_BYTES,
    OutHeader, ROOT_NODE,
};

/// Header and argument of a write; what follows in its message is the data.
pub(crate) const HEAD_BYTES: usize = IN_HEADER_BYTES + ARGUMENT_BYTES;

/// The front of a message.
#[derive(Debug)]
pub(crate) struct Head {
    bytes: [u8; HEAD_BYTES],
    used_bytes: usize,
}

impl Head {
    pub(crate) fn new() -> Self {
        Self { bytes: [0; HEAD_BYTES], used_bytes: 0 }
    }

    pub(crate) fn header(&self) -> &[u8] {
        self.used().get(..IN_HEADER_BYTES).unwrap_or(self.used())
    }

    pub(crate) fn argument(&self) -> &[u8] {
        self.used().get(IN_HEADER_BYTES..).unwrap_or_default()
    }

    pub(crate) fn used(&self) -> &[u8] {
        self.bytes.get(..self.used_bytes).unwrap_or_default()
    }
}

/// What came of reading.
#[derive(Debug)]
pub(crate) enum Received {
    /// A message, with this much data behind its head.
    Message { payload_bytes: usize },
    /// The request was taken back before it was read, or a signal came: read again.
    Again,
    /// The connection is gone: unmounted, or aborted.
    Gone,
}

#[derive(Debug)]
pub(crate) struct Channel(OwnedFd);

impl Channel {
    /// # Errors
    /// [`FuseError::Unavailable`] where there is no FUSE, [`FuseError::Io`].
    pub(crate) fn open() -> Result<Self, FuseError> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        match openat(CWD, "/dev/fuse", flags, Mode::empty()) {
            Ok(file) => Ok(Self(file)),
            Err(Errno::NOENT | Errno::NODEV | Errno::NXIO) => Err(FuseError::Unavailable {
                reason: "this machine has no /dev/fuse: load the kernel's fuse module".to_owned(),
            }),
            Err(errno) => Err(FuseError::io("open /dev/fuse")(errno)),
        }
    }

    /// A channel to a stand-in for the kernel.
    #[cfg(test)]
    pub(crate) fn over(file: OwnedFd) -> Self {
        Self(file)
    }

    /// Another way into the same connection; a request is answered where it was read.
    ///
    /// # Errors
    /// [`FuseError::Io`].
    pub(crate) fn clone_connection(&self) -> Result<Self, FuseError> {
        let fresh = Self::open()?;
        join_connection(&fresh.0, &self.0).map_err(FuseError::io("clone /dev/fuse"))?;
        Ok(fresh)
    }

    /// Wait for a message. `payload` must hold the largest transfer.
    ///
    /// # Errors
    /// As `read`, but for what [`Received`] has a name for.
    pub(crate) fn receive(&self, head: &mut Head, payload: &mut [u8]) -> Result<Received, Errno> {
        head.used_bytes = 0;
        let read = {
            let mut parts = [IoSliceMut::new(&mut head.bytes), IoSliceMut::new(payload)];
            readv(&self.0, &mut parts)
        };
        match read {
            // No kernel sends nothing; a stand-in that has ended does.
            Ok(0) => Ok(Received::Gone),
            Ok(bytes) => {
                head.used_bytes = bytes.min(HEAD_BYTES);
                Ok(Received::Message { payload_bytes: bytes.saturating_sub(HEAD_BYTES) })
            }
            Err(Errno::NOENT | Errno::INTR | Errno::AGAIN) => Ok(Received::Again),
            Err(Errno::NODEV | Errno::CONNABORTED | Errno::NOTCONN | Errno::PERM) => {
                Ok(Received::Gone)
            }
            Err(errno) => Err(errno),
        }
    }

    /// Answer a request. One that its user no longer waits for, or whose connection is gone,
    /// counts as answered.
    ///
    /// # Errors
    /// As `write`.
    pub(crate) fn answer(&self, unique: u64, answer: Result<&[u8], Errno>) -> Result<(), Errno> {
        let (error, payload) = match answer {
            Ok(payload) => (0, payload),
            Err(errno) => (-errno.raw_os_error(), [].as_slice()),
        };
        match self.send(error, unique, payload) {
            Err(Errno::NOENT | Errno::NODEV | Errno::CONNABORTED | Errno::NOTCONN) => Ok(()),
            sent => sent,
        }
    }

    /// Tell the kernel that the file's attributes have changed.
    ///
    /// # Errors
    /// As `write`.
    pub(crate) fn notify_attributes_changed(&self) -> Result<(), Errno> {
        let changed = NotifyInvalInode { ino: ROOT_NODE, offset: -1, len: 0 };
        match self.send(NOTIFY_INVAL_INODE, 0, changed.as_bytes()) {
            // The kernel holds no such node, so it has nothing to forget.
            Err(Errno::NOENT) => Ok(()),
            sent => sent,
        }
    }

    /// As `clone_connection`, for who reads only when there is something: reading does not wait.
    ///
    /// # Errors
    /// [`FuseError::Io`].
    pub(crate) fn clone_without_waiting(&self) -> Result<Self, FuseError> {
        let fresh = self.clone_connection()?;
        let failed = || FuseError::io("set up /dev/fuse");
        let flags = fcntl_getfl(&fresh.0).map_err(failed())?;
        fcntl_setfl(&fresh.0, flags | OFlags::NONBLOCK).map_err(failed())?;
        Ok(fresh)
    }

    /// Whether there is a message to receive. Does not wait.
    pub(crate) fn has_message(&self) -> bool {
        let mut watched = [PollFd::new(&self.0, PollFlags::IN)];
        let polled = poll(&mut watched, Some(&Timespec::default()));
        let [watched] = watched;
        polled.is_ok() && watched.revents().contains(PollFlags::IN)
    }

    /// Whether the connection is gone. Does not wait.
    pub(crate) fn is_gone(&self) -> bool {
        let mut watched = [PollFd::new(&self.0, PollFlags::empty())];
        let polled = poll(&mut watched, Some(&Timespec::default()));
        let [watched] = watched;
        polled.is_ok() && watched.revents().contains(PollFlags::ERR)
    }

    fn send(&self, error: i32, unique: u64, payload: &[u8]) -> Result<(), Errno> {
        let len = u32::try_from(OUT_HEADER_BYTES + payload.len()).map_err(|_| Errno::INVAL)?;
        let header = OutHeader { len, error, unique };
        let parts = [IoSlice::new(header.as_bytes()), IoSlice::new(payload)];
        loop {
            // A message is taken whole or not at all.
            match writev(&self.0, &parts) {
                Err(Errno::INTR | Errno::AGAIN) => {}
                sent => return sent.map(drop),
            }
        }
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
