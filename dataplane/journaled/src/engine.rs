//! The journal behind its one lock, and what follows from each call of it.
//!
//! Whoever calls the journal takes its actions out under the same lock, lets go of it, and passes
//! them on: answers are given at once, on whatever thread that is; appends of a front end's own
//! thread leave from it, since each hand-over costs a commit a wake-up; the rest goes to threads.
//! So nothing is sent, encoded or answered under the lock.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use grampus_blockdev::{DeviceError, Durability};
use grampus_journal::{Action, Admission, Event, Failure, Frame, Journal, Place, Refusal, Report};

use crate::error::{refused, shut};
use crate::intake::{Intake, Piece};
use crate::threads::{Ports, send_append};
use crate::waiting::{Answer, Waiters};
use crate::work::{ImageWork, LogWork, Outbound, Queue};

/// Frames up to here are encoded and sent by the thread that asked for the flush. A hand-over to the
/// journal thread took a commit of 16 KiB 12 to 34 us more at the median, and 40 to 55 us more in
/// the mean with both CPUs of a small machine busy.
const SEND_AT_ONCE_BYTES: u64 = 256 << 10;
/// A delay that ends so soon is no delay: a thread sleeps no shorter. What is let in early is
/// added to the next delay, so the rate stays.
const SHORTEST_DELAY: Duration = Duration::from_micros(200);
/// How often a parked change asks for room when nothing happens.
const ASK_AGAIN: Duration = Duration::from_millis(500);
/// The journal thread looks at least this often.
const LONGEST_NAP: Duration = Duration::from_secs(60);

/// When the first of the parked changes asks again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Head {
    /// Now.
    Ready,
    /// At this time: the journal said so.
    Paced(Duration),
    /// After the next event, or at this time.
    NoRoom(Duration),
}

/// What is under the lock.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) journal: Journal,
    pub(crate) waiters: Waiters,
    /// Everyone who wants the journal quiesced, so that one does not end another's quiet.
    pub(crate) holds: usize,
    /// Everyone who draws it down, for the same reason.
    pub(crate) drawers: usize,
    outbound: VecDeque<Outbound>,
    parked: VecDeque<Intake>,
    /// The journal thread has the first of the parked changes in hand.
    taking: bool,
    head: Head,
    /// Until when the journal thread sleeps; None while it is awake and looks by itself.
    sleeps_until: Option<Duration>,
    failed: Option<Failure>,
    /// The last change was refused for want of space; said once.
    stalled: bool,
    stopped: bool,
    max_write_bytes: usize,
}

/// What is to be done without the lock.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    answers: Vec<Answer>,
    reports: Vec<Report>,
    appends: Vec<(Frame, Place)>,
    image: Vec<ImageWork>,
    log: Vec<LogWork>,
    wake: bool,
    failed: bool,
    stalled: bool,
}

/// Where a change comes from, and what the calling thread may do for it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Door<'a> {
    /// From a front end, on its thread.
    Front(&'a Ports),
    /// From among the parked ones, on the journal thread.
    Parked,
}

/// What the journal thread does next.
#[derive(Debug)]
pub(crate) enum Next {
    Send(Outbound),
    Offer(Intake),
    CarryOut(Effects),
    Sleep(Duration),
    Stop,
}

/// The journal, shared by front ends, threads, and callbacks. It holds on to no port: the last
/// one to let go of it may be a callback of a port, on a thread that must not close that port.
#[derive(Debug)]
pub(crate) struct Engine {
    core: Mutex<Core>,
    bell: Condvar,
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
        let core = Core {
            journal,
            waiters: Waiters::default(),
            holds: 0,
            drawers: 0,
            outbound: VecDeque::new(),
            parked: VecDeque::new(),
            taking: false,
            head: Head::Ready,
            sleeps_until: None,
            failed: None,
            stalled: false,
            stopped: false,
            max_write_bytes,
        };
        Arc::new(Self {
            core: Mutex::new(core),
            bell: Condvar::new(),
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
            // A thread died in the middle of a change: what the journal says is not to be
            // trusted any more.
            let mut core = poisoned.into_inner();
            core.failed.get_or_insert(Failure::Io);
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
    pub(crate) fn take_in(self: &Arc<Self>, mut intake: Intake, door: Door<'_>) {
        let ports = match door {
            Door::Front(ports) => Some(ports),
            Door::Parked => None,
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
                    let woken = self.bell.wait_timeout(core, nap);
                    core = match woken {
                        Ok((core, _)) => core,
                        Err(poisoned) => {
                            drop(poisoned);
                            self.lock()
                        }
                    };
                    core.sleeps_until = None;
                }
                next => return next,
            }
        }
    }

