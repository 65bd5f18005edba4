//! What the threads of one session share: whether it lives, and what is under way.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use rustix::io::write;

use crate::error::FuseError;
use crate::mount::Mount;

/// A session from its mount to its end.
#[derive(Debug)]
pub(crate) struct Lifetime {
    mount: Mount,
    gone: AtomicBool,
    /// Why this side gave the connection up, the first reason only.
    given_up: Mutex<Option<String>>,
    /// Events of threads that would not learn of the end from the kernel: those whose requests
    /// are all with the device.
    to_wake: Mutex<Vec<OwnedFd>>,
}

impl Lifetime {
    pub(crate) fn new(mount: Mount) -> Self {
        Self {
            mount,
            gone: AtomicBool::new(false),
            given_up: Mutex::new(None),
            to_wake: Mutex::default(),
        }
    }

    pub(crate) fn mount(&self) -> &Mount {
        &self.mount
    }

    /// Whether the kernel still sends requests.
    pub(crate) fn is_alive(&self) -> bool {
        !self.gone.load(Ordering::Acquire)
    }

    /// A thread has learnt from the kernel that the connection is gone.
    pub(crate) fn note_gone(&self) {
        if !self.gone.swap(true, Ordering::AcqRel) {
            for event in self.sleepers().drain(..) {
                // It fails only when its counter is full, and then its thread is awake.
                write(event, &1_u64.to_ne_bytes()).ok();
            }
        }
    }

    /// Write `event` once the connection is gone.
    pub(crate) fn wake_when_gone(&self, event: OwnedFd) {
        self.sleepers().push(event);
    }

    fn sleepers(&self) -> MutexGuard<'_, Vec<OwnedFd>> {
        self.to_wake.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// End the connection from this side.
    pub(crate) fn give_up(&self, reason: impl Into<String>) {
        {
            let mut first = self.reason();
            if first.is_some() {
                return;
            }
            *first = Some(reason.into());
        }
        if let Err(error) = self.mount.abort() {
            // The threads go on until the kernel ends them; the reason says both.
            let mut reason = self.reason();
            let first = reason.take().unwrap_or_default();
            *reason = Some(format!("{first} (and it could not be ended: {error})"));
        }
    }

    /// # Errors
    /// [`FuseError::GivenUp`] when it ended on this side's account.
    pub(crate) fn verdict(&self) -> Result<(), FuseError> {
        match self.reason().clone() {
            Some(reason) => Err(FuseError::GivenUp { reason }),
            None => Ok(()),
        }
    }

    fn reason(&self) -> MutexGuard<'_, Option<String>> {
        self.given_up.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Gives the session up when its thread panics: its requests would never be answered.
#[derive(Debug)]
pub(crate) struct PanicGuard(pub(crate) Arc<Lifetime>);

impl Drop for PanicGuard {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.give_up("a thread of the transport panicked");
        }
    }
}

/// How many requests the device has not answered yet.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    count: AtomicU64,
    draining: AtomicBool,
    lock: Mutex<()>,
    drained: Condvar,
}

impl InFlight {
    pub(crate) fn begin(&self) {
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn end(&self) {
        // Sequentially consistent with `wait`, which announces itself before it counts.
        if self.count.fetch_sub(1, Ordering::SeqCst) == 1 && self.draining.load(Ordering::SeqCst) {
            drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner));
            self.drained.notify_all();
        }
    }

    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::SeqCst)
    }

    /// Wait until nothing is under way, at most until `deadline`; what is left then.
    pub(crate) fn wait(&self, deadline: Option<Instant>) -> u64 {
        self.draining.store(true, Ordering::SeqCst);
        let mut guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let left = self.count();
            let remaining = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            if left == 0 || remaining.is_some_and(|remaining| remaining.is_zero()) {
                return left;
            }
            guard = match remaining {
                None => self.drained.wait(guard).unwrap_or_else(PoisonError::into_inner),
                Some(remaining) => {
                    let waited = self.drained.wait_timeout(guard, remaining);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_ends_with_the_last_answer_or_with_patience() {
        let in_flight = Arc::new(InFlight::default());
        assert_eq!(in_flight.wait(None), 0);
        in_flight.begin();
        in_flight.begin();
        assert_eq!(in_flight.wait(Some(Instant::now())), 2);
        let other = Arc::clone(&in_flight);
        let answering = thread::spawn(move || {
            other.end();
            other.end();
        });
        assert_eq!(in_flight.wait(None), 0);
        answering.join().unwrap();
    }
}
