//! Into the logs: closing batches, shipping, acknowledging.

use std::time::Duration;

use crate::extent::number::wide;
use crate::format::frame::Frame;
use crate::journal::action::{Action, Report, State};
use crate::journal::batch::{Closed, merge};
use crate::journal::error::Failure;
use crate::journal::in_flight::InFlight;
use crate::journal::state::Journal;
use crate::sabotage::Fault;

impl Journal {
    pub(crate) fn replicate_and_acknowledge(&mut self) {
        self.send_again();
        loop {
            // Closing a batch makes something to send, sending makes room to close the next.
            self.append_locally();
            self.ship();
            if !self.batch_due() {
                break;
            }
            self.close_batch();
        }
        self.acknowledge();
    }

    fn batch_due(&self) -> bool {
        if self.open.batch.is_empty() {
            return false;
        }
        let aged = self.now >= self.open.since + self.config.close_after;
        let wanted = aged || !self.open.waiters.is_empty() || self.state == State::Quiescing;
        // While a batch still waits to be sent, all flushes gather in the next one.
        wanted && self.can_send()
    }

    fn can_send(&self) -> bool {
        match (&self.local, self.config.cache) {
            (Some(local), Some(cache)) => {
                local.sent + 1 == self.next_sequence && local.in_flight() < cache.max_appends
            }
            _ => self.framed == self.closed.len() && self.frames.len() < self.config.max_appends,
        }
    }

    pub(crate) fn close_batch(&mut self) {
        let open = std::mem::take(&mut self.open);
        if open.batch.is_empty() {
            self.open = open;
            return;
        }
        let cost_bytes = open.batch.cost_bytes();
        self.closed_bytes += cost_bytes;
        self.transit.add(&open.batch, self.next_sequence);
        self.closed.push_back(Closed {
            sequence: self.next_sequence,
            batch: open.batch,
            cost_bytes,
            since: self.now,
            waiters: open.waiters,
            acknowledged: None,
        });
        self.next_sequence += 1;
        self.statistics.batches += 1;
    }

    /// When what is closed should be shipped; None when there is nothing, or no need to wait.
    pub(crate) fn ship_due(&self) -> Option<Duration> {
        let cache = self.config.cache.filter(|_| self.local.is_some())?;
        self.closed.get(self.framed).map(|closed| closed.since + cache.ship_after)
    }

    fn should_ship(&self) -> bool {
        let Some(due) = self.ship_due() else { return true };
        let unframed = self.closed.iter().skip(self.framed).map(|closed| closed.cost_bytes);
        self.now >= due
            || self.state == State::Quiescing
            || unframed.sum::<u64>() * 2 >= self.config.max_batch_bytes
    }

    fn ship(&mut self) {
        while self.frames.len() < self.config.max_appends
            && self.framed < self.closed.len()
            && self.should_ship()
        {
            let mut cost_bytes = 0;
            let fits = |closed: &&Closed| {
                cost_bytes += closed.cost_bytes;
                cost_bytes <= self.config.max_batch_bytes
            };
            let taken: Vec<&Closed> =
                self.closed.iter().skip(self.framed).take_while(fits).collect();
            let (Some(first), Some(last)) = (taken.first(), taken.last()) else { return };
            let sequences = (first.sequence, last.sequence);
            let extents = match taken.as_slice() {
                [only] => only.batch.extents(),
                many => merge(many.iter().map(|closed| &closed.batch)),
            };
            let batches = taken.len();
            let owner = (self.record.volume, self.record.epoch);
            let align_bytes = self.record.ring.align_bytes;
            let seal = self.frame_key.as_ref();
            let frame = Frame::new(owner, sequences, extents, align_bytes, seal);
            let frame = frame.knowing(self.replicated);
            let Some(place) = self.log.reserve(frame.length_bytes()) else {
                self.checkpoint.ring_is_full = true;
                return;
            };
            self.begin();
            self.framed += batches;
            self.statistics.appends += 1;
            self.statistics.append_bytes += frame.length_bytes();
            self.actions.push_back(Action::Append { frame: frame.clone(), place });
            if frame.is_small() {
                self.freeing.put(place);
            }
            let in_flight = InFlight { frame, place, batches, durable: false, retry_at: None };
            if self.sabotage.is(Fault::ApplyUndurable) {
                self.unapplied.add(&in_flight.frame, in_flight.end(), self.now);
            }
            self.frames.push_back(in_flight);
        }
    }

