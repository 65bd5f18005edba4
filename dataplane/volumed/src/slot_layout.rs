//! Where in a slot's object a frame lies: among its bytes, or in its key-value pairs.
//!
//! An OSD makes bytes durable in two steps (the data, then its own log that says where they
//! are), and a pair in one (that log alone). A small frame, such as the commit of one client, is a
//! pair for that reason; what is larger would cost the log's compaction more than it saves.
//!
//! A pair is named after its frame's position, which never comes again, so what an earlier round of
//! the ring left there is not taken for this one's; and after the owner, since two owners may have
//! written at one position. The bytes need neither: a frame says what it is.

use grampus_journal::{Epoch, Place, SMALL_FRAME_BYTES, Segment};
use grampus_librbd::{Change, Pair};

/// What a slot that was freed has as well, behind all frames' keys; its value is the position that
/// it was freed up to. See [`free`].
const FREED_KEY: &str = "freed";

/// What an append changes, in one operation.
pub(crate) fn append(place: Place, epoch: Epoch, frame: Vec<u8>) -> Change {
    if !is_pair(&frame) {
        return Change::Write { offset_bytes: place.offset, bytes: frame };
    }
    let key = Key { position: place.position, epoch, bytes: frame.len() };
    // The padding is not kept: half of a frame that carries 4 KiB.
    let used = frame.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let mut value = frame;
    value.truncate(used);
    Change::SetKey { key: key.encode(), value }
}

/// What frees a slot of the pairs before a position, in one operation. Never all of the slot: in a
/// full ring the round before is still needed behind the tail. It sets a pair too, since a removal
/// alone may not reach a copy that is brought up to date; see [`Change::RemoveKeysBefore`].
pub(crate) fn free(before: u64) -> Vec<Change> {
    let value = edge(before);
    let removed = Change::RemoveKeysBefore(value.clone());
    vec![removed, Change::SetKey { key: FREED_KEY.to_owned(), value: value.into_bytes() }]
}

/// Whether it becomes a pair.
pub(crate) fn is_pair(frame: &[u8]) -> bool {
    u64::try_from(frame.len()).is_ok_and(|bytes| bytes <= SMALL_FRAME_BYTES)
}

/// Between which keys the pairs of a segment lie.
pub(crate) fn key_range(segment: &Segment) -> (String, String) {
    let first = segment.place.position;
    (edge(first), edge(first + segment.bytes))
}

/// Between which keys the pairs lie that are put where a segment begins.
pub(crate) fn first_key_range(segment: &Segment) -> (String, String) {
    let first = segment.place.position;
    (edge(first), edge(first + 1))
}

/// The segment: the bytes of its slot, with the pairs of its owner where they belong.
pub(crate) fn assemble(segment: &Segment, mut bytes: Vec<u8>, pairs: &[Pair]) -> Vec<u8> {
    for (key, value) in pairs {
        let Some(key) = Key::decode(key).filter(|key| key.epoch == segment.written_by) else {
            continue;
        };
        let offset = key.position.checked_sub(segment.place.position);
        let Some(start) = offset.and_then(|offset| usize::try_from(offset).ok()) else { continue };
        let end = start.saturating_add(key.bytes);
        let fits = u64::try_from(end).is_ok_and(|end| end <= segment.bytes);
        if !fits || value.len() > key.bytes {
            continue;
        }
        bytes.resize(bytes.len().max(end), 0);
        if let Some((data, padding)) =
            bytes.get_mut(start..end).and_then(|part| part.split_at_mut_checked(value.len()))
        {
            data.copy_from_slice(value);
            padding.fill(0);
        }
    }
    bytes
}

