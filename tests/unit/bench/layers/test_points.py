"""From counters to points of series."""

from __future__ import annotations

import pytest

from grampus.bench.drivers.outcome import Second
from grampus.bench.layers.points import (
    decide_client_points,
    decide_probe_points,
    decide_status_points,
    decide_usage_points,
)
from grampus.bench.layers.readings import (
    LOG_FILES,
    ProbeReading,
    StatusReading,
    parse_probe_line,
)
from grampus.bench.layers.subjects import LOG, Subjects, UsageReading
from grampus.hosts.port import BlockLimit, CpuWait, Usage
from grampus.state.matrix_layers import METRICS, SeriesPoint

from .made_readings import NET, STAT, block_stat, probe_line

SUBJECTS = Subjects(
    machine="h1",
    client_cores=2.0,
    threads=8,
    volumes={"db": "volumed-db@h1"},
    limits={"osd-0@h1": BlockLimit("/dev/loop0", read_iops=100, write_iops=150)},
)


def _readings(*lines: str) -> list[ProbeReading]:
    parsed = [parse_probe_line(line) for line in lines]
    assert None not in parsed
    return [one for one in parsed if one is not None]


def _of(points: list[SeriesPoint], kind: str) -> dict[str, dict[str, float]]:
    return {point.name: dict(point.values) for point in points if point.kind == kind}


def _made_probe(seconds: float, **ends: object) -> list[SeriesPoint]:
    """Of a start with all counters at 0, and an end with these."""
    first = {
        "devices": {"osd-0@h1": block_stat(), "db": block_stat()},
        "osds": {"0": {"op_w": 0, "op_w_latency": {"avgcount": 0, "sum": 0.0}}},
        "volumes": {"db": {"flush": {"in_flight": 0, "count": 0, "sum_us": 0.0}}},
    }
    lines = probe_line(100.0, **first), probe_line(100.0 + seconds, **{**first, **ends})
    return decide_probe_points("h1", _readings(*lines), SUBJECTS)


def test_a_device_is_held_against_its_limit():
    devices = {"osd-0@h1": block_stat(reads=10, writes=240, waited_ms=500, busy_ms=1000)}
    values = _of(_made_probe(2.0, devices=devices), "device")["osd-0@h1"]
    assert values["read_iops"] == 5
    assert values["write_bytes_per_s"] == 240 * 4096 / 2
    assert values["busy_share"] == 0.5
    assert values["in_flight"] == 0.25
    assert values["latency_ms"] == 2
    # 120 of 150 writes a second is nearer to the limit than 5 of 100 reads.
    assert values["limit_share"] == 0.8


def test_flushes_are_no_writes_of_a_medium():
    # 100 writes and 90 flushes a second, each of which the kernel counts as a write too.
    devices = {"osd-0@h1": block_stat(writes=2 * 190, flushes=2 * 90)}
    values = _of(_made_probe(2.0, devices=devices), "device")["osd-0@h1"]
    assert (values["write_iops"], values["flushes_per_s"]) == (190, 90)
    assert values["limit_share"] == pytest.approx(100 / 150, rel=1e-5)


@pytest.mark.parametrize(
    ("first", "last", "busy_share", "late_share"),
    [
        ({"busy_ms": 100.0, "late_ms": 5.0}, {"busy_ms": 1900.0, "late_ms": 205.0}, 0.9, 0.1),
        ({"busy_ms": 100.0, "late_ms": 5.0}, {"busy_ms": 90.0, "late_ms": 0.0}, None, None),
        (None, {"busy_ms": 1900.0, "late_ms": 205.0}, None, None),
        ({"busy_ms": 100.0, "late_ms": 5.0}, None, None, None),
    ],
)
def test_an_emulated_disk_says_how_late_it_was(
    first: dict[str, float] | None,
    last: dict[str, float] | None,
    busy_share: float | None,
    late_share: float | None,
):
    lines = [
        probe_line(
            at_s,
            devices={"osd-0@h1": block_stat()},
            disks={} if disk is None else {"osd-0@h1": disk},
        )
        for at_s, disk in ((100.0, first), (102.0, last))
    ]
    values = _of(decide_probe_points("h1", _readings(*lines), SUBJECTS), "device")["osd-0@h1"]
    assert (values.get("model_busy_share"), values.get("late_share")) == (busy_share, late_share)


