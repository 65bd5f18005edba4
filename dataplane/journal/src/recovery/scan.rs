//! Finding the frames of a log again.

use crate::extent::number::narrow;
use crate::format::frame::Frame;
use crate::format::header::Glimpse;
use crate::format::record::Record;
use crate::format::ring::Segment;
use crate::format::seal::Opener;
use crate::sabotage::{Fault, Sabotage};

/// Which sequence may follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Continuity {
    /// The next one: the journal in the cluster.
    Unbroken,
    /// Any later one: a local log leaves out what reached the cluster before it.
    Rising,
}

/// Appends in flight at most. A frame that was sent after so many others proves that the first of
/// them was durable: until then it would not have been sent.
pub(crate) const MOST_IN_FLIGHT: u64 = 4;

/// What was seen behind the place where a log ends: what its owner had in flight when it stopped,
/// or the proof that the log does not end there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Beyond {
    /// Frames that begin there.
    frames: u64,
    /// The last batch that one of them knew to be durable.
    pub(crate) durable: u64,
    /// The first batch of the last of them.
    pub(crate) newest: u64,
}

impl Beyond {
    fn note(&mut self, seen: Glimpse) {
        self.frames += 1;
        self.durable = self.durable.max(seen.durable);
        self.newest = self.newest.max(seen.first);
    }

    /// Whether batch `missing`, the first one that is not there, was durable once.
    pub(crate) fn proves_loss_of(self, missing: u64) -> bool {
        self.durable >= missing || self.frames >= MOST_IN_FLIGHT
    }
}

/// Reads frames from the tail on, a segment at a time, until the first place where the next frame
/// is not.
#[derive(Debug)]
pub(crate) struct Scanner {
    record: Record,
    continuity: Continuity,
    position: u64,
    /// The sequence that the next frame begins with.
    expected: u64,
    ended: bool,
    /// The end of the last segment that was read.
    read_to: u64,
    beyond: Beyond,
    /// Where the next frame was looked for first and was not.
    gap: Option<u64>,
    /// Of an encrypted volume.
    opener: Option<Opener>,
    sabotage: Sabotage,
}

impl Scanner {
    pub(crate) fn new(
        record: Record,
        continuity: Continuity,
        opener: Option<Opener>,
        sabotage: Sabotage,
    ) -> Self {
        Self {
            record,
            continuity,
            position: record.tail,
            expected: record.first,
            ended: false,
            read_to: record.tail,
            beyond: Beyond::default(),
            gap: None,
            opener,
            sabotage,
        }
    }

    /// The last batch found.
    pub(crate) fn last(&self) -> u64 {
        self.expected - 1
    }

    /// The position behind the last frame, or the beginning of a segment behind it.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Where the first frame that was not found may begin.
    pub(crate) fn gap(&self) -> u64 {
        self.gap.unwrap_or(self.position)
    }

    /// The segment to read next; None at the end of the log.
    pub(crate) fn segment(&self) -> Option<Segment> {
        let Record { ring, tail, written_by, .. } = self.record;
        let within = self.position - tail < ring.capacity_bytes();
        (!self.ended && within).then(|| ring.segment(self.position, written_by))
    }

    /// What was seen behind the end, as far as it was read.
    pub(crate) fn beyond(&self) -> Beyond {
        self.beyond
    }

    /// The segments that were not read: what lies behind an end that may be none.
    pub(crate) fn unread(&self) -> Vec<Segment> {
        let Record { ring, tail, written_by, .. } = self.record;
        let step = narrow(ring.segment_bytes).max(1);
        let starts = (ring.next_segment(self.read_to)..tail + ring.capacity_bytes()).step_by(step);
        starts.map(|start| ring.segment(start, written_by)).collect()
    }

    /// Whether a segment that was not read begins with a frame from behind the end.
    pub(crate) fn begins_beyond(&self, head: &[u8]) -> Option<Beyond> {
        let Glimpse { first, durable, .. } = self.glimpse(head)?;
        Some(Beyond { frames: 1, durable, newest: first })
    }

    /// Look for frames from behind the end in a segment that was not read before.
    pub(crate) fn look_into(&mut self, bytes: &[u8]) {
        self.look(bytes, 0);
    }

    /// Look at every place of a segment from `offset` on where a frame may begin.
    fn look(&mut self, bytes: &[u8], mut offset: u64) {
        let align_bytes = u64::from(self.record.ring.align_bytes);
        while let Some(rest) = bytes.get(narrow(offset)..).filter(|rest| !rest.is_empty()) {
            let seen = self.glimpse(rest);
            if let Some(seen) = seen {
                self.beyond.note(seen);
            }
            let length = seen.map_or(0, |seen| seen.length.next_multiple_of(align_bytes));
            offset += length.max(align_bytes);
        }
    }

