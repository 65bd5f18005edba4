//! What can go wrong, and what a failure below means above.

use std::io;
use std::time::Duration;

use grampus_blockdev::DeviceError;
use grampus_journal::{ConfigError, Failure, RecoveryError, Refusal};
use rustix::io::Errno;
use thiserror::Error;

/// A volume cannot be opened behind its journal.
#[derive(Debug, Error)]
pub enum OpenError {
    /// The journal cannot be read, taken over or replayed.
    #[error("the volume's journal cannot be opened")]
    Recovery(#[from] RecoveryError),
    /// The settings.
    #[error("the journal's settings cannot work")]
    Config(#[from] ConfigError),
    /// `cache` mode without a log on the host.
    #[error("the write path `cache` needs a log on the host's own disk, and there is none")]
    NoLocalLog,
    /// The system gives no more threads.
    #[error("cannot start a thread of the journal")]
    Thread(#[source] io::Error),
}

/// Not everything is in the image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum QuiesceError {
    /// Applying goes on, but took too long. The journal still has what the image lacks.
    #[error("the journal was not drained into the image within {} s", .after.as_secs_f64())]
    TimedOut {
        /// How long was waited.
        after: Duration,
    },
    /// The journal failed. What was flushed is in it, and comes back when the volume is opened.
    #[error("the journal failed before it was drained into the image")]
    Failed(#[source] Failure),
    /// The volume was closed.
    #[error("the volume is closed")]
    Closed,
}

/// What a failed request of the image tells the journal.
pub(crate) fn failure_of(error: &DeviceError) -> Failure {
    match error {
        DeviceError::Fenced => Failure::Fenced,
        DeviceError::Io { source, .. }
            if matches!(
                source.kind(),
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
            ) =>
        {
            Failure::NoSpace
        }
        _ => Failure::Io,
    }
}

/// What a user is told whose change or flush the journal could not make durable.
pub(crate) fn lost(failure: Failure) -> DeviceError {
    let source = match failure {
        Failure::Fenced => return DeviceError::Fenced,
        Failure::NoSpace => Errno::NOSPC.into(),
        Failure::TimedOut => Errno::TIMEDOUT.into(),
        Failure::Io => io::Error::other(failure),
    };
    DeviceError::Io { action: "write the journal", source }
}

/// What every request is told once the journal has failed (INV-6).
pub(crate) fn shut(failure: Failure) -> DeviceError {
    match failure {
        Failure::Fenced => DeviceError::Fenced,
        Failure::NoSpace | Failure::Io | Failure::TimedOut => DeviceError::Failed,
    }
}

/// What a user is told whose change the journal did not take.
pub(crate) fn refused(
    refusal: Refusal,
    out_of_range: impl FnOnce(u64) -> DeviceError,
) -> DeviceError {
    match refusal {
        Refusal::Failed(failure) => shut(failure),
        Refusal::OutOfRange { size_bytes, .. } => out_of_range(size_bytes),
        Refusal::NoSpace { .. } => {
            DeviceError::Io { action: "write: the journal is full", source: Errno::NOSPC.into() }
        }
        Refusal::Busy | Refusal::Quiesced | Refusal::TooLarge { .. } => {
            DeviceError::Io { action: "write", source: io::Error::other(refusal) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_pool_is_told_from_other_failures() {
        let io = |source: io::Error| DeviceError::Io { action: "write", source };
        for (error, failure) in [
            (io(Errno::NOSPC.into()), Failure::NoSpace),
            (io(Errno::DQUOT.into()), Failure::NoSpace),
            (io(Errno::IO.into()), Failure::Io),
            (io(io::Error::other("odd")), Failure::Io),
            (DeviceError::Fenced, Failure::Fenced),
            (DeviceError::Failed, Failure::Io),
            (DeviceError::Abandoned, Failure::Io),
        ] {
            assert_eq!(failure_of(&error), failure, "{error:?}");
        }
    }

    #[test]
    fn a_user_learns_of_fences_and_full_pools_and_that_nothing_works_any_more() {
        assert!(matches!(lost(Failure::Fenced), DeviceError::Fenced));
        assert_eq!(failure_of(&lost(Failure::NoSpace)), Failure::NoSpace);
        assert_eq!(failure_of(&lost(Failure::Io)), Failure::Io);
        assert!(matches!(shut(Failure::Fenced), DeviceError::Fenced));
        assert!(matches!(shut(Failure::NoSpace), DeviceError::Failed));
        let full = refused(Refusal::NoSpace { lasting: Duration::ZERO }, |_| DeviceError::Failed);
        assert_eq!(failure_of(&full), Failure::NoSpace);
    }
}
