"""What the controller counts about its own work, as Prometheus metrics."""

from __future__ import annotations

import time
from dataclasses import replace

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from grampus.core.clock import Clock
from grampus.databases.controller.due_jobs import ControllerEvent, DueJob, SessionT

# Seconds. A run of a job is over in milliseconds, or takes a backup.
_RUN_BUCKETS = (0.05, 0.2, 1, 5, 20, 60, 300, 1800)
# Not `job`: Prometheus gives each metric a label of that name, and would rename ours.
_JOB = "controller_job"
# Events for which there are alerts, by their jobs. A counter that appears with its first event has
# no increase then: Prometheus must have seen it at 0 before.
_ALERTED = (
    ("failover", "failed-over"),
    ("clients", "server-restarted"),
    ("servers", "server-restarted"),
)
_PHASE_BUCKETS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 30, 60)


class ControllerMetrics:
    """Counters of one controller, from its begin on."""

    def __init__(self, registry: CollectorRegistry, clock: Clock) -> None:
        self._clock = clock
        self._runs = Histogram(
            "grampus_controller_job_seconds",
            "Time that runs of a job took.",
            [_JOB],
            buckets=_RUN_BUCKETS,
            registry=registry,
        )
        self._failures = Counter(
            "grampus_controller_job_failures",
            "Runs of a job that failed as a whole.",
            [_JOB],
            registry=registry,
        )
        self._succeeded = Gauge(
            "grampus_controller_job_last_success_timestamp_seconds",
            "When a run of a job ended last that did not fail as a whole.",
            [_JOB],
            registry=registry,
        )
        self._events = Counter(
            "grampus_controller_events",
            "Events that were printed.",
            [_JOB, "level", "kind"],
            registry=registry,
        )
        for job, kind in _ALERTED:
            self._events.labels(job, "done", kind)
        self._phases = Histogram(
            "grampus_failover_seconds",
            "Failovers of the controller: time from the first sign of a loss to the end of a "
            "phase (detected, fenced, attached, serving).",
            ["phase"],
            buckets=_PHASE_BUCKETS,
            registry=registry,
        )

    def measure(self, job: DueJob[SessionT]) -> DueJob[SessionT]:
        """The job, whose runs are counted and timed. What it raises is raised."""
        failures, succeeded = self._failures.labels(job.name), self._succeeded.labels(job.name)
        runs = self._runs.labels(job.name)

        def run(session: SessionT) -> list[ControllerEvent]:
            began_s = time.perf_counter()
            try:
                with failures.count_exceptions():
                    events = job.run(session)
            finally:
                runs.observe(time.perf_counter() - began_s)
            succeeded.set(self._clock.now().timestamp())
            return events

        return replace(job, run=run)

    def note(self, job: str, event: ControllerEvent) -> None:
        """Count an event that is printed."""
        self._events.labels(job, event.level, event.kind).inc()
        if event.kind == "failed-over":
            detected_s = float(str(event.details["detected_ms"])) / 1000
            self._phases.labels("detected").observe(detected_s)
            phases = event.details["phases_ms"]
            if isinstance(phases, dict):
                for phase, ms in phases.items():
                    self._phases.labels(phase).observe(detected_s + ms / 1000)
