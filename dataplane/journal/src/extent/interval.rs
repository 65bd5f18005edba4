//! Byte ranges and what they hold; the newest wins.

use std::collections::BTreeMap;

use crate::extent::span::Span;

/// A value that can be cut where its range is cut.
pub trait Part: Clone {
    /// What `length` bytes from `from` on hold, relative to the start of the value's range.
    #[must_use]
    fn part(&self, from: u64, length: u64) -> Self;
}

/// Ranges that do not overlap, each with a value, at any alignment.
///
/// A write of a range that is held already, the common case of a database page, replaces the value
/// in place and allocates nothing.
#[derive(Debug, Clone)]
pub struct IntervalMap<V> {
    entries: BTreeMap<u64, Entry<V>>,
}

#[derive(Debug, Clone)]
struct Entry<V> {
    end: u64,
    value: V,
}

impl<V> Default for IntervalMap<V> {
    fn default() -> Self {
        Self { entries: BTreeMap::new() }
    }
}

impl<V: Part> IntervalMap<V> {
    /// How many ranges.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether it holds nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Let `span` hold `value`; `displaced` sees each range that held something else, with the
    /// value of the entry it was cut from. An empty span changes nothing.
    pub fn insert(&mut self, span: Span, value: V, mut displaced: impl FnMut(Span, &V)) {
        if span.is_empty() {
            return;
        }
        if let Some(entry) = self.entries.get_mut(&span.start()) {
            if entry.end == span.end() {
                displaced(span, &entry.value);
                entry.value = value;
                return;
            }
        }
        self.remove(span, displaced);
        self.entries.insert(span.start(), Entry { end: span.end(), value });
    }

    /// Let `span` hold nothing; `displaced` as in [`Self::insert`].
    pub fn remove(&mut self, span: Span, mut displaced: impl FnMut(Span, &V)) {
        if span.is_empty() {
            return;
        }
        self.cut_what_begins_before(span, &mut displaced);
        while let Some((&start, _)) = self.entries.range(span.start()..span.end()).next() {
            let Some(entry) = self.entries.remove(&start) else { return };
            displaced(Span::between(start, entry.end.min(span.end())), &entry.value);
            if entry.end > span.end() {
                let (cut, rest) = (span.end() - start, entry.end - span.end());
                let value = entry.value.part(cut, rest);
                self.entries.insert(span.end(), Entry { end: entry.end, value });
            }
        }
    }

    fn cut_what_begins_before(&mut self, span: Span, displaced: &mut impl FnMut(Span, &V)) {
        let Some((&start, entry)) = self.entries.range_mut(..span.start()).next_back() else {
            return;
        };
        if entry.end <= span.start() {
            return;
        }
        let end = entry.end;
        displaced(Span::between(span.start(), end.min(span.end())), &entry.value);
        let tail =
            (end > span.end()).then(|| entry.value.part(span.end() - start, end - span.end()));
        entry.value = entry.value.part(0, span.start() - start);
        entry.end = span.start();
        if let Some(value) = tail {
            self.entries.insert(span.end(), Entry { end, value });
        }
    }

