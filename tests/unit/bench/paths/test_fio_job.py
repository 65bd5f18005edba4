"""Job files: what fio is asked to do."""

from __future__ import annotations

from pathlib import PurePosixPath

from grampus.bench.paths.fio_job import (
    FileTarget,
    RbdTarget,
    Region,
    Timing,
    fio_argv,
    render_ceph_conf,
    render_fill,
    render_measures,
)
from grampus.bench.paths.suite import Measure

RBD = RbdTarget(
    "databases", "bench-paths", "grampus.dev.bench-paths", PurePosixPath("/d/ceph.conf")
)
FILE = FileTarget(PurePosixPath("/d/exports/bench-paths/image"))
REGION = Region(offset_bytes=1024, size_bytes=4096)


def measure(name: str, **changed: object) -> Measure:
    values: dict[str, object] = {
        "name": name,
        "title": name,
        "part": "volume",
        "pattern": "randread",
        "block_bytes": "16K",
        "depth": 32,
    }
    return Measure.model_validate(values | changed)


def jobs_of(text: str) -> dict[str, dict[str, str]]:
    """The sections of a job file with their options."""
    sections: dict[str, dict[str, str]] = {}
    for line in text.splitlines():
        if line.startswith("["):
            sections[line.strip("[]")] = {}
        else:
            name, _, value = line.partition("=")
            sections[list(sections)[-1]][name] = value
    return sections


def test_each_measure_is_a_job_that_waits_for_the_one_before() -> None:
    measures = [
        measure("16k-randread-qd32"),
        measure("1m-write", pattern="write", block_bytes="1M", depth=16, time_factor=1.5),
        measure("4k-write-fsync", pattern="randwrite", block_bytes="4K", depth=1, fsync=True),
    ]
    jobs = jobs_of(render_measures(FILE, REGION, measures, Timing(500, 100), seed=7))
    assert list(jobs) == ["global", "16k-randread-qd32", "1m-write", "4k-write-fsync"]
    assert (
        jobs["global"]
        | {
            "ioengine": "libaio",
            "filename": str(FILE.path),
            "direct": "1",
            "offset": "1024",
            "size": "4096",
            "ramp_time": "100ms",
            "randseed": "7",
            "time_based": "1",
            "lat_percentiles": "1",
        }
        == jobs["global"]
    )
    assert all("stonewall" in jobs[one.name] for one in measures)
    assert jobs["16k-randread-qd32"] == {
        "stonewall": "",
        "rw": "randread",
        "bs": "16384",
        "iodepth": "32",
        "runtime": "500ms",
    }
    assert jobs["1m-write"]["runtime"] == "750ms"
    assert [name for name, job in jobs.items() if job.get("fsync")] == ["4k-write-fsync"]


def test_writes_can_be_skewed_sustained_or_counted() -> None:
    measures = [
        measure("burst", pattern="randwrite", block_bytes="4K", total_bytes="64M"),
        measure("skewed", pattern="randwrite", sustained=True, zipf=1.1),
        measure("after", pattern="randwrite", depth=64, time_factor=2),
    ]
    jobs = jobs_of(render_measures(FILE, REGION, measures, Timing(500, 100, 300_000), seed=7))
    burst = jobs["burst"]
    assert (burst["io_size"], burst["time_based"], burst["ramp_time"]) == ("67108864", "0", "0")
    assert "runtime" not in burst
    assert (jobs["skewed"]["runtime"], jobs["after"]["runtime"]) == ("300000ms", "1000ms")
    assert jobs["skewed"]["random_distribution"] == "zipf:1.1"
    assert "random_distribution" not in jobs["after"]


def test_the_rbd_engine_gets_the_image_and_the_same_region() -> None:
    jobs = jobs_of(render_measures(RBD, REGION, [measure("x")], Timing(1, 0), seed=1))
    common = jobs["global"]
    assert (common["ioengine"], common["pool"], common["rbdname"]) == (
        "rbd",
        "databases",
        "bench-paths",
    )
    assert common["clientname"] == "grampus.dev.bench-paths"
    assert (common["offset"], common["size"]) == ("1024", "4096")
    assert "filename" not in common


def test_filling_writes_once_and_flushes() -> None:
    fill = jobs_of(render_fill(FILE, REGION))
    assert "time_based" not in fill["global"]
    assert (fill["fill"]["rw"], fill["fill"]["end_fsync"]) == ("write", "1")


def test_only_the_rbd_engine_needs_ceph_and_its_allocator() -> None:
    job = PurePosixPath("/d/a.fio")
    assert fio_argv(FILE, job) == ["fio", "--output-format=json+", "/d/a.fio"]
    assert fio_argv(RBD, job)[:3] == [
        "env",
        "CEPH_CONF=/d/ceph.conf",
        "LD_PRELOAD=libtcmalloc.so.4",
    ]


def test_ceph_conf_names_the_key_and_the_settings_of_volumed() -> None:
    text = render_ceph_conf(
        "[global]\nfsid = x\n\n",
        keyring=PurePosixPath("/d/keyring"),
        settings=["rbd_cache=false", "a=b=c"],
    )
    assert text.splitlines() == [
        "[global]",
        "fsid = x",
        "",
        "[client]",
        "keyring = /d/keyring",
        "rbd_cache = false",
        "a = b=c",
    ]
