//! What is durable in the journal and not yet in the image.

use std::collections::VecDeque;
use std::time::Duration;

use crate::extent::content::{Content, Payload};
use crate::extent::interval::IntervalMap;
use crate::extent::number::wide;
use crate::extent::span::Span;
use crate::format::frame::Frame;
use crate::journal::batch::EXTENT_COST_BYTES;
use crate::journal::version::{Releases, Version};
use crate::sabotage::{Fault, Sabotage};

/// One change of the image.
#[derive(Debug, Clone)]
pub enum Change {
    /// These bytes, one piece behind the other; together as long as the span.
    Data(Vec<Payload>),
    /// Zeros that keep their space.
    Zeros,
    /// Zeros that may give their space back.
    Discard,
}

/// How far something has come: through a batch, and to the log position behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) sequence: u64,
    pub(crate) position: u64,
}

#[derive(Debug)]
struct Window {
    mark: Mark,
    /// Bytes of the volume of which this frame has the newest unapplied version.
    remaining_bytes: u64,
    since: Duration,
    is_small: bool,
}

#[derive(Debug)]
struct Applying {
    id: u64,
    span: Span,
    /// The ranges it carries, each with the version it carries.
    pieces: Vec<(Span, u64)>,
}

/// An apply to begin.
#[derive(Debug)]
pub(crate) struct Apply {
    pub(crate) id: u64,
    pub(crate) span: Span,
    pub(crate) change: Change,
}

/// The unapplied layer: the newest durable version of each byte, and which frames still need
/// applying.
#[derive(Debug)]
pub(crate) struct Unapplied {
    map: IntervalMap<Version>,
    weight_bytes: u64,
    /// Frames not yet known to be applied, oldest first.
    window: VecDeque<Window>,
    /// How many of them are small.
    small_frames: usize,
    /// Ranges to apply, about oldest first; some no longer hold what they were queued for.
    queue: VecDeque<(u64, Span)>,
    /// Ranges that an apply in flight overlaps.
    blocked: Vec<(u64, Span)>,
    /// Ranges whose apply failed.
    failed: Vec<(u64, Span)>,
    in_flight: Vec<Applying>,
    next_id: u64,
    applied: Mark,
    releases: Releases,
    pub(crate) coalesced_bytes: u64,
    pub(crate) sabotage: Sabotage,
}

impl Unapplied {
    pub(crate) fn new(applied: Mark) -> Self {
        Self {
            map: IntervalMap::default(),
            weight_bytes: 0,
            window: VecDeque::new(),
            small_frames: 0,
            queue: VecDeque::new(),
            blocked: Vec::new(),
            failed: Vec::new(),
            in_flight: Vec::new(),
            next_id: 1,
            applied,
            releases: Releases::default(),
            coalesced_bytes: 0,
            sabotage: Sabotage::default(),
        }
    }