    /// Every range that shares a byte with `span`, whole, in order.
    pub fn overlapping(&self, span: Span) -> impl Iterator<Item = (Span, &V)> {
        let whole = |(&start, entry): (&u64, &'_ Entry<V>)| Span::between(start, entry.end);
        let before = self.entries.range(..span.start()).next_back();
        before
            .filter(|(_, entry)| entry.end > span.start() && !span.is_empty())
            .into_iter()
            .chain(self.entries.range(span.start()..span.end()))
            .map(move |(start, entry)| (whole((start, entry)), &entry.value))
    }

    /// All ranges in order.
    pub fn iter(&self) -> impl Iterator<Item = (Span, &V)> {
        self.entries.iter().map(|(&start, entry)| (Span::between(start, entry.end), &entry.value))
    }

    /// The range that begins at `start`.
    #[must_use]
    pub fn beginning_at(&self, start: u64) -> Option<(Span, &V)> {
        self.entries.get(&start).map(|entry| (Span::between(start, entry.end), &entry.value))
    }

    /// The range that ends at `end`.
    #[must_use]
    pub fn ending_at(&self, end: u64) -> Option<(Span, &V)> {
        let (&start, entry) = self.entries.range(..end).next_back()?;
        (entry.end == end).then(|| (Span::between(start, end), &entry.value))
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// What a byte holds: which write, and which byte of it.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    struct Stamp {
        write: usize,
        first: u64,
    }

    impl Part for Stamp {
        fn part(&self, from: u64, _length: u64) -> Self {
            Self { write: self.write, first: self.first + from }
        }
    }

    const SIZE: u64 = 96;

    fn bytes_of(map: &IntervalMap<Stamp>, span: Span) -> Vec<Option<Stamp>> {
        let mut bytes = vec![None; usize::try_from(span.length()).unwrap()];
        for (held, stamp) in map.overlapping(span) {
            let shared = held.intersection(span).expect("what is found overlaps");
            for at in shared.start()..shared.end() {
                let byte = &mut bytes[usize::try_from(at - span.start()).unwrap()];
                assert!(byte.is_none(), "entries overlap at {at}");
                *byte = Some(stamp.part(at - held.start(), 1));
            }
        }
        bytes
    }

    proptest! {
        #[test]
        fn it_is_a_vector_of_bytes(
            changes in vec((0..SIZE, 0..40_u64, any::<bool>()), 1..60),
            look in (0..SIZE, 0..SIZE),
        ) {
            let mut map = IntervalMap::default();
            let mut model: Vec<Option<Stamp>> = vec![None; 96];
            for (write, (start, length, insert)) in changes.into_iter().enumerate() {
                let span = Span::new(start, length.min(SIZE - start)).unwrap();
                let mut displaced = vec![None; 96];
                let mut note = |gone: Span, stamp: &Stamp| {
                    for at in gone.start()..gone.end() {
                        displaced[usize::try_from(at).unwrap()] = Some(stamp.write);
                    }
                };
                if insert {
                    map.insert(span, Stamp { write, first: 0 }, &mut note);
                } else {
                    map.remove(span, &mut note);
                }
                for at in 0..96 {
                    let place = u64::try_from(at).unwrap();
                    if (span.start()..span.end()).contains(&place) {
                        prop_assert_eq!(displaced[at], model[at].map(|stamp| stamp.write));
                        let first = place - span.start();
                        model[at] = insert.then_some(Stamp { write, first });
                    } else {
                        prop_assert_eq!(displaced[at], None);
                    }
                }
            }
            let look = Span::new(look.0, look.1.min(SIZE - look.0)).unwrap();
            let (from, to) = (look.start(), look.end());
            let expected = &model[usize::try_from(from).unwrap()..usize::try_from(to).unwrap()];
            prop_assert_eq!(bytes_of(&map, look), expected);
            prop_assert_eq!(bytes_of(&map, Span::new(0, SIZE).unwrap()), model);
            for (span, _) in map.iter() {
                prop_assert_eq!(map.beginning_at(span.start()).map(|found| found.0), Some(span));
                prop_assert_eq!(map.ending_at(span.end()).map(|found| found.0), Some(span));
            }
        }
    }

    #[test]
    fn the_same_range_again_replaces_in_place() {
        let mut map = IntervalMap::default();
        let span = Span::new(8, 8).unwrap();
        map.insert(span, Stamp { write: 1, first: 0 }, |_, _| panic!("nothing was there"));
        let mut seen = Vec::new();
        map.insert(span, Stamp { write: 2, first: 0 }, |gone, old| seen.push((gone, old.write)));
        assert_eq!((map.len(), seen), (1, vec![(span, 1)]));
    }
}
