"""Rates from counters that may be reset, missing or new."""

from __future__ import annotations

import pytest

from grampus.bench.counters import (
    BlockCounters,
    CpuTimes,
    Memory,
    Reading,
    busy_cores,
    classify_calm,
    decide_samples,
    parse_block_stat,
    parse_cpu_times,
    parse_memory,
)
from grampus.hosts.port import Usage

STAT = """cpu  100 10 50 800 30 5 5 20 7 0
cpu0 50 5 25 400 15 3 2 10 7 0
cpu1 50 5 25 400 15 2 3 10 0 0
intr 12 0
ctxt 99
"""


def usage(cpu_us: int = 0, writes: int = 0) -> Usage:
    return Usage(
        cpu_us=cpu_us,
        memory_bytes=1000,
        read_ops=0,
        write_ops=writes,
        read_bytes=0,
        write_bytes=writes * 4096,
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("  10  1  80  5  20  2  160  9  0  4  14 0 0 0 0\n", BlockCounters(10, 40960, 20, 81920)),
        ("10 1 80 5 20 2 160", BlockCounters(10, 40960, 20, 81920)),
        ("", None),
        ("10 1 80", None),
        ("no such device at all here now", None),
    ],
)
def test_parse_block_stat(text: str, expected: BlockCounters | None) -> None:
    assert parse_block_stat(text) == expected


def test_waiting_and_stolen_time_are_not_work() -> None:
    assert parse_cpu_times(STAT) == CpuTimes(
        busy_ticks=170, total_ticks=1020, cores=2, stolen_ticks=20
    )
    assert parse_cpu_times("") is None
    assert parse_cpu_times("cpu 1 2\n") is None


def test_parse_memory() -> None:
    text = "MemTotal:  1000 kB\nMemFree: 1 kB\nMemAvailable:   400 kB\nHugePages_Total: 0\n"
    assert parse_memory(text) == Memory(1024_000, 409_600)
    assert parse_memory("MemTotal: 5 kB\n") is None


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (CpuTimes(100, 1000, 4), CpuTimes(150, 1200, 4), 1.0),
        (CpuTimes(100, 1000, 4), CpuTimes(100, 1000, 4), None),
        (CpuTimes(100, 1000, 4), CpuTimes(90, 1200, 4), None),
    ],
)
def test_busy_cores(before: CpuTimes, after: CpuTimes, expected: float | None) -> None:
    assert busy_cores(before, after) == expected


def test_samples_are_rates_between_two_readings() -> None:
    before = Reading(
        at_s=100.0,
        monotonic_s=0.0,
        usages={"osd-0@h1": usage(1_000_000, 5), "mysqld-demo@h2": usage(0, 100)},
        devices={"osd-0@h1": BlockCounters(0, 0, 0, 0)},
        volumes={"demo": BlockCounters(10, 100, 20, 200)},
        cpu=CpuTimes(0, 0, 2),
    )
    after = Reading(
        at_s=102.0,
        monotonic_s=2.0,
        usages={"osd-0@h1": usage(2_000_000, 5), "mysqld-demo@h2": usage(500_000, 104)},
        devices={"osd-0@h1": BlockCounters(4, 40, 8, 80)},
        volumes={"demo": BlockCounters(12, 108, 24, 216)},
        cpu=CpuTimes(100, 400, 2),
        memory=Memory(1000, 300),
    )
    samples = {(sample.kind, sample.name): sample for sample in decide_samples(before, after)}
    assert {sample.at_s for sample in samples.values()} == {102.0}
    osd = samples["daemon", "osd-0@h1"]
    # The device's own counters, not those of the control group, count for an OSD.
    assert (osd.cpu_cores, osd.write_iops, osd.read_bytes_per_s) == (0.5, 4.0, 20.0)
    mysqld = samples["daemon", "mysqld-demo@h2"]
    assert (mysqld.cpu_cores, mysqld.write_iops, mysqld.memory_bytes) == (0.25, 2.0, 1000)
    volume = samples["volume", "demo"]
    assert (volume.read_iops, volume.write_bytes_per_s, volume.cpu_cores) == (1.0, 8.0, None)
    machine = samples["machine", "machine"]
    assert (machine.cpu_cores, machine.memory_bytes, machine.read_iops) == (0.5, 700, None)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        # The daemon was restarted.
        (Reading(0, 0, usages={"a@h": usage(900)}), Reading(1, 1, usages={"a@h": usage(5)})),
        (Reading(0, 0), Reading(1, 1, usages={"a@h": usage(5)})),
        (Reading(0, 0, usages={"a@h": usage(5)}), Reading(1, 1)),
        # The volume was attached anew.
        (
            Reading(0, 0, volumes={"v": BlockCounters(9, 9, 9, 9)}),
            Reading(1, 1, volumes={"v": BlockCounters(9, 9, 1, 9)}),
        ),
        (Reading(0, 0), Reading(1, 1, volumes={"v": BlockCounters(9, 9, 9, 9)})),
        # No time passed.
        (Reading(0, 0, usages={"a@h": usage(1)}), Reading(0, 0, usages={"a@h": usage(5)})),
    ],
)
def test_resets_and_missing_subjects_give_no_sample(before: Reading, after: Reading) -> None:
    assert decide_samples(before, after) == []


def test_a_device_that_vanished_takes_only_its_io_away() -> None:
    before = Reading(0, 0, usages={"osd-0@h": usage(0)})
    after = Reading(
        1, 1, usages={"osd-0@h": usage(10)}, devices={"osd-0@h": BlockCounters(1, 1, 1, 1)}
    )
    (sample,) = decide_samples(before, after)
    assert sample.cpu_cores == pytest.approx(1e-5)
    assert sample.write_iops is None


@pytest.mark.parametrize(
    ("after", "calm"),
    [
        (usage(10_000, 2), True),
        (usage(60_000, 0), False),
        (usage(0, 11), False),
    ],
)
def test_classify_calm(after: Usage, calm: bool) -> None:
    assert classify_calm(usage(), after, 1.0) is calm


def test_an_instance_that_was_restarted_is_not_known_to_be_calm() -> None:
    assert not classify_calm(usage(500), usage(10), 1.0)
