//! Writes on their way into the journal.

use std::sync::Arc;
use std::time::Duration;

use grampus_blockdev::Token;

use crate::extent::content::Content;
use crate::extent::interval::IntervalMap;
use crate::extent::number::wide;
use crate::extent::span::Span;

/// What an extent is taken to cost in memory beside its data: its entry in a map, its counters.
pub(crate) const EXTENT_COST_BYTES: u64 = 128;

/// What a change may add to a batch's cost: a write in the middle of another cuts it in two.
pub(crate) fn cost_of_change(weight_bytes: u64) -> u64 {
    weight_bytes + 2 * EXTENT_COST_BYTES
}

/// Changes that are appended together; the newest of each byte.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    map: IntervalMap<Content>,
    weight_bytes: u64,
}

impl Batch {
    /// Returns how many bytes were overwritten within the batch.
    pub(crate) fn insert(&mut self, span: Span, content: Content) -> u64 {
        let added = content.weight_bytes(span.length());
        let (mut freed, mut overwritten) = (0, 0);
        self.map.insert(span, content, |gone, old| {
            overwritten += gone.length();
            freed += old.weight_bytes(gone.length());
        });
        self.weight_bytes = (self.weight_bytes + added).saturating_sub(freed);
        overwritten
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    pub(crate) fn cost_bytes(&self) -> u64 {
        self.weight_bytes + wide(self.map.len()) * EXTENT_COST_BYTES
    }

    pub(crate) fn overlapping(&self, span: Span) -> impl Iterator<Item = (Span, &Content)> {
        self.map.overlapping(span)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Span, &Content)> {
        self.map.iter()
    }

    pub(crate) fn extents(&self) -> Arc<[(Span, Content)]> {
        self.map.iter().map(|(span, content)| (span, content.clone())).collect()
    }
}

/// The extents of several batches in order, newest wins: one frame is whole or absent, so what is
/// between the batches need not be kept.
pub(crate) fn merge<'a>(batches: impl Iterator<Item = &'a Batch>) -> Arc<[(Span, Content)]> {
    let mut merged = Batch::default();
    for batch in batches {
        for (span, content) in batch.iter() {
            merged.insert(span, content.clone());
        }
    }
    merged.extents()
}

/// The batch that takes writes.
#[derive(Debug, Default)]
pub(crate) struct Open {
    pub(crate) batch: Batch,
    /// When its first write came.
    pub(crate) since: Duration,
    /// Flushes and FUA writes that complete with it.
    pub(crate) waiters: Vec<Token>,
}

/// A batch that takes no more writes and is not yet durable in the cluster.
#[derive(Debug)]
pub(crate) struct Closed {
    pub(crate) sequence: u64,
    pub(crate) batch: Batch,
    pub(crate) cost_bytes: u64,
    pub(crate) since: Duration,
    pub(crate) waiters: Vec<Token>,
    /// When it was acknowledged, in cache mode before it is durable in the cluster.
    pub(crate) acknowledged: Option<Duration>,
}
