//! Settings.

use std::time::Duration;

use grampus_blockdev::MAX_TRANSFER_BYTES;

use crate::extent::number::wide;
use crate::format::header::HEADER_BYTES;
use crate::format::ring::Ring;
use crate::journal::batch::cost_of_change;
use crate::journal::error::ConfigError;

/// The longest time that a setting may ask for; sums with a clock value cannot overflow.
const LONGEST: Duration = Duration::from_secs(3600);

/// How a journal works. Sizes named *held* count 128 bytes per extent beside its data, and zeros as
/// [`crate::Content::weight_bytes`] says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// The log in the cluster.
    pub ring: Ring,
    /// The longest single write; the caller splits longer ones.
    pub max_write_bytes: u64,
    /// Held bytes of one batch, and of one frame.
    pub max_batch_bytes: u64,
    /// Held bytes in all. Intake waits at it.
    pub max_held_bytes: u64,
    /// Held bytes that are not durable in the cluster. Intake waits at it, in `journal` mode: what
    /// must be durable waits for all that is ahead of it. Without flushes nothing else bounds that.
    pub max_undurable_bytes: u64,
    /// Appends to the cluster in flight. They complete in any order and count in sequence.
    pub max_appends: usize,
    /// Applies in flight. A full journal makes so many: with fewer than its users write at a time
    /// they would be faster without it.
    pub max_applies: usize,
    /// The longest single apply of data.
    pub max_apply_bytes: u64,
    /// From so many small frames on ([`crate::SMALL_FRAME_BYTES`]) that are not in the image, it is
    /// applied whatever its age: each of them is an entry in the database of its OSDs.
    pub max_small_frames: usize,
    /// A batch that no flush closes is closed at this age.
    pub close_after: Duration,
    /// Unapplied data is left for overwrites to coalesce until this age, if there is room.
    pub apply_after: Duration,
    /// Once no change has come for so long, it is applied whatever its age: nobody waits.
    pub idle_after: Duration,
    /// What was applied is flushed and trimmed at least this often.
    pub trim_after: Duration,
    /// What failed for want of space, or in applying, is tried again after this.
    pub retry_after: Duration,
    /// When the cluster has said for so long that it has no space, flushes that wait for that fail,
    /// and writes are refused once the journal is full (INV-5). Silence is waited out, however long.
    pub refuse_after: Duration,
    /// None: `journal` mode. Flushes complete when their batch is durable in the cluster.
    pub cache: Option<CacheConfig>,
}

/// `cache` mode: flushes complete when their batch is durable on the host's own disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheConfig {
    /// The log on the host's disk.
    pub ring: Ring,
    /// Appends to it in flight.
    pub max_appends: usize,
    /// What the loss of the host may cost: flushes wait while one acknowledged longer ago is not
    /// durable in the cluster.
    pub max_lag: Duration,
    /// The same in held bytes.
    pub max_lag_bytes: u64,
    /// Batches are gathered for so long before they are shipped, unless there is much to ship.
    pub ship_after: Duration,
    /// A disk that has not answered for so long is given up.
    pub give_up_after: Duration,
}

impl Default for Config {
    /// A ring of 256 MiB; batches up to 4 MiB; 256 MiB of memory, which is given back
    /// once nobody writes.
    fn default() -> Self {
        Self {
            ring: Ring { segment_bytes: 8 << 20, segments: 32, align_bytes: 4096 },
            max_write_bytes: 1 << 20,
            max_batch_bytes: 4 << 20,
            max_held_bytes: 256 << 20,
            max_undurable_bytes: u64::MAX,
            max_appends: 4,
            max_applies: 64,
            max_apply_bytes: 1 << 20,
            max_small_frames: 8192,
            close_after: Duration::from_secs(1),
            apply_after: Duration::from_secs(30),
            idle_after: Duration::from_secs(1),
            trim_after: Duration::from_secs(1),
            retry_after: Duration::from_millis(500),
            refuse_after: Duration::from_secs(30),
            cache: None,
        }
    }
}

impl Default for CacheConfig {
    /// A log of 256 MiB on the host; at most 100 ms or 32 MiB behind; 5 s of patience.
    fn default() -> Self {
        Self {
            ring: Ring { segment_bytes: 8 << 20, segments: 32, align_bytes: 4096 },
            max_appends: 4,
            max_lag: Duration::from_millis(100),
            max_lag_bytes: 32 << 20,
            ship_after: Duration::from_millis(25),
            give_up_after: Duration::from_secs(5),
        }
    }
}

impl Config {
    /// These settings for users whose flushes are answered before they come here, because the order
    /// of writes is all that they are about (docs/adr/0060): what nobody waits for is durable after
    /// 100 ms, and what somebody waits for has at most 8 MiB ahead of it.
    #[must_use]
    pub fn for_order(self) -> Self {
        let max_undurable_bytes = 8 << 20;
        Self { close_after: Duration::from_millis(100), max_undurable_bytes, ..self }
    }

