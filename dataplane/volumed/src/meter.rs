//! Statistics of a volume: operations, bytes, errors and latencies by kind.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::histogram::{Distribution, Histogram};
use crate::kind::Kind;
use crate::shard;

/// What one request came to.
#[derive(Debug, Clone, Copy)]
pub struct Measurement {
    /// What it did.
    pub kind: Kind,
    /// What it moved or zeroed; counted only when it succeeded.
    pub bytes: u64,
    /// From its arrival at the gate, a pause included, to its answer.
    pub latency_ns: u64,
    /// Whether it succeeded.
    pub ok: bool,
}

/// Counters since the daemon started.
///
/// Each thread counts in a copy of its own; recording takes three relaxed atomic additions, no
/// lock and no allocation.
#[derive(Debug)]
pub struct Meter {
    shards: Box<[Shard]>,
}

#[derive(Debug, Default)]
struct Shard {
    kinds: [Counters; Kind::ALL.len()],
}

#[derive(Debug, Default)]
#[repr(align(128))] // two cache lines: the next kind, or shard, is another thread's
struct Counters {
    bytes: AtomicU64,
    errors: AtomicU64,
    latency: Histogram,
}

/// The counters of one kind at one moment.
#[derive(Debug, Clone, Default)]
pub struct KindTotals {
    /// Bytes of those that succeeded.
    pub bytes: u64,
    /// How many failed; they are in `latency` too.
    pub errors: u64,
    /// Every finished request; its count is the number of operations.
    pub latency: Distribution,
}

impl Meter {
    /// A meter for the threads of a machine with `cpus` CPUs; about 50 KB for each.
    #[must_use]
    pub fn new(cpus: usize) -> Self {
        Self { shards: (0..shard::copies_for(cpus)).map(|_| Shard::default()).collect() }
    }

    /// Count a request.
    pub fn record(&self, measurement: Measurement) {
        let Some(counters) = shard::own(&self.shards)
            .and_then(|shard| shard.kinds.get(usize::from(measurement.kind.code())))
        else {
            return;
        };
        counters.latency.record(measurement.latency_ns);
        if measurement.ok {
            counters.bytes.fetch_add(measurement.bytes, Ordering::Relaxed);
        } else {
            counters.errors.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// What was counted so far of one kind, over all threads. Requests that finish meanwhile may
    /// be counted in part: an operation without its bytes.
    #[must_use]
    pub fn totals(&self, kind: Kind) -> KindTotals {
        let mut totals = KindTotals::default();
        for shard in &self.shards {
            if let Some(counters) = shard.kinds.get(usize::from(kind.code())) {
                totals.bytes += counters.bytes.load(Ordering::Relaxed);
                totals.errors += counters.errors.load(Ordering::Relaxed);
                counters.latency.add_to(&mut totals.latency);
            }
        }
        totals
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn threads_that_count_at_once_lose_nothing() {
        let meter = Arc::new(Meter::new(2));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for turn in 0..10_000_u64 {
                        meter.record(Measurement {
                            kind: Kind::Write,
                            bytes: 3,
                            latency_ns: 1000 + turn,
                            ok: turn % 10 != 0,
                        });
                    }
                });
            }
        });
        let totals = meter.totals(Kind::Write);
        assert_eq!(totals.latency.count(), 80_000);
        assert_eq!(totals.errors, 8_000);
        assert_eq!(totals.bytes, 3 * 72_000);
        assert_eq!(totals.latency.sum_ns(), 8 * (10_000 * 1000 + 9_999 * 5_000));
        assert_eq!(totals.latency.min_ns(), Some(1000));
        assert_eq!(totals.latency.max_ns(), Some(10_999));
        assert_eq!(meter.totals(Kind::Read).latency.count(), 0);
    }
}