    /// The header of a frame of this log's owner that carries later batches than the one expected.
    /// That it was sent is all that matters, so the rest of it is not looked at.
    fn glimpse(&self, bytes: &[u8]) -> Option<Glimpse> {
        let Record { volume, written_by, .. } = self.record;
        let seen = Frame::glimpse(bytes, volume)?;
        (seen.epoch == written_by && seen.first > self.expected).then_some(seen)
    }

    /// Take the frames out of the segment that `segment` named. What was never written may be
    /// missing at its end.
    pub(crate) fn feed(&mut self, bytes: &[u8], frames: &mut Vec<Frame>) {
        let segment_bytes = self.record.ring.segment_bytes;
        let end = (self.position / segment_bytes + 1) * segment_bytes;
        self.read_to = end;
        while self.position < end {
            let offset = self.position % segment_bytes;
            if let Some(frame) = self.frame_at(bytes, offset, end - self.position) {
                self.position += frame.length_bytes();
                self.expected = frame.last + 1;
                (self.beyond, self.gap) = (Beyond::default(), None);
                frames.push(frame);
            } else if self.sabotage.is(Fault::SkipBroken) {
                self.position += u64::from(self.record.ring.align_bytes);
            } else if offset == 0 {
                self.gap.get_or_insert(self.position);
                self.look(bytes, 0);
                self.ended = true;
                return;
            } else {
                self.gap.get_or_insert(self.position);
                self.look(bytes, offset);
                // A frame that did not fit here begins the next segment. Its sequence proves it.
                self.position = end;
            }
        }
    }

