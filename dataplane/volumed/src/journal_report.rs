//! What `status` says of a write journal: a shape of the protocol.

use std::time::Duration;

use grampus_journal::State;
use serde::Serialize;

use crate::volume::JournalView;

/// Part of the answer to `status`.
#[derive(Debug, Clone, Serialize)]
pub struct JournalStatus {
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
    /// Batches in all.
    pub sealed: u64,
    /// Durable in the cluster through this batch.
    pub replicated: u64,
    /// In the image through this batch.
    pub applied: u64,
    /// Gone from the journal through this batch.
    pub trimmed: u64,
}

impl From<JournalView> for JournalStatus {
    fn from(view: JournalView) -> Self {
        let status = view.status;
        Self {
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
            sealed: status.sealed,
            replicated: status.replicated,
            applied: status.applied,
            trimmed: status.trimmed,
        }
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
