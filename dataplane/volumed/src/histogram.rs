//! Latencies counted in buckets whose width grows with the value.
//!
//! Every power of two of nanoseconds is cut into [`SUB_BUCKETS`] equal buckets ("log-linear"),
//! so a quantile is off by at most one bucket's width, 1/32 of the value. Counting is one atomic
//! addition, and histograms add up bucket by bucket: threads keep one each, to be merged.

use std::sync::atomic::{AtomicU64, Ordering};

/// Buckets per power of two.
pub const SUB_BUCKETS: u64 = 32;
const SUB_BUCKET_BITS: u32 = 5;
/// Values from 2^40 ns (18 minutes) on share the last bucket; the largest is kept exactly.
const TOP_BIT: u32 = 40;
/// A row of exact values below 32 ns, a row for each power of two from 2^5 to 2^39 ns, and one
/// bucket for all that is longer.
const BUCKETS: usize = 36 * 32 + 1;

/// The bucket of a value, below [`BUCKETS`].
fn bucket_of(value_ns: u64) -> usize {
    if value_ns < SUB_BUCKETS {
        return usize::try_from(value_ns).unwrap_or(BUCKETS - 1);
    }
    let top_bit = value_ns.ilog2();
    if top_bit >= TOP_BIT {
        return BUCKETS - 1;
    }
    let shift = top_bit - SUB_BUCKET_BITS;
    // `value_ns >> shift` is 32..64: the row's first bucket is 32 * (shift + 1).
    let place = u64::from(shift) * SUB_BUCKETS + (value_ns >> shift);
    usize::try_from(place).unwrap_or(BUCKETS - 1)
}

/// The first value after a bucket, in ns.
fn upper_ns(bucket: usize) -> u64 {
    let place = u64::try_from(bucket).unwrap_or(u64::MAX);
    if place < SUB_BUCKETS {
        return place + 1;
    }
    if bucket >= BUCKETS - 1 {
        return u64::MAX;
    }
    let shift = place / SUB_BUCKETS - 1;
    (SUB_BUCKETS + place % SUB_BUCKETS + 1) << shift
}

/// Counts that many threads may add to without a lock.
#[derive(Debug)]
pub struct Histogram {
    counts: Box<[AtomicU64]>,
    sum_ns: AtomicU64,
    min_ns: AtomicU64,
    max_ns: AtomicU64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            counts: (0..BUCKETS).map(|_| AtomicU64::new(0)).collect(),
            sum_ns: AtomicU64::new(0),
            min_ns: AtomicU64::new(u64::MAX),
            max_ns: AtomicU64::new(0),
        }
    }
}

impl Histogram {
    /// Count one value.
    pub fn record(&self, value_ns: u64) {
        // Each statistic stands alone and none orders memory: relaxed is enough.
        if let Some(count) = self.counts.get(bucket_of(value_ns)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        self.sum_ns.fetch_add(value_ns, Ordering::Relaxed);
        // A plain look first: a new extreme is rare, and the exchange costs a locked cycle.
        if value_ns < self.min_ns.load(Ordering::Relaxed) {
            self.min_ns.fetch_min(value_ns, Ordering::Relaxed);
        }
        if value_ns > self.max_ns.load(Ordering::Relaxed) {
            self.max_ns.fetch_max(value_ns, Ordering::Relaxed);
        }
    }

    /// Add what was counted so far to `total`.
    pub fn add_to(&self, total: &mut Distribution) {
        for (sum, count) in total.counts.iter_mut().zip(&self.counts) {
            *sum += count.load(Ordering::Relaxed);
        }
        total.sum_ns = total.sum_ns.wrapping_add(self.sum_ns.load(Ordering::Relaxed));
        total.min_ns = total.min_ns.min(self.min_ns.load(Ordering::Relaxed));
        total.max_ns = total.max_ns.max(self.max_ns.load(Ordering::Relaxed));
    }
}

/// What histograms held at one moment, merged.
#[derive(Debug, Clone)]
pub struct Distribution {
    counts: Box<[u64]>,
    sum_ns: u64,
    min_ns: u64,
    max_ns: u64,
}

impl Default for Distribution {
    fn default() -> Self {
        Self { counts: vec![0; BUCKETS].into(), sum_ns: 0, min_ns: u64::MAX, max_ns: 0 }
    }
}

impl Distribution {
    /// How many values.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// All values together, in ns.
    #[must_use]
    pub fn sum_ns(&self) -> u64 {
        self.sum_ns
    }

    /// The smallest value in ns; None when there is none.
    #[must_use]
    pub fn min_ns(&self) -> Option<u64> {
        (self.min_ns <= self.max_ns).then_some(self.min_ns)
    }

