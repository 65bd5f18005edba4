"""From the points of a trial to its bottleneck and the course of each layer."""

from __future__ import annotations

import pytest

from grampus.bench.drivers.client_bound import ClientVerdict
from grampus.bench.layers.subjects import Subjects
from grampus.bench.layers.times import CpuUse
from grampus.bench.layers.use import PARTS, TimeSpan, cpu_by_consumer, decide_shares, over_time
from grampus.bench.layers.why import decide_activity, decide_evidence, decide_why
from grampus.state.matrix_layers import SeriesKind, SeriesPoint

SUBJECTS = Subjects(
    machine="h1",
    client_cores=2.0,
    threads=8,
    servers={"mysqld-db@h1": 2.0},
    volumes={"db": "volumed-db@h1"},
)
# Two seconds of warm-up, eight of measuring.
SPAN = TimeSpan(100.0, 102.0, 110.0)


def _point(at_s: float, kind: SeriesKind, name: str, **values: float) -> SeriesPoint:
    return SeriesPoint(at_s=at_s, kind=kind, name=name, values=values)


def _made(busy: float = 0.95) -> list[SeriesPoint]:
    """Ten seconds in which the device was idle first, and then busy."""
    points = []
    for second in range(1, 11):
        at_s = 100.0 + second
        share = 0.0 if second <= 2 else busy
        points += [
            _point(
                at_s, "device", "osd-0@h1", busy_share=share, in_flight=4 * share, limit_share=0.5
            ),
            _point(at_s, "volume", "db", busy_share=1.0),
            _point(at_s, "device", "osd-1@h2", busy_share=0.1, limit_share=0.1),
            _point(at_s, "daemon", "osd-0@h1", cpu_cores=0.3),
            _point(at_s, "daemon", "osd-3@h1", cpu_cores=0.1),
            _point(at_s, "daemon", "osd-1@h2", cpu_cores=0.2),
            _point(at_s, "daemon", "mysqld-db@h1", cpu_cores=0.5),
            _point(at_s, "daemon", "volumed-db@h1", cpu_cores=0.25),
            _point(at_s, "daemon", "mon-h1@h1", cpu_cores=0.05),
            _point(at_s, "client", "clients@h1", cpu_cores=0.25),
            _point(at_s + 0.2, "client", "db.1", operations_per_s=100.0 * second),
            _point(at_s, "machine", "machine", cpu_cores=1.8, cpu_share=0.9),
            _point(at_s, "monitor", "h1", cpu_cores=0.01),
            _point(at_s, "monitor", "h2", cpu_cores=0.005),
        ]
    return points


@pytest.mark.parametrize(
    ("busy_share", "late_share", "told"),
    [(0.8, 0.2, True), (0.8, 0.05, False), (0.04, 0.04, False)],
)
def test_the_emulated_disk_that_is_latest_is_told(
    busy_share: float, late_share: float, told: bool
) -> None:
    points = [
        *_made(),
        *(
            _point(100.0 + n, "device", f"osd-{disk}@h3", model_busy_share=busy, late_share=late)
            for n in range(1, 11)
            for disk, busy, late in ((5, busy_share, late_share), (6, 0.9, 0.01))
        ),
    ]
    why = decide_why(points, SUBJECTS, SPAN, None, busy_threads=7.5, operations_per_s=400.0)
    late = "The emulated disk of osd-5@h3 took 25 % longer than its model says"
    assert ((why.passed_limit or "").startswith(late), why.passed_limit is None) == (told, not told)


def test_figures_of_a_device_are_those_of_the_one_that_is_named():
    points = [
        _point(100.0 + n, "device", name, **values)
        for n in range(1, 11)
        for name, values in (
            ("osd-0@h1", {"busy_share": 0.1, "limit_share": 0.02, "latency_ms": 1.0}),
            ("osd-3@h1", {"busy_share": 0.99, "latency_ms": 22.0}),  # nothing limits it
        )
    ]
    evidence = decide_evidence(points, SUBJECTS, None)
    assert (evidence.device, evidence.device_busy_share) == ("osd-3@h1", pytest.approx(0.99))
    assert (evidence.device_limit_share, evidence.device_latency_ms) == (None, 22.0)


def test_only_what_was_measured_decides():
    why = decide_why(
        _made(), SUBJECTS, SPAN, None, ["A gap."], busy_threads=7.5, operations_per_s=400.0
    )
    assert (why.bottleneck, why.confidence) == ("osd-device", "high")
    # Of eight threads, half a one with the client and another in the server; of the others, 3.8 of
    # 4.65 wait for a device.
    assert (why.times[0].layer, why.times[0].ms) == ("osd-device", pytest.approx(14, abs=0.5))
    assert sum(one.share for one in why.times) == pytest.approx(1, abs=0.01)
    device = next(use for use in why.layers if use.layer == "osd-device")
    assert (device.share, device.peak) == (0.95, 0.95)
    assert (why.from_s, why.measured_from_s, why.to_s) == (100, 102, 110)
    assert why.gaps == ("A gap.",)
    assert why.monitor_cpu_cores == pytest.approx(0.015)


