//! What the cache did, in numbers.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

/// Counts since the cache was made. The names of its fields are those of volumed's protocol.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Statistics {
    /// Whether it still answers and keeps anything.
    pub on: bool,
    /// What it can hold.
    pub capacity_bytes: u64,
    /// What its blocks take of that, also those that are there in part.
    pub used_bytes: u64,
    /// Reads answered from the file.
    pub hits: u64,
    /// Bytes of them.
    pub hit_bytes: u64,
    /// Reads answered from below.
    pub misses: u64,
    /// Bytes of them.
    pub miss_bytes: u64,
    /// Misses that brought what lies around them too, since the cache had room.
    pub wide: u64,
    /// Reads that were sent below although the block was here: the threads of the cache were all
    /// busy. They are misses too.
    pub busy: u64,
    /// Reads whose block left the cache while they waited. They are misses too.
    pub moved: u64,
    /// Pieces that were put into the cache.
    pub fills: u64,
    /// Bytes of them.
    pub fill_bytes: u64,
    /// Pieces that were not, since they were not worth what they would have pushed out.
    pub refused: u64,
    /// Pieces that were not, since too much waited to be written.
    pub dropped: u64,
    /// Pieces that were not, since the block was changed meanwhile.
    pub barred: u64,
    /// Blocks that were pushed out.
    pub evictions: u64,
    /// Blocks that left, or some of whose sectors did, because they were changed.
    pub invalidations: u64,
    /// Reads of the file that brought something else than what was written.
    pub checksum_failures: u64,
}

/// A count that any thread raises.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, number: u64) {
        self.0.fetch_add(number, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) hits: Counter,
    pub(crate) hit_bytes: Counter,
    pub(crate) misses: Counter,
    pub(crate) miss_bytes: Counter,
    pub(crate) wide: Counter,
    pub(crate) busy: Counter,
    pub(crate) moved: Counter,
    pub(crate) fills: Counter,
    pub(crate) fill_bytes: Counter,
    pub(crate) refused: Counter,
    pub(crate) dropped: Counter,
    pub(crate) barred: Counter,
    pub(crate) evictions: Counter,
    pub(crate) invalidations: Counter,
    pub(crate) checksum_failures: Counter,
}

impl Counters {
    pub(crate) fn read(&self) -> Statistics {
        Statistics {
            on: false,
            capacity_bytes: 0,
            used_bytes: 0,
            hits: self.hits.get(),
            hit_bytes: self.hit_bytes.get(),
            misses: self.misses.get(),
            miss_bytes: self.miss_bytes.get(),
            wide: self.wide.get(),
            busy: self.busy.get(),
            moved: self.moved.get(),
            fills: self.fills.get(),
            fill_bytes: self.fill_bytes.get(),
            refused: self.refused.get(),
            dropped: self.dropped.get(),
            barred: self.barred.get(),
            evictions: self.evictions.get(),
            invalidations: self.invalidations.get(),
            checksum_failures: self.checksum_failures.get(),
        }
    }
}
