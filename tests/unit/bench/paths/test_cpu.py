"""CPU time over spans between readings, and the thread that reads."""

from __future__ import annotations

import threading

import pytest

from grampus.bench.paths.cpu import CpuReading, CpuWatch, cpu_used_us, osd_cpu_used_us
from grampus.core.errors import GrampusError
from grampus.hosts.port import Usage
from tests.fakes.clock import FakeClock
from tests.fakes.sysbench_host import SysbenchHost

READINGS = [
    CpuReading(10.0, {"load": 0, "driver": 1000}),
    CpuReading(11.0, {"load": 100, "driver": 3000}),
    CpuReading(13.0, {"load": 500, "driver": 3000}),
]


@pytest.mark.parametrize(
    ("daemons", "start_s", "end_s", "expected"),
    [
        (["load"], 10.0, 13.0, 500.0),
        (["load"], 10.5, 12.0, 250.0),
        (["load", "driver"], 10.0, 11.0, 2100.0),
        (["driver"], 11.0, 13.0, 0.0),
        ([], 10.0, 11.0, 0.0),
        # Not spanned, not there, or started anew: nothing is known.
        (["load"], 9.0, 11.0, None),
        (["load"], 10.0, 13.5, None),
        (["other"], 10.0, 11.0, None),
    ],
)
def test_cpu_used(daemons: list[str], start_s: float, end_s: float, expected: float | None) -> None:
    assert cpu_used_us(READINGS, daemons, start_s, end_s) == expected


def test_a_counter_that_went_back_is_another_daemons() -> None:
    readings = [CpuReading(1.0, {"load": 500}), CpuReading(2.0, {"load": 3})]
    assert cpu_used_us(readings, ["load"], 1.0, 2.0) is None


@pytest.mark.parametrize(
    ("last", "expected"),
    [
        ({"osd-0": 100, "osd.1": 50, "volumed-osd-2": 999}, 150.0),
        # One was not read, or is another one: the sum is not known.
        ({"osd-0": 100}, None),
        ({"osd-0": 100, "osd.1": -1}, None),
    ],
)
def test_the_cpu_of_osds(last: dict[str, int], expected: float | None) -> None:
    readings = [
        CpuReading(1.0, {"osd-0": 0, "osd.1": 0, "volumed-osd-2": 0}),
        CpuReading(2.0, last),
    ]
    assert osd_cpu_used_us(readings, 1.0, 2.0) == expected


def test_without_osds_their_cpu_is_not_nothing() -> None:
    assert osd_cpu_used_us(READINGS, 10.0, 13.0) is None


class CountingHost(SysbenchHost):
    """Counts how often it is read, and tells when it was often enough."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = 0
        self.enough = threading.Event()

    def observe_usage(self) -> dict[str, Usage]:
        self.reads += 1
        if self.reads == 2:
            raise GrampusError("The host hiccups.")
        if self.reads >= 4:
            self.enough.set()
        return {"load": Usage(self.reads, 0, 0, 0, 0, 0)}


class OtherHost(SysbenchHost):
    def __init__(self, name: str, cpu_us: dict[str, int] | None) -> None:
        super().__init__(name=name)
        self.cpu_us = cpu_us

    def observe_usage(self) -> dict[str, Usage]:
        if self.cpu_us is None:
            raise GrampusError("The host is down.")
        return {name: Usage(used, 0, 0, 0, 0, 0) for name, used in self.cpu_us.items()}


def test_of_other_hosts_only_the_osds_are_read() -> None:
    own = OtherHost("h1", {"load": 1, "osd-0": 2})
    others = [own, OtherHost("h2", {"load": 99, "osd-1": 3}), OtherHost("h3", None)]
    with CpuWatch(own, FakeClock(), osd_hosts=others, interval_s=60) as watch:
        pass
    assert watch.readings[0].cpu_us == {"load": 1, "osd-0": 2, "osd-1": 3}


def test_the_watch_reads_at_both_ends_and_between_and_survives_a_gap() -> None:
    host = CountingHost()
    with CpuWatch(host, FakeClock(), interval_s=0.001) as watch:
        assert host.enough.wait(timeout=10)
    assert host.reads >= 4 + 3
    assert [reading.cpu_us["load"] for reading in watch.readings] == [
        1,
        *range(3, host.reads + 1),
    ]
    assert not any(thread.name == "bench-cpu" for thread in threading.enumerate())
