//! What the journal knows, and what of it reads and status see.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use grampus_blockdev::Token;

use crate::extent::span::Span;
use crate::format::ids::Log;
use crate::format::record::Record;
use crate::format::seal::{FrameKey, Sealing};
use crate::journal::action::{Action, Report, State, Statistics, Status};
use crate::journal::batch::{Closed, Open};
use crate::journal::checkpoint::Checkpoint;
use crate::journal::config::Config;
use crate::journal::error::{ConfigError, Failure};
use crate::journal::in_flight::InFlight;
use crate::journal::local::Local;
use crate::journal::opened::Opened;
use crate::journal::read::ReadPlan;
use crate::journal::throttle::{FreedRate, fill_permille};
use crate::journal::unapplied::{Mark, Unapplied};
use crate::journal::version::Transit;
use crate::ring::freeing::Freeing;
use crate::ring::space::LogSpace;
use crate::sabotage::{Fault, Sabotage};

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
    pub(super) config: Config,
    pub(super) now: Duration,
    pub(super) size_bytes: u64,
    pub(super) state: State,
    pub(super) open: Open,
    /// The open batch's.
    pub(super) next_sequence: u64,
    /// Not yet durable in the cluster, in order: `replicated + 1` and up.
    pub(super) closed: VecDeque<Closed>,
    /// What reads see of `closed`.
    pub(super) transit: Transit,
    /// How many of `closed` are in frames.
    pub(super) framed: usize,
    pub(super) frames: VecDeque<InFlight>,
    pub(super) acknowledged: u64,
    pub(super) replicated: u64,
    pub(super) log: LogSpace,
    /// As it is in the cluster.
    pub(super) record: Record,
    pub(super) unapplied: Unapplied,
    pub(super) checkpoint: Checkpoint,
    pub(super) freeing: Freeing,
    /// In `cache` mode, until it fails.
    pub(super) local: Option<Local>,
    /// Of an encrypted volume: what frames are sealed with, in the cluster and on the host.
    pub(super) frame_key: Option<Arc<FrameKey>>,
    pub(super) local_key: Option<Arc<FrameKey>>,
    pub(super) degraded: Option<Failure>,
    /// Held bytes of `closed`, all and those acknowledged.
    pub(super) closed_bytes: u64,
    pub(super) exposed_bytes: u64,
    pub(super) quiescers: Vec<Token>,
    /// Someone is about to ask for quiet: see [`crate::Event::DrawDown`].
    pub(super) drawing_down: bool,
    /// Nothing is applied: see [`crate::Event::HoldImage`].
    pub(super) image_is_held: bool,
    pub(super) actions: VecDeque<Action>,
    pub(super) freed: FreedRate,
    pub(super) pace_until: Duration,
    /// When the last change came.
    pub(super) changed: Duration,
    /// When the cluster last answered anything, or was asked something after a pause.
    pub(super) heard: Duration,
    pub(super) retrying: Option<Retrying>,
    pub(super) statistics: Statistics,
    pub(super) sabotage: Sabotage,
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
            closed: VecDeque::new(),
            transit: Transit::default(),
            framed: 0,
            frames: VecDeque::new(),
            acknowledged: replicated,
            replicated,
            log: LogSpace::empty_at(record.ring, record.tail),
            record,
            unapplied: Unapplied::new(applied),
            checkpoint: Checkpoint::new(applied, now),
            freeing: Freeing::new(record.ring, record.tail),
            local: config.cache.and(opened.local).map(|local| Local::new(local, replicated)),
            frame_key: None,
            local_key: None,
            degraded: None,
            closed_bytes: 0,
            exposed_bytes: 0,
            quiescers: Vec::new(),
            drawing_down: false,
            image_is_held: false,
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
        self.unapplied.sabotage = sabotage;
    }

    /// Cut a read into what is held in memory and what is in the image: newest first.
    pub fn plan_read(&self, span: Span, plan: &mut ReadPlan) {
        plan.begin(span);
        plan.fill(|gap| self.open.batch.overlapping(gap));
        if !self.sabotage.is(Fault::ForgetClosed) {
            plan.fill(|gap| self.transit.overlapping(gap));
        }
        plan.fill(|gap| self.unapplied.overlapping(gap));
        plan.finish();
    }

    /// The next thing to do; None until the next input.
    pub fn next_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// What it is doing.
    #[must_use]
    pub fn status(&self) -> Status {
        let oldest = self.closed.front().and_then(|closed| closed.acknowledged);
        Status {
            state: self.state,
            local: self.local.is_some(),
            degraded: self.degraded,
            retrying: self.retrying.map(|Retrying { failure, since, .. }| (failure, since)),
            silent: self.silent(),
            closed: self.next_sequence - 1,
            acknowledged: self.acknowledged,
            replicated: self.replicated,
            applied: self.unapplied.applied().sequence,
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
        Statistics { coalesced_settled_bytes: self.unapplied.coalesced_bytes, ..self.statistics }
    }

    pub(crate) fn held_bytes(&self) -> u64 {
        self.open.batch.cost_bytes() + self.closed_bytes + self.unapplied.cost_bytes()
    }

    pub(crate) fn fill_permille(&self) -> u64 {
        let held = (self.held_bytes(), self.config.max_held_bytes);
        fill_permille(held, (self.log.used_bytes(), self.config.ring.capacity_bytes()))
    }

    /// For how long the cluster has said again and again that there is no space, once that is
    /// longer than the settings allow. Its silence says nothing: an outage is waited out (INV-5).
    pub(crate) fn lacks_space(&self) -> Option<Duration> {
        let Retrying { failure, since, last } = self.retrying?;
        let lasting = last.saturating_sub(since);
        (failure == Failure::NoSpace && lasting >= self.config.refuse_after).then_some(lasting)
    }

    /// For how long the cluster has answered nothing that it was asked.
    fn silent(&self) -> Option<Duration> {
        (!self.is_idle()).then(|| self.now.saturating_sub(self.heard))
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.frames.is_empty() && self.unapplied.in_flight() == 0 && self.checkpoint.is_idle()
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
    pub(crate) fn observe(&mut self, now: Duration) {
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

    pub(crate) fn failure(&self) -> Failure {
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
            waiters.extend(self.closed.iter_mut().flat_map(|closed| closed.waiters.drain(..)));
        }
        waiters.append(&mut self.quiescers);
        for token in waiters {
            self.complete(token, Err(failure));
        }
        self.report(Report::Failed(failure));
    }

    /// What the order of the layers rests on (INV-1), in debug builds: a batch comes through them
    /// one after the other, and none is left before the next one has it.
    pub(crate) fn assert_order(&self) {
        if self.sabotage.is_on() {
            return;
        }
        let applied = self.unapplied.applied().sequence;
        let flushed = self.checkpoint.flushed.sequence;
        let oldest = self.closed.front().map_or(self.next_sequence, |closed| closed.sequence);
        debug_assert!(self.acknowledged < self.next_sequence, "an open batch is not acknowledged");
        debug_assert!(self.replicated <= self.acknowledged, "what is durable is acknowledged");
        debug_assert_eq!(oldest, self.replicated + 1, "no batch is between closed and durable");
        debug_assert!(self.framed <= self.closed.len(), "only closed batches are in frames");
        debug_assert!(applied <= self.replicated, "only what is durable is applied");
        debug_assert!(flushed <= applied, "only what is applied counts as durable in the image");
        debug_assert!(self.record.first <= flushed + 1, "the log is trimmed of that alone");
        debug_assert_eq!(self.log.tail, self.record.tail, "space is free once a record says so");
    }
}
