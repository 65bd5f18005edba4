//! What `status` and `statistics` answer: shapes of the protocol, filled from counters.

use std::collections::BTreeMap;
use std::time::Duration;

use grampus_pacing::{Counts, DiskModel, PacedDevice};
use serde::Serialize;

use crate::clock::microseconds;
use crate::histogram::Distribution;
use crate::in_flight::InFlight;
use crate::journal_report::{JournalStatus, ReadCacheStatus};
use crate::kind::Kind;
use crate::meter::{KindTotals, Meter};
use crate::process::Hardening;
use crate::state::State;

/// The answer to `status`.
#[derive(Debug, Clone, Serialize)]
pub struct Status {
    /// Of this program.
    pub version: &'static str,
    /// Of this process.
    pub pid: u32,
    /// In one word.
    pub state: State,
    /// Why, in a sentence; None while it runs.
    pub state_reason: Option<String>,
    /// `pool/image` or `pool/namespace/image`; None without a cluster.
    pub image: Option<String>,
    /// `rbd`, `memory` or `file`.
    pub device: &'static str,
    /// `direct`, `journal` or `cache`.
    pub write_path: &'static str,
    /// `luks2`; None for a volume that is not encrypted.
    pub encryption: Option<&'static str>,
    /// The write journal; None without one.
    pub journal: Option<JournalStatus>,
    /// The read cache on the host's disk; None without one.
    pub read_cache: Option<ReadCacheStatus>,
    /// The disk whose time requests take; None without one.
    pub emulated_disk: Option<EmulatedDiskStatus>,
    /// None until the volume is open.
    pub size_bytes: Option<u64>,
    /// None until the volume is open.
    pub block_size_bytes: Option<u32>,
    /// As the cluster's blocklist spells it; None without a cluster.
    pub client_address: Option<String>,
    /// Whether the exclusive lock is ours, as last looked at; None without a lock.
    pub lock_owner: Option<bool>,
    /// None until the volume is offered.
    pub transport: Option<Transport>,
    /// Requests that the device has.
    pub in_flight: u64,
    /// Requests that wait for a pause to end.
    pub held: u64,
    /// The most requests in flight and held.
    pub in_flight_limit: u64,
    /// Age of the oldest request that the device has.
    pub oldest_in_flight_ms: Option<u64>,
    /// None without a cluster.
    pub librbd_version: Option<String>,
    /// Since the process started.
    pub uptime_s: f64,
    /// What the process may do against deadlocks with memory reclaim.
    pub hardening: Hardening,
}

/// How requests reach the daemon.
#[derive(Debug, Clone, Serialize)]
pub struct Transport {
    /// `uring` or `classic`.
    pub name: &'static str,
    /// Why this one.
    pub reason: String,
    /// Queues of the kernel.
    pub queues: u16,
    /// Requests that one queue holds.
    pub entries_per_queue: u16,
    /// Threads that serve them.
    pub threads: u16,
}

/// A disk that a file is served as.
#[derive(Debug, Clone, Serialize)]
pub struct EmulatedDiskStatus {
    /// What it takes to another place.
    pub position_us: u64,
    /// What it takes for each request.
    pub command_us: u64,
    /// What passes under its head.
    pub bytes_per_s: u64,
    /// Whether requests take that time now.
    pub paced: bool,
    /// Requests that took it.
    pub served: u64,
    /// The time that they took by the model.
    pub busy_ms: f64,
    /// How much longer the file took for them: not 0 means that it was too slow for the model.
    pub late_ms: f64,
}

impl EmulatedDiskStatus {
    /// How `disk` is now.
    #[must_use]
    pub fn of(disk: &PacedDevice) -> Self {
        let DiskModel { position, command, bytes_per_s } = disk.model();
        let Counts { served, busy, late } = disk.counts();
        Self {
            position_us: whole_microseconds(position),
            command_us: whole_microseconds(command),
            bytes_per_s: bytes_per_s.get(),
            paced: disk.is_paced(),
            served,
            busy_ms: busy.as_secs_f64() * 1000.0,
            late_ms: late.as_secs_f64() * 1000.0,
        }
    }
}

