//! A journal whose actions a test answers.

use std::time::Duration;

use grampus_blockdev::{Durability, Offset, Token};
use grampus_journal::{
    Action, CacheConfig, Config, Epoch, Event, Failure, Journal, Opened, Payload, Record, Report,
    Ring, VolumeId,
};

pub(crate) const RING: Ring = Ring { segment_bytes: 64 << 10, segments: 4, align_bytes: 4096 };
pub(crate) const CACHE: CacheConfig = CacheConfig {
    ring: RING,
    max_appends: 2,
    max_lag: Duration::from_millis(100),
    max_lag_bytes: 32 << 10,
    ship_after: Duration::from_millis(25),
    give_up_after: Duration::from_secs(5),
};

pub(crate) fn ms(number: u64) -> Duration {
    Duration::from_millis(number)
}

pub(crate) fn config() -> Config {
    Config {
        ring: RING,
        max_write_bytes: 16 << 10,
        max_batch_bytes: 32 << 10,
        max_held_bytes: 128 << 10,
        max_appends: 2,
        max_applies: 4,
        max_apply_bytes: 64 << 10,
        idle_after: Duration::from_secs(600),
        ..Config::default()
    }
}

/// A journal, and what it wants done that was not yet answered.
pub(crate) struct Bench {
    pub(crate) journal: Journal,
    pub(crate) wanted: Vec<Action>,
    pub(crate) answers: Vec<(u64, Result<(), Failure>)>,
    pub(crate) reports: Vec<Report>,
    pub(crate) now: Duration,
}

impl Bench {
    pub(crate) fn new(config: Config) -> Self {
        let record = |ring| Record { epoch: Epoch(1), ..Record::fresh(VolumeId([1; 16]), ring) };
        let opened = Opened {
            record: record(config.ring),
            local: config.cache.map(|cache| record(cache.ring)),
            size_bytes: 1 << 20,
        };
        let journal = Journal::new(config, opened, Duration::ZERO).expect("sound settings");
        Self {
            journal,
            wanted: Vec::new(),
            answers: Vec::new(),
            reports: Vec::new(),
            now: Duration::ZERO,
        }
    }

    pub(crate) fn collect(&mut self) {
        while let Some(action) = self.journal.next_action() {
            match action {
                Action::Complete { token, result } => self.answers.push((token.0, result)),
                Action::Report(report) => self.reports.push(report),
                other => self.wanted.push(other),
            }
        }
    }

    pub(crate) fn write(&mut self, start: u64, bytes: &[u8]) {
        let payload = Payload::copy_of(bytes);
        self.journal
            .write(self.now, Offset::new(start).unwrap(), payload, Durability::OnFlush, Token(0))
            .expect("there is room");
        self.collect();
    }

    pub(crate) fn flush(&mut self, token: u64) {
        self.journal.flush(self.now, Token(token));
        self.collect();
    }

    pub(crate) fn handle(&mut self, event: Event) {
        self.journal.handle(self.now, event);
        self.collect();
    }

    pub(crate) fn at(&mut self, now: Duration) {
        self.now = now;
        self.handle(Event::Tick);
    }

    pub(crate) fn appends(&self) -> Vec<(u64, u64)> {
        let sequences = |action: &Action| match action {
            Action::Append { frame, .. } => Some(frame.sequences()),
            _ => None,
        };
        self.wanted.iter().filter_map(sequences).collect()
    }

    pub(crate) fn appended(&mut self, last: u64, result: Result<(), Failure>) {
        self.handle(Event::Appended { last, result });
    }

    pub(crate) fn locally(&mut self, last: u64, result: Result<(), Failure>) {
        self.handle(Event::AppendedLocally { last, result });
    }

    /// Answer everything that is wanted until nothing is.
    pub(crate) fn answer_all(&mut self) {
        while !self.wanted.is_empty() {
            self.answer_first();
        }
    }

    /// Answer what was wanted first.
    pub(crate) fn answer_first(&mut self) {
        let event = match self.wanted.remove(0) {
            Action::Append { frame, .. } => {
                Event::Appended { last: frame.sequences().1, result: Ok(()) }
            }
            Action::AppendLocally { frame, .. } => {
                Event::AppendedLocally { last: frame.sequences().1, result: Ok(()) }
            }
            Action::Apply { id, .. } => Event::Applied { id, result: Ok(()) },
            Action::FlushImage => Event::ImageFlushed(Ok(())),
            Action::Record { .. } => Event::Recorded(Ok(())),
            Action::RecordLocally { .. } => Event::RecordedLocally(Ok(())),
            Action::FreeSlot { slot, .. } => Event::SlotFreed { slot, result: Ok(()) },
            Action::Complete { .. } | Action::Report(_) => panic!("collected"),
        };
        self.handle(event);
    }
}
