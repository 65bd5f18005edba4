//! Time as the data path counts it: nanoseconds since the daemon started.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A monotonic clock; a test moves its own by hand.
#[derive(Debug, Clone)]
pub struct Clock(Source);

#[derive(Debug, Clone)]
enum Source {
    Machine(Instant),
    Hand(Arc<AtomicU64>),
}

impl Clock {
    /// The machine's, from now on.
    #[must_use]
    pub fn start() -> Self {
        Self(Source::Machine(Instant::now()))
    }

    /// One that stands at `now_ns` until whoever holds the other end moves it.
    #[must_use]
    pub fn by_hand(now_ns: Arc<AtomicU64>) -> Self {
        Self(Source::Hand(now_ns))
    }

    /// Nanoseconds since the start, never 0: 0 marks "no time" where times are kept in atomics.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        let now_ns = match &self.0 {
            Source::Machine(start) => nanoseconds(start.elapsed()),
            Source::Hand(now_ns) => now_ns.load(Ordering::SeqCst),
        };
        now_ns.max(1)
    }
}

/// A duration in nanoseconds; at most 584 years.
#[must_use]
pub fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Nanoseconds as microseconds, for people and JSON.
#[must_use]
pub fn microseconds(nanoseconds: u64) -> f64 {
    // A division rounds once, so 1206348 ns are written as 1206.348.
    float(nanoseconds) / 1e3
}

/// Nanoseconds as seconds.
#[must_use]
pub fn seconds(nanoseconds: u64) -> f64 {
    float(nanoseconds) / 1e9
}

/// The nearest float: exact below 2^53, which is 104 days in nanoseconds.
fn float(count: u64) -> f64 {
    let [a, b, c, d, low @ ..] = count.to_be_bytes();
    f64::from(u32::from_be_bytes([a, b, c, d])) * 4_294_967_296.0
        + f64::from(u32::from_be_bytes(low))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_people_write_them() {
        for (nanoseconds, text) in [
            (0, "0"),
            (1, "0.001"),
            (1_206_348, "1206.348"),
            (123_456_789_012_345, "123456789012.345"),
        ] {
            assert_eq!(microseconds(nanoseconds).to_string(), text);
        }
        assert_eq!(seconds(4_294_967_296).to_string(), "4.294967296");
        assert_eq!(seconds(1 << 12).to_string(), "0.000004096");
    }
}
