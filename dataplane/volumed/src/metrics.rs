//! Status and counters as Prometheus text (exposition format 0.0.4).

use crate::clock::seconds;
use crate::in_flight::InFlight;
use crate::journal_report::{JournalStatus, ReadCacheStatus};
use crate::kind::Kind;
use crate::meter::{KindTotals, Meter};
use crate::report::Status;
use crate::state::State;

/// Upper ends of the latency buckets, as powers of two of nanoseconds: 4 us to 69 s. The counters'
/// own buckets end there too, so the counts are exact.
const BUCKET_BITS: std::ops::RangeInclusive<u32> = 12..=36;

/// The text; ends with a line feed.
#[must_use]
pub fn render_prometheus(status: &Status, meter: &Meter, in_flight: &InFlight) -> String {
    let image = label(status.image.as_deref().unwrap_or(status.device));
    let totals: Vec<(Kind, KindTotals)> =
        Kind::ALL.into_iter().map(|kind| (kind, meter.totals(kind))).collect();
    let mut page = Page { text: String::with_capacity(16 << 10), image };

    page.family("volumed_state", "gauge", "1 for the state that the daemon is in.");
    for state in State::ALL {
        let labels = format!("state=\"{}\"", state.name());
        page.sample("volumed_state", &labels, u8::from(state == status.state));
    }
    page.family("volumed_uptime_seconds", "gauge", "Time since the process started.");
    page.sample("volumed_uptime_seconds", "", status.uptime_s);
    page.family("volumed_size_bytes", "gauge", "Size of the volume.");
    page.sample("volumed_size_bytes", "", status.size_bytes.unwrap_or_default());
    page.family("volumed_oldest_in_flight_seconds", "gauge", "Age of the oldest request.");
    let oldest_s = seconds(in_flight.oldest_ns.unwrap_or_default());
    page.sample("volumed_oldest_in_flight_seconds", "", oldest_s);
    page.family("volumed_held", "gauge", "Requests that wait for a pause to end.");
    page.sample("volumed_held", "", in_flight.held);
    page.family("volumed_in_flight", "gauge", "Requests that the device has.");
    for kind in Kind::ALL {
        page.sample("volumed_in_flight", &kind_label(kind), in_flight.of(kind));
    }
    page.family("volumed_bytes_total", "counter", "Bytes of requests that succeeded.");
    for (kind, totals) in &totals {
        page.sample("volumed_bytes_total", &kind_label(*kind), totals.bytes);
    }
    page.family("volumed_errors_total", "counter", "Requests that failed.");
    for (kind, totals) in &totals {
        page.sample("volumed_errors_total", &kind_label(*kind), totals.errors);
    }
    page.family("volumed_latency_seconds", "histogram", "From a request's arrival to its answer.");
    for (kind, totals) in &totals {
        page.latency(*kind, totals);
    }
    if let Some(journal) = &status.journal {
        page.journal(journal);
    }
    if let Some(cache) = &status.read_cache {
        page.read_cache(cache);
    }
    page.text
}

struct Page {
    text: String,
    image: String,
}

impl Page {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        self.line(format_args!("# HELP {name} {help}"));
        self.line(format_args!("# TYPE {name} {kind}"));
    }

    fn sample(&mut self, name: &str, labels: &str, value: impl std::fmt::Display) {
        let comma = if labels.is_empty() { "" } else { "," };
        let image = std::mem::take(&mut self.image);
        self.line(format_args!("{name}{{image=\"{image}\"{comma}{labels}}} {value}"));
        self.image = image;
    }

    fn latency(&mut self, kind: Kind, totals: &KindTotals) {
        let kind = kind_label(kind);
        for bits in BUCKET_BITS {
            let labels = format!("{kind},le=\"{}\"", seconds(1 << bits));
            let count = totals.latency.count_below(1 << bits);
            self.sample("volumed_latency_seconds_bucket", &labels, count);
        }
        let count = totals.latency.count();
        self.sample("volumed_latency_seconds_bucket", &format!("{kind},le=\"+Inf\""), count);
        self.sample("volumed_latency_seconds_sum", &kind, seconds(totals.latency.sum_ns()));
        self.sample("volumed_latency_seconds_count", &kind, count);
    }

    fn journal(&mut self, journal: &JournalStatus) {
        let gauges = [
            ("volumed_journal_used_bytes", "Used of the ring in the cluster.", journal.used_bytes),
            ("volumed_journal_capacity_bytes", "What the ring holds.", journal.capacity_bytes),
            ("volumed_journal_held_bytes", "Memory held.", journal.held_bytes),
            (
                "volumed_journal_lag_bytes",
                "Acknowledged, not yet durable in the cluster.",
                journal.lag_bytes,
            ),
            (
                "volumed_journal_local_used_bytes",
                "Used of the log on the host.",
                journal.local_used_bytes,
            ),
            (
                "volumed_journal_local_capacity_bytes",
                "What the log on the host holds.",
                journal.local_capacity_bytes,
            ),
            (
                "volumed_journal_local_asides",
                "Logs that were set aside on the host.",
                u64::try_from(journal.local_asides.len()).unwrap_or(u64::MAX),
            ),
        ];
        for (name, help, value) in gauges {
            self.family(name, "gauge", help);
            self.sample(name, "", value);
        }
        self.family("volumed_journal_lag_seconds", "gauge", "Age of the oldest of that lag.");
        self.sample("volumed_journal_lag_seconds", "", journal.lag_ms / 1000.0);
        self.family(
            "volumed_journal_degraded",
            "gauge",
            "1 when the log on the host failed, so that flushes wait for the cluster.",
        );
        self.sample("volumed_journal_degraded", "", u8::from(journal.degraded.is_some()));
        let counters = [
            ("volumed_journal_sealed_total", "Batches sealed.", journal.sealed),
            ("volumed_journal_replicated_total", "Batches on all copies.", journal.replicated),
            ("volumed_journal_applied_total", "Batches in the image.", journal.applied),
        ];
        for (name, help, value) in counters {
            self.family(name, "counter", help);
            self.sample(name, "", value);
        }
    }

    fn read_cache(&mut self, cache: &ReadCacheStatus) {
        let counts = &cache.counts;
        self.family("volumed_read_cache_on", "gauge", "1 while the read cache is used.");
        self.sample("volumed_read_cache_on", "", u8::from(counts.on));
        for (name, help, kind, value) in [
            ("volumed_read_cache_used_bytes", "Held.", "gauge", counts.used_bytes),
            ("volumed_read_cache_capacity_bytes", "Can be held.", "gauge", counts.capacity_bytes),
            ("volumed_read_cache_hits_total", "Reads answered from it.", "counter", counts.hits),
            ("volumed_read_cache_misses_total", "Reads that it had not.", "counter", counts.misses),
            (
                "volumed_read_cache_checksum_failures_total",
                "Blocks that the disk gave back wrong.",
                "counter",
                counts.checksum_failures,
            ),
        ] {
            self.family(name, kind, help);
            self.sample(name, "", value);
        }
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        self.text.push_str(&line.to_string());
        self.text.push('\n');
    }
}

