//! Numbers that a seed repeats.

/// The `SplitMix64` sequence (Steele, Lea and Flood, 2014): one addition and one mixing a number.
#[derive(Debug, Clone)]
pub struct Random {
    state: u64,
}

impl Random {
    /// The sequence that belongs to `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// A sequence of its own for each `stream` of one `seed`.
    #[must_use]
    pub fn of_stream(seed: u64, stream: u64) -> Self {
        let mut parent = Self::new(seed ^ stream.wrapping_mul(0xd134_2543_de82_ef95));
        Self::new(parent.next_u64())
    }

    /// The next number.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number less than `limit`, each about as likely; 0 when `limit` is 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        let product = u128::from(self.next_u64()) * u128::from(limit);
        // The upper half of a product of two 64-bit numbers fits into 64 bits.
        u64::try_from(product >> 64).unwrap_or_default()
    }

    /// Fill `into` with random bytes.
    pub fn fill(&mut self, into: &mut [u8]) {
        for chunk in into.chunks_mut(8) {
            let bytes = self.next_u64().to_le_bytes();
            for (to, from) in chunk.iter_mut().zip(bytes) {
                *to = from;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeats_from_its_seed_and_differs_by_stream() {
        let numbers = |mut random: Random| (0..4).map(move |_| random.next_u64());
        assert!(numbers(Random::new(7)).eq(numbers(Random::new(7))));
        assert!(numbers(Random::new(7)).ne(numbers(Random::new(8))));
        assert!(numbers(Random::of_stream(7, 0)).ne(numbers(Random::of_stream(7, 1))));
    }

    #[test]
    fn below_reaches_all_and_only_what_it_may() {
        let mut random = Random::new(1);
        let mut seen = [0_u32; 5];
        for _ in 0..1000 {
            let number = usize::try_from(random.below(5)).expect("fits");
            seen[number] += 1;
        }
        assert!(seen.iter().all(|&count| count > 100), "{seen:?}");
        assert_eq!(random.below(0), 0);
    }

    #[test]
    fn fill_ends_where_the_slice_does() {
        for length in 0..20 {
            let mut bytes = vec![0; length + 1];
            Random::new(3).fill(&mut bytes[..length]);
            assert_eq!(bytes[length], 0);
        }
    }
}
