"""Whether a figure is that of the load generator."""

from __future__ import annotations

from dataclasses import replace

import pytest

from grampus.bench.drivers.client_bound import (
    ClientBound,
    LoadEvidence,
    is_client_bound,
    mean_busy_threads,
)

CALM = LoadEvidence(cpu_used_cores=0.4, cpu_limit_cores=1.0)
CLOSED = replace(CALM, threads=16, busy_threads=15.6)
OPEN = replace(CALM, asked_rate_per_s=1000, reached_rate_per_s=999, threads=16)
MISSED = replace(OPEN, reached_rate_per_s=700)
IDLE = {"server_cpu_share": 0.2, "server_disk_share": 0.3}
BUSY = {"server_cpu_share": 0.2, "server_disk_share": 0.95}


def with_server(seen: LoadEvidence, shares: dict[str, float]) -> LoadEvidence:
    return replace(seen, **shares)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("seen", "bound", "words"),
    [
        (CLOSED, "no", "The client used 40 % of its CPU limit."),
        (
            replace(CLOSED, cpu_used_cores=0.9),
            "yes",
            "The client used 0.90 of its 1 cores (90 %).",
        ),
        (replace(CLOSED, cpu_used_cores=0.84), "no", "84 %"),
        (
            replace(CLOSED, busy_threads=9.0),
            "yes",
            "On average 9.0 of 16 threads had a request under way",
        ),
        # Whoever hardly computes is not slow to send: seen of rados bench at an OSD device's limit.
        (replace(CLOSED, busy_threads=9.0, cpu_used_cores=0.01), "no", "The client used 1 %"),
        (replace(CLOSED, busy_threads=9.0, cpu_used_cores=0.05), "yes", "9.0 of 16 threads"),
        (replace(CLOSED, busy_threads=9.0, server_disk_share=0.9), "no", "The client used 40 %"),
        (replace(CLOSED, busy_threads=9.0, server_disk_share=0.89), "yes", "9.0 of 16 threads"),
        # A client that computes all the time is slow, whatever a device does.
        (replace(CLOSED, cpu_used_cores=0.9, server_disk_share=1.0), "yes", "0.90 of its 1 cores"),
        # An open loop's threads are idle between requests that are due.
        (replace(OPEN, busy_threads=0.5), "no", "40 %"),
        (with_server(MISSED, IDLE), "yes", "sent 700/s of 1000/s though the server was busy with"),
        (
            with_server(replace(MISSED, busy_threads=16), IDLE),
            "yes",
            "with all of its 16 threads busy though the server was busy with its CPU to 20 %",
        ),
        (with_server(MISSED, BUSY), "no", "and the server was busy with its CPU to 20 % and its"),
        (MISSED, "unknown", "It is not known how busy the server was."),
        (
            with_server(MISSED, {"server_cpu_share": 0.2}),
            "unknown",
            "busy with its CPU to 20 %, and nothing else is known of it.",
        ),
        (with_server(MISSED, {"server_disk_share": 0.9}), "no", "its disk to 90 %"),
        (replace(CLOSED, cpu_used_cores=None), "unknown", "CPU time is not known."),
        (replace(CLOSED, cpu_limit_cores=None), "unknown", "CPU time is not known."),
        (
            replace(CLOSED, cpu_used_cores=None, busy_threads=2.0),
            "yes",
            "2.0 of 16 threads",
        ),
    ],
)
def test_bound(seen: LoadEvidence, bound: ClientBound, words: str) -> None:
    verdict = is_client_bound(seen)
    assert verdict.bound == bound
    assert any(words in sentence for sentence in verdict.evidence), verdict.evidence
    assert all(sentence.endswith(".") for sentence in verdict.evidence)


def test_all_evidence_is_told() -> None:
    seen = replace(CLOSED, cpu_used_cores=1.0, busy_threads=1.0)
    assert len(is_client_bound(seen).evidence) == 2


def test_idle_threads_alone_are_known_as_such() -> None:
    assert is_client_bound(replace(CLOSED, busy_threads=9.0)).by_threads_alone
    assert not is_client_bound(replace(CLOSED, busy_threads=9.0, cpu_used_cores=1)).by_threads_alone
    assert not is_client_bound(CLOSED).by_threads_alone


def test_littles_law() -> None:
    assert mean_busy_threads(operations_per_s=400, average_us=20_000) == pytest.approx(8)