    /// The defaults for a volume of `size_bytes`: its ring takes a quarter of that, within 256 MiB
    /// and 1 GiB.
    ///
    /// What is written again and again is applied once each time the ring comes round, so a longer
    /// ring makes fewer writes to the image; and recovery reads all of it.
    #[must_use]
    pub fn for_volume(size_bytes: u64) -> Self {
        let default = Self::default();
        let wanted = size_bytes / 4 / default.ring.segment_bytes;
        let segments = u32::try_from(wanted).unwrap_or(u32::MAX).clamp(32, 128);
        Self { ring: Ring { segments, ..default.ring }, ..default }
    }

    /// # Errors
    /// [`ConfigError`] where one limit makes another unreachable, so that work would stand still.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let batch = self.max_batch_bytes;
        self.ring.validate()?;
        // The table of a frame takes less than what its extents are counted as.
        let frame = batch.saturating_add(wide(HEADER_BYTES));
        let transfer = wide(MAX_TRANSFER_BYTES);
        let room = "a single batch would fill it";
        at_least("max_write_bytes", self.max_write_bytes, 512, "no block could be written")?;
        at_least(
            "max_batch_bytes",
            batch,
            cost_of_change(self.max_write_bytes),
            "one write must fit",
        )?;
        at_least("max_held_bytes", self.max_held_bytes, batch.saturating_mul(4), room)?;
        at_least(
            "max_undurable_bytes",
            self.max_undurable_bytes,
            cost_of_change(self.max_write_bytes),
            "one write must fit",
        )?;
        at_least("ring.segment_bytes", self.ring.segment_bytes, frame, "one frame must fit")?;
        at_least(
            "max_apply_bytes",
            self.max_apply_bytes,
            self.max_write_bytes,
            "one write must fit",
        )?;
        at_least("the transfer limit", transfer, self.max_apply_bytes, "no buffer is longer")?;
        at_least("max_appends", wide(self.max_appends), 1, "nothing would be appended")?;
        at_least("max_small_frames", wide(self.max_small_frames), 1, "none could wait")?;
        at_least("max_applies", wide(self.max_applies), 1, "nothing would be applied")?;
        for (what, value) in [
            ("close_after", self.close_after),
            ("apply_after", self.apply_after),
            ("idle_after", self.idle_after),
            ("trim_after", self.trim_after),
            ("retry_after", self.retry_after),
            ("refuse_after", self.refuse_after),
            ("cache.max_lag", self.cache.map_or(Duration::ZERO, |cache| cache.max_lag)),
            ("cache.ship_after", self.cache.map_or(Duration::ZERO, |cache| cache.ship_after)),
            ("cache.give_up_after", self.cache.map_or(Duration::ZERO, |cache| cache.give_up_after)),
        ] {
            if value > LONGEST {
                return Err(ConfigError::TooLong { what, value });
            }
        }
        if let Some(cache) = &self.cache {
            let segment = cache.ring.segment_bytes;
            cache.ring.validate()?;
            at_least("cache.ring.segment_bytes", segment, frame, "one frame must fit")?;
            at_least("cache.max_lag_bytes", cache.max_lag_bytes, batch, "one batch must fit")?;
            at_least("cache.max_appends", wide(cache.max_appends), 1, "nothing would be appended")?;
        }
        Ok(())
    }
}

fn at_least(
    what: &'static str,
    value: u64,
    least: u64,
    why: &'static str,
) -> Result<(), ConfigError> {
    if value < least { Err(ConfigError::TooSmall { what, value, least, why }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_takes_a_quarter_of_its_volume_within_bounds() {
        for (size_gib, ring_mib) in [(0, 256), (1, 256), (2, 512), (4, 1024), (1 << 20, 1024)] {
            let config = Config::for_volume(size_gib << 30);
            assert_eq!(config.ring.capacity_bytes() >> 20, ring_mib, "{size_gib}");
            assert_eq!(config.validate(), Ok(()));
        }
    }

    #[test]
    fn settings_for_order_work() {
        let config = Config::for_volume(4 << 30).for_order();
        assert_eq!(config.validate(), Ok(()));
        assert_eq!((config.max_undurable_bytes, config.close_after.as_millis()), (8 << 20, 100));
    }

    #[test]
    fn the_defaults_work_and_contradictions_are_named() {
        let cache = Some(CacheConfig::default());
        let sound = Config { cache, ..Config::default() };
        assert_eq!(sound.validate(), Ok(()));
        for (what, wrong) in [
            ("max_write_bytes", Config { max_write_bytes: 0, ..sound }),
            ("max_batch_bytes", Config { max_batch_bytes: 1 << 20, ..sound }),
            ("max_held_bytes", Config { max_held_bytes: 8 << 20, ..sound }),
            ("max_undurable_bytes", Config { max_undurable_bytes: 1 << 20, ..sound }),
            ("ring.segment_bytes", Config { max_batch_bytes: 8 << 20, ..sound }),
            ("max_apply_bytes", Config { max_apply_bytes: 1 << 19, ..sound }),
            ("the transfer limit", Config { max_apply_bytes: 1 << 30, ..sound }),
            ("max_appends", Config { max_appends: 0, ..sound }),
            ("max_small_frames", Config { max_small_frames: 0, ..sound }),
            ("max_applies", Config { max_applies: 0, ..sound }),
            ("apply_after", Config { apply_after: Duration::MAX, ..sound }),
        ] {
            let answer = wrong.validate().unwrap_err().to_string();
            assert!(answer.starts_with(what), "{answer}");
        }
    }
}
