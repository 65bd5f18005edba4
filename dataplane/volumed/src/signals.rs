//! Signals that ask the daemon to end, taken by a thread instead of a handler.

use std::io;
use std::mem::MaybeUninit;
use std::ptr;

/// SIGTERM, SIGINT and SIGHUP, blocked and waited for.
#[derive(Debug, Clone, Copy)]
pub struct StopSignals {
    _made_by_block: (),
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
        match result {
            0 => Ok(Self { _made_by_block: () }),
            number => Err(io::Error::from_raw_os_error(number)),
        }
    }

    /// Wait for the next one; its name.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn wait(self) -> io::Result<&'static str> {
        let set = stop_set();
        let mut signal = 0;
        // SAFETY: `set` is an initialised signal set and `signal` a place for an int; both
        // outlive the call.
        #[allow(unsafe_code, reason = "no safe call waits for a signal")]
        let result = unsafe { libc::sigwait(&raw const set, &raw mut signal) };
        match (result, signal) {
            (0, libc::SIGTERM) => Ok("SIGTERM"),
            (0, libc::SIGINT) => Ok("SIGINT"),
            (0, _) => Ok("SIGHUP"),
            (number, _) => Err(io::Error::from_raw_os_error(number)),
        }
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
