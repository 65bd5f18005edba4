//! Into the image: applying, trimming, quiescing.

use std::time::Duration;

use crate::extent::number::wide;
use crate::extent::span::Span;
use crate::format::record::Record;
use crate::journal::action::{Action, State};
use crate::journal::batch::EXTENT_COST_BYTES;
use crate::journal::error::Failure;
use crate::journal::read::{ReadPlan, Source};
use crate::journal::state::Journal;
use crate::journal::throttle::{decide_applies, decide_small_fill};
use crate::journal::unapplied::{Change, Mark};
use crate::sabotage::Fault;

impl Journal {
    pub(crate) fn write_back(&mut self) {
        if self.checkpoint.retry_at.is_some_and(|due| due <= self.now) {
            self.checkpoint.retry_at = None;
            self.unapplied.retry();
        }
        self.apply();
        // In this order: under load there is always more to flush, and the record frees the space.
        self.write_record();
        self.flush_image();
        self.free_slots();
        self.finish_quiescing();
    }

    fn apply(&mut self) {
        if self.image_is_held && !self.sabotage.is(Fault::ApplyToHeld) {
            return;
        }
        let limit = self.apply_limit();
        while self.unapplied.in_flight() < limit {
            // Seen before the apply counts as under way.
            let idle = self.is_idle();
            let Some(apply) = self.unapplied.next_apply(self.config.max_apply_bytes) else {
                return;
            };
            if idle {
                self.heard = self.now;
            }
            self.statistics.applies += 1;
            self.statistics.apply_bytes += apply.span.length();
            let change = self.sabotaged(apply.span, apply.change);
            self.actions.push_back(Action::Apply { id: apply.id, span: apply.span, change });
        }
    }

    fn apply_limit(&self) -> usize {
        if self.state == State::Quiescing || self.drawing_down || self.checkpoint.ring_is_full {
            return self.config.max_applies;
        }
        if self.now >= self.changed + self.config.idle_after {
            return self.config.max_applies;
        }
        let aged = |since| self.now >= since + self.config.apply_after;
        let aged = self.unapplied.oldest().is_some_and(aged);
        let small = decide_small_fill(self.unapplied.small_frames(), self.config.max_small_frames);
        decide_applies(self.fill_permille().max(small), self.config.max_applies, aged)
    }

    fn sabotaged(&self, span: Span, change: Change) -> Change {
        if !self.sabotage.is(Fault::ApplyUnclosed) || !matches!(change, Change::Data(_)) {
            return change;
        }
        let mut plan = ReadPlan::default();
        self.plan_read(span, &mut plan);
        let newest = |(_, source): &(Span, Source)| match source {
            Source::Memory(payload) => Some(payload.clone()),
            Source::Zeros | Source::Image => None,
        };
        let payloads: Option<Vec<_>> = plan.pieces().iter().map(newest).collect();
        payloads.map_or(change, Change::Data)
    }

    pub(crate) fn applied(&mut self, id: u64, result: Result<(), Failure>) {
        if result == Err(Failure::Fenced) {
            return self.fail(Failure::Fenced);
        }
        let Some(freed) = self.unapplied.complete(id, result.is_ok()) else { return };
        match result {
            Ok(()) => {
                self.checkpoint.is_failing = false;
                self.note_progress();
                let busy =
                    self.unapplied.cost_bytes() > EXTENT_COST_BYTES * wide(self.config.max_applies);
                self.freed.note(self.now, freed, busy);
            }
            Err(failure) => {
                self.checkpoint.is_failing = true;
                self.checkpoint.retry_at.get_or_insert(self.now + self.config.retry_after);
                self.note_retry(failure);
            }
        }
    }

    /// When what was applied should be flushed and trimmed; None while there is nothing.
    pub(crate) fn trim_due(&self) -> Option<Duration> {
        let more = self.unapplied.applied().sequence > self.checkpoint.flushed.sequence;
        more.then_some(self.checkpoint.trimmed_at + self.config.trim_after)
    }

