//! What is under the engine's lock: the journal, who waits, and what is to be done next.

use std::collections::VecDeque;
use std::time::Duration;

use grampus_blockdev::{DeviceError, Durability};
use grampus_journal::{Action, Admission, Event, Failure, Frame, Journal, Place, Refusal, Report};

use crate::error::{refused, shut};
use crate::intake::{Intake, Piece};
use crate::ports::Ports;
use crate::waiting::{Answer, Waiters};
use crate::work::{ClusterWork, ImageWork, LogWork};

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
pub(crate) enum Head {
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
    cluster_work: VecDeque<ClusterWork>,
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
    pub(crate) answers: Vec<Answer>,
    pub(crate) reports: Vec<Report>,
    pub(crate) appends: Vec<(Frame, Place)>,
    pub(crate) image: Vec<ImageWork>,
    pub(crate) log: Vec<LogWork>,
    pub(crate) wake: bool,
    pub(crate) failed: bool,
    pub(crate) stalled: bool,
}

/// Where a change comes from, and what the calling thread may do for it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Origin<'a> {
    /// From a front end, on its thread.
    Front(&'a Ports),
    /// From among the parked ones, on the journal thread.
    Parked,
}

/// What the journal thread does next.
#[derive(Debug)]
pub(crate) enum Next {
    Send(ClusterWork),
    Offer(Intake),
    CarryOut(Effects),
    Sleep(Duration),
    Stop,
}

impl Core {
    pub(crate) fn new(journal: Journal, max_write_bytes: usize) -> Self {
        Self {
            journal,
            waiters: Waiters::default(),
            holds: 0,
            drawers: 0,
            cluster_work: VecDeque::new(),
            parked: VecDeque::new(),
            taking: false,
            head: Head::Ready,
            sleeps_until: None,
            failed: None,
            stalled: false,
            stopped: false,
            max_write_bytes,
        }
    }

    /// Take nothing more, and forget what nobody has begun. Everyone who waits is to be answered.
    pub(crate) fn stop(&mut self) -> Vec<Answer> {
        self.stopped = true;
        self.cluster_work.clear();
        self.dismiss_all(|| DeviceError::Abandoned)
    }

    /// The journal thread is awake and looks by itself.
    pub(crate) fn woke(&mut self) {
        self.sleeps_until = None;
    }

    /// A thread died in the middle of a change: what the journal says is not to be trusted any more.
    pub(crate) fn distrust(&mut self) {
        self.failed.get_or_insert(Failure::Io);
    }

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

    pub(crate) fn is_crowded(&self) -> bool {
        self.taking || !self.parked.is_empty()
    }

    /// Stand behind those who wait; back to the caller if nobody does.
    pub(crate) fn queue_up(&mut self, intake: Intake, effects: &mut Effects) -> Option<Intake> {
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
    pub(crate) fn offer(
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

    pub(crate) fn refuse(&mut self, intake: Intake, refusal: Refusal, effects: &mut Effects) {
        if let Refusal::NoSpace { .. } = refusal {
            effects.stalled |= !self.stalled;
            self.stalled = true;
        }
        let error = refused(refusal, |size_bytes| intake.out_of_range(size_bytes));
        effects.answers.push(intake.into_waiter().refused(error));
    }

    /// Whether a piece may come in now (None), or when to ask again.
    pub(crate) fn decide(
        &mut self,
        now: Duration,
        weight_bytes: u64,
    ) -> Result<Option<Head>, Refusal> {
        match self.journal.admission(now, weight_bytes) {
            Admission::Now => Ok(None),
            Admission::At(at) if at <= now + SHORTEST_DELAY => Ok(None),
            Admission::At(at) => Ok(Some(Head::Paced(at))),
            Admission::Wait => Ok(Some(Head::NoRoom(now + ASK_AGAIN))),
            Admission::Refused(refusal) => Err(refusal),
        }
    }

    /// When the first parked change is to ask again.
    pub(crate) fn parked_due(&self) -> Option<Duration> {
        self.parked.front()?;
        Some(match self.head {
            Head::Ready => Duration::ZERO,
            Head::Paced(at) | Head::NoRoom(at) => at,
        })
    }

    /// The first parked change, if it may come in.
    pub(crate) fn first_parked(&mut self, now: Duration, effects: &mut Effects) -> Option<Intake> {
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
    pub(crate) fn dismiss_all(&mut self, error: impl Fn() -> DeviceError) -> Vec<Answer> {
        let parked = std::mem::take(&mut self.parked);
        let waiters = self.waiters.take_all().chain(parked.into_iter().map(Intake::into_waiter));
        waiters.map(|waiter| waiter.refused(error())).collect()
    }

    pub(crate) fn next(&mut self, now: Duration) -> Next {
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
        if let Some(cluster_work) = self.cluster_work.pop_front() {
            return Next::Send(cluster_work);
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
        if let Some(cluster_work) = self.cluster_work.pop_front() {
            return Next::Send(cluster_work);
        }
        let due = self.next_due().unwrap_or(Duration::MAX).min(now + LONGEST_NAP);
        self.sleeps_until = Some(due);
        Next::Sleep(due.saturating_sub(now))
    }

    pub(crate) fn next_due(&self) -> Option<Duration> {
        let tick = self.journal.next_tick().filter(|_| self.failed.is_none());
        tick.into_iter().chain(self.parked_due()).min()
    }

    pub(crate) fn wake_for_what_is_due(&mut self, effects: &mut Effects) {
        let Some(until) = self.sleeps_until else { return };
        if !self.cluster_work.is_empty() || self.next_due().is_some_and(|due| due < until) {
            self.sleeps_until = None;
            effects.wake = true;
        }
    }

    /// Take out what the journal wants done. `at_once`: the caller may send.
    pub(crate) fn collect(&mut self, at_once: bool, effects: &mut Effects) {
        while let Some(action) = self.journal.next_action() {
            match action {
                Action::Append { frame, place }
                    if at_once && frame.length_bytes() <= SEND_AT_ONCE_BYTES =>
                {
                    effects.appends.push((frame, place));
                }
                Action::Append { frame, place } => {
                    self.cluster_work.push_back(ClusterWork::Append { frame, place });
                }
                Action::Record { expected, record } => {
                    self.cluster_work.push_back(ClusterWork::Record { expected, record });
                }
                Action::FreeSlot { owner, slot, before } => {
                    self.cluster_work.push_back(ClusterWork::FreeSlot { owner, slot, before });
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
    pub(crate) fn fail(&mut self, failure: Failure, effects: &mut Effects) {
        self.failed = Some(failure);
        self.cluster_work.clear();
        effects.failed = true;
        for intake in self.parked.drain(..) {
            effects.answers.push(intake.into_waiter().refused(shut(failure)));
        }
    }
}

impl Effects {
    pub(crate) fn is_empty(&self) -> bool {
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
