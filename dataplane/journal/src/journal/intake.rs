//! What comes in: changes, flushes, events; and what follows from them.

use std::time::Duration;

use grampus_blockdev::{Durability, Offset, Token};

use crate::extent::content::{Content, Payload};
use crate::extent::span::Span;
use crate::journal::action::{Event, State};
use crate::journal::batch::{Closed, cost_of_change};
use crate::journal::error::{Failure, Refusal};
use crate::journal::state::Journal;
use crate::journal::throttle::{Admission, SLOW_FROM_PERMILLE, decide_falling_pace, decide_pace};
use crate::sabotage::Fault;

/// A change that was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accepted {
    /// The batch that carries it.
    pub sequence: u64,
    /// Whether it is complete already; with FUA, [`crate::Action::Complete`] says so later.
    pub complete: bool,
}

impl Journal {
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
        let cost_bytes = cost_of_change(weight_bytes);
        let fits = self.held_bytes() + cost_bytes <= self.config.max_held_bytes;
        let undurable_bytes = self.open.batch.cost_bytes() + self.closed_bytes;
        let may_wait =
            undurable_bytes.saturating_add(cost_bytes) <= self.config.max_undurable_bytes;
        if fits && (may_wait || self.local.is_some()) {
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
            self.close_batch();
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
            let waiting = |last: &&mut Closed| behind || last.acknowledged.is_none();
            match self.closed.back_mut().filter(waiting) {
                Some(last) => last.waiters.push(token),
                None => self.complete(token, Ok(())),
            }
        }
        self.advance();
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
            Event::HoldImage(true) => {
                if self.state == State::Quiesced {
                    self.image_is_held = true;
                    self.state = State::Running;
                }
            }
            Event::HoldImage(false) => self.image_is_held = false,
            Event::Resized(size_bytes) => self.size_bytes = size_bytes,
            Event::Fenced => self.fail(Failure::Fenced),
        }
        self.advance();
    }

    /// When [`Event::Tick`] is due, if nothing else happens before.
    #[must_use]
    pub fn next_tick(&self) -> Option<Duration> {
        if matches!(self.state, State::Failed(_)) {
            return None;
        }
        let close =
            (!self.open.batch.is_empty()).then_some(self.open.since + self.config.close_after);
        let ship = self.ship_due();
        let idle = self.changed + self.config.idle_after;
        let apply = self.unapplied.oldest().map(|since| idle.min(since + self.config.apply_after));
        let give_up = self.give_up_due();
        let due = [close, ship, apply, self.trim_due(), self.retry_due(), give_up];
        due.into_iter().flatten().filter(|due| *due > self.now).min()
    }

    /// Do what has become possible.
    fn advance(&mut self) {
        if matches!(self.state, State::Failed(_)) {
            return;
        }
        self.fail_what_waits_too_long();
        self.give_up_a_disk_that_hangs();
        self.replicate_and_acknowledge();
        self.write_back();
        self.assert_order();
    }

    fn fail_what_waits_too_long(&mut self) {
        let waits = self.frames.iter().any(|frame| frame.retry_at.is_some());
        if waits && self.lacks_space().is_some() {
            self.fail(Failure::NoSpace);
        }
    }
}