fn whole_microseconds(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// The answer to `statistics`.
#[derive(Debug, Clone, Serialize)]
pub struct Statistics {
    /// How long has been counted.
    pub since_s: f64,
    /// By kind of request.
    pub kinds: BTreeMap<&'static str, KindStatistics>,
    /// What the write journal has done; None without one.
    pub journal: Option<grampus_journal::Statistics>,
}

/// Of one kind of request.
#[derive(Debug, Clone, Serialize)]
pub struct KindStatistics {
    /// Finished, whether well or not.
    pub operations: u64,
    /// Moved or zeroed by those that succeeded.
    pub bytes: u64,
    /// How many failed.
    pub errors: u64,
    /// With the device now.
    pub in_flight: u64,
    /// From arrival to answer.
    pub latency_us: Latency,
}

/// A distribution, in microseconds; all 0 when nothing was counted.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Latency {
    /// How many.
    pub count: u64,
    /// All together.
    pub sum: f64,
    /// The smallest, exactly.
    pub min: f64,
    /// The largest, exactly.
    pub max: f64,
    /// Median; this and the next within 1/32.
    pub p50: f64,
    /// 90 of 100 do not pass it.
    pub p90: f64,
    /// 99 of 100 do not pass it.
    pub p99: f64,
    /// 999 of 1000 do not pass it.
    pub p999: f64,
    /// Buckets that are not empty: their upper end, their count.
    pub buckets: Vec<(f64, u64)>,
}

impl Latency {
    fn of(distribution: &Distribution) -> Self {
        let quantile =
            |per_mille| microseconds(distribution.quantile_ns(per_mille).unwrap_or_default());
        Self {
            count: distribution.count(),
            sum: microseconds(distribution.sum_ns()),
            min: microseconds(distribution.min_ns().unwrap_or_default()),
            max: microseconds(distribution.max_ns().unwrap_or_default()),
            p50: quantile(500),
            p90: quantile(900),
            p99: quantile(990),
            p999: quantile(999),
            buckets: distribution
                .buckets()
                .map(|(upper_ns, count)| (microseconds(upper_ns), count))
                .collect(),
        }
    }
}

impl Statistics {
    /// What `meter` counted in `since_s` seconds, and what is in flight.
    #[must_use]
    pub fn of(
        meter: &Meter,
        in_flight: &InFlight,
        since_s: f64,
        journal: Option<grampus_journal::Statistics>,
    ) -> Self {
        let of_kind = |kind: Kind| {
            let KindTotals { bytes, errors, latency } = meter.totals(kind);
            let statistics = KindStatistics {
                operations: latency.count(),
                bytes,
                errors,
                in_flight: in_flight.of(kind),
                latency_us: Latency::of(&latency),
            };
            (kind.name(), statistics)
        };
        Self { since_s, kinds: Kind::ALL.into_iter().map(of_kind).collect(), journal }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use grampus_blockdev::{BlockSize, Geometry, MemoryDevice, Request, execute};
    use serde_json::json;

    use super::*;
    use crate::meter::Measurement;

    #[test]
    fn an_emulated_disk_says_what_it_is_and_did() {
        let geometry = Geometry::new(1 << 20, BlockSize::B4096).unwrap();
        let memory = Arc::new(MemoryDevice::new(geometry).unwrap());
        let disk = PacedDevice::new(memory, "6550,1500,1048576".parse().unwrap()).unwrap();
        execute(&disk, Request::Flush).result.unwrap();
        disk.set_paced(false);
        execute(&disk, Request::Flush).result.unwrap();
        let mut status = serde_json::to_value(EmulatedDiskStatus::of(&disk)).unwrap();
        assert!(status["late_ms"].take().is_f64());
        assert_eq!(
            status,
            json!({
                "position_us": 6550, "command_us": 1500, "bytes_per_s": 1_048_576,
                "paced": false, "served": 1, "busy_ms": 1.5, "late_ms": null,
            })
        );
    }

    #[test]
    fn statistics_have_the_shape_of_the_protocol() {
        let meter = Meter::new(1);
        let write = Measurement { kind: Kind::Write, bytes: 4096, latency_ns: 1_500_000, ok: true };
        meter.record(write);
        meter.record(Measurement { latency_ns: 500, ok: false, ..write });
        let answer =
            serde_json::to_value(Statistics::of(&meter, &InFlight::default(), 2.5, None)).unwrap();
        assert_eq!(answer["since_s"], json!(2.5));
        assert_eq!(
            answer["kinds"]["write"],
            json!({
                "operations": 2, "bytes": 4096, "errors": 1, "in_flight": 0,
                "latency_us": {
                    "count": 2, "sum": 1500.5, "min": 0.5, "max": 1500.0,
                    "p50": 0.503, "p90": 1500.0, "p99": 1500.0, "p999": 1500.0,
                    "buckets": [[0.504, 1], [1507.328, 1]],
                },
            })
        );
        assert_eq!(answer["kinds"]["discard"]["latency_us"]["p99"], json!(0.0));
        assert_eq!(answer["kinds"].as_object().unwrap().len(), 5);
    }
}
