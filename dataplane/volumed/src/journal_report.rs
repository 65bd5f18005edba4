//! What `status` says of a write journal: a shape of the protocol.

use std::time::Duration;

use grampus_journal::State;
use serde::Serialize;

use crate::volume::JournalView;

/// Part of the answer to `status`.
#[derive(Debug, Clone, Default, Serialize)]
pub struct JournalStatus {
    /// `cache` while flushes are done once durable on the host, else `journal`.
    pub mode: &'static str,
    /// Why a volume with the write path `cache` works as with `journal`, if it does.
    pub degraded: Option<String>,
    /// Where the log is that the volume had before and that was not found when it was opened:
    /// acknowledged writes that only it held, of the last moments before, are not in the volume.
    pub left_behind: Option<String>,
    /// Used of the log on the host.
    pub local_used_bytes: u64,
    /// What that log holds; 0 without one.
    pub local_capacity_bytes: u64,
    /// What the loss of the host may cost; None unless the write path is `cache`.
    pub max_lag_ms: Option<f64>,
    /// Logs that were set aside on this host: each may hold what was acknowledged and the volume
    /// lacks.
    pub local_asides: Vec<String>,
    /// `running`, `quiescing`, `quiesced` or `failed`.
    pub state: &'static str,
    /// Which owner of the volume this is.
    pub epoch: u64,
    /// How full it is, 0 to 1: of memory or of the ring, whichever is fuller.
    pub fill_ratio: f64,
    /// Memory held.
    pub held_bytes: u64,
    /// Used of the ring in the cluster.
    pub used_bytes: u64,
    /// What the ring holds.
    pub capacity_bytes: u64,
    /// Acknowledged, not yet durable in the cluster: what the loss of the host would cost.
    pub lag_bytes: u64,
    /// The age of the oldest of it.
    pub lag_ms: f64,
    /// The rate at which memory is freed.
    pub freed_bytes_per_s: u64,
    /// What fails at the moment and is tried again, as a sentence's part.
    pub retrying: Option<String>,
    /// For how long the cluster has answered nothing of what it was asked; None while it owes no
    /// answer.
    pub silent_ms: Option<f64>,
    /// Batches in all.
    pub sealed: u64,
    /// Durable in the cluster through this batch.
    pub replicated: u64,
    /// In the image through this batch.
    pub applied: u64,
    /// Gone from the journal through this batch.
    pub trimmed: u64,
}

impl From<&JournalView> for JournalStatus {
    fn from(view: &JournalView) -> Self {
        let status = view.status;
        let failed = status.degraded.map(|failure| failure.to_string());
        let refusal = view.local.as_ref().and_then(|local| local.refusal.clone());
        let local = view.local.as_ref();
        Self {
            mode: if status.local { "cache" } else { "journal" },
            degraded: failed.or(refusal),
            left_behind: view.left_behind.clone(),
            local_used_bytes: status.local_used_bytes,
            local_capacity_bytes: local.map_or(0, |local| local.capacity_bytes),
            max_lag_ms: local.map(|local| milliseconds(local.max_lag)),
            local_asides: local.map_or_else(Vec::new, |local| local.asides.clone()),
            state: match status.state {
                State::Running => "running",
                State::Quiescing => "quiescing",
                State::Quiesced => "quiesced",
                State::Failed(_) => "failed",
            },
            epoch: view.epoch.0,
            fill_ratio: ratio(status.held_bytes, view.max_held_bytes)
                .max(ratio(status.used_bytes, view.capacity_bytes)),
            held_bytes: status.held_bytes,
            used_bytes: status.used_bytes,
            capacity_bytes: view.capacity_bytes,
            lag_bytes: status.lag_bytes,
            lag_ms: milliseconds(status.lag),
            freed_bytes_per_s: status.freed_bytes_per_s,
            retrying: status.retrying.map(|(failure, _)| failure.to_string()),
            silent_ms: status.silent.map(milliseconds),
            sealed: status.closed,
            replicated: status.replicated,
            applied: status.applied,
            trimmed: status.trimmed,
        }
    }
}

/// Part of the answer to `status`: the read cache on the host's disk.
#[derive(Debug, Clone, Serialize)]
pub struct ReadCacheStatus {
    /// Why it is off, if it is.
    pub off_reason: Option<String>,
    /// What it did.
    #[serde(flatten)]
    pub counts: grampus_readcache::Statistics,
}

impl ReadCacheStatus {
    /// Of a journal's view; None where there is no read cache.
    #[must_use]
    pub fn of(view: &JournalView) -> Option<Self> {
        let (counts, off_reason) = view.reads.clone()?;
        Some(Self { off_reason, counts })
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// To a thousandth, so that no number needs to be turned into one that may not hold it.
fn ratio(part: u64, whole: u64) -> f64 {
    let permille = part.saturating_mul(1000).checked_div(whole).unwrap_or(0);
    f64::from(u32::try_from(permille).unwrap_or(u32::MAX)) / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_of_thousandths() {
        for (part, whole, expected) in [(0, 0, 0.0), (1, 3, 0.333), (5, 5, 1.0), (3, 2, 1.5)] {
            assert!((ratio(part, whole) - expected).abs() < 1e-9, "{part}/{whole}");
        }
    }
}
