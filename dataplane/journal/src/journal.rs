//! The state machine: intake, reads, status. What follows from them is in `outbound` (into the
//! logs) and `landing` (into the image).

mod landing;
mod outbound;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use grampus_blockdev::{Durability, Offset, Token};

use crate::action::{Action, Event, Report, State, Statistics, Status};
use crate::batch::{Open, Sealed, cost_of_change};
use crate::config::Config;
use crate::content::{Content, Payload};
use crate::error::{ConfigError, Failure, Refusal};
use crate::freeing::Freeing;
use crate::ids::Log;
use crate::local::Local;
use crate::read::ReadPlan;
use crate::record::{Opened, Record};
use crate::ring::LogSpace;
use crate::sabotage::{Fault, Sabotage};
use crate::seal::{FrameKey, Sealing};
use crate::settled::{Mark, Settled};
use crate::span::Span;
use crate::throttle::{
    Admission, FreedRate, SLOW_FROM_PERMILLE, decide_falling_pace, decide_pace, fill_permille,
};
use crate::version::Transit;

use self::landing::Landing;
use self::outbound::InFlight;

/// A change that was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accepted {
    /// The batch that carries it.
    pub sequence: u64,
    /// Whether it is complete already; with FUA, [`Action::Complete`] says so later.
    pub complete: bool,
}

/// What fails and is tried again.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Retrying {
    /// How: where several things fail, the want of space counts.
    failure: Failure,
    since: Duration,
    /// The last time that it did.
    last: Duration,
}

/// The journal of one open volume. See the crate's documentation for how to drive it.
#[derive(Debug)]
pub struct Journal {
    config: Config,
    now: Duration,
    size_bytes: u64,
    state: State,
    open: Open,
    /// The open batch's.
    next_sequence: u64,
    /// Not yet durable in the cluster, in order: `replicated + 1` and up.
    sealed: VecDeque<Sealed>,
    /// What reads see of `sealed`.
    transit: Transit,
    /// How many of `sealed` are in frames.
    framed: usize,
    frames: VecDeque<InFlight>,
    acknowledged: u64,
    replicated: u64,
    log: LogSpace,
    /// As it is in the cluster.
    record: Record,
    settled: Settled,
    landing: Landing,
    freeing: Freeing,
    /// In `cache` mode, until it fails.
    local: Option<Local>,
    /// Of an encrypted volume: what frames are sealed with, in the cluster and on the host.
    frame_key: Option<Arc<FrameKey>>,
    local_key: Option<Arc<FrameKey>>,
    degraded: Option<Failure>,
    /// Held bytes of `sealed`, all and those acknowledged.
    sealed_bytes: u64,
    exposed_bytes: u64,
    quiescers: Vec<Token>,
    /// Someone is about to ask for quiet: see [`Event::DrawDown`].
    drawing_down: bool,
    actions: VecDeque<Action>,
    freed: FreedRate,
    pace_until: Duration,
    /// When the last change came.
    changed: Duration,
    /// When the cluster last answered anything, or was asked something after a pause.
    heard: Duration,
    retrying: Option<Retrying>,
    statistics: Statistics,
    sabotage: Sabotage,
}