    fn frame_at(&mut self, bytes: &[u8], offset: u64, room: u64) -> Option<Frame> {
        let bytes = bytes.get(narrow(offset)..)?;
        let check = !self.sabotage.is(Fault::SkipChecksum);
        let volume = self.record.volume;
        let frame = match &mut self.opener {
            Some(opener) => Frame::open(bytes, volume, opener),
            None => Frame::decode_checked(bytes, volume, check),
        }
        .ok()?;
        let rising = frame.first >= self.expected;
        let follows = match self.continuity {
            Continuity::Unbroken if self.sabotage.is(Fault::SkipBroken) => rising,
            Continuity::Unbroken => frame.first == self.expected,
            Continuity::Rising => rising,
        };
        // A frame of another owner, at the right place with the right sequence, is what an earlier
        // owner wrote behind a frame that it lost.
        let ours = frame.epoch == self.record.written_by || self.sabotage.is(Fault::TakeAnyEpoch);
        let aligned = frame.length % u64::from(self.record.ring.align_bytes) == 0;
        (follows && ours && aligned && frame.length > 0 && frame.length <= room).then_some(frame)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use grampus_sealing::Secret;

    use super::*;
    use crate::extent::content::{Content, Payload};
    use crate::extent::span::Span;
    use crate::format::ids::Log;
    use crate::format::ids::{Epoch, VolumeId};
    use crate::format::ring::Ring;
    use crate::format::seal::Sealing;

    const VOLUME: VolumeId = VolumeId([4; 16]);
    const RING: Ring = Ring { segment_bytes: 2048, segments: 2, align_bytes: 512 };

    fn sealing() -> Sealing {
        Sealing::new(Secret::parse(&[b'4'; 64]).unwrap(), [9; 16])
    }

    fn put(log: &mut [u8], position: usize, epoch: u64, sequences: (u64, u64), bytes: usize) {
        put_with(None, log, position, epoch, sequences, bytes);
    }

    fn put_with(
        sealing: Option<&Sealing>,
        log: &mut [u8],
        position: usize,
        epoch: u64,
        sequences: (u64, u64),
        bytes: usize,
    ) {
        let key = sealing.map(|sealing| sealing.frame_key(Log::Cluster, VOLUME, Epoch(epoch)));
        let span = Span::new(0, crate::extent::number::wide(bytes)).unwrap();
        let extents = vec![(span, Content::Data(Payload::copy_of(&vec![1; bytes])))];
        let mut frame = Vec::new();
        let owner = (VOLUME, Epoch(epoch));
        Frame::new(owner, sequences, Arc::from(extents), 512, key.as_ref()).encode(&mut frame);
        let at = position % log.len();
        log[at..at + frame.len()].copy_from_slice(&frame);
    }

    fn scan(log: &[u8], tail: u64, first: u64, continuity: Continuity) -> Vec<(u64, u64)> {
        scan_with(None, log, tail, first, continuity)
    }

    fn scan_with(
        sealing: Option<&Sealing>,
        log: &[u8],
        tail: u64,
        first: u64,
        continuity: Continuity,
    ) -> Vec<(u64, u64)> {
        let opener = sealing.map(|sealing| Opener::new(sealing, Log::Cluster));
        let epoch = Epoch(2);
        let record =
            Record { epoch, written_by: epoch, tail, first, ..Record::fresh(VOLUME, RING) };
        let mut scanner = Scanner::new(record, continuity, opener, Sabotage::default());
        let mut frames = Vec::new();
        while let Some(segment) = scanner.segment() {
            let start = usize::try_from(segment.place.slot).unwrap() * 2048;
            scanner.feed(&log[start..start + 2048], &mut frames);
        }
        frames.iter().map(Frame::sequences).collect()
    }

    #[test]
    fn it_follows_the_log_round_the_ring_and_ends_where_the_next_frame_is_not() {
        let mut log = vec![0; 4096];
        put(&mut log, 2048 + 512, 2, (7, 7), 300);
        put(&mut log, 4096, 2, (8, 9), 1000); // did not fit before
        put(&mut log, 4096 + 1536, 2, (10, 10), 10);
        let unbroken = Continuity::Unbroken;
        assert_eq!(scan(&log, 2560, 7, unbroken), [(7, 7), (8, 9), (10, 10)]);
        assert_eq!(scan(&log, 2560, 6, unbroken), []);
        let mut torn = log.clone();
        torn[700] ^= 1; // in the body of 8..9
        assert_eq!(scan(&torn, 2560, 7, unbroken), [(7, 7)], "10 is beyond the broken frame");
        let mut stale = log.clone();
        put(&mut stale, 4096, 1, (8, 9), 1000);
        assert_eq!(scan(&stale, 2560, 7, unbroken), [(7, 7)], "another owner's frame");
        put(&mut log, 4096, 2, (9, 9), 1000);
        assert_eq!(scan(&log, 2560, 7, unbroken), [(7, 7)], "8 is missing");
        assert_eq!(scan(&log, 2560, 7, Continuity::Rising), [(7, 7), (9, 9), (10, 10)]);
    }

    /// As a broken checksum does: what lies behind it is not looked at.
    #[test]
    fn a_sealed_frame_that_is_not_authentic_ends_the_scan() {
        let sealing = sealing();
        let mut log = vec![0; 4096];
        for (index, sequence) in (1..=4).enumerate() {
            put_with(Some(&sealing), &mut log, index * 512, 2, (sequence, sequence), 300);
        }
        let found = |log: &[u8]| scan_with(Some(&sealing), log, 0, 1, Continuity::Unbroken);
        assert_eq!(found(&log), [(1, 1), (2, 2), (3, 3), (4, 4)]);
        assert_eq!(scan(&log, 0, 1, Continuity::Unbroken), [], "without the key");
        let other = Sealing::new(Secret::parse(&[b'5'; 64]).unwrap(), [9; 16]);
        assert_eq!(scan_with(Some(&other), &log, 0, 1, Continuity::Unbroken), []);
        for at in [0, 40, 70, 75, 90, 104, 300] {
            let mut torn = log.clone();
            torn[512 + at] ^= 1;
            assert_eq!(found(&torn), [(1, 1)], "a bit at {at} of the second");
        }
        put(&mut log, 512, 2, (2, 2), 300);
        assert_eq!(found(&log), [(1, 1)], "a frame that is not sealed proves nothing");
        // The same bytes at another place of the same ring say another sequence than is due.
        let (third, rest) = (log[1024..1536].to_vec(), log[1536..2048].to_vec());
        log[512..1024].copy_from_slice(&third);
        log[1024..1536].copy_from_slice(&rest);
        assert_eq!(found(&log), [(1, 1)]);
    }

    #[test]
    fn a_full_ring_is_read_once() {
        let mut log = vec![0; 4096];
        for (index, sequence) in (1..=8).enumerate() {
            put(&mut log, index * 512, 2, (sequence, sequence), 100);
        }
        assert_eq!(scan(&log, 0, 1, Continuity::Unbroken).len(), 8);
        assert_eq!(scan(&[0; 4096], 0, 1, Continuity::Unbroken), []);
    }
}
