//! What the process does about itself, so that it cannot deadlock with memory reclaim.
//!
//! The kernel may write dirty pages to this very volume to free memory. Were a thread of the
//! daemon then to wait for memory, or for a page of its own that was put out, nothing would go on.

use rustix::mm::{MlockAllFlags, mlockall, munlockall};
use rustix::process::{DumpableBehavior, Resource, getrlimit, set_dumpable_behavior};
use rustix::thread::CapabilitySet;
use serde::Serialize;

/// The kernel kills this process last, but still before init and sshd at -1000.
const OOM_SCORE_ADJUSTMENT: &str = "-900";

/// ONFAULT: what is mapped and never used, such as most of each thread's stack, stays free.
const LOCKED: MlockAllFlags =
    MlockAllFlags::CURRENT.union(MlockAllFlags::FUTURE).union(MlockAllFlags::ONFAULT);

/// Which protections are in force; each needs a right that a container may not have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Hardening {
    /// Memory for this process is found without writing to file systems (`PR_SET_IO_FLUSHER`,
    /// needs `CAP_SYS_RESOURCE`).
    pub io_flusher: bool,
    /// Pages in use stay in memory (`mlockall`, needs `CAP_IPC_LOCK` or no limit on it).
    pub memory_locked: bool,
    /// Killed last when memory runs out (needs `CAP_SYS_RESOURCE`).
    pub oom_protected: bool,
}

/// Protect this process as far as it may. Call it before there is a second thread: threads
/// inherit being an I/O flusher.
#[must_use]
pub fn harden() -> Hardening {
    let report = |what: &str, result: std::io::Result<()>| match result {
        Ok(()) => true,
        Err(error) => {
            tracing::info!(%error, "{what} is not allowed here");
            false
        }
    };
    // A page of 2 MiB for a request of 16 KiB is memory that nobody uses.
    report(
        "doing without huge pages",
        rustix::thread::disable_transparent_huge_pages(true).map_err(Into::into),
    );
    Hardening {
        io_flusher: report(
            "being an I/O flusher",
            rustix::process::configure_io_flusher_behavior(true).map_err(Into::into),
        ),
        memory_locked: report("locking memory", lock_memory()),
        oom_protected: report(
            "protection from the out-of-memory killer",
            std::fs::write("/proc/self/oom_score_adj", OOM_SCORE_ADJUSTMENT),
        ),
    }
}

/// Leave no core of this process on a disk: it holds a key, and what the key protects.
pub fn forbid_core_dumps() {
    if let Err(error) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
        tracing::warn!(%error, "a core of this process would hold what is encrypted");
    }
}

/// Lock all memory again that an allocator is about to get or has got, after `release` has run
/// without any lock: the kernel refuses to take locked memory back.
///
/// # Errors
/// What the kernel says; memory may then be unlocked.
pub(crate) fn unlocked(release: impl FnOnce()) -> std::io::Result<()> {
    munlockall()?;
    release();
    Ok(mlockall(LOCKED)?)
}

fn lock_memory() -> std::io::Result<()> {
    let limited = getrlimit(Resource::Memlock).current.is_some();
    let capable = rustix::thread::capabilities(None)?.effective.contains(CapabilitySet::IPC_LOCK);
    if !decide_memory_lock(limited, capable) {
        return Err(rustix::io::Errno::PERM.into());
    }
    Ok(mlockall(LOCKED)?)
}

/// Whether to lock memory. Under a limit the kernel would accept it now and refuse a mapping
/// later, in the midst of work: then it is better left.
fn decide_memory_lock(limited: bool, capable: bool) -> bool {
    capable || !limited
}

/// End the process without exit handlers: Ceph's libraries would take down under their own
/// threads what these still use, while they wait for the cluster.
pub fn exit_now(code: i32) -> ! {
    // SAFETY: `_exit` takes any number and touches no memory of this process.
    #[allow(unsafe_code, reason = "no safe call ends a process without exit handlers")]
    unsafe {
        libc::_exit(code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_locked_only_where_no_limit_can_strike_later() {
        for (limited, capable, locked) in
            [(true, false, false), (true, true, true), (false, false, true), (false, true, true)]
        {
            assert_eq!(decide_memory_lock(limited, capable), locked);
        }
    }
}
