//! The log on the host's own disk.

use std::collections::VecDeque;
use std::time::Duration;

use crate::format::frame::Frame;
use crate::format::record::Record;
use crate::format::ring::Place;
use crate::ring::space::LogSpace;

#[derive(Debug)]
struct Sent {
    sequence: u64,
    end: u64,
    durable: bool,
    since: Duration,
}

/// What lies in the local log, and what may leave it.
#[derive(Debug)]
pub(crate) struct Local {
    pub(crate) space: LogSpace,
    /// As it is on the disk.
    pub(crate) record: Record,
    recording: Option<(Record, Duration)>,
    /// Oldest first, until the cluster has them.
    frames: VecDeque<Sent>,
    in_flight: usize,
    /// How many of `frames`, from the oldest on, are durable without a gap.
    sound: usize,
    /// The last batch of those. A scan finds nothing behind a frame that is missing, also when
    /// the cluster has what was in that frame: only up to here the log keeps what it promises.
    pub(crate) sound_through: u64,
    /// The last batch that was sent here, or that reached the cluster without.
    pub(crate) sent: u64,
    replicated: u64,
    /// There was no room for a batch.
    full: bool,
}

impl Local {
    pub(crate) fn new(record: Record, replicated: u64) -> Self {
        Self {
            space: LogSpace::empty_at(record.ring, record.tail),
            record,
            recording: None,
            frames: VecDeque::new(),
            in_flight: 0,
            sound: 0,
            sound_through: replicated,
            sent: replicated,
            replicated,
            full: false,
        }
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Room for `frame`. None: it waits; should it reach the cluster before, it needs none.
    pub(crate) fn reserve(&mut self, frame: &Frame, now: Duration) -> Option<Place> {
        let place = self.space.reserve(frame.length_bytes());
        self.full = place.is_none();
        let place = place?;
        let (_, sequence) = frame.sequences();
        let end = place.position + frame.length_bytes();
        self.frames.push_back(Sent { sequence, end, durable: false, since: now });
        self.sent = sequence;
        self.in_flight += 1;
        Some(place)
    }

    /// Since when the disk owes an answer.
    pub(crate) fn waits_since(&self) -> Option<Duration> {
        let append = self.frames.iter().find(|frame| !frame.durable).map(|frame| frame.since);
        let record = self.recording.map(|(_, since)| since);
        append.into_iter().chain(record).min()
    }

    pub(crate) fn appended(&mut self, sequence: u64) {
        let index = self.frames.partition_point(|frame| frame.sequence < sequence);
        let sent = self.frames.get_mut(index).filter(|frame| frame.sequence == sequence);
        if let Some(frame) = sent.filter(|frame| !frame.durable) {
            frame.durable = true;
            self.in_flight -= 1;
        }
        while let Some(frame) = self.frames.get(self.sound).filter(|frame| frame.durable) {
            self.sound_through = frame.sequence;
            self.sound += 1;
        }
    }

    /// What a journal that does not mind gaps would take for durable.
    pub(crate) fn newest_durable(&self) -> u64 {
        let newest = self.frames.iter().rev().find(|frame| frame.durable);
        newest.map_or(self.sound_through, |frame| frame.sequence)
    }

    pub(crate) fn replicated(&mut self, through: u64) {
        self.replicated = through;
        self.sent = self.sent.max(through);
    }

    /// The record that frees what the cluster has, when it is worth writing. A frame still being
    /// written keeps its place.
    pub(crate) fn trim(&mut self, now: Duration) -> Option<Record> {
        let worth = self.full || self.space.used_bytes() * 2 >= self.space.ring.capacity_bytes();
        if self.recording.is_some() || !worth {
            return None;
        }
        let mut record = self.record;
        while let Some(frame) = self.frames.front() {
            if !frame.durable || frame.sequence > self.replicated {
                break;
            }
            (record.tail, record.first) = (frame.end, frame.sequence + 1);
            self.frames.pop_front();
            self.sound = self.sound.saturating_sub(1);
        }
        let changed = (record != self.record).then_some(record)?;
        self.recording = Some((changed, now));
        Some(changed)
    }

    pub(crate) fn recorded(&mut self) {
        if let Some((record, _)) = self.recording.take() {
            self.space.tail = record.tail;
            self.record = record;
            self.full = false;
        }
    }
}
