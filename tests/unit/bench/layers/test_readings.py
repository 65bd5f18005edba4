"""What the monitors print, as counters."""

from __future__ import annotations

import pytest

from grampus.bench.layers.readings import (
    BINLOG_FILES,
    LOG_FILES,
    STATUS_VARIABLES,
    DiskTimes,
    Served,
    Timed,
    Traffic,
    parse_block_times,
    parse_network,
    parse_probe_line,
    parse_status_rows,
    status_statements,
)

from .made_readings import MEMORY, NET, STAT, block_stat, probe_line


def test_a_line_of_the_probe_is_read():
    reading = parse_probe_line(
        probe_line(
            12.5,
            own_cpu_s=0.25,
            client_ticks=150,
            client_waited_ns=250_000_000,
            osd_round_trips_ms={"10.0.0.2": 0.5},
            devices={"osd-0@h1": block_stat(reads=3, busy_ms=7)},
            osds={"0": {"op_w": 4, "op_w_latency": {"avgcount": 4, "sum": 0.5, "avgtime": 0.1}}},
            volumes={"v": {"write": {"in_flight": 1, "count": 9, "sum_us": 900.0}}},
            disks={"osd-0@h1": {"busy_ms": 900.5, "late_ms": 10}},
            network=NET.format(received=10, sent=20),
            link_speeds={"eth0": 1000},
            stat=STAT.format(busy=100, idle=50, waiting=25, stolen=0),
            memory=MEMORY,
        )
    )
    assert reading is not None
    assert (reading.at_s, reading.own_cpu_s, reading.client_cpu_s) == (12.5, 0.25, 1.5)
    assert (reading.client_waited_s, reading.osd_round_trips_ms) == (0.25, {"10.0.0.2": 0.5})
    assert reading.devices["osd-0@h1"].reads == 3
    assert reading.osds == {"0": {"op_w": 4, "op_w_latency": Timed(4, 0.5)}}
    assert reading.volumes == {"v": {"write": Served(1, 9, 900.0)}}
    assert reading.disks == {"osd-0@h1": DiskTimes(900.5, 10.0)}
    assert reading.network == {"eth0": Traffic(10, 20, 125e6)}
    assert reading.cpu is not None
    assert (reading.cpu.busy_ticks, reading.cpu.total_ticks, reading.cpu.cores) == (100, 175, 2)
    assert reading.iowait_ticks == 25
    assert reading.memory is not None


@pytest.mark.parametrize(
    "line",
    ["", "{", "[]", "null", '{"at_s": 1}', probe_line(1.0)[:-9], probe_line(1.0, ticks_per_s="x")],
)
def test_a_line_that_is_none_is_left_out(line: str):
    assert parse_probe_line(line) is None


def test_what_could_not_be_read_is_left_out():
    reading = parse_probe_line(
        probe_line(1.0, devices={"gone": ""}, stat="", memory="", network="")
    )
    assert reading is not None
    assert (reading.devices, reading.network, reading.cpu, reading.memory) == ({}, {}, None, None)


@pytest.mark.parametrize(
    ("text", "flushes"),
    [
        (block_stat(flushes=6, flush_ms=9), (6, 9)),
        # Kernels before 5.5.
        (" ".join(block_stat(flushes=6, flush_ms=9).split()[:11]), (0, 0)),
    ],
)
def test_flushes_of_a_device(text: str, flushes: tuple[int, int]):
    times = parse_block_times(text)
    assert times is not None
    assert (times.flushes, times.flush_ms) == flushes


@pytest.mark.parametrize("text", ["", "1 2 3", block_stat().replace("0", "x", 1)])
def test_a_stat_that_is_none(text: str):
    assert parse_block_times(text) is None


def test_only_a_real_link_has_a_speed():
    text = NET.format(received=1, sent=2)
    assert parse_network(text, {}) == {"eth0": Traffic(1, 2, None)}
    assert parse_network("what\nis this: 1 2", {}) == {}


def test_the_status_is_asked_for_so_many_times_with_sleeps_between():
    statements = status_statements(3, 1.0)
    assert statements.count("show global status") == 3
    assert statements.count("do sleep(1);") == 2
    assert all(f"'{name}'" in statements for name in STATUS_VARIABLES)
    assert all(f"'{name}'" in statements for name in (LOG_FILES, BINLOG_FILES))


def test_the_status_is_read():
    whole = [
        ["at", "100.5"],
        ["Threads_running", "3"],
        ["Innodb_row_lock_time", "17"],
        ["wait/io/file/innodb/innodb_log_file", "2500000000000"],
        ["Odd_one", "ON"],
        ["end", "0"],
    ]
    (reading,) = parse_status_rows([["Threads_running", "9"], *whole, ["at", "101.5"], ["x"]])
    assert reading.at_s == 100.5
    assert reading.variables == {"threads_running": 3, "innodb_row_lock_time": 17}
    assert reading.file_wait_s == {LOG_FILES: 2.5}