def test_the_course_has_the_warm_up_too():
    why = decide_why(_made(), SUBJECTS, SPAN, None)
    device = next(use for use in why.layers if use.layer == "osd-device")
    assert len(device.over_time) == PARTS
    assert device.over_time[0] == 0.5
    assert device.over_time[-1] == 0.95
    assert None not in device.over_time
    assert why.throughput[0] == 100
    assert why.throughput[-5:-3] == (900, 1000)


def test_the_busiest_stands_for_a_layer():
    shares = {one.layer: dict(one.points) for one in decide_shares(_made(), SUBJECTS)}
    assert list(shares) == ["client", "server-cpu", "volume", "osd-cpu", "osd-device", "machine"]
    assert shares["osd-device"][110.0] == 0.95
    assert shares["server-cpu"][110.0] == 0.25
    # Both OSDs of h1, on two cores.
    assert shares["osd-cpu"][110.0] == pytest.approx(0.2)
    few = Subjects(machine="h1", client_cores=2.0, threads=8, osd_cores_per_host=0.5)
    shares = {one.layer: dict(one.points) for one in decide_shares(_made(), few)}
    assert shares["osd-cpu"][110.0] == pytest.approx(0.8)


def test_what_each_consumer_used():
    used = cpu_by_consumer(_made(), SUBJECTS)
    assert {who: round(use.cores, 2) for who, use in used.items()} == {
        "osd": 0.6,
        "server": 0.5,
        "volume": 0.25,
        "client": 0.25,
        # The MON, and what no daemon of ours did.
        "other": 0.2,
    }


def test_threads_that_wait_for_a_cpu_and_limits():
    points = [
        _point(1, "daemon", "osd-0@h1", cpu_cores=0.1, cpu_waiting=2.0, throttled_share=0.5),
        _point(1, "daemon", "osd-1@h2", cpu_cores=0.3, cpu_waiting=0.5, throttled_share=0.9),
        # It waits too, but no operation of the load waits for it.
        _point(1, "daemon", "mon-h1@h1", cpu_cores=0.1, cpu_waiting=9.0),
        _point(1, "client", "clients@h1", cpu_cores=0.25, cpu_waiting=0.75),
        _point(1, "machine", "machine", cores=2.0, cpu_cores=1.0, steal_share=0.25),
    ]
    assert cpu_by_consumer(points, SUBJECTS) == {
        "osd": CpuUse(0.4, 2.5, 0.5),
        "client": CpuUse(0.25, 0.75),
        # 0.35 that are nobody's, and half a core that another machine had.
        "other": CpuUse(pytest.approx(0.85)),
    }


def test_the_budget_of_a_host_holds_back_all_on_it():
    points = [
        _point(1, "daemon", "osd-0@h1", cpu_cores=0.1, cpu_waiting=2.0, throttled_share=0.0),
        _point(1, "daemon", "mysqld-db@h1", cpu_cores=0.1, cpu_waiting=1.0),
        _point(1, "daemon", "host@h1", throttled_share=0.75),
        _point(1, "daemon", "host@h2", throttled_share=0.0),
    ]
    used = cpu_by_consumer(points, SUBJECTS)
    assert used == {"osd": CpuUse(0.1, 2.0, 0.75), "server": CpuUse(0.1, 1.0, 0.75)}
    seen = decide_evidence(points, SUBJECTS, None)
    assert seen.throttled_hosts == {"h1": 0.75, "h2": 0.0}


def test_what_was_under_way():
    points = [
        _point(1, "osd", "osd.0", writes_per_s=100, in_flight=1.5, copies_in_flight=0.5),
        _point(1, "osd", "osd.1", copy_writes_per_s=100, reads_per_s=50, device_waiting=3.0),
        _point(1, "device", "osd-0@h2", in_flight=1.0, busy_share=0.5, flush_busy_share=0.25),
        _point(1, "daemon", "osd-0@h2", cpu_cores=0.1),
        _point(1, "daemon", "osd-1@h3", cpu_cores=0.1),
        _point(1, "network", "osds@h1", osd_round_trip_ms=2.0),
        _point(1, "network", "osds@h2", osd_round_trip_ms=0.5),
        _point(1, "network", "osds@h3", osd_round_trip_ms=1.5),
        _point(1, "volume", "db", busy_share=0.5, flush_busy_share=0.75),
        _point(1, "innodb", "db", row_lock_waiting=2.5),
    ]
    seen = decide_activity(points, SUBJECTS, 6.5, 200.0, is_open=False)
    assert (seen.threads, seen.busy_threads, seen.has_server) == (8, 6.5, True)
    # BlueStore saw more wait than the device: a limit held requests back before it.
    assert (seen.device_waiting, seen.device_serving) == (3.0, 0.75)
    assert (seen.volume_busy_share, seen.lock_waiting, seen.copies_share) == (0.75, 2.5, 0.25)
    # 150 requests a second from h1, 100 copies from the OSDs' hosts.
    assert seen.network_waiting == pytest.approx(0.15 * 2.0 + 0.1 * 1.0)