def test_a_volume_has_its_flushes_and_what_volumed_says():
    values = _of(
        _made_probe(
            2.0,
            devices={"db": block_stat(writes=4, waited_ms=8, flushes=100, flush_ms=1500)},
            volumes={"db": {"flush": {"in_flight": 2, "count": 100, "sum_us": 1_200_000.0}}},
        ),
        "volume",
    )["db"]
    assert (values["flushes_per_s"], values["flush_busy_share"], values["flush_ms"]) == (
        50,
        0.75,
        15,
    )
    assert (values["served_in_flight"], values["served_flush_ms"]) == (2, 12)
    assert "limit_share" not in values


def test_a_write_to_the_log_of_a_volume_counts_as_a_flush():
    log = f"db{LOG}"
    first = probe_line(100.0, devices={"db": block_stat(), log: block_stat()})
    last = probe_line(
        102.0,
        devices={
            # Its own flushes only keep the order of writes.
            "db": block_stat(reads=10, writes=90, waited_ms=300, busy_ms=200, flushes=100),
            log: block_stat(writes=100, waited_ms=500, busy_ms=500),
        },
    )
    volumes = _of(decide_probe_points("h1", _readings(first, last), SUBJECTS), "volume")
    assert list(volumes) == ["db"]
    values = volumes["db"]
    assert (values["read_iops"], values["write_iops"]) == (5, 95)
    assert values["write_bytes_per_s"] == 190 * 4096 / 2
    assert (values["in_flight"], values["latency_ms"]) == (0.4, 4)
    assert values["busy_share"] == values["flush_busy_share"] == 0.25
    assert (values["flushes_per_s"], values["flush_ms"]) == (50, 5)


def test_without_two_readings_of_its_log_nothing_is_said_of_a_volume():
    log = f"db{LOG}"
    first = probe_line(100.0, devices={"db": block_stat()})
    last = probe_line(102.0, devices={"db": block_stat(writes=9), log: block_stat(writes=9)})
    volumes = _of(decide_probe_points("h1", _readings(first, last), SUBJECTS), "volume")
    assert "write_iops" not in volumes.get("db", {})


def test_an_osd_says_how_long_a_write_took():
    osds = {"0": {"op_w": 50, "op_w_latency": {"avgcount": 50, "sum": 0.1}}}
    values = _of(_made_probe(2.0, osds=osds), "osd")["osd.0"]
    assert values == {"writes_per_s": 25, "write_ms": 2, "in_flight": 0.05}


def _timed(count: int, sum_s: float) -> dict[str, float]:
    return {"avgcount": count, "sum": sum_s}


def test_writes_under_a_condition_are_writes():
    # Appends to a journal count as `op_rw` alone: such a database seemed to write nothing once.
    first = {
        **{"op_w": 0, "op_w_latency": _timed(0, 0), "op_rw": 0, "op_rw_latency": _timed(0, 0)},
        **{"op_r": 0, "op_r_latency": _timed(0, 0), "subop_w_latency": _timed(0, 0)},
        **{"state_aio_wait_lat": _timed(0, 0), "kv_sync_lat": _timed(0, 0)},
    }
    last = {
        **{
            "op_w": 20,
            "op_w_latency": _timed(20, 0.4),
            "op_rw": 60,
            "op_rw_latency": _timed(60, 2),
        },
        **{"op_r": 10, "op_r_latency": _timed(10, 0.2), "subop_w_latency": _timed(80, 0.8)},
        **{"state_aio_wait_lat": _timed(80, 0.5), "kv_sync_lat": _timed(40, 1.1)},
    }
    lines = probe_line(100.0, osds={"0": first}), probe_line(102.0, osds={"0": last})
    values = _of(decide_probe_points("h1", _readings(*lines), SUBJECTS), "osd")["osd.0"]
    assert (values["writes_per_s"], values["write_ms"]) == (40, 30)
    assert (values["in_flight"], values["copies_in_flight"]) == (1.3, 0.4)
    assert values["device_waiting"] == 0.8