    fn flush_image(&mut self) {
        let Some(due) = self.trim_due() else { return };
        let applied = self.unapplied.applied();
        let freeable = applied.position.saturating_sub(self.log.tail);
        let wanted = self.now >= due
            || self.state == State::Quiescing
            || self.checkpoint.ring_is_full
            || freeable * 8 >= self.log.ring.capacity_bytes();
        if !wanted || !self.checkpoint.is_idle() {
            return;
        }
        if self.sabotage.is(Fault::TrimUnflushed) {
            self.checkpoint.flushed = applied;
            return;
        }
        self.begin();
        self.checkpoint.flushing = Some(applied);
        self.statistics.image_flushes += 1;
        self.actions.push_back(Action::FlushImage);
    }

    pub(crate) fn image_flushed(&mut self, result: Result<(), Failure>) {
        let Some(mark) = self.checkpoint.flushing.take() else { return };
        match result {
            Ok(()) => {
                self.checkpoint.flushed = mark;
                self.note_progress();
            }
            // What was applied and freed may be lost from the image; the journal has it still, so
            // opening anew brings it back. Nothing else can (INV-6).
            Err(failure) => self.fail(failure),
        }
    }

    fn write_record(&mut self) {
        let mut mark = self.checkpoint.flushed;
        if self.sabotage.is(Fault::TrimUnapplied) {
            mark = Mark { sequence: self.replicated, position: self.log.head };
            if !self.frames.is_empty() {
                return;
            }
        }
        let behind = mark.sequence >= self.record.first;
        if !behind || !self.checkpoint.is_idle() || self.checkpoint.retry_at.is_some() {
            return;
        }
        let record = Record {
            tail: mark.position,
            first: mark.sequence + 1,
            durable: self.replicated,
            ..self.record
        };
        self.begin();
        if self.sabotage.is(Fault::ReuseBeforeRecord) {
            self.log.tail = record.tail;
        }
        self.checkpoint.recording = Some(record);
        self.statistics.records += 1;
        self.actions.push_back(Action::Record { expected: self.record, record });
    }

    pub(crate) fn recorded(&mut self, result: Result<(), Failure>) {
        let Some(record) = self.checkpoint.recording.take() else { return };
        match result {
            Ok(()) => {
                self.record = record;
                // Only now may the space be written again: a scan would begin in it.
                self.log.tail = record.tail;
                self.freeing.look();
                self.checkpoint.trimmed_at = self.now;
                self.checkpoint.ring_is_full = false;
                self.checkpoint.is_failing = false;
                self.note_progress();
            }
            Err(Failure::NoSpace) => {
                self.checkpoint.is_failing = true;
                self.checkpoint.retry_at.get_or_insert(self.now + self.config.retry_after);
                self.note_retry(Failure::NoSpace);
            }
            // Whether it was replaced is unknown, so what it would be compared with is too.
            Err(failure) => self.fail(failure),
        }
    }

    fn free_slots(&mut self) {
        let mut before = self.record.tail;
        if self.sabotage.is(Fault::FreeUnrecorded) {
            before = self.log.head;
            self.freeing.look();
        }
        while let Some(slot) = self.freeing.next(before) {
            let owner = self.record.owner();
            self.actions.push_back(Action::FreeSlot { owner, slot, before });
        }
    }

    pub(crate) fn slot_freed(&mut self, slot: u32, result: Result<(), Failure>) {
        // What failed costs space, and nothing else.
        self.freeing.freed(slot, result.is_ok());
        if result == Err(Failure::Fenced) {
            self.fail(Failure::Fenced);
        }
    }

    fn finish_quiescing(&mut self) {
        let trimmed = self.record.first == self.next_sequence && self.checkpoint.is_idle();
        if self.state != State::Quiescing
            || !self.is_all_replicated()
            || !self.unapplied.is_empty()
            || !trimmed
        {
            return;
        }
        self.state = State::Quiesced;
        for token in std::mem::take(&mut self.quiescers) {
            self.complete(token, Ok(()));
        }
    }
}