    /// Do what is to be done without the lock.
    pub(crate) fn carry_out(self: &Arc<Self>, effects: Effects, ports: Option<&Ports>) {
        if effects.wake {
            self.bell.notify_all();
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
        core.stopped = true;
        core.outbound.clear();
        let answers = core.dismiss_all(|| DeviceError::Abandoned);
        drop(core);
        self.bell.notify_all();
        self.image_work.close();
        self.log_work.close();
        for answer in answers {
            answer.give();
        }
    }
}

impl Core {
    /// Why nothing is taken any more, if so.
    pub(crate) fn refusal(&self) -> Option<DeviceError> {
        if self.stopped {
            return Some(DeviceError::Abandoned);
        }
        self.failed.map(shut)
    }

    /// How the journal failed, if it did.
    pub(crate) fn failed(&self) -> Option<Failure> {
        self.failed
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// Changes that wait to be let in.
    pub(crate) fn parked(&self) -> usize {
        self.parked.len() + usize::from(self.taking)
    }

    pub(crate) fn handle(&mut self, now: Duration, event: Event) {
        if self.stopped || self.failed.is_some() {
            return;
        }
        if let Head::NoRoom(_) = self.head {
            self.head = Head::Ready;
        }
        self.journal.handle(now, event);
    }

    fn is_crowded(&self) -> bool {
        self.taking || !self.parked.is_empty()
    }

    /// Stand behind those who wait; back to the caller if nobody does.
    fn queue_up(&mut self, intake: Intake, effects: &mut Effects) -> Option<Intake> {
        if let Some(error) = self.refusal() {
            effects.answers.push(intake.into_waiter().refused(error));
            return None;
        }
        if !self.is_crowded() {
            return Some(intake);
        }
        self.parked.push_back(intake);
        None
    }

    /// Take a piece of a change; the change comes back if more is left of it.
    fn offer(
        &mut self,
        now: Duration,
        intake: Intake,
        piece: Option<Piece>,
        front: bool,
        effects: &mut Effects,
    ) -> Option<Intake> {
        self.taking &= front;
        let mut intake = if front {
            self.queue_up(intake, effects)?
        } else if let Some(error) = self.refusal() {
            effects.answers.push(intake.into_waiter().refused(error));
            return None;
        } else {
            intake
        };
        let Some(piece) = piece else {
            let error = intake.out_of_range(0);
            effects.answers.push(intake.into_waiter().refused(error));
            return None;
        };
        let bytes = piece.length_bytes();
        match self.decide(now, intake.next_weight(self.max_write_bytes)) {
            Ok(None) => {}
            Ok(Some(head)) => {
                if front {
                    self.parked.push_back(intake);
                } else {
                    self.parked.push_front(intake);
                }
                self.head = head;
                return None;
            }
            Err(refusal) => {
                self.refuse(intake, refusal, effects);
                return None;
            }
        }
        self.stalled = false;
        let ends = intake.ends_with(bytes);
        let durability = if ends { intake.durability() } else { Durability::OnFlush };
        let token = self.waiters.token();
        let accepted = match piece {
            Piece::Data { offset, payload } => {
                self.journal.write(now, offset, payload, durability, token)
            }
            Piece::Zeros { span, give_back } => {
                self.journal.zero(now, span, give_back, durability, token)
            }
        };
        match accepted {
            Err(refusal) => self.refuse(intake, refusal, effects),
            Ok(_) if !ends => {
                intake.advance(bytes);
                self.taking |= !front;
                return Some(intake);
            }
            Ok(accepted) if accepted.complete => {
                effects.answers.push(intake.into_waiter().with(Ok(())));
            }
            Ok(_) => self.waiters.add(token, intake.into_waiter()),
        }
        None
    }

    fn refuse(&mut self, intake: Intake, refusal: Refusal, effects: &mut Effects) {
        if let Refusal::NoSpace { .. } = refusal {
            effects.stalled |= !self.stalled;
            self.stalled = true;
        }
        let error = refused(refusal, |size_bytes| intake.out_of_range(size_bytes));
        effects.answers.push(intake.into_waiter().refused(error));
    }

    /// Whether a piece may come in now (None), or when to ask again.
    fn decide(&mut self, now: Duration, weight_bytes: u64) -> Result<Option<Head>, Refusal> {
        match self.journal.admission(now, weight_bytes) {
            Admission::Now => Ok(None),
            Admission::At(at) if at <= now + SHORTEST_DELAY => Ok(None),
            Admission::At(at) => Ok(Some(Head::Paced(at))),
            Admission::Wait => Ok(Some(Head::NoRoom(now + ASK_AGAIN))),
            Admission::Refused(refusal) => Err(refusal),
        }
    }

    /// When the first parked change is to ask again.
    fn parked_due(&self) -> Option<Duration> {
        self.parked.front()?;
        Some(match self.head {
            Head::Ready => Duration::ZERO,
            Head::Paced(at) | Head::NoRoom(at) => at,
        })
    }

    /// The first parked change, if it may come in.
    fn first_parked(&mut self, now: Duration, effects: &mut Effects) -> Option<Intake> {
        self.parked_due().filter(|due| *due <= now)?;
        let weight = self.parked.front()?.next_weight(self.max_write_bytes);
        match self.decide(now, weight) {
            Ok(None) => {
                self.head = Head::Ready;
                self.taking = true;
                self.parked.pop_front()
            }
            Ok(Some(head)) => {
                self.head = head;
                None
            }
            Err(refusal) => {
                self.head = Head::Ready;
                let intake = self.parked.pop_front()?;
                self.refuse(intake, refusal, effects);
                None
            }
        }
    }

    /// Answer everyone who waits for anything.
    fn dismiss_all(&mut self, error: impl Fn() -> DeviceError) -> Vec<Answer> {
        let parked = std::mem::take(&mut self.parked);
        let waiters = self.waiters.take_all().chain(parked.into_iter().map(Intake::into_waiter));
        waiters.map(|waiter| waiter.refused(error())).collect()
    }

    fn next(&mut self, now: Duration) -> Next {
        if self.stopped {
            return Next::Stop;
        }
        if let Some(failure) = self.failed {
            // A journal that failed by itself has answered; one in which a thread died has not.
            let answers = self.dismiss_all(|| shut(failure));
            if !answers.is_empty() {
                return Next::CarryOut(Effects { answers, failed: true, ..Effects::default() });
            }
        }
        // What someone waits for comes first.
        if let Some(outbound) = self.outbound.pop_front() {
            return Next::Send(outbound);
        }
        let mut effects = Effects::default();
        if let Some(intake) = self.first_parked(now, &mut effects) {
            return Next::Offer(intake);
        }
        if self.failed.is_none() {
            // Before the question when the next tick is: it leaves out what is due already.
            self.journal.handle(now, Event::Tick);
        }
        self.collect(false, &mut effects);
        if !effects.is_empty() {
            return Next::CarryOut(effects);
        }
        if let Some(outbound) = self.outbound.pop_front() {
            return Next::Send(outbound);
        }
        let due = self.next_due().unwrap_or(Duration::MAX).min(now + LONGEST_NAP);
        self.sleeps_until = Some(due);
        Next::Sleep(due.saturating_sub(now))
    }

    fn next_due(&self) -> Option<Duration> {
        let tick = self.journal.next_tick().filter(|_| self.failed.is_none());
        tick.into_iter().chain(self.parked_due()).min()
    }

    fn wake_for_what_is_due(&mut self, effects: &mut Effects) {
        let Some(until) = self.sleeps_until else { return };
        if !self.outbound.is_empty() || self.next_due().is_some_and(|due| due < until) {
            self.sleeps_until = None;
            effects.wake = true;
        }
    }

    /// Take out what the journal wants done. `at_once`: the caller may send.
    fn collect(&mut self, at_once: bool, effects: &mut Effects) {
        while let Some(action) = self.journal.next_action() {
            match action {
                Action::Append { frame, place }
                    if at_once && frame.length_bytes() <= SEND_AT_ONCE_BYTES =>
                {
                    effects.appends.push((frame, place));
                }
                Action::Append { frame, place } => {
                    self.outbound.push_back(Outbound::Append { frame, place });
                }
                Action::Record { expected, record } => {
                    self.outbound.push_back(Outbound::Record { expected, record });
                }
                Action::FreeSlot { owner, slot, before } => {
                    self.outbound.push_back(Outbound::FreeSlot { owner, slot, before });
                }
                Action::AppendLocally { frame, place } => {
                    effects.log.push(LogWork::Append { frame, place });
                }
                Action::RecordLocally { record } => effects.log.push(LogWork::Record(record)),
                Action::Apply { id, span, change } => {
                    effects.image.push(ImageWork::Apply { id, span, change });
                }
                Action::FlushImage => effects.image.push(ImageWork::Flush),
                Action::Complete { token, result } => {
                    let waiter = self.waiters.take(token);
                    effects.answers.extend(waiter.map(|waiter| waiter.with(result)));
                }
                Action::Report(report) => {
                    if let Report::Failed(failure) = report {
                        self.fail(failure, effects);
                    }
                    effects.reports.push(report);
                }
            }
        }
    }

    /// Nothing more is begun, and nobody is left waiting.
    fn fail(&mut self, failure: Failure, effects: &mut Effects) {
        self.failed = Some(failure);
        self.outbound.clear();
        effects.failed = true;
        for intake in self.parked.drain(..) {
            effects.answers.push(intake.into_waiter().refused(shut(failure)));
        }
    }
}

impl Effects {
    fn is_empty(&self) -> bool {
        self.answers.is_empty()
            && self.reports.is_empty()
            && self.appends.is_empty()
            && self.image.is_empty()
            && self.log.is_empty()
    }

    /// Answer a request without the journal.
    pub(crate) fn answer(&mut self, answer: Answer) {
        self.answers.push(answer);
    }
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