    /// The largest value in ns; None when there is none.
    #[must_use]
    pub fn max_ns(&self) -> Option<u64> {
        (self.min_ns <= self.max_ns).then_some(self.max_ns)
    }

    /// The value that `per_mille` of 1000 values do not pass, in ns: the nearest rank (of n
    /// values the ceil(n * q)-th smallest), read as the upper edge of its bucket, never more
    /// than the largest value. None when there is no value.
    #[must_use]
    pub fn quantile_ns(&self, per_mille: u64) -> Option<u64> {
        let count = self.count();
        let max_ns = self.max_ns()?;
        let rank = u128::from(count) * u128::from(per_mille.min(1000));
        let rank = rank.div_ceil(1000).max(1);
        let mut seen = 0_u128;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += u128::from(*count);
            if seen >= rank {
                return Some(upper_ns(bucket).saturating_sub(1).clamp(self.min_ns, max_ns));
            }
        }
        Some(max_ns)
    }

    /// The buckets that hold something: first value after the bucket in ns, and its count. The
    /// last bucket has no such value: the largest value stands in its place.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.counts.iter().enumerate().filter(|(_, count)| **count > 0).map(|(bucket, count)| {
            let upper_ns = upper_ns(bucket);
            (if upper_ns == u64::MAX { self.max_ns } else { upper_ns }, *count)
        })
    }

    /// How many values lie below `limit_ns`; exact where it is a power of two.
    #[must_use]
    pub fn count_below(&self, limit_ns: u64) -> u64 {
        let below = |bucket: &usize| upper_ns(*bucket) <= limit_ns;
        (0..BUCKETS).take_while(below).filter_map(|bucket| self.counts.get(bucket)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn distribution(values_ns: impl IntoIterator<Item = u64>) -> Distribution {
        let histogram = Histogram::default();
        for value_ns in values_ns {
            histogram.record(value_ns);
        }
        let mut total = Distribution::default();
        histogram.add_to(&mut total);
        total
    }

    #[test]
    fn buckets_follow_one_another_without_gap_and_hold_what_they_say() {
        let mut lower_ns = 0;
        for bucket in 0..BUCKETS - 1 {
            let upper_ns = upper_ns(bucket);
            assert!(upper_ns > lower_ns, "{bucket}");
            assert_eq!(bucket_of(lower_ns), bucket);
            assert_eq!(bucket_of(upper_ns - 1), bucket);
            assert!((upper_ns - lower_ns) <= (lower_ns / SUB_BUCKETS).max(1), "{bucket}");
            lower_ns = upper_ns;
        }
        assert_eq!(lower_ns, 1 << TOP_BIT);
        for value_ns in [1 << TOP_BIT, u64::MAX] {
            assert_eq!(bucket_of(value_ns), BUCKETS - 1);
        }
    }

    #[test]
    fn quantiles_are_within_one_bucket_of_the_exact_ones() {
        // Values over six decades, in an order of no meaning.
        let mut values_ns: Vec<u64> =
            (0..10_000_u64).map(|i| 1 + (i * 7_919_777) % (1 << (10 + i % 20))).collect();
        let total = distribution(values_ns.iter().copied());
        values_ns.sort_unstable();
        for (per_mille, rank) in [(500, 5000), (900, 9000), (990, 9900), (999, 9990), (1000, 10000)]
        {
            let exact_ns = values_ns[rank - 1];
            let found_ns = total.quantile_ns(per_mille).unwrap();
            assert!(
                found_ns >= exact_ns && found_ns - exact_ns <= exact_ns / SUB_BUCKETS,
                "{per_mille}: {found_ns} for {exact_ns}"
            );
        }
        assert_eq!(total.count(), 10_000);
        assert_eq!(total.sum_ns(), values_ns.iter().sum::<u64>());
        assert_eq!(total.min_ns(), values_ns.first().copied());
        assert_eq!(total.max_ns(), values_ns.last().copied());
    }

    #[test]
    fn one_value_is_every_quantile_and_none_is_none() {
        let one = distribution([123_457]);
        for per_mille in [0, 500, 1000, 5000] {
            assert_eq!(one.quantile_ns(per_mille), Some(123_457));
        }
        let none = distribution([]);
        assert_eq!((none.quantile_ns(500), none.min_ns(), none.max_ns()), (None, None, None));
        assert_eq!(none.buckets().count(), 0);
    }

    #[test]
    fn an_hour_is_counted_and_kept_as_the_largest() {
        let hour_ns = 3_600_000_000_000;
        let total = distribution([1000, hour_ns]);
        assert_eq!(total.quantile_ns(1000), Some(hour_ns));
        assert_eq!(total.buckets().last(), Some((hour_ns, 1)));
        assert_eq!(total.count_below(1 << 30), 1);
        assert_eq!(total.count_below(1024), 1);
        assert_eq!(total.count_below(512), 0);
    }
}