def test_how_long_packets_took_to_the_hosts_of_osds():
    points = _made_probe(2.0, osd_round_trips_ms={"10.0.0.2": 0.25, "10.0.0.3": 0.75})
    assert _of(points, "network") == {"osds@h1": {"osd_round_trip_ms": 0.5}}
    assert _of(_made_probe(2.0, osd_round_trips_ms={}), "network") == {}


def test_clients_monitor_and_machine():
    points = _made_probe(
        2.0,
        own_cpu_s=0.01,
        client_ticks=50,
        client_waited_ns=3_000_000_000,
        stat=STAT.format(busy=300, idle=50, waiting=50, stolen=0),
    )
    assert _of(points, "monitor") == {"h1": {"cpu_cores": 0.005}}
    assert _of(points, "client") == {"clients@h1": {"cpu_cores": 0.25, "cpu_waiting": 1.5}}
    machine = _of(points, "machine")["machine"]
    assert (machine["cores"], machine["cpu_cores"], machine["cpu_share"]) == (2, 1.5, 0.75)
    assert machine["iowait_share"] == 0.125
    assert machine["memory_bytes"] == pytest.approx(1024**3, rel=1e-5)


def test_what_other_machines_had_could_not_be_used():
    """Two cores of which a half was stolen are full at one and a half."""
    points = _made_probe(2.0, stat=STAT.format(busy=300, idle=0, waiting=0, stolen=100))
    machine = _of(points, "machine")["machine"]
    assert (machine["cores"], machine["cpu_cores"]) == (2, 1.5)
    assert (machine["cpu_share"], machine["steal_share"]) == (1.0, 0.25)


@pytest.mark.parametrize(("speeds", "share"), [({"eth0": 8}, 0.5), ({}, None)])
def test_a_link_is_held_against_its_speed(speeds: dict[str, int], share: float | None):
    network = NET.format(received=1_000_000, sent=10)
    values = _of(_made_probe(2.0, network=network, link_speeds=speeds), "network")["eth0@h1"]
    assert values["received_bytes_per_s"] == 500_000
    assert values.get("limit_share") == share


def test_a_quiet_link_is_left_out():
    assert _of(_made_probe(2.0, network=NET.format(received=2047, sent=0)), "network") == {}


def test_what_went_back_gives_no_values():
    high = {"osd-0@h1": block_stat(reads=9)}
    low = {"osd-0@h1": block_stat(reads=1)}
    before = probe_line(1.0, devices=high, client_ticks=9, client_waited_ns=9)
    lines = before, probe_line(2.0, devices=low)
    points = decide_probe_points("h1", _readings(*lines), SUBJECTS)
    assert _of(points, "device") == {}
    assert _of(points, "client") == {}


@pytest.mark.parametrize("later_s", [1.0, 0.5])
def test_a_clock_that_stands_or_goes_back_gives_no_points(later_s: float):
    assert (
        decide_probe_points("h1", _readings(probe_line(1.0), probe_line(later_s)), SUBJECTS) == []
    )


def test_only_one_host_tells_of_the_machine():
    lines = (
        probe_line(1.0),
        probe_line(2.0, stat=STAT.format(busy=100, idle=100, waiting=0, stolen=0)),
    )
    assert "machine" not in _of(decide_probe_points("h2", _readings(*lines), SUBJECTS), "machine")