    fn send_again(&mut self) {
        for waiting in &mut self.frames {
            if waiting.retry_at.is_some_and(|due| due <= self.now) {
                waiting.retry_at = None;
                let (frame, place) = (waiting.frame.clone(), waiting.place);
                self.actions.push_back(Action::Append { frame, place });
            }
        }
    }

    pub(crate) fn appended(&mut self, last: u64, result: Result<(), Failure>) {
        let Some(index) = self.frames.iter().position(|waiting| waiting.frame.last == last) else {
            return;
        };
        match result {
            Err(Failure::NoSpace) => {
                let retry_at = self.now + self.config.retry_after;
                if let Some(waiting) = self.frames.get_mut(index) {
                    waiting.retry_at = Some(retry_at);
                }
                self.note_retry(Failure::NoSpace);
            }
            Err(failure) => {
                self.fail(failure);
                if self.sabotage.is(Fault::AcknowledgeAfterFailure) {
                    self.mark_durable(index);
                }
            }
            Ok(()) => {
                self.note_progress();
                self.mark_durable(index);
            }
        }
    }

    fn mark_durable(&mut self, index: usize) {
        if let Some(waiting) = self.frames.get_mut(index) {
            waiting.durable = true;
        }
        if self.sabotage.is(Fault::AcknowledgeOutOfOrder) {
            self.acknowledge_frame_alone(index);
        }
        // A frame counts only when all before it do: a scan ends at the first that is missing.
        while self.frames.front().is_some_and(|oldest| oldest.durable) {
            let Some(oldest) = self.frames.pop_front() else { return };
            self.replicate(&oldest);
        }
    }

    fn acknowledge_frame_alone(&mut self, index: usize) {
        let Some(frame) = self.frames.get(index).map(|waiting| &waiting.frame) else { return };
        let (first, last) = frame.sequences();
        let within = |closed: &&mut Closed| (first..=last).contains(&closed.sequence);
        let waiters: Vec<_> = self
            .closed
            .iter_mut()
            .filter(within)
            .flat_map(|closed| closed.waiters.drain(..))
            .collect();
        for token in waiters {
            self.complete(token, Ok(()));
        }
    }

    fn replicate(&mut self, oldest: &InFlight) {
        for _ in 0..oldest.batches {
            let Some(closed) = self.closed.pop_front() else { break };
            self.framed = self.framed.saturating_sub(1);
            self.closed_bytes = self.closed_bytes.saturating_sub(closed.cost_bytes);
            self.replicated = closed.sequence;
            self.transit.release(&closed.batch, closed.sequence);
            if closed.acknowledged.is_some() {
                self.exposed_bytes = self.exposed_bytes.saturating_sub(closed.cost_bytes);
            }
            self.acknowledged = self.acknowledged.max(closed.sequence);
            for token in closed.waiters {
                self.complete(token, Ok(()));
            }
        }
        if !self.sabotage.is(Fault::ApplyUndurable) {
            self.unapplied.add(&oldest.frame, oldest.end(), self.now);
        }
        if let Some(local) = &mut self.local {
            local.replicated(self.replicated);
        }
    }

    /// In `cache` mode: acknowledge what is durable on the host, strictly in order, as long as the
    /// loss of the host would not cost more than the lag allows.
    fn acknowledge(&mut self) {
        let (Some(local), Some(cache)) = (&self.local, self.config.cache) else { return };
        let gaps = self.sabotage.is(Fault::AcknowledgeLocalOutOfOrder);
        let sound_through = if gaps { local.newest_durable() } else { local.sound_through };
        let bounded = !self.sabotage.is(Fault::IgnoreLag);
        loop {
            let behind = self.is_behind();
            let next = self.acknowledged.saturating_sub(self.replicated);
            let index = usize::try_from(next).unwrap_or(usize::MAX);
            let Some(closed) = self.closed.get_mut(index) else { return };
            let exposed = self.exposed_bytes + closed.cost_bytes;
            let sound = closed.sequence <= sound_through;
            if !sound || behind || (bounded && exposed > cache.max_lag_bytes) {
                return;
            }
            closed.acknowledged = Some(self.now);
            self.exposed_bytes = exposed;
            self.acknowledged = closed.sequence;
            for token in std::mem::take(&mut closed.waiters) {
                self.complete(token, Ok(()));
            }
        }
    }

