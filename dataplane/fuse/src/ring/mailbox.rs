//! Where the device's outcomes wait for the thread that alone may commit them.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use grampus_blockdev::{CompletionSink, Outcome, Token};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::write;

use crate::error::FuseError;
use crate::lifetime::InFlight;

/// The index of an entry, and what became of its request.
pub(crate) type Arrival = (Token, Outcome);

/// The mailbox of one thread.
///
/// An outcome that arrives while the thread runs, from itself or from others, is only put down:
/// the thread looks before it sleeps. Only for a sleeper the event is written, which ends its wait
/// in the ring.
#[derive(Debug)]
pub(crate) struct Mailbox {
    arrived: Mutex<Vec<Arrival>>,
    sleeping: AtomicBool,
    event: OwnedFd,
    in_flight: Arc<InFlight>,
}

impl Mailbox {
    /// A mailbox that holds `capacity` outcomes without allocating.
    ///
    /// # Errors
    /// [`FuseError::Io`].
    pub(crate) fn new(capacity: usize, in_flight: Arc<InFlight>) -> Result<Self, FuseError> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(Self {
            arrived: Mutex::new(Vec::with_capacity(capacity)),
            sleeping: AtomicBool::new(false),
            event: eventfd(0, flags).map_err(FuseError::io("make an event"))?,
            in_flight,
        })
    }

    /// Readable once something arrived for a sleeper. It is never read: whoever waits on it asks
    /// for edges.
    pub(crate) fn event(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }

    /// Move what has arrived into `into`, which is empty.
    pub(crate) fn take(&self, into: &mut Vec<Arrival>) {
        std::mem::swap(&mut *self.lock(), into);
    }

    /// Announce that the thread will sleep; false when something has arrived and it must not.
    pub(crate) fn may_sleep(&self) -> bool {
        // Whoever puts an outcome down takes the lock after this look, and so sees the store.
        self.sleeping.store(true, Ordering::SeqCst);
        let empty = self.lock().is_empty();
        if !empty {
            self.wake();
        }
        empty
    }

    /// The thread is awake.
    pub(crate) fn wake(&self) {
        self.sleeping.store(false, Ordering::SeqCst);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arrival>> {
        // A list is right at every moment: poison means nothing.
        self.arrived.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CompletionSink for Mailbox {
    fn complete(&self, token: Token, outcome: Outcome) {
        self.lock().push((token, outcome));
        if self.sleeping.load(Ordering::SeqCst) && self.sleeping.swap(false, Ordering::SeqCst) {
            // It fails only when the counter is full, and then the thread is awake.
            write(&self.event, &1_u64.to_ne_bytes()).ok();
        }
        self.in_flight.end();
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use rustix::event::{PollFd, PollFlags, poll};
    use rustix::io::read;

    use super::*;

    fn outcome() -> Outcome {
        Outcome { result: Ok(()), buffer: None }
    }

    #[test]
    fn only_a_sleeper_is_woken() {
        let mailbox = Mailbox::new(4, Arc::new(InFlight::default())).unwrap();
        let mut taken = Vec::new();
        mailbox.complete(Token(1), outcome());
        assert!(read(mailbox.event(), &mut [0_u8; 8]).is_err(), "nobody sleeps");
        assert!(!mailbox.may_sleep(), "something is there");
        mailbox.take(&mut taken);
        assert_eq!(taken.len(), 1);
        assert!(mailbox.may_sleep());
        mailbox.complete(Token(2), outcome());
        mailbox.complete(Token(3), outcome());
        let mut count = [0_u8; 8];
        assert_eq!(read(mailbox.event(), &mut count), Ok(8));
        assert_eq!(u64::from_ne_bytes(count), 1, "one sleep, one wake-up");
    }

    #[test]
    fn no_outcome_is_slept_over() {
        const EACH: u64 = 20_000;
        let mailbox = Arc::new(Mailbox::new(64, Arc::new(InFlight::default())).unwrap());
        let senders: Vec<_> = (0..2)
            .map(|_| {
                let mailbox = Arc::clone(&mailbox);
                thread::spawn(move || (0..EACH).for_each(|n| mailbox.complete(Token(n), outcome())))
            })
            .collect();
        let (mut received, mut taken) = (0, Vec::new());
        while received < 2 * EACH {
            if mailbox.may_sleep() {
                // Waits for ever if a wake-up is lost.
                poll(&mut [PollFd::new(&mailbox.event(), PollFlags::IN)], None).unwrap();
                read(mailbox.event(), &mut [0_u8; 8]).unwrap();
                mailbox.wake();
            }
            mailbox.take(&mut taken);
            received += u64::try_from(taken.drain(..).count()).unwrap();
        }
        for sender in senders {
            sender.join().unwrap();
        }
    }
}
