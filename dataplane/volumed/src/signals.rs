//! Signals that ask the daemon to end, read from a descriptor instead of handled.

use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;

/// SIGTERM, SIGINT and SIGHUP, blocked and taken from a descriptor.
#[derive(Debug)]
pub struct StopSignals {
    arrived: OwnedFd,
}

const STOP_SIGNALS: [libc::c_int; 3] = [libc::SIGTERM, libc::SIGINT, libc::SIGHUP];

impl StopSignals {
    /// Block them in this thread and all that it will start, librbd's too. Call it before there
    /// is a second thread.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn block() -> io::Result<Self> {
        let set = stop_set();
        // SAFETY: `set` is an initialised signal set that outlives the call; a null old set is
        // allowed and means that it is not wanted.
        #[allow(unsafe_code, reason = "no safe call masks signals")]
        let result =
            unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, ptr::null_mut()) };
        if result != 0 {
            return Err(io::Error::from_raw_os_error(result));
        }
        // SAFETY: as above; -1 asks for a new descriptor.
        #[allow(unsafe_code, reason = "no safe call makes a descriptor of signals")]
        let made =
            unsafe { libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
        if made < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was just made, and nobody else has it.
        #[allow(unsafe_code, reason = "a number becomes the descriptor's owner")]
        let arrived = unsafe { OwnedFd::from_raw_fd(made) };
        Ok(Self { arrived })
    }

    /// Readable once one has come.
    #[must_use]
    pub fn arrived(&self) -> BorrowedFd<'_> {
        self.arrived.as_fd()
    }

    /// Take the next one, without waiting: its name, or None when there is none.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn take(&self) -> io::Result<Option<&'static str>> {
        let mut record = [0_u8; size_of::<libc::signalfd_siginfo>()];
        match rustix::io::read(&self.arrived, &mut record) {
            Ok(_) => {}
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return Ok(None),
            Err(errno) => return Err(errno.into()),
        }
        // The record begins with the signal's number (signalfd(2)).
        let number = record.first_chunk().copied().map_or(0, i32::from_ne_bytes);
        Ok(Some(match number {
            libc::SIGTERM => "SIGTERM",
            libc::SIGINT => "SIGINT",
            _ => "SIGHUP",
        }))
    }
}

fn stop_set() -> libc::sigset_t {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigemptyset initialises the whole set it is given a place for and cannot fail on a
    // valid address; after it the set is initialised, which sigaddset needs.
    #[allow(unsafe_code, reason = "signal sets are made by libc")]
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in STOP_SIGNALS {
            libc::sigaddset(set.as_mut_ptr(), signal);
        }
        set.assume_init()
    }
}