@pytest.mark.parametrize(
    ("block", "store", "osd_waiting", "waiting"),
    [
        (1.0, 9.0, 0.5, 8.5),  # A limit holds requests back before the device.
        (1.0, 9.0, 20.0, 1.0),  # BlueStore's threads wait for a CPU.
        (3.0, 2.0, 0.0, 3.0),
        (3.0, None, 0.0, 3.0),  # FileStore
        (None, 2.0, 0.5, 2.0),
        (None, None, 0.0, None),
    ],
)
def test_what_waits_for_a_device(
    block: float | None, store: float | None, osd_waiting: float, waiting: float | None
):
    points = [_point(1, "daemon", "osd-0@h1", cpu_cores=0.1, cpu_waiting=osd_waiting)]
    if block is not None:
        points.append(_point(1, "device", "osd-0@h1", in_flight=block))
    if store is not None:
        points.append(_point(1, "osd", "osd.0", device_waiting=store))
    seen = decide_activity(points, SUBJECTS, None, None, is_open=False)
    assert seen.device_waiting == waiting


def test_a_network_to_osds_that_cannot_be_observed():
    points = [
        _point(1, "volume", "db", read_iops=100, write_iops=50),
        _point(1, "network", "osds@h1", osd_round_trip_ms=20.0),
        _point(1, "client", "clients@h1", cpu_cores=0.1),
    ]
    seen = decide_activity(points, SUBJECTS, 7.9, 150.0, is_open=False)
    assert seen.network_waiting == pytest.approx(3.0)
    # It is a part of what is below the volume; the rest is unknown, and is the larger one here.
    why = decide_why(points, SUBJECTS, TimeSpan(0, 0.5, 1), None, busy_threads=7.9)
    assert {one.layer: one.share for one in why.times}["network"] == pytest.approx(3 / 8, rel=0.01)
    assert (why.bottleneck, why.confidence) == ("unknown", None)


def test_an_open_loop_has_no_idle_threads():
    seen = decide_activity(_made(), SUBJECTS, 3.0, 100.0, is_open=True)
    assert (seen.threads, seen.busy_threads) == (3.0, None)


def test_evidence_of_several_subjects():
    points = [
        _point(1, "volume", "a", busy_share=0.5, in_flight=2.0, flush_ms=1.0, flushes_per_s=10),
        _point(1, "volume", "b", busy_share=0.25, in_flight=3.0, flush_ms=3.0, flushes_per_s=20),
        _point(1, "innodb", "a", row_lock_waiting=1.0, log_busy_share=0.1, binlog_busy_share=0.3),
        _point(1, "innodb", "b", row_lock_waiting=2.0),
        _point(1, "osd", "osd.0", write_ms=2.0),
        _point(1, "osd", "osd.1", write_ms=4.0, read_ms=1.0),
    ]
    client = ClientVerdict("no", ())
    seen = decide_evidence(points, SUBJECTS, client)
    assert seen.volume_busy_share == 0.5
    assert (seen.flush_ms, seen.flushes_per_s) == (2, 30)
    assert (seen.lock_waiting, seen.log_busy_share) == (3, 0.3)
    assert (seen.osd_write_ms, seen.osd_read_ms) == (3, 1)
    assert (seen.device, seen.device_busy_share, seen.machine_share) == (None, None, None)
    assert seen.client is client


def test_nothing_was_seen():
    why = decide_why([], SUBJECTS, SPAN, None)
    assert (why.bottleneck, why.layers, why.monitor_cpu_cores) == ("unknown", (), None)
    assert set(why.throughput) == {None}


@pytest.mark.parametrize(
    ("points", "part", "value"),
    [
        ([(100.1, 1.0), (100.2, 3.0)], 0, 2.0),
        # A point is of the time before it.
        ([(101.0, 5.0)], 0, 5.0),
        ([(101.0, 5.0)], PARTS - 1, None),
        ([(110.0, 5.0)], PARTS - 1, 5.0),
        ([(100.0, 5.0), (110.1, 5.0)], 0, None),
    ],
)
def test_parts_of_a_trial(points: list[tuple[float, float]], part: int, value: float | None):
    assert over_time(points, SPAN)[part] == value
