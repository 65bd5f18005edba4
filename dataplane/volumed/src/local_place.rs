//! What a volume keeps on the host's own disk: a log that its journal is fed from, a read cache.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use grampus_blockdev::BlockDevice;
use grampus_journal::{CacheConfig, Ring};
use grampus_readcache::{Options, ReadCache};
use grampus_sealing::Key;

/// The smallest log that is made: with less, it would be trimmed all the time.
pub const MIN_LOG_BYTES: u64 = 32 << 20;
/// The largest; more than the journal holds in memory is of no use.
pub const MAX_LOG_BYTES: u64 = 16 << 30;
/// Shipping waits at most so long for more to ship, and never for more than a part of the lag.
const LONGEST_GATHERING: Duration = Duration::from_millis(25);
const GATHERING_PER_LAG: u32 = 4;

/// A directory of the host's disk, and what a volume may have in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalPlace {
    /// The volume's own. It is made.
    pub directory: PathBuf,
    /// What the loss of the host may cost: flushes wait while one acknowledged longer ago is not
    /// durable in the cluster.
    pub max_lag: Duration,
    /// The size of a log that is made, in bytes; it is rounded down to whole segments.
    pub log_bytes: u64,
    /// The size of the read cache, in bytes; 0 for none.
    pub read_cache_bytes: u64,
}

impl LocalPlace {
    /// At `directory`, with the journal's own settings and a read cache of 1 GiB.
    #[must_use]
    pub fn new(directory: PathBuf) -> Self {
        let CacheConfig { ring, max_lag, .. } = CacheConfig::default();
        Self { directory, max_lag, log_bytes: ring.capacity_bytes(), read_cache_bytes: 1 << 30 }
    }

    /// How the journal works with the log.
    #[must_use]
    pub fn config(&self) -> CacheConfig {
        let default = CacheConfig::default();
        let segments = self.log_bytes / default.ring.segment_bytes;
        CacheConfig {
            ring: Ring { segments: u32::try_from(segments).unwrap_or(u32::MAX), ..default.ring },
            max_lag: self.max_lag,
            ship_after: LONGEST_GATHERING.min(self.max_lag / GATHERING_PER_LAG),
            ..default
        }
    }

    /// Where its log is.
    pub(crate) fn log_path(&self) -> PathBuf {
        self.directory.join("log")
    }

    /// A read cache in front of `below`; None when none is wanted. With a `key`, of this opening
    /// alone, its file holds sealed bytes only.
    #[must_use]
    pub fn read_cache(
        &self,
        below: Arc<dyn BlockDevice>,
        key: Option<Key>,
    ) -> Option<Arc<ReadCache>> {
        let size_bytes = self.read_cache_bytes;
        let key = key.map(Arc::new);
        let options = Options { key, ..Options::new(self.directory.join("reads"), size_bytes) };
        (size_bytes > 0).then(|| ReadCache::new(below, &options))
    }
}

#[cfg(test)]
mod tests {
    use grampus_journal::Config;

    use super::*;

    #[test]
    fn every_size_and_lag_that_the_command_line_takes_makes_a_journal() {
        for log_bytes in [MIN_LOG_BYTES, MIN_LOG_BYTES + 1, MAX_LOG_BYTES] {
            for lag_ms in [1, 100, 60_000] {
                let max_lag = Duration::from_millis(lag_ms);
                let place =
                    LocalPlace { max_lag, log_bytes, ..LocalPlace::new(PathBuf::from("/x")) };
                let config = Config { cache: Some(place.config()), ..Config::default() };
                assert_eq!(config.validate(), Ok(()), "{log_bytes} {lag_ms}");
                assert!(place.config().ship_after < max_lag);
            }
        }
    }
}