impl Journal {
    /// A journal for what recovery has made ready.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn new(config: Config, opened: Opened, now: Duration) -> Result<Self, ConfigError> {
        let record = opened.record;
        // The ring has the shape it was made with, whatever the settings say now.
        let config = Config { ring: record.ring, ..config };
        config.validate()?;
        let replicated = record.first - 1;
        let applied = Mark { sequence: replicated, position: record.tail };
        Ok(Self {
            config,
            now,
            size_bytes: opened.size_bytes,
            state: State::Running,
            open: Open::default(),
            next_sequence: record.first,
            sealed: VecDeque::new(),
            transit: Transit::default(),
            framed: 0,
            frames: VecDeque::new(),
            acknowledged: replicated,
            replicated,
            log: LogSpace::empty_at(record.ring, record.tail),
            record,
            settled: Settled::new(applied),
            landing: Landing::new(applied, now),
            freeing: Freeing::new(record.ring, record.tail),
            local: config.cache.and(opened.local).map(|local| Local::new(local, replicated)),
            frame_key: None,
            local_key: None,
            degraded: None,
            sealed_bytes: 0,
            exposed_bytes: 0,
            quiescers: Vec::new(),
            drawing_down: false,
            actions: VecDeque::new(),
            freed: FreedRate::new(now),
            pace_until: now,
            changed: now,
            heard: now,
            retrying: None,
            statistics: Statistics::default(),
            sabotage: Sabotage::default(),
        })
    }

    /// Of a volume that is encrypted, if there is one: the same as the recovery's, which has
    /// sealed nothing that this journal seals.
    #[must_use]
    pub fn sealed(mut self, sealing: Option<&Sealing>) -> Self {
        let Record { volume, epoch, .. } = self.record;
        let key = |log| sealing.map(|sealing| sealing.frame_key(log, volume, epoch));
        (self.frame_key, self.local_key) = (key(Log::Cluster), key(Log::Local));
        self
    }

    #[cfg(test)]
    pub(crate) fn sabotage(&mut self, sabotage: Sabotage) {
        self.sabotage = sabotage;
        self.settled.sabotage = sabotage;
    }

    /// Whether a change of this weight may come in now; see [`Content::weight_bytes`].
    pub fn admission(&mut self, now: Duration, weight_bytes: u64) -> Admission {
        self.observe(now);
        match self.refusal(weight_bytes) {
            Some(Refusal::Quiesced | Refusal::Busy) => Admission::Wait,
            Some(refusal) => Admission::Refused(refusal),
            None if self.pace_until > self.now => {
                self.statistics.delayed += 1;
                Admission::At(self.pace_until)
            }
            None => Admission::Now,
        }
    }

    fn refusal(&self, weight_bytes: u64) -> Option<Refusal> {
        match self.state {
            State::Failed(failure) => return Some(Refusal::Failed(failure)),
            State::Quiescing | State::Quiesced => return Some(Refusal::Quiesced),
            State::Running => {}
        }
        if weight_bytes > self.config.max_write_bytes {
            let limit_bytes = self.config.max_write_bytes;
            return Some(Refusal::TooLarge { bytes: weight_bytes, limit_bytes });
        }
        if self.held_bytes() + cost_of_change(weight_bytes) <= self.config.max_held_bytes {
            return None;
        }
        Some(self.lacks_space().map_or(Refusal::Busy, |lasting| Refusal::NoSpace { lasting }))
    }

    /// Take a write. It is visible to reads at once.
    ///
    /// # Errors
    /// [`Refusal`]; nothing was kept.
    pub fn write(
        &mut self,
        now: Duration,
        offset: Offset,
        payload: Payload,
        durability: Durability,
        token: Token,
    ) -> Result<Accepted, Refusal> {
        let bytes = payload.length_bytes();
        let limit_bytes = self.config.max_write_bytes;
        let span =
            Span::new(offset.bytes(), bytes).ok_or(Refusal::TooLarge { bytes, limit_bytes })?;
        self.change(now, span, Content::Data(payload), durability, token)
    }

    /// Take zeros or a discard, of any length whose weight is no more than a write may have.
    ///
    /// # Errors
    /// [`Refusal`]; nothing was kept.
    pub fn zero(
        &mut self,
        now: Duration,
        span: Span,
        give_back: bool,
        durability: Durability,
        token: Token,
    ) -> Result<Accepted, Refusal> {
        let content = if give_back { Content::Discard } else { Content::Zeros };
        self.change(now, span, content, durability, token)
    }

    fn change(
        &mut self,
        now: Duration,
        span: Span,
        content: Content,
        durability: Durability,
        token: Token,
    ) -> Result<Accepted, Refusal> {
        self.observe(now);
        let payload_bytes = content.payload_bytes();
        let weight_bytes = content.weight_bytes(span.length());
        if let Some(refusal) = self.refusal(weight_bytes) {
            return Err(refusal);
        }
        if span.end() > self.size_bytes {
            return Err(Refusal::OutOfRange { span, size_bytes: self.size_bytes });
        }
        if span.is_empty() {
            return Ok(Accepted { sequence: self.next_sequence - 1, complete: true });
        }
        let cost = cost_of_change(weight_bytes);
        if self.open.batch.cost_bytes() + cost > self.config.max_batch_bytes {
            self.seal();
        }
        if self.open.batch.is_empty() {
            self.open.since = self.now;
        }
        self.changed = self.now;
        self.statistics.changes += 1;
        self.statistics.change_bytes += payload_bytes;
        self.statistics.coalesced_in_batch_bytes += self.open.batch.insert(span, content);
        self.pace(cost);
        let accepted =
            Accepted { sequence: self.next_sequence, complete: durability == Durability::OnFlush };
        if !accepted.complete {
            self.open.waiters.push(token);
        }
        self.advance();
        Ok(accepted)
    }

    fn pace(&mut self, cost: u64) {
        let (fill, rate) = (self.fill_permille(), self.freed.bytes_per_s());
        if self.drawing_down {
            self.pace_until = self.pace_until.max(self.now) + decide_falling_pace(cost, rate);
        } else if fill > SLOW_FROM_PERMILLE {
            let pause = decide_pace(fill, cost, rate);
            self.pace_until = self.pace_until.max(self.now) + pause;
        }
    }

    /// Complete `token` once every change taken so far is durable: all waiting flushes share a
    /// batch.
    pub fn flush(&mut self, now: Duration, token: Token) {
        self.observe(now);
        self.statistics.flushes += 1;
        if let State::Failed(failure) = self.state {
            self.complete(token, Err(failure));
        } else if !self.open.batch.is_empty() && !self.sabotage.is(Fault::FlushForgetsOpen) {
            self.open.waiters.push(token);
        } else {
            // With the lag past its bound, a flush waits although its batch was acknowledged in
            // time: whoever asks now must not be told that all is well.
            let behind = self.is_behind();
            let waiting = |last: &&mut Sealed| behind || last.acknowledged.is_none();
            match self.sealed.back_mut().filter(waiting) {
                Some(last) => last.waiters.push(token),
                None => self.complete(token, Ok(())),
            }
        }
        self.advance();
    }

    /// Cut a read into what is held in memory and what is in the image: newest first.
    pub fn plan_read(&self, span: Span, plan: &mut ReadPlan) {
        plan.begin(span);
        plan.fill(|gap| self.open.batch.overlapping(gap));
        if !self.sabotage.is(Fault::ForgetSealed) {
            plan.fill(|gap| self.transit.overlapping(gap));
        }
        plan.fill(|gap| self.settled.overlapping(gap));
        plan.finish();
    }

    /// Take in what happened.
    pub fn handle(&mut self, now: Duration, event: Event) {
        self.observe(now);
        if let (State::Failed(_), false) =
            (self.state, self.sabotage.is(Fault::AcknowledgeAfterFailure))
        {
            if let Event::Quiesce(token) = event {
                self.complete(token, Err(self.failure()));
            }
            return;
        }
        if event.is_of_the_cluster() {
            self.heard = self.now;
        }
        match event {
            Event::Appended { last, result } => self.appended(last, result),
            Event::AppendedLocally { last, result } => self.appended_locally(last, result),
            Event::Applied { id, result } => self.applied(id, result),
            Event::ImageFlushed(result) => self.image_flushed(result),
            Event::Recorded(result) => self.recorded(result),
            Event::RecordedLocally(result) => self.recorded_locally(result),
            Event::SlotFreed { slot, result } => self.slot_freed(slot, result),
            Event::Tick => {}
            Event::Quiesce(token) => {
                self.quiescers.push(token);
                self.state = State::Quiescing;
            }
            Event::DrawDown(wanted) => self.drawing_down = wanted,
            Event::Unquiesce => {
                for token in std::mem::take(&mut self.quiescers) {
                    self.complete(token, Err(Failure::Io));
                }
                self.state = State::Running;
            }
            Event::Resized(size_bytes) => self.size_bytes = size_bytes,
            Event::Fenced => self.fail(Failure::Fenced),
        }
        self.advance();
    }

    /// The next thing to do; None until the next input.
    pub fn next_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// When [`Event::Tick`] is due, if nothing else happens before.
    #[must_use]
    pub fn next_tick(&self) -> Option<Duration> {
        if matches!(self.state, State::Failed(_)) {
            return None;
        }
        let seal =
            (!self.open.batch.is_empty()).then_some(self.open.since + self.config.seal_after);
        let ship = self.ship_due();
        let idle = self.changed + self.config.idle_after;
        let apply = self.settled.oldest().map(|since| idle.min(since + self.config.apply_after));
        let give_up = self.give_up_due();
        let due = [seal, ship, apply, self.trim_due(), self.retry_due(), give_up];
        due.into_iter().flatten().filter(|due| *due > self.now).min()
    }

    /// What it is doing.
    #[must_use]
    pub fn status(&self) -> Status {
        let oldest = self.sealed.front().and_then(|sealed| sealed.acknowledged);
        Status {
            state: self.state,
            local: self.local.is_some(),
            degraded: self.degraded,
            retrying: self.retrying.map(|Retrying { failure, since, .. }| (failure, since)),
            silent: self.silent(),
            sealed: self.next_sequence - 1,
            acknowledged: self.acknowledged,
            replicated: self.replicated,
            applied: self.settled.applied().sequence,
            trimmed: self.record.first - 1,
            held_bytes: self.held_bytes(),
            used_bytes: self.log.used_bytes(),
            local_used_bytes: self.local.as_ref().map_or(0, |local| local.space.used_bytes()),
            lag_bytes: self.exposed_bytes,
            lag: oldest.map_or(Duration::ZERO, |since| self.now.saturating_sub(since)),
            freed_bytes_per_s: self.freed.bytes_per_s(),
        }
    }

    /// Whether slots in the cluster are still freed of what nobody needs. Nothing waits for that but
    /// a volume that is closed for good.
    #[must_use]
    pub fn is_freeing(&self) -> bool {
        self.freeing.is_busy() && !matches!(self.state, State::Failed(_))
    }

    /// What it has done since it was opened.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        Statistics { coalesced_settled_bytes: self.settled.coalesced_bytes, ..self.statistics }
    }

    pub(crate) fn held_bytes(&self) -> u64 {
        self.open.batch.cost_bytes() + self.sealed_bytes + self.settled.cost_bytes()
    }

    pub(crate) fn fill_permille(&self) -> u64 {
        let held = (self.held_bytes(), self.config.max_held_bytes);
        fill_permille(held, (self.log.used_bytes(), self.config.ring.capacity_bytes()))
    }

    /// For how long the cluster has said again and again that there is no space, once that is
    /// longer than the settings allow. Its silence says nothing: an outage is waited out (INV-5).
    fn lacks_space(&self) -> Option<Duration> {
        let Retrying { failure, since, last } = self.retrying?;
        let lasting = last.saturating_sub(since);
        (failure == Failure::NoSpace && lasting >= self.config.refuse_after).then_some(lasting)
    }

    /// For how long the cluster has answered nothing that it was asked.
    fn silent(&self) -> Option<Duration> {
        (!self.is_idle()).then(|| self.now.saturating_sub(self.heard))
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.frames.is_empty() && self.settled.in_flight() == 0 && self.landing.is_idle()
    }

    /// Something failed, and is tried again.
    pub(crate) fn note_retry(&mut self, failure: Failure) {
        let last = self.now;
        match &mut self.retrying {
            Some(Retrying { failure: Failure::NoSpace, last: again, .. })
                if failure == Failure::NoSpace =>
            {
                *again = last;
            }
            // Counted from here on: how long other things failed before says nothing of space.
            Some(retrying) if failure == Failure::NoSpace => {
                *retrying = Retrying { failure, since: last, last };
            }
            Some(_) => {}
            None => {
                self.retrying = Some(Retrying { failure, since: last, last });
                self.report(Report::Retrying(failure));
            }
        }
    }

    /// The clock never runs backwards here, whatever it does outside.
    fn observe(&mut self, now: Duration) {
        self.now = self.now.max(now);
    }

    /// Note that something is begun: silence is counted from here if nothing else was under way.
    pub(crate) fn begin(&mut self) {
        if self.is_idle() {
            self.heard = self.now;
        }
    }

    pub(crate) fn complete(&mut self, token: Token, result: Result<(), Failure>) {
        self.actions.push_back(Action::Complete { token, result });
    }

    pub(crate) fn report(&mut self, report: Report) {
        self.actions.push_back(Action::Report(report));
    }

    fn failure(&self) -> Failure {
        if let State::Failed(failure) = self.state { failure } else { Failure::Io }
    }

    /// Fail for good: everyone who waits is told, and nothing is acknowledged any more (INV-6).
    pub(crate) fn fail(&mut self, failure: Failure) {
        if matches!(self.state, State::Failed(_)) {
            return;
        }
        self.state = State::Failed(failure);
        let mut waiters = std::mem::take(&mut self.open.waiters);
        if !self.sabotage.is(Fault::AcknowledgeAfterFailure) {
            waiters.extend(self.sealed.iter_mut().flat_map(|sealed| sealed.waiters.drain(..)));
        }
        waiters.append(&mut self.quiescers);
        for token in waiters {
            self.complete(token, Err(failure));
        }
        self.report(Report::Failed(failure));
    }

    /// Do what has become possible.
    pub(crate) fn advance(&mut self) {
        if matches!(self.state, State::Failed(_)) {
            return;
        }
        self.fail_what_waits_too_long();
        self.give_up_a_disk_that_hangs();
        self.go_outbound();
        self.land();
    }

    fn fail_what_waits_too_long(&mut self) {
        let waits = self.frames.iter().any(|frame| frame.retry_at.is_some());
        if waits && self.lacks_space().is_some() {
            self.fail(Failure::NoSpace);
        }
    }
}