def test_daemons():
    readings = [
        UsageReading(1.0, {"osd-0@h1": Usage(1_000_000, 5, 0, 0, 0, 0)}),
        UsageReading(
            3.0,
            {
                "osd-0@h1": Usage(2_000_000, 7, 0, 0, 0, 0),
                "new@h1": Usage(2_000_000, 7, 0, 0, 0, 0),
            },
        ),
    ]
    (point,) = decide_usage_points(readings)
    assert (point.at_s, point.kind, point.name) == (3.0, "daemon", "osd-0@h1")
    assert point.values == {"cpu_cores": 0.5, "memory_bytes": 7}


def test_daemons_that_wait_for_a_cpu():
    usage = {"osd-0@h1": Usage(0, 5, 0, 0, 0, 0), "mon@h1": Usage(0, 5, 0, 0, 0, 0)}
    readings = [
        UsageReading(1.0, usage, {"osd-0@h1": CpuWait(1_000_000, 0)}),
        # Two CPUs held it back at once.
        UsageReading(3.0, usage, {"osd-0@h1": CpuWait(7_000_000, 3_000_000)}),
        # A thread ended, and its waiting is gone.
        UsageReading(4.0, usage, {"osd-0@h1": CpuWait(2_000_000, 3_100_000)}),
    ]
    of_osd = [point.values for point in decide_usage_points(readings) if point.name == "osd-0@h1"]
    assert of_osd[0]["cpu_waiting"] == 3
    assert of_osd[0]["throttled_share"] == 1
    assert "cpu_waiting" not in of_osd[1]
    assert of_osd[1]["throttled_share"] == pytest.approx(0.1)
    assert "cpu_waiting" not in decide_usage_points(readings)[0].values


def test_what_the_budget_of_a_host_held_back():
    usage = {"osd-0@h1": Usage(0, 5, 0, 0, 0, 0)}
    readings = [
        UsageReading(1.0, usage, {"host@h1": CpuWait(0, 0)}),
        UsageReading(3.0, usage, {"host@h1": CpuWait(0, 500_000)}),
        UsageReading(3.0, usage, {"host@h1": CpuWait(0, 600_000)}),
    ]
    points = {point.name: dict(point.values) for point in decide_usage_points(readings)}
    assert points["host@h1"] == {"throttled_share": 0.25}
    assert "throttled_share" not in points["osd-0@h1"]


def test_the_status_of_a_server():
    before = {"threads_running": 1.0, "innodb_row_lock_time": 0.0, "innodb_os_log_fsyncs": 10.0}
    after = {"threads_running": 9.0, "innodb_row_lock_time": 8000.0, "innodb_os_log_fsyncs": 110.0}
    (point,) = decide_status_points(
        "db",
        [
            StatusReading(10.0, before, {LOG_FILES: 1.0}),
            StatusReading(12.0, after, {LOG_FILES: 2.5}),
        ],
        ahead_s=0.5,
    )
    assert point.at_s == 11.5
    assert point.values == {
        "threads_running": 9,
        "row_lock_waiting": 4,
        "log_fsyncs_per_s": 50,
        "log_busy_share": 0.75,
    }


def test_clients_tell_of_their_seconds():
    points = decide_client_points("db.1", 50.0, [Second(1.0, 1.0, 10), Second(3.0, 2.0, 10, 4)])
    assert [(point.at_s, dict(point.values)) for point in points] == [
        (51.0, {"operations_per_s": 10, "errors_per_s": 0}),
        (53.0, {"operations_per_s": 5, "errors_per_s": 2}),
    ]


def test_a_metric_that_no_kind_has_is_refused():
    with pytest.raises(ValueError, match="speed is not a metric of osd"):
        SeriesPoint(at_s=1, kind="osd", name="osd.0", values={"speed": 1})
    assert set(METRICS["volume"]) > set(METRICS["device"]) - {
        "limit_share",
        "model_busy_share",
        "late_share",
    }