    /// Whether what the loss of the host would cost is older than it may be.
    pub(crate) fn is_behind(&self) -> bool {
        let Some(cache) = self.config.cache else { return false };
        let oldest = self.closed.front().and_then(|closed| closed.acknowledged);
        oldest.is_some_and(|at| self.now.saturating_sub(at) > cache.max_lag)
            && !self.sabotage.is(Fault::IgnoreLag)
    }

    fn append_locally(&mut self) {
        let (Some(local), Some(cache)) = (&mut self.local, self.config.cache) else { return };
        for closed in &self.closed {
            if closed.sequence <= local.sent {
                continue;
            }
            if local.in_flight() >= cache.max_appends {
                return;
            }
            let owner = (self.record.volume, self.record.epoch);
            let sequences = (closed.sequence, closed.sequence);
            let align_bytes = local.record.ring.align_bytes;
            let seal = self.local_key.as_ref();
            let frame = Frame::new(owner, sequences, closed.batch.extents(), align_bytes, seal);
            let frame = frame.knowing(self.acknowledged);
            let Some(place) = local.reserve(&frame, self.now) else { break };
            self.statistics.local_appends += 1;
            self.statistics.local_append_bytes += frame.length_bytes();
            self.actions.push_back(Action::AppendLocally { frame, place });
        }
        if let Some(record) = local.trim(self.now) {
            self.actions.push_back(Action::RecordLocally { record });
        }
    }

    pub(crate) fn appended_locally(&mut self, last: u64, result: Result<(), Failure>) {
        let Some(local) = &mut self.local else { return };
        match result {
            Err(failure) if !self.sabotage.is(Fault::IgnoreLocalFailure) => self.degrade(failure),
            _ => local.appended(last),
        }
    }

    pub(crate) fn recorded_locally(&mut self, result: Result<(), Failure>) {
        match (result, &mut self.local) {
            (Ok(()), Some(local)) => local.recorded(),
            (Err(failure), Some(_)) => self.degrade(failure),
            (_, None) => {}
        }
    }

    /// When the disk of the host is given up, unless it answers.
    pub(crate) fn give_up_due(&self) -> Option<Duration> {
        let (local, cache) = (self.local.as_ref()?, self.config.cache?);
        Some(local.waits_since()? + cache.give_up_after)
    }

    pub(crate) fn give_up_a_disk_that_hangs(&mut self) {
        if self.give_up_due().is_some_and(|due| due <= self.now) {
            self.degrade(Failure::TimedOut);
        }
    }

    /// Leave `cache` mode for good: what waits for the disk now waits for the cluster.
    fn degrade(&mut self, failure: Failure) {
        self.local = None;
        self.degraded = Some(failure);
        self.report(Report::Degraded(failure));
    }

    pub(crate) fn note_progress(&mut self) {
        let waits = self.frames.iter().any(|frame| frame.retry_at.is_some());
        if self.retrying.is_some() && !waits && !self.checkpoint.is_failing {
            self.retrying = None;
            self.report(Report::Recovered);
        }
    }

    /// When something that failed is tried again.
    pub(crate) fn retry_due(&self) -> Option<Duration> {
        let frames = self.frames.iter().filter_map(|frame| frame.retry_at);
        frames.chain(self.checkpoint.retry_at).min()
    }

    /// Whether nothing is between intake and the cluster.
    pub(crate) fn is_all_replicated(&self) -> bool {
        self.open.batch.is_empty() && wide(self.closed.len()) == 0 && self.frames.is_empty()
    }
}