    pub(crate) fn cost_bytes(&self) -> u64 {
        self.weight_bytes + wide(self.map.len()) * EXTENT_COST_BYTES
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.map.is_empty() && self.in_flight.is_empty() && self.window.is_empty()
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Everything through it is in the image, or was overwritten by what is unapplied.
    pub(crate) fn applied(&self) -> Mark {
        self.applied
    }

    /// Since when the oldest frame waits for being applied.
    pub(crate) fn oldest(&self) -> Option<Duration> {
        self.window.front().map(|frame| frame.since)
    }

    /// How many small frames wait for being applied.
    pub(crate) fn small_frames(&self) -> usize {
        self.small_frames
    }

    pub(crate) fn overlapping(&self, span: Span) -> impl Iterator<Item = (Span, &Content)> {
        self.map.overlapping(span).map(|(held, version)| (held, &version.content))
    }

    /// Take in a frame that is durable, as are all before it. `end` is the position behind it.
    pub(crate) fn add(&mut self, frame: &Frame, end: u64, now: Duration) {
        let tag = frame.last;
        let mark = Mark { sequence: tag, position: end };
        let is_small = frame.is_small();
        self.small_frames += usize::from(is_small);
        self.window.push_back(Window { mark, remaining_bytes: 0, since: now, is_small });
        for (span, content) in frame.extents() {
            let (window, weight_bytes) = (&mut self.window, &mut self.weight_bytes);
            let coalesced_bytes = &mut self.coalesced_bytes;
            let version = Version { content: content.clone(), tag };
            self.map.insert(*span, version, |gone, old| {
                forget(window, weight_bytes, gone, old);
                *coalesced_bytes += gone.length();
            });
            self.weight_bytes += content.weight_bytes(span.length());
            if let Some(newest) = self.window.back_mut() {
                newest.remaining_bytes += span.length();
            }
            self.queue.push_back((tag, *span));
        }
        self.advance();
    }

    /// The next change of the image: as much as lies side by side, up to `max_bytes` of data.
    /// Never overlaps one in flight, since those have no order.
    pub(crate) fn next_apply(&mut self, max_bytes: u64) -> Option<Apply> {
        while let Some((tag, span)) = self.queue.pop_front() {
            let wanted = self.map.overlapping(span).find(|(_, version)| version.tag == tag);
            let Some((first, _)) = wanted else { continue };
            if first.end() < span.end() {
                self.queue.push_front((tag, Span::between(first.end(), span.end())));
            }
            if self.is_busy(first) {
                self.blocked.push((tag, first));
                continue;
            }
            return self.begin(first, max_bytes);
        }
        None
    }

    fn is_busy(&self, span: Span) -> bool {
        let overlaps = self.in_flight.iter().any(|apply| apply.span.overlaps(span));
        overlaps && !self.sabotage.is(Fault::OverlappingApplies)
    }

    fn begin(&mut self, first: Span, max_bytes: u64) -> Option<Apply> {
        let (_, seed) = self.map.beginning_at(first.start())?;
        let mut span = first;
        let mut grow = |found: Option<(Span, &Version)>, back: bool| {
            let (next, version) = found?;
            let within = span.length() + next.length() <= max_bytes;
            if !within || !version.content.same_kind(&seed.content) || self.is_busy(next) {
                return None;
            }
            span = if back {
                Span::between(next.start(), span.end())
            } else {
                Span::between(span.start(), next.end())
            };
            Some(span)
        };
        let mut reach = first;
        while let Some(grown) = grow(self.map.beginning_at(reach.end()), false) {
            reach = grown;
        }
        while let Some(grown) = grow(self.map.ending_at(reach.start()), true) {
            reach = grown;
        }
        let pieces = self.map.overlapping(reach).map(|(held, version)| (held, version.tag));
        let pieces = pieces.collect();
        let change = match &seed.content {
            Content::Zeros => Change::Zeros,
            Content::Discard => Change::Discard,
            Content::Data(_) => Change::Data(self.payloads(reach)),
        };
        let id = self.next_id;
        self.next_id += 1;
        self.in_flight.push(Applying { id, span: reach, pieces });
        Some(Apply { id, span: reach, change })
    }

    fn payloads(&self, span: Span) -> Vec<Payload> {
        let payload = |(_, version): (Span, &Version)| match &version.content {
            Content::Data(payload) => Some(payload.clone()),
            Content::Zeros | Content::Discard => None,
        };
        self.map.overlapping(span).filter_map(payload).collect()
    }

    /// An apply ended. Returns how many bytes of memory it freed; None if there was no such apply.
    pub(crate) fn complete(&mut self, id: u64, succeeded: bool) -> Option<u64> {
        let index = self.in_flight.iter().position(|apply| apply.id == id)?;
        let apply = self.in_flight.swap_remove(index);
        let cost_before = self.cost_bytes();
        if succeeded {
            for (span, tag) in apply.pieces {
                self.release(span, tag);
            }
        } else {
            self.failed.extend(apply.pieces.into_iter().map(|(span, tag)| (tag, span)));
        }
        for range in self.blocked.drain(..) {
            self.queue.push_front(range);
        }
        self.advance();
        Some(cost_before.saturating_sub(self.cost_bytes()))
    }

    /// Free what of `span` still has the version that was applied; newer bytes stay.
    fn release(&mut self, span: Span, tag: u64) {
        let any = self.sabotage.is(Fault::FreeOnOldApply);
        let (window, weight_bytes) = (&mut self.window, &mut self.weight_bytes);
        let old = |version| any || version == tag;
        self.releases.release(&mut self.map, span, old, |gone, version| {
            forget(window, weight_bytes, gone, version);
        });
    }

    /// Let what failed be tried again.
    pub(crate) fn retry(&mut self) {
        for range in self.failed.drain(..) {
            self.queue.push_front(range);
        }
    }

    fn advance(&mut self) {
        while self.window.front().is_some_and(|frame| frame.remaining_bytes == 0) {
            let Some(frame) = self.window.pop_front() else { return };
            self.small_frames -= usize::from(frame.is_small);
            self.applied = frame.mark;
        }
        // Ranges of frames that were overwritten wholly are never looked at otherwise.
        while self.queue.front().is_some_and(|(tag, _)| *tag <= self.applied.sequence) {
            self.queue.pop_front();
        }
    }
}

/// Account for bytes that no longer hold the version they held.
fn forget(window: &mut VecDeque<Window>, weight_bytes: &mut u64, gone: Span, old: &Version) {
    *weight_bytes = weight_bytes.saturating_sub(old.content.weight_bytes(gone.length()));
    let index = window.partition_point(|frame| frame.mark.sequence < old.tag);
    if let Some(frame) = window.get_mut(index) {
        frame.remaining_bytes = frame.remaining_bytes.saturating_sub(gone.length());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::format::ids::{Epoch, VolumeId};

    fn frame(last: u64, extents: &[(u64, &[u8])]) -> Frame {
        let extent = |&(start, bytes): &(u64, &[u8])| {
            let span = Span::new(start, wide(bytes.len())).unwrap();
            (span, Content::Data(Payload::copy_of(bytes)))
        };
        let extents: Vec<_> = extents.iter().map(extent).collect();
        Frame::new((VolumeId([0; 16]), Epoch(1)), (last, last), Arc::from(extents), 512, None)
    }

    fn unapplied() -> Unapplied {
        Unapplied::new(Mark { sequence: 0, position: 0 })
    }

    fn bytes(apply: &Apply) -> Vec<u8> {
        let Change::Data(payloads) = &apply.change else { panic!("no data") };
        payloads.iter().flat_map(|payload| payload.as_slice().to_vec()).collect()
    }

    #[test]
    fn neighbours_travel_together_and_newest_data_with_them() {
        let mut unapplied = unapplied();
        unapplied.add(&frame(1, &[(0, b"aaaa"), (8, b"cccc")]), 512, Duration::ZERO);
        unapplied.add(&frame(2, &[(4, b"bbbb"), (2, b"xx")]), 1024, Duration::ZERO);
        let apply = unapplied.next_apply(100).unwrap();
        assert_eq!(
            (apply.span, bytes(&apply)),
            (Span::new(0, 12).unwrap(), b"aaxxbbbbcccc".into())
        );
        assert!(unapplied.next_apply(100).is_none(), "all of it is in flight");
        unapplied.complete(apply.id, true).unwrap();
        assert_eq!(unapplied.applied(), Mark { sequence: 2, position: 1024 });
        assert!(unapplied.is_empty());
    }

    #[test]
    fn an_old_apply_frees_nothing_newer_and_the_newer_one_waits_for_it() {
        let mut unapplied = unapplied();
        unapplied.add(&frame(1, &[(0, b"aaaa")]), 512, Duration::ZERO);
        let old = unapplied.next_apply(100).unwrap();
        unapplied.add(&frame(2, &[(2, b"bb")]), 1024, Duration::ZERO);
        assert!(unapplied.next_apply(100).is_none(), "it overlaps one in flight");
        unapplied.complete(old.id, true).unwrap();
        assert_eq!(unapplied.applied().sequence, 1);
        let new = unapplied.next_apply(100).unwrap();
        assert_eq!((new.span, bytes(&new)), (Span::new(2, 2).unwrap(), b"bb".into()));
        unapplied.complete(new.id, true).unwrap();
        assert_eq!((unapplied.applied().sequence, unapplied.cost_bytes()), (2, 0));
    }

    #[test]
    fn a_frame_that_was_overwritten_wholly_needs_no_apply() {
        let mut unapplied = unapplied();
        for last in 1..=1000 {
            unapplied.add(&frame(last, &[(0, b"aaaa")]), last * 512, Duration::ZERO);
        }
        assert_eq!(unapplied.applied(), Mark { sequence: 999, position: 999 * 512 });
        assert!(unapplied.queue.len() <= 1, "a hot block queues no more than itself");
        assert_eq!(unapplied.coalesced_bytes, 999 * 4);
    }

    #[test]
    fn a_failed_apply_is_kept_and_tried_again() {
        let mut unapplied = unapplied();
        unapplied.add(&frame(1, &[(0, b"aaaa")]), 512, Duration::ZERO);
        let id = unapplied.next_apply(100).unwrap().id;
        assert_eq!(unapplied.complete(id, false), Some(0));
        assert!(unapplied.next_apply(100).is_none());
        unapplied.retry();
        assert_eq!(bytes(&unapplied.next_apply(100).unwrap()), b"aaaa");
        assert_eq!(unapplied.complete(99, true), None, "unknown");
    }
}
