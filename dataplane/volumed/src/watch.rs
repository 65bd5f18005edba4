//! What is looked at a few times a second: signals, the state, the lock, the memory.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::clock::seconds;
use crate::daemon::{Daemon, Event, Offered};
use crate::heap::Heap;
use crate::process;
use crate::protocol::DEFAULT_STOP_TIMEOUT;
use crate::server::Chores;
use crate::signals::StopSignals;
use crate::startup_pages::StartupPages;
use crate::state::{StallEvent, StallWatch, State, must_cut_off};

const INTERVAL: Duration = Duration::from_millis(250);
const LOCK_INTERVAL: Duration = Duration::from_secs(5);
const MEMORY_INTERVAL: Duration = Duration::from_secs(5);

/// The daemon's own watch. Nothing in it waits for the cluster.
pub(crate) struct Watch {
    daemon: Arc<Daemon>,
    signals: StopSignals,
    heap: Heap,
    stalls: StallWatch,
    last: State,
    is_signalled: bool,
    session_ended: bool,
    cut_off: bool,
    /// When to look next.
    lock_due: Instant,
    memory_due: Instant,
    startup_pages: StartupPages,
    is_looking: Arc<AtomicBool>,
}

impl Watch {
    pub(crate) fn new(daemon: Arc<Daemon>, signals: StopSignals) -> Self {
        let now = Instant::now();
        Self {
            daemon,
            signals,
            heap: Heap::find(),
            stalls: StallWatch::default(),
            last: State::Starting,
            is_signalled: false,
            session_ended: false,
            cut_off: false,
            lock_due: now,
            memory_due: now + MEMORY_INTERVAL,
            startup_pages: StartupPages::default(),
            is_looking: Arc::default(),
        }
    }

    /// Turn signals into events. A second one ends the process at once: its sender will not wait.
    fn take_signals(&mut self) {
        loop {
            match self.signals.take() {
                Ok(None) => return,
                Ok(Some(name)) if self.is_signalled => {
                    tracing::warn!(signal = name, "a second signal: leaving without a flush");
                    process::exit_now(1);
                }
                Ok(Some(name)) => {
                    self.is_signalled = true;
                    self.daemon.tell(Event::Stop {
                        cause: name.to_owned(),
                        timeout: DEFAULT_STOP_TIMEOUT,
                        leaves_journal: false,
                        reply: None,
                    });
                }
                Err(error) => {
                    tracing::error!(%error, "cannot read signals");
                    return;
                }
            }
        }
    }

    /// Log what changes, end what is over.
    fn look(&mut self, offered: &Arc<Offered>, now: Instant) {
        offered.gate.recheck_held();
        offered.expire_holds(now);
        offered.image_slot.reopen_if_due(now);
        let (state, reason, in_flight) = self.daemon.state();
        match self.stalls.observe(in_flight.oldest_ns) {
            Some(StallEvent::Began) => {
                tracing::warn!(reason, "stalled: the volume does not answer");
            }
            Some(StallEvent::Ended { worst_ns }) => {
                tracing::info!(worst_s = seconds(worst_ns), "the volume answers again");
            }
            None => {}
        }
        if state != self.last {
            let reason = reason.unwrap_or_default();
            match state {
                State::Stalled => {} // said above, and its end
                State::Running if self.last == State::Stalled => {}
                State::Fenced | State::Failed => tracing::error!(reason, "{}", state.name()),
                _ => tracing::info!(reason, from = self.last.name(), "{}", state.name()),
            }
            self.last = state;
        }
        if !self.cut_off && must_cut_off(state, &in_flight) {
            self.cut_off = true;
            tracing::warn!(
                "requests from before the fence stay unanswered: their users are cut off"
            );
            if let Err(error) = offered.mount.abort() {
                tracing::warn!(%error, "cannot end the mount");
            }
        }
        if !self.session_ended && !offered.mount.is_alive() {
            self.session_ended = true;
            self.daemon.tell(Event::SessionEnded);
        }
    }

    /// Look after the image's lock, on a thread of its own: a cluster that hangs holds that one,
    /// and then there is no other look.
    fn look_at_lock(&mut self, offered: &Arc<Offered>, now: Instant) {
        if now < self.lock_due || self.daemon.expected.device != "rbd" {
            return;
        }
        self.lock_due = now + LOCK_INTERVAL;
        if self.is_looking.swap(true, Ordering::SeqCst) {
            return;
        }
        let looked = {
            let (offered, is_looking) = (Arc::clone(offered), Arc::clone(&self.is_looking));
            move || {
                offered.check_lock();
                drop(offered);
                is_looking.store(false, Ordering::SeqCst);
            }
        };
        if let Err(error) = spawn("lock", looked) {
            tracing::warn!(%error, "no thread can be started to look at the exclusive lock");
            self.is_looking.store(false, Ordering::SeqCst);
        }
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new().name(name.to_owned()).spawn(work).map(drop)
}

impl Chores for Watch {
    fn interval(&self) -> Duration {
        INTERVAL
    }

    fn wake(&self) -> BorrowedFd<'_> {
        self.signals.arrived()
    }

    fn run(&mut self) {
        self.take_signals();
        let now = Instant::now();
        if now >= self.memory_due {
            self.memory_due = now + MEMORY_INTERVAL;
            self.heap.trim(self.daemon.hardening.memory_locked);
        }
        let Some(offered) = self.daemon.offered().cloned() else { return };
        self.startup_pages.release_if_due(now);
        self.look(&offered, now);
        self.look_at_lock(&offered, now);
    }
}