fn kind_label(kind: Kind) -> String {
    format!("kind=\"{}\"", kind.name())
}

/// A label's value as the format wants it escaped.
fn label(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meter::Measurement;
    use crate::process::Hardening;

    fn status() -> Status {
        Status {
            version: "0.1.0",
            pid: 1,
            state: State::Stalled,
            state_reason: None,
            image: Some("pool/im\"age".to_owned()),
            device: "rbd",
            write_path: "direct",
            encryption: None,
            journal: Some(JournalStatus {
                degraded: Some("no space".to_owned()),
                local_asides: vec!["/log.aside-1-0".to_owned()],
                lag_ms: 12.5,
                ..JournalStatus::default()
            }),
            read_cache: Some(ReadCacheStatus {
                off_reason: None,
                counts: grampus_readcache::Statistics { on: true, hits: 7, ..Default::default() },
            }),
            emulated_disk: None,
            size_bytes: Some(4096),
            block_size_bytes: Some(4096),
            client_address: None,
            lock_owner: Some(true),
            transport: None,
            in_flight: 3,
            held: 0,
            in_flight_limit: 8,
            oldest_in_flight_ms: None,
            librbd_version: None,
            uptime_s: 1.5,
            hardening: Hardening::default(),
        }
    }

    #[test]
    fn every_sample_belongs_to_a_family_and_buckets_add_up() {
        let meter = Meter::new(1);
        for latency_ns in [1_000, 5_000, 5_000, 2_000_000, 200_000_000_000] {
            meter.record(Measurement { kind: Kind::Read, bytes: 10, latency_ns, ok: true });
        }
        let text = render_prometheus(&status(), &meter, &InFlight::default());
        let mut family = "";
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                family = rest.split(' ').next().unwrap();
            } else if !line.starts_with('#') {
                assert!(line.starts_with(family), "{line} is not of {family}");
                let value = line.rsplit(' ').next().unwrap();
                assert!(value.parse::<f64>().is_ok(), "{line}");
            }
        }
        for expected in [
            r#"volumed_state{image="pool/im\"age",state="stalled"} 1"#,
            r#"volumed_state{image="pool/im\"age",state="running"} 0"#,
            r#"volumed_size_bytes{image="pool/im\"age"} 4096"#,
            r#"volumed_bytes_total{image="pool/im\"age",kind="read"} 50"#,
            r#"volumed_latency_seconds_bucket{image="pool/im\"age",kind="read",le="0.000004096"} 1"#,
            r#"volumed_latency_seconds_bucket{image="pool/im\"age",kind="read",le="0.000008192"} 3"#,
            r#"volumed_latency_seconds_bucket{image="pool/im\"age",kind="read",le="68.719476736"} 4"#,
            r#"volumed_latency_seconds_bucket{image="pool/im\"age",kind="read",le="+Inf"} 5"#,
            r#"volumed_journal_lag_seconds{image="pool/im\"age"} 0.0125"#,
            r#"volumed_journal_degraded{image="pool/im\"age"} 1"#,
            r#"volumed_journal_local_asides{image="pool/im\"age"} 1"#,
            r#"volumed_read_cache_on{image="pool/im\"age"} 1"#,
            r#"volumed_read_cache_hits_total{image="pool/im\"age"} 7"#,
            r#"volumed_latency_seconds_count{image="pool/im\"age",kind="read"} 5"#,
        ] {
            assert!(text.lines().any(|line| line == expected), "{expected} is not in\n{text}");
        }
    }
}
