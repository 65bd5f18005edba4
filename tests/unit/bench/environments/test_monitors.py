"""The monitors of a trial on hosts that play probe and server."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from grampus.bench.client import ArmClient
from grampus.bench.environments.clients import mark_of
from grampus.bench.environments.monitors import HostMonitors, Seen, Watch, probe_argv
from grampus.bench.layers.subjects import Subjects
from grampus.bench.measured_ports import IoDevice
from grampus.core.errors import GrampusError
from grampus.hosts.port import CommandResult, CpuWait, HostUnreachableError, Usage
from tests.fakes.clock import FakeClock
from tests.fakes.hosts import FakeFleet
from tests.fakes.sysbench_host import FakeCommand, SysbenchHost, make_endpoint
from tests.unit.bench.layers.made_readings import probe_line


class Endless(FakeCommand):
    """A probe that prints two lines, and goes on until it is ended."""

    def lines(self) -> Iterator[str]:
        yield from ("not a line", probe_line(1.0), probe_line(2.0, client_ticks=50))
        self.terminated.wait(timeout=10)


class WatchedHost(SysbenchHost):
    """Its probe is `probe`; its server sleeps until it is killed."""

    def __init__(self, name: str) -> None:
        super().__init__(name, clock=FakeClock())
        self.probe: FakeCommand | GrampusError = Endless([], [])
        self.argv: Sequence[str] = ()
        self.status = "at\t1.0\nThreads_running\t1\nend\t0\nat\t2.0\nThreads_running\t7\nend\t0\n"
        self.sleeps = False
        self.status_error: GrampusError | None = None
        self.killed = threading.Event()
        self.gathered: list[tuple[str, ...]] = []

    def spawn(self, argv: Sequence[str], *, stdin: str | None = None) -> FakeCommand:
        self.argv = tuple(argv)
        if isinstance(self.probe, GrampusError):
            raise self.probe
        return self.probe

    def run(self, argv: Sequence[str], *, stdin: str | None = None, **_: Any) -> CommandResult:
        said = stdin or ""
        if said.startswith("select id from information_schema.processlist"):
            return CommandResult(tuple(argv), 0, "42\n" if self.sleeps else "", "")
        if said.startswith("kill"):
            assert said == "kill 42;\n"
            self.killed.set()
            return CommandResult(tuple(argv), 0, "", "")
        assert "show global status" in said
        self.gathered.append(tuple(argv))
        if self.status_error is not None:
            raise self.status_error
        if self.sleeps:
            assert self.killed.wait(timeout=10)
        return CommandResult(tuple(argv), 1 if self.sleeps else 0, self.status, "")


def _watch(host: SysbenchHost | None = None, **changed: Any) -> Watch:
    subjects = Subjects(machine="h1", client_cores=2.0, threads=8, volumes={"db": None})
    databases = {}
    if host is not None:
        endpoint = make_endpoint("10.0.1.1", "mysqld-db")
        databases["db"] = ArmClient(host, endpoint, "mysql", host.data_dir)
    content: dict[str, Any] = {
        "subjects": subjects,
        "devices": [],
        "databases": databases,
        "lasts_s": 60.0,
        **changed,
    }
    return Watch(**content)


def _seen(watch: Watch, *hosts: SysbenchHost) -> Seen:
    monitors = HostMonitors(FakeFleet(hosts), FakeClock())
    with monitors.watching(watch) as seen:
        assert seen.points == []
    return seen


def test_everything_is_seen_and_nothing_goes_on():
    host = WatchedHost("h1")
    host.usage = {"osd-0": Usage(5, 7, 0, 0, 0, 0)}
    host.usage["mon-h1"] = host.usage["osd-0"]
    host.cpu_waits = {"osd-0": CpuWait(3), "mon-h1": CpuWait(4)}
    seen = _seen(_watch(host), host)
    assert isinstance(host.probe, Endless)
    assert host.probe.terminated.is_set()
    kinds = {point.kind for point in seen.points}
    assert {"client", "monitor", "innodb"} <= kinds
    assert [point.at_s for point in seen.points] == sorted(point.at_s for point in seen.points)
    assert {"--force", "--skip-reconnect"} <= set(host.gathered[0])


def test_a_server_that_would_sleep_on_is_woken():
    host = WatchedHost("h1")
    host.sleeps = True
    seen = _seen(_watch(host), host)
    assert host.killed.is_set()
    assert {point.name for point in seen.points if point.kind == "innodb"} == {"db"}


def test_what_cannot_be_watched_is_a_gap():
    host = WatchedHost("h1")
    host.probe = HostUnreachableError("The host h1 is down.")
    host.status_error = GrampusError("The server went away.")
    seen = _seen(_watch(host), host)
    assert seen.points == []
    assert any("The host h1 is down." in gap for gap in seen.gaps)
    assert any("The server went away." in gap for gap in seen.gaps)


def test_a_probe_that_says_nothing_is_a_gap():
    host = WatchedHost("h1")
    host.probe = FakeCommand([], [], returncode=127, stderr="python3: not found")
    assert "The host h1 said nothing of itself." in _seen(_watch(), host).gaps


def test_a_host_that_is_away_has_no_probe():
    host, away = WatchedHost("h1"), WatchedHost("h2")
    fleet = FakeFleet([host, away])
    away.up = False
    with HostMonitors(fleet, FakeClock()).watching(_watch()):
        pass
    assert host.argv
    assert not away.argv


def test_monitors_end_when_what_they_watch_fails():
    host = WatchedHost("h1")
    monitors = HostMonitors(FakeFleet([host]), FakeClock())
    with pytest.raises(GrampusError, match="The load failed"), monitors.watching(_watch()):
        raise GrampusError("The load failed.")
    assert isinstance(host.probe, Endless)
    assert host.probe.terminated.is_set()


def test_a_probe_is_told_of_its_own_host_alone():
    host = SysbenchHost("h1")
    devices = [
        IoDevice("daemon", "osd-0", "h1", "/dev/loop0", control_socket="/data/disks/0/control"),
        IoDevice("daemon", "osd-1", "h2", "/dev/loop1", control_socket="/data/disks/0/control"),
        IoDevice(
            *("volume", "db", "h1", "/dev/loop2"),
            control_socket="/data/exports/db/control",
            log_device="/dev/loop4",
        ),
        IoDevice("volume", "others", "h1", "/dev/loop3"),
    ]
    argv = probe_argv(host, _watch(devices=devices))
    assert argv[:4] == ["env", mark_of(host), "python3", "-c"]
    asked = json.loads(argv[-1])
    assert asked["devices"] == {"osd-0@h1": "loop0", "db": "loop2", "db log": "loop4"}
    assert asked["volumed_sockets"] == {"db": "/data/exports/db/control"}
    assert asked["disk_sockets"] == {"osd-0@h1": "/data/disks/0/control"}
    assert asked["machine"]
    assert asked["lasts_s"] > 60
    assert not json.loads(probe_argv(SysbenchHost("h2"), _watch())[-1])["machine"]


def test_the_probe_reads_this_machine():
    """The program itself, for one second, without any cluster."""
    host = RealHost()
    with HostMonitors(FakeFleet([host]), FakeClock()).watching(_watch()) as seen:
        assert host.read.wait(timeout=20)
    kinds = {point.kind for point in seen.points}
    assert {"machine", "monitor", "client"} <= kinds


class RealHost(SysbenchHost):
    """Runs the probe here; `read` is set when it has printed twice."""

    def __init__(self) -> None:
        super().__init__("h1")
        self.read = threading.Event()

    def spawn(self, argv: Sequence[str], *, stdin: str | None = None) -> FakeCommand:
        return RealProbe(argv, self.read)


class RealProbe(FakeCommand):
    def __init__(self, argv: Sequence[str], read: threading.Event) -> None:
        super().__init__(argv, [])
        asked = json.loads(argv[-1])
        assert asked["interval_s"] == 1.0
        self._read = read
        quicker = [*argv[:-1], json.dumps({**asked, "interval_s": 0.1})]
        self._process = subprocess.Popen(quicker, stdout=subprocess.PIPE, text=True)

    def lines(self) -> Iterator[str]:
        assert self._process.stdout is not None
        with self._process.stdout as stdout:
            for number, line in enumerate(stdout, start=1):
                if number > 2:
                    self._read.set()
                yield line

    def terminate(self) -> None:
        self._process.terminate()
        self._process.wait(timeout=10)
        self.terminated.set()
