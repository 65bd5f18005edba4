"""`grampus serve --metrics`: what Prometheus reads."""

from __future__ import annotations

import socket
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from grampus.cli.serve_metrics import Exporter, parse_metrics_place
from grampus.core.errors import GrampusError, RefusedError, UsageError
from grampus.databases.controller.due_jobs import ControllerEvent, DueJob
from grampus.databases.model import HostMaintenance
from grampus.databases.server_end import ServerEnd, note_failure, note_restart
from grampus.state.warnings import Warned, WarningHistory
from grampus.volumes.live import JournalStatus, LiveVolume
from tests.fakes.clock import FakeClock
from tests.unit.databases.failover.failover_world import FailoverWorld
from tests.unit.databases.world import LAB

JOURNAL = JournalStatus(
    state="running",
    epoch=1,
    fill_ratio=0.25,
    held_bytes=1,
    used_bytes=1,
    capacity_bytes=4,
    lag_bytes=4096,
    lag_ms=80.0,
    freed_bytes_per_s=0.0,
    silent_ms=9000.0,
    sealed=1,
    replicated=1,
    applied=1,
    trimmed=1,
)
LIVE = {
    "demo": LiveVolume(state="running", journal=JOURNAL),
    "dead": LiveVolume(state="dead"),
    "hung": LiveVolume(state="unknown"),
    "away": LiveVolume(state="unknown"),
    "lost": GrampusError("No answer."),
    "other": None,  # a driver that cannot say
}
FAILED_OVER = ControllerEvent(
    *("demo", "failed-over", "It runs on h2.", "done"),
    {"detected_ms": 3500, "phases_ms": {"fenced": 1000, "serving": 4000}},
)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[FailoverWorld]:
    made = FailoverWorld(tmp_path)
    made.create(host="h1")
    yield made
    made.close()


def session_of(world: FailoverWorld) -> Any:
    hosts = dict.fromkeys(LIVE, "h1") | {"away": "h2"}
    records = [
        SimpleNamespace(spec=SimpleNamespace(name=name), attachment=SimpleNamespace(host=host))
        for name, host in hosts.items()
    ]
    volumes = SimpleNamespace(
        all=lambda: records,
        observe_states=lambda asked: {record.spec.name: LIVE[record.spec.name] for record in asked},
    )
    return SimpleNamespace(
        store=world.store,
        lab_name=LAB,
        clock=world.clock,
        fleet=lambda: world.fleet,
        volumes=lambda: volumes,
    )


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Reader:
    """An exporter, and whoever reads from it."""

    def __init__(self, world: FailoverWorld) -> None:
        self.problem: GrampusError | None = None
        self._world = world
        self.port = free_port()
        self.exporter = Exporter(str(self.port), self._open, FakeClock())

    @contextmanager
    def _open(self) -> Iterator[Any]:
        if self.problem is not None:
            raise self.problem
        yield session_of(self._world)

    def read(self) -> dict[tuple[str, ...], float]:
        """Values by the name of a metric and its labels, in their order of the alphabet."""
        address = f"http://127.0.0.1:{self.port}/metrics"
        with urllib.request.urlopen(address, timeout=10) as answer:
            text = answer.read().decode()
        return {
            (sample.name, *(sample.labels[key] for key in sorted(sample.labels))): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }


def test_hosts_databases_and_volumes_are_read_when_prometheus_asks(world: FailoverWorld) -> None:
    records = world.service().operations.records
    records.put_maintenance(HostMaintenance(host="h3", since=world.clock.now()))
    world.lose("h2")
    history = WarningHistory(world.store, LAB, world.clock)
    history.change("growth", begun=[Warned("demo", "read-only", "warning", "It is full.")])
    reader = Reader(world)
    with reader.exporter.serving():
        found = reader.read()
    assert found["grampus_state_up",] == 1
    assert [found["grampus_host_reachable", host] for host in ("h1", "h2", "h3")] == [1, 0, 1]
    assert [found["grampus_host_maintenance", host] for host in ("h1", "h3")] == [0, 1]
    assert found["grampus_host_databases", "h1"] == 1
    assert found["grampus_database_desired_running", "demo"] == 1
    assert found["grampus_database_failed", "demo"] == 0
    assert found["grampus_database_warnings", "demo", "read-only"] == 1
    assert {key[1]: value for key, value in found.items() if key[0] == "grampus_volume_up"} == {
        "demo": 1,
        "dead": 0,
        "hung": 0,
        "lost": 0,
    }, "nothing of a volume whose host cannot be asked"
    assert found["grampus_volume_stalled", "demo"] == 1
    assert found["grampus_volume_journal_fill_ratio", "demo"] == 0.25
    assert found["grampus_volume_journal_lag_bytes", "demo"] == 4096
    assert found["grampus_volume_journal_lag_seconds", "demo"] == pytest.approx(0.08)
    info = next(key for key in found if key[0] == "grampus_database_info")
    assert info[1:4] == ("demo", "mysql", "h1")