/// Before every key of this position and after every key of an earlier one.
fn edge(position: u64) -> String {
    format!("{position:016x}")
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Key {
    position: u64,
    epoch: Epoch,
    /// Of the frame, padding included.
    bytes: usize,
}

impl Key {
    fn encode(&self) -> String {
        format!("{}.{:016x}.{:08x}", edge(self.position), self.epoch.0, self.bytes)
    }

    fn decode(key: &str) -> Option<Self> {
        let mut parts = key.split('.');
        let (position, epoch, bytes) = (parts.next()?, parts.next()?, parts.next()?);
        if parts.next().is_some() {
            return None;
        }
        Some(Self {
            position: u64::from_str_radix(position, 16).ok()?,
            epoch: Epoch(u64::from_str_radix(epoch, 16).ok()?),
            bytes: usize::from_str_radix(bytes, 16).ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use grampus_journal::Ring;
    use proptest::prelude::*;

    use super::*;

    const RING: Ring = Ring { segment_bytes: 64 << 10, segments: 2, align_bytes: 4096 };

    /// One slot's object, as RADOS changes it.
    #[derive(Default)]
    struct Object {
        bytes: Vec<u8>,
        pairs: BTreeMap<String, Vec<u8>>,
    }

    impl Object {
        fn change(&mut self, changes: Vec<Change>) {
            for change in changes {
                match change {
                    Change::Write { offset_bytes, bytes } => {
                        let start = usize::try_from(offset_bytes).unwrap();
                        let end = start + bytes.len();
                        self.bytes.resize(self.bytes.len().max(end), 0);
                        self.bytes[start..end].copy_from_slice(&bytes);
                    }
                    Change::SetKey { key, value } => drop(self.pairs.insert(key, value)),
                    Change::RemoveKeysBefore(key) => {
                        self.pairs.retain(|found, _| *found >= key);
                    }
                }
            }
        }

        fn read(&self, segment: &Segment) -> Vec<u8> {
            let (after, before) = key_range(segment);
            let found = self.pairs.range(after.clone()..before);
            let pairs: Vec<Pair> = found
                .filter(|(key, _)| **key > after)
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect();
            assemble(segment, self.bytes.clone(), &pairs)
        }
    }

    /// A frame whose payload ends in zeros, as a page of a database may.
    fn frame(fill: u8, blocks: usize) -> Vec<u8> {
        let mut frame = vec![0; blocks * 4096];
        frame[..100].fill(fill);
        if blocks > 1 {
            frame[4096] = fill;
        }
        frame
    }

    #[test]
    fn keys_sort_by_position_and_come_back() {
        let key = |position, epoch, bytes| Key { position, epoch: Epoch(epoch), bytes };
        let keys = [key(0, 9, 8192), key(4096, 1, 4096), key(4096, 2, 512), key(1 << 61, 0, 0)];
        for (key, later) in keys.iter().zip(&keys[1..]) {
            assert!(key.encode() < later.encode());
        }
        for key in keys {
            assert_eq!(Key::decode(&key.encode()), Some(key));
            assert!(edge(key.position) < key.encode() && key.encode() < edge(key.position + 1));
        }
        for other in ["", "0", "0.0", "0.0.0.0", "x.0.0", "0..0"] {
            assert_eq!(Key::decode(other), None, "{other}");
        }
    }

    #[test]
    fn small_frames_become_pairs_without_their_padding_and_large_ones_bytes() {
        let place = RING.place(3 * (64 << 10) + 4096);
        let Change::SetKey { key, value } = append(place, Epoch(5), frame(7, 2)) else { panic!() };
        assert_eq!(value.len(), 4097);
        assert_eq!(key, "0000000000031000.0000000000000005.00002000");
        let bytes = frame(7, 3);
        let written = Change::Write { offset_bytes: 4096, bytes: bytes.clone() };
        assert_eq!(append(place, Epoch(5), bytes), written);
    }

    #[test]
    fn what_frees_a_slot_is_not_freed_and_belongs_to_no_segment() {
        let mut object = Object::default();
        for position in [0x30000, 0x31000, 0x32000] {
            object.change(vec![append(RING.place(position), Epoch(5), frame(7, 1))]);
        }
        object.change(free(0x31000));
        object.change(free(0x31000));
        let keys: Vec<&str> = object.pairs.keys().map(|key| &key[..5]).collect();
        assert_eq!(keys, ["00000", "00000", "freed"]);
        assert_eq!(object.pairs["freed"], b"0000000000031000");
        assert_eq!(Key::decode(FREED_KEY), None);
        let (_, before) = key_range(&RING.segment(u64::MAX - (64 << 10), Epoch(5)));
        assert!(before.as_str() < FREED_KEY, "{before}");
    }

    #[test]
    fn pairs_that_do_not_belong_are_left_out() {
        let segment = RING.segment(64 << 10, Epoch(5));
        let pair = |key: &str| (key.to_owned(), vec![1; 4]);
        for key in [
            "0000000000010000.0000000000000004.00001000", // another owner
            "000000000000f000.0000000000000005.00001000", // an earlier segment
            "000000000001f000.0000000000000005.00002000", // into the next one
            "0000000000010000.0000000000000005.00000003", // longer than it says
            "0000000000010000.0000000000000005.ffffffffffffffff",
            "something else",
        ] {
            assert_eq!(assemble(&segment, vec![9; 8], &[pair(key)]), [9; 8], "{key}");
        }
        let own = pair("0000000000010002.0000000000000005.00000005");
        assert_eq!(assemble(&segment, vec![9; 8], &[own]), [9, 9, 1, 1, 1, 1, 0, 9]);
    }

    #[derive(Debug, Clone)]
    enum Act {
        Append {
            blocks: usize,
            arrives: bool,
        },
        /// What lies before the tail is freed.
        Free,
        /// What lies before one of the frames is not needed any more.
        Trim {
            frame: prop::sample::Index,
        },
        /// Another owner, who begins at the next segment or, to be strict, where the last began.
        TakeOver {
            at_the_next: bool,
        },
    }

    fn act() -> impl Strategy<Value = Act> {
        prop_oneof![
            12 => (1..5_usize, prop::bool::weighted(0.9))
                .prop_map(|(blocks, arrives)| Act::Append { blocks, arrives }),
            4 => Just(Act::Free),
            3 => any::<prop::sample::Index>().prop_map(|frame| Act::Trim { frame }),
            1 => any::<bool>().prop_map(|at_the_next| Act::TakeOver { at_the_next }),
        ]
    }

    /// A log of which every segment but those of slot 0 is left out.
    struct Log {
        object: Object,
        epoch: Epoch,
        tail: u64,
        /// Where its newest segment begins, and how much of that is used.
        segment: u64,
        used: u64,
        put: Vec<(u64, Vec<u8>)>,
    }

    impl Log {
        /// Where the next frame goes, or None while the ring is full, as the journal decides it.
        fn reserve(&mut self, bytes: u64) -> Option<Place> {
            if self.used + bytes > RING.segment_bytes {
                (self.segment, self.used) = (self.segment + RING.capacity_bytes(), 0);
            }
            let start = self.segment + self.used;
            if start + bytes > self.tail + RING.capacity_bytes() {
                return None;
            }
            self.used += bytes;
            Some(RING.place(start))
        }

        fn append(&mut self, fill: u8, blocks: usize, arrives: bool) {
            let bytes = frame(fill, blocks);
            let Some(place) = self.reserve(u64::try_from(bytes.len()).unwrap()) else { return };
            // One that gets lost is followed by others, until its owner is gone.
            if arrives {
                self.object.change(vec![append(place, self.epoch, bytes.clone())]);
                self.put.push((place.position, bytes));
            }
        }

        fn trim(&mut self, frame: prop::sample::Index) {
            if !self.put.is_empty() {
                self.tail = frame.get(&self.put).0;
                self.put.retain(|(position, _)| *position >= self.tail);
            }
        }

        fn take_over(&mut self, at_the_next: bool) {
            self.epoch = self.epoch.next();
            self.put.clear();
            self.segment += if at_the_next { RING.capacity_bytes() } else { 0 };
            self.used = 0;
            self.tail = self.segment;
        }
    }

    proptest! {
        /// Whatever earlier rounds and owners left, each frame of this owner that is still needed is
        /// read as it was put.
        #[test]
        fn what_an_owner_put_is_what_is_read(acts in prop::collection::vec(act(), 1..120)) {
            let (object, epoch) = (Object::default(), Epoch(1));
            let put = Vec::new();
            let mut log = Log { object, epoch, tail: 0, segment: 0, used: 0, put };
            for (number, act) in acts.into_iter().enumerate() {
                let fill = u8::try_from(number % 255).unwrap() + 1;
                match act {
                    Act::Append { blocks, arrives } => log.append(fill, blocks, arrives),
                    Act::Free => log.object.change(free(log.tail)),
                    Act::Trim { frame } => log.trim(frame),
                    Act::TakeOver { at_the_next } => log.take_over(at_the_next),
                }
                for (position, bytes) in &log.put {
                    let read = log.object.read(&RING.segment(*position, log.epoch));
                    let at = usize::try_from(position % RING.segment_bytes).unwrap();
                    prop_assert_eq!(read.get(at..at + bytes.len()), Some(&bytes[..]));
                }
            }
        }
    }
}
