//! How often blocks were asked for lately, in little memory.
//!
//! A count-min sketch with counters that are halved from time to time, as `TinyLFU` (Einziger,
//! Friedman, Manes, 2017) uses to decide whether a newcomer is worth more than what it would push
//! out. It may overestimate, by blocks that share all their counters; it never underestimates.

/// Each block has one counter in each row.
const ROWS: usize = 3;
/// As far as it counts: what is asked for more often is not told apart.
const MAX_COUNT: u8 = 15;
/// Counters of a row for each slot of the cache. Fewer, and what a scan reads once drowns what is
/// read again only after many other blocks.
const WIDTH: usize = 16;
/// Counts are halved after so many per counter of a row: what is read once in 32 times as many
/// reads as the cache has slots is still told from what is read once ever.
const AGE: u64 = 2;

/// Counts of blocks.
#[derive(Debug)]
pub(crate) struct Frequencies {
    counters: Box<[u8]>,
    /// Of one row.
    width: usize,
    /// Since the counts were halved last.
    noted: u64,
}

impl Frequencies {
    /// For a cache of `slots` blocks.
    pub(crate) fn new(slots: u32) -> Self {
        let slots = usize::try_from(slots).unwrap_or(usize::MAX / 64);
        let width = (slots * WIDTH).max(1);
        Self { counters: vec![0; width * ROWS].into_boxed_slice(), width, noted: 0 }
    }

    /// Count `block` once more.
    pub(crate) fn note(&mut self, block: u64) {
        let least = self.estimate(block);
        if least < MAX_COUNT {
            for place in self.places(block) {
                // A counter that is larger counts others too: raising it would tell nothing.
                if let Some(counter) = self.counters.get_mut(place).filter(|c| **c == least) {
                    *counter += 1;
                }
            }
        }
        self.noted += 1;
        if self.noted >= AGE * u64::try_from(self.width).unwrap_or(u64::MAX / AGE) {
            self.noted = 0;
            for counter in &mut self.counters {
                *counter /= 2;
            }
        }
    }

    /// How often `block` was counted, or a little more.
    pub(crate) fn estimate(&self, block: u64) -> u8 {
        let count = |place: usize| self.counters.get(place).copied();
        self.places(block).into_iter().filter_map(count).min().unwrap_or(0)
    }

    fn places(&self, block: u64) -> [usize; ROWS] {
        let mut hash = mix(block);
        let mut row = 0;
        [(); ROWS].map(|()| {
            let column =
                usize::try_from(hash % u64::try_from(self.width).unwrap_or(1)).unwrap_or(0);
            let place = row * self.width + column;
            row += 1;
            hash = mix(hash);
            place
        })
    }
}

/// The finalizer of `SplitMix64`: neighbours come to lie far apart.
pub(crate) fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_often_has_the_larger_count() {
        let mut frequencies = Frequencies::new(1000);
        for round in 0..3 {
            for block in 0..100 {
                frequencies.note(block);
            }
            for block in 0..300 {
                frequencies.note(1_000_000 + round * 300 + block);
            }
        }
        assert!((0..100).all(|block| frequencies.estimate(block) >= 3));
        let once = (0..900).filter(|block| frequencies.estimate(1_000_000 + block) == 1).count();
        assert!(once > 850, "{once}");
        assert_eq!(frequencies.estimate(5_000_000), 0);
    }

    #[test]
    fn counts_grow_old() {
        let mut frequencies = Frequencies::new(8); // halved after 256
        for _ in 0..50 {
            frequencies.note(1);
        }
        assert_eq!(frequencies.estimate(1), 15);
        for other in 0..520 {
            frequencies.note(1000 + other % 7);
        }
        assert!(frequencies.estimate(1) <= 3, "{}", frequencies.estimate(1));
    }
}
