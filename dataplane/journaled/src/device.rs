//! The device.

use std::fmt;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use grampus_blockdev::{
    BlockDevice, ByteRange, Completion, Durability, Geometry, Outcome, Request,
};
use grampus_journal::{
    Epoch, Event, Failure, Journal, Opened, Progress, Ring, State, Statistics, Status,
};

use crate::core::Origin;
use crate::engine::Engine;
use crate::error::{OpenError, QuiesceError};
use crate::intake::{Change, Intake};
use crate::opening::{Options, recover};
use crate::ports::{LocalLog, Ports, Slots};
use crate::reading;
use crate::threads;
use crate::waiting::Waiter;

const POLL: Duration = Duration::from_millis(10);
/// Some hundred operations of the cluster take a second.
const FREE_PATIENCE: Duration = Duration::from_secs(5);

/// A volume behind its write journal.
///
/// Changes are answered once they are in memory, unless they ask for more; flushes and FUA once
/// the journal is durable. What the journal cannot take now waits, in order of arrival, without
/// holding its thread up. After a failure every request fails until the volume is opened again
/// (INV-6).
///
/// Requests may come from any thread but those that answer for the image, the slots or the log.
///
/// Dropped without [`Self::close`] it stops at once, and the next opening brings back what the
/// journal holds. Changes of the image that are under way then may still land: before the volume is
/// opened again, the image must have been closed, or its client fenced.
pub struct JournaledDevice {
    engine: Arc<Engine>,
    ports: Arc<Ports>,
    opened: Opened,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// Open a volume: shut every earlier owner out of its journal, bring what the journal holds into
/// the image, start. Waits for the cluster.
///
/// The caller holds the image's exclusive lock, so that nobody else can change the image; `local`
/// is the log on this host, if one may lie there.
///
/// # Errors
/// [`OpenError`]. It can be tried again.
pub fn open(
    image: Arc<dyn BlockDevice>,
    slots: Arc<dyn Slots>,
    local: Option<Arc<dyn LocalLog>>,
    options: Options,
    progress: &mut dyn FnMut(Progress),
) -> Result<JournaledDevice, OpenError> {
    let Options { config, .. } = options;
    let sealing = options.sealing.clone();
    config.validate()?;
    if config.cache.is_some() && local.is_none() {
        return Err(OpenError::NoLocalLog);
    }
    let opened = recover(&*image, &*slots, local.as_deref(), options, progress)?;
    let clock = Instant::now();
    let journal = Journal::new(config, opened, Duration::ZERO)?.sealed(sealing.as_ref());
    let engine = Engine::new(journal, config.max_write_bytes, clock);
    let local = local.filter(|_| config.cache.is_some());
    let ports = Arc::new(Ports { image, slots, local });
    let device = JournaledDevice { engine, ports, opened, threads: Mutex::default() };
    let log_threads = config.cache.map_or(0, |cache| cache.max_appends);
    let mut started = Vec::new();
    let result = threads::start(&device.engine, &device.ports, log_threads, &mut started);
    *device.threads.lock().unwrap_or_else(PoisonError::into_inner) = started;
    result.map_err(OpenError::Thread)?; // dropped, the device stops those that were started
    Ok(device)
}

impl JournaledDevice {
    /// What the journal is doing.
    #[must_use]
    pub fn status(&self) -> Status {
        self.engine.act(Some(&self.ports), |core, now, _| {
            // Ages are counted up to the journal's last look at the clock.
            core.handle(now, Event::Tick);
            core.journal.status()
        })
    }

    /// What it has done since it was opened.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.engine.lock().journal.statistics()
    }

    /// Changes that wait to be let in: the journal is full, paced or quiesced.
    #[must_use]
    pub fn parked(&self) -> usize {
        self.engine.lock().parked()
    }