def test_no_metric_holds_a_secret(world: FailoverWorld) -> None:
    reader = Reader(world)
    with reader.exporter.serving():
        address = f"http://127.0.0.1:{reader.port}/metrics"
        with urllib.request.urlopen(address, timeout=10) as answer:
            text = answer.read().decode()
    assert world.service().endpoint("demo").password.get_secret_value() not in text


def test_while_the_lab_is_held_the_controller_is_measured_all_the_same(
    world: FailoverWorld,
) -> None:
    reader = Reader(world)
    reader.problem = RefusedError("The lab is busy.", code="busy")

    def fail(_: Any) -> list[ControllerEvent]:
        raise GrampusError("No.")

    good = reader.exporter.measure(DueJob("growth", 5.0, lambda _: []))
    bad = reader.exporter.measure(DueJob("backups", 5.0, fail))
    assert good.run(None) == []
    with pytest.raises(GrampusError):
        bad.run(None)
    told: list[ControllerEvent] = []
    reader.exporter.noting(lambda _, event: told.append(event))("failover", FAILED_OVER)
    with reader.exporter.serving():
        found = reader.read()
    assert told == [FAILED_OVER]
    assert found["grampus_state_up",] == 0
    assert not [key for key in found if key[0].startswith("grampus_host")]
    assert found["grampus_controller_job_seconds_count", "growth"] == 1
    assert found["grampus_controller_job_seconds_count", "backups"] == 1
    assert found["grampus_controller_job_failures_total", "backups"] == 1
    assert found["grampus_controller_job_failures_total", "growth"] == 0
    succeeded = "grampus_controller_job_last_success_timestamp_seconds"
    assert found[succeeded, "growth"] == FakeClock().now().timestamp()
    assert found["grampus_controller_events_total", "failover", "failed-over", "done"] == 1
    assert found["grampus_failover_seconds_sum", "detected"] == 3.5
    assert found["grampus_failover_seconds_sum", "serving"] == 7.5


def test_an_address_that_is_taken_is_said(world: FailoverWorld) -> None:
    reader = Reader(world)
    with (
        socket.create_server(("127.0.0.1", reader.port)),
        pytest.raises(GrampusError, match="cannot be served") as caught,
        reader.exporter.serving(),
    ):
        pass
    assert caught.value.code == "address-in-use"
    assert "--metrics" in caught.value.remedy


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("9470", ("127.0.0.1", 9470)),
        (":9470", ("127.0.0.1", 9470)),
        ("10.0.0.1:9470", ("10.0.0.1", 9470)),
        ("[::1]:9470", ("::1", 9470)),
        ("0", None),
        ("65536", None),
        ("", None),
        ("localhost:9470", None),
        ("10.0.0.1:", None),
        ("10.0.0:1", None),
    ],
)
def test_places(text: str, expected: tuple[str, int] | None) -> None:
    if expected is not None:
        assert parse_metrics_place(text) == expected
        return
    with pytest.raises(UsageError, match="not an address"):
        parse_metrics_place(text)


def test_a_server_that_runs_again_is_not_shown_as_failed(world: FailoverWorld) -> None:
    """Its failure is kept for a while, so that a server that fails again waits longer."""
    records, now = world.service().operations.records, world.clock.now()
    failure = note_failure(None, ServerEnd(kind="signal"), now)
    records.put_failure("demo", failure)
    reader = Reader(world)
    with reader.exporter.serving():
        assert reader.read()["grampus_database_failed", "demo"] == 1
        records.put_failure("demo", note_restart(failure, now))
        assert reader.read()["grampus_database_failed", "demo"] == 0
        records.put_failure("demo", note_restart(failure, now, "No room."))
        assert reader.read()["grampus_database_failed", "demo"] == 1
