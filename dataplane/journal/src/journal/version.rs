//! Content with the batch that brought it, so that what is newer is told from what is older.

use crate::extent::content::Content;
use crate::extent::interval::{IntervalMap, Part};
use crate::extent::span::Span;
use crate::journal::batch::Batch;

/// Content, and the last batch of the frame that carries it.
#[derive(Debug, Clone)]
pub(crate) struct Version {
    pub(crate) content: Content,
    pub(crate) tag: u64,
}

impl Part for Version {
    fn part(&self, from: u64, length: u64) -> Self {
        Self { content: self.content.part(from, length), tag: self.tag }
    }
}

/// Ranges of which some version was let go.
#[derive(Debug, Default)]
pub(crate) struct Releases(Vec<Span>);

impl Releases {
    /// Let go of what of `span` still has a version that `old` accepts; newer bytes stay.
    pub(crate) fn release(
        &mut self,
        map: &mut IntervalMap<Version>,
        span: Span,
        old: impl Fn(u64) -> bool,
        mut gone: impl FnMut(Span, &Version),
    ) {
        let held = map.overlapping(span).filter(|(_, version)| old(version.tag));
        self.0.extend(held.filter_map(|(held, _)| held.intersection(span)));
        for span in self.0.drain(..) {
            map.remove(span, &mut gone);
        }
    }
}

/// The closed layer: the newest bytes of all batches that are not yet durable in the cluster.
/// One map for all of them, since in `cache` mode there can be hundreds.
#[derive(Debug, Default)]
pub(crate) struct Transit {
    map: IntervalMap<Version>,
    releases: Releases,
}

impl Transit {
    pub(crate) fn add(&mut self, batch: &Batch, sequence: u64) {
        for (span, content) in batch.iter() {
            let version = Version { content: content.clone(), tag: sequence };
            self.map.insert(span, version, |_, _| {});
        }
    }

    /// The batch is durable in the cluster: what is held of it is held in `unapplied`.
    pub(crate) fn release(&mut self, batch: &Batch, sequence: u64) {
        for (span, _) in batch.iter() {
            self.releases.release(&mut self.map, span, |tag| tag == sequence, |_, _| {});
        }
    }

    pub(crate) fn overlapping(&self, span: Span) -> impl Iterator<Item = (Span, &Content)> {
        self.map.overlapping(span).map(|(held, version)| (held, &version.content))
    }
}
