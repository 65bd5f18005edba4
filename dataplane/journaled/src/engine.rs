//! The journal behind its one lock, and what follows from each call of it.
//!
//! Whoever calls the journal takes its actions out under the same lock, lets go of it, and passes
//! them on: answers are given at once, on whatever thread that is; appends of a front end's own
//! thread leave from it, since each hand-over costs a commit a wake-up; the rest goes to threads.
//! So nothing is sent, encoded or answered under the lock.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use grampus_blockdev::{CompletionSink, Outcome, Token};
use grampus_journal::{Event, Failure, Frame, Journal, Place, Report};

use crate::core::{Core, Effects, Next, Origin};
use crate::error::failure_of;
use crate::intake::Intake;
use crate::ports::Ports;
use crate::work::{Asked, ImageWork, LogWork, Queue};

/// The journal, shared by front ends, threads, and callbacks. It holds on to no port: the last
/// one to let go of it may be a callback of a port, on a thread that must not close that port.
#[derive(Debug)]
pub(crate) struct Engine {
    core: Mutex<Core>,
    wakeup: Condvar,
    pub(crate) image_work: Queue<ImageWork>,
    pub(crate) log_work: Queue<LogWork>,
    /// A hint: changes are parked, so the next one need not copy its bytes in vain.
    crowded: AtomicBool,
    clock: Instant,
    max_write_bytes: usize,
}

impl Engine {
    pub(crate) fn new(journal: Journal, max_write_bytes: u64, clock: Instant) -> Arc<Self> {
        let max_write_bytes = usize::try_from(max_write_bytes).unwrap_or(usize::MAX);
        let core = Core::new(journal, max_write_bytes);
        Arc::new(Self {
            core: Mutex::new(core),
            wakeup: Condvar::new(),
            image_work: Queue::default(),
            log_work: Queue::default(),
            crowded: AtomicBool::new(false),
            clock,
            max_write_bytes,
        })
    }

    /// The lock, for a look.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(|poisoned| {
            let mut core = poisoned.into_inner();
            core.distrust();
            core
        })
    }

    /// Do something with the journal, and all that follows from it. `ports` are given by a thread
    /// that may send by itself.
    pub(crate) fn act<T>(
        self: &Arc<Self>,
        ports: Option<&Ports>,
        change: impl FnOnce(&mut Core, Duration, &mut Effects) -> T,
    ) -> T {
        let mut effects = Effects::default();
        let mut core = self.lock();
        let now = self.clock.elapsed();
        let value = change(&mut core, now, &mut effects);
        core.collect(ports.is_some(), &mut effects);
        core.wake_for_what_is_due(&mut effects);
        let crowded = core.is_crowded();
        drop(core);
        if self.crowded.load(Ordering::Relaxed) != crowded {
            self.crowded.store(crowded, Ordering::Relaxed);
        }
        self.carry_out(effects, ports);
        value
    }

    /// Tell the journal what happened.
    pub(crate) fn event(self: &Arc<Self>, event: Event) {
        self.act(None, |core, now, _| core.handle(now, event));
    }

    /// Let a change in, or park it, or refuse it.
    pub(crate) fn take_in(self: &Arc<Self>, mut intake: Intake, origin: Origin<'_>) {
        let ports = match origin {
            Origin::Front(ports) => Some(ports),
            Origin::Parked => None,
        };
        let front = ports.is_some();
        loop {
            let left = if front && self.crowded.load(Ordering::Relaxed) {
                self.act(ports, |core, _, effects| core.queue_up(intake, effects))
            } else {
                let piece = intake.piece(self.max_write_bytes);
                self.act(ports, |core, now, effects| core.offer(now, intake, piece, front, effects))
            };
            let Some(rest) = left else { return };
            intake = rest;
        }
    }

    /// What the journal thread does next; sleeps here while there is nothing.
    pub(crate) fn next(&self) -> Next {
        let mut core = self.lock();
        loop {
            match core.next(self.clock.elapsed()) {
                Next::Sleep(nap) => {
                    let woken = self.wakeup.wait_timeout(core, nap);
                    core = match woken {
                        Ok((core, _)) => core,
                        Err(poisoned) => {
                            drop(poisoned);
                            self.lock()
                        }
                    };
                    core.woke();
                }
                next => return next,
            }
        }
    }

    /// Do what is to be done without the lock.
    pub(crate) fn carry_out(self: &Arc<Self>, effects: Effects, ports: Option<&Ports>) {
        if effects.wake {
            self.wakeup.notify_all();
        }
        if effects.failed {
            // Nobody waits for it any more; what is in the journal comes back when it is opened.
            self.image_work.clear();
            self.log_work.clear();
        } else {
            self.image_work.push_all(effects.image);
            self.log_work.push_all(effects.log);
        }
        if let Some(ports) = ports.filter(|_| !effects.failed) {
            for (frame, place) in &effects.appends {
                send_append(self, ports, frame, *place);
            }
        }
        for answer in effects.answers {
            answer.give();
        }
        for report in effects.reports {
            log(report);
        }
        if effects.stalled {
            tracing::warn!("the journal is full and the cluster has no space: changes are refused");
        }
    }

    /// Take nothing more, answer everyone, let the threads end.
    pub(crate) fn stop(&self) {
        let mut core = self.lock();
        let answers = core.stop();
        drop(core);
        self.wakeup.notify_all();
        self.image_work.close();
        self.log_work.close();
        for answer in answers {
            answer.give();
        }
    }
}

/// The duty to tell the journal what came of something. Dropped, it tells a failure: whoever loses
/// a call must not leave flushes waiting.
#[derive(Debug)]
pub(crate) struct Reply {
    engine: Option<Arc<Engine>>,
    asked: Asked,
}

impl Reply {
    pub(crate) fn new(engine: &Arc<Engine>, asked: Asked) -> Self {
        Self { engine: Some(Arc::clone(engine)), asked }
    }

    pub(crate) fn answer(mut self, result: Result<(), Failure>) {
        self.tell(result);
    }

    fn tell(&mut self, result: Result<(), Failure>) {
        if let Some(engine) = self.engine.take() {
            engine.event(self.asked.answered(result));
        }
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        self.tell(Err(Failure::Io));
    }
}

/// Where the image's answers come back.
#[derive(Debug)]
pub(crate) struct ImageSink {
    pub(crate) engine: Arc<Engine>,
    pub(crate) asked: Asked,
}

impl CompletionSink for ImageSink {
    fn complete(&self, _token: Token, outcome: Outcome) {
        let result = outcome.result.map_err(|error| failure_of(&error));
        drop(outcome.buffer); // before the lock: a megabyte is given back to the system
        self.engine.event(self.asked.answered(result));
    }
}

/// Encode a frame and send it on its way.
pub(crate) fn send_append(engine: &Arc<Engine>, ports: &Ports, frame: &Frame, place: Place) {
    let (_, last) = frame.sequences();
    let reply = Reply::new(engine, Asked::Append(last));
    let mut bytes = Vec::new();
    frame.encode(&mut bytes);
    let done = Box::new(move |result| reply.answer(result));
    ports.slots.start_append(place, frame.owner(), bytes, done);
}

fn log(report: Report) {
    match report {
        Report::Degraded(failure) => tracing::warn!(
            %failure,
            "the log on the host's disk failed: flushes now wait for the cluster"
        ),
        Report::Retrying(failure) => {
            tracing::warn!(%failure, "the journal cannot write for now and tries again");
        }
        Report::Recovered => tracing::info!("the journal writes again"),
        Report::Failed(failure) => {
            tracing::error!(%failure, "the journal failed: the volume must be opened again");
        }
    }
}