    /// The epoch that this owner opened the volume at.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.opened.record.epoch
    }

    /// The shape of the journal in the cluster, as it was made.
    #[must_use]
    pub fn ring(&self) -> Ring {
        self.opened.record.ring
    }

    /// Take no more changes, bring everything into the image, durable, and let it stay so until
    /// [`Self::unquiesce`]. Changes wait meanwhile; reads and flushes go on. It may be asked for
    /// several times; the last one to end it ends it.
    ///
    /// # Errors
    /// [`QuiesceError`]: then it is over, and there is nothing to end.
    pub fn quiesce(&self, timeout: Duration) -> Result<(), QuiesceError> {
        let (sender, answer) = mpsc::channel();
        let token = self.engine.act(Some(&self.ports), |core, now, _| {
            if core.is_stopped() {
                return Err(QuiesceError::Closed);
            }
            if let Some(failure) = core.failed() {
                return Err(QuiesceError::Failed(failure));
            }
            let token = core.waiters.token();
            core.waiters.add(token, Waiter::Quiesce(sender));
            core.holds += 1;
            core.handle(now, Event::Quiesce(token));
            Ok(token)
        })?;
        let answered = answer.recv_timeout(timeout).or_else(|error| {
            let waits = || self.engine.act(None, |core, _, _| core.waiters.take(token).is_some());
            match error {
                RecvTimeoutError::Timeout if waits() => Err(error),
                // Its answer is on its way.
                _ => answer.recv().map_err(|_| RecvTimeoutError::Disconnected),
            }
        });
        match answered {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(_)) | Err(_) => self.unquiesce(),
        }
        Err(match answered {
            Err(RecvTimeoutError::Timeout) => QuiesceError::TimedOut { after: timeout },
            Ok(Err(failure)) if !self.engine.lock().is_stopped() => QuiesceError::Failed(failure),
            _ => QuiesceError::Closed,
        })
    }

    /// Bring what is held into the image, until all batches that were closed before are in it and no more
    /// than `held_bytes` are left, or `patience` is over: changes are let in meanwhile, but only
    /// half as fast. A [`Self::quiesce`] right after it holds them up for a moment only.
    pub fn draw_down(&self, held_bytes: u64, patience: Duration) {
        let start = Instant::now();
        // By bytes alone a thousand discards would be next to nothing.
        let closed = self.status().closed;
        let is_down = |status: Status| status.held_bytes <= held_bytes && status.applied >= closed;
        self.engine.act(Some(&self.ports), |core, now, _| {
            core.drawers += 1;
            core.handle(now, Event::DrawDown(true));
        });
        // A look now and then, not a waiter: nobody waits for this but a snapshot.
        while !is_down(self.status()) && start.elapsed() < patience {
            let core = self.engine.lock();
            if core.is_stopped() || core.failed().is_some() {
                break;
            }
            drop(core);
            thread::sleep(POLL);
        }
        self.engine.act(Some(&self.ports), |core, now, _| {
            core.drawers -= 1;
            if core.drawers == 0 {
                core.handle(now, Event::DrawDown(false));
            }
        });
    }

    /// End a [`Self::quiesce`] that succeeded.
    pub fn unquiesce(&self) {
        self.engine.act(Some(&self.ports), |core, now, _| {
            if core.holds == 1 {
                core.handle(now, Event::Unquiesce);
            }
            core.holds = core.holds.saturating_sub(1);
        });
    }

    /// Let changes in again after a [`Self::quiesce`], and leave the image as it is until
    /// [`Self::release_image`], which ends both. What comes in is flushed to the journal, as far as
    /// that has room. False, and nothing is changed: somebody else wants quiet too, or the journal
    /// has failed.
    #[must_use]
    pub fn hold_image(&self) -> bool {
        self.engine.act(Some(&self.ports), |core, now, _| {
            let is_quiet = core.journal.status().state == State::Quiesced;
            if core.holds != 1 || !is_quiet || core.is_stopped() {
                return false;
            }
            core.holds = 0;
            core.handle(now, Event::HoldImage(true));
            true
        })
    }

    /// End a [`Self::hold_image`] that said true.
    pub fn release_image(&self) {
        self.engine.event(Event::HoldImage(false));
    }

    /// The image's size has changed. To make it smaller: quiesce, resize, this, unquiesce.
    pub fn resized(&self, size_bytes: u64) {
        self.engine.event(Event::Resized(size_bytes));
    }

    /// A fence was noticed elsewhere: fail everything at once.
    pub fn fenced(&self) {
        self.engine.event(Event::Fenced);
    }

    /// Bring everything into the image, then stop: the journal is left empty. Requests that come
    /// later, or wait still, are dropped. A second call does nothing.
    ///
    /// # Errors
    /// [`QuiesceError`]: it was stopped without; the journal has what the image lacks.
    pub fn close(&self, timeout: Duration) -> Result<(), QuiesceError> {
        if self.engine.lock().is_stopped() {
            return Ok(());
        }
        let drained = self.quiesce(timeout);
        if drained.is_ok() {
            self.await_freed(timeout.min(FREE_PATIENCE));
        }
        self.stop();
        drained
    }

    /// Let the cluster give back what the journal took. Nothing depends on it, so a cluster that is
    /// slow is not waited for.
    fn await_freed(&self, patience: Duration) {
        let start = Instant::now();
        while self.engine.lock().journal.is_freeing() && start.elapsed() < patience {
            thread::sleep(POLL);
        }
    }

    /// Stop, and leave the journal as it is: what was flushed and is not in the image is there.
    /// Requests that come later, or wait still, are dropped. A second call does nothing.
    pub fn close_undrained(&self) {
        if !self.engine.lock().is_stopped() {
            self.stop();
        }
    }

    fn stop(&self) {
        self.engine.stop();
        let threads =
            std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        let hangs = self.engine.lock().journal.status().degraded == Some(Failure::TimedOut);
        for thread in threads {
            // A disk that was given up may hold a thread for ever; nobody needs what it does.
            if hangs && threads::waits_for_disk(thread.thread()) && !thread.is_finished() {
                continue;
            }
            // A front end may let go of the device in an answer, on one of these threads.
            if thread.thread().id() != thread::current().id() && thread.join().is_err() {
                tracing::error!("a thread of the journal died of a fault of its own");
            }
        }
    }

    fn flush(&self, completion: Completion) {
        self.engine.act(Some(&self.ports), |core, now, effects| {
            let waiter = Waiter::Request { completion, buffer: None };
            if let Some(error) = core.refusal() {
                return effects.answer(waiter.refused(error));
            }
            let token = core.waiters.token();
            core.waiters.add(token, waiter);
            core.journal.flush(now, token);
        });
    }

    fn change(&self, change: Change, completion: Completion) {
        self.engine.take_in(Intake::new(change, completion), Origin::Front(&self.ports));
    }

    fn read_or_change(&self, request: Request, range: ByteRange, completion: Completion) {
        let span = range.into();
        match request {
            Request::Read { offset, buffer } => {
                reading::read(&self.engine, &self.ports.image, (offset, buffer), range, completion);
            }
            Request::Write { offset, buffer, durability } => {
                self.change(Change::Write { offset, buffer, durability }, completion);
            }
            Request::WriteZeroes { durability, .. } => {
                self.change(Change::Zero { span, give_back: false, durability }, completion);
            }
            Request::Discard { .. } => {
                let durability = Durability::OnFlush;
                self.change(Change::Zero { span, give_back: true, durability }, completion);
            }
            Request::Flush => self.flush(completion),
        }
    }
}

impl BlockDevice for JournaledDevice {
    fn geometry(&self) -> Geometry {
        self.ports.image.geometry()
    }

    fn submit(&self, request: Request, completion: Completion) {
        let Some(range) = request.range() else { return self.flush(completion) };
        let admitted = self.geometry().require(range);
        if admitted.is_err() || range.is_empty() {
            let outcome = Outcome { result: admitted, buffer: request.into_buffer() };
            return completion.complete(outcome);
        }
        self.read_or_change(request, range, completion);
    }
}

impl Drop for JournaledDevice {
    fn drop(&mut self) {
        self.stop();
    }
}

impl fmt::Debug for JournaledDevice {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("JournaledDevice")
            .field("epoch", &self.epoch())
            .field("ports", &self.ports)
            .finish_non_exhaustive()
    }
}
