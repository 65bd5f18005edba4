"""The measures of `paths` as jobs of fio, and the configuration of its rbd engine."""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest
from pydantic import ValidationError

from grampus.bench.drivers.fio_command import Device, FioJob, render_fio_jobs
from grampus.bench.paths.load import Region, Timing, decide_fio_load, decide_job
from grampus.bench.paths.stage import render_ceph_conf
from grampus.bench.paths.suite import Measure


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


FILE = Device(PurePosixPath("/d/fio.data"))


def test_a_measure_is_a_job_of_its_name() -> None:
    timing = Timing(500, 100, 300_000)
    assert decide_job(measure("16k-randread-qd32"), timing, FILE) == FioJob(
        "16k-randread-qd32", "randread", 16384, 32, runtime_ms=500
    )
    sequential = measure("1m-write", pattern="write", block_bytes="1M", depth=16, time_factor=1.5)
    assert decide_job(sequential, timing, FILE) == FioJob(
        "1m-write", "write", 2**20, 16, runtime_ms=750
    )
    flushed = measure("4k-fsync", pattern="randwrite", block_bytes="4K", depth=1, fsync=True)
    assert decide_job(flushed, timing, FILE).fsync_every == 1
    skewed = decide_job(
        measure("skewed", pattern="randwrite", sustained=True, zipf=1.1), timing, FILE
    )
    assert (skewed.runtime_ms, skewed.zipf) == (300_000, 1.1)
    burst = decide_job(measure("burst", pattern="randwrite", total_bytes="64M"), timing, FILE)
    assert (burst.runtime_ms, burst.total_bytes) == (None, 2**26)


def test_what_is_appended_goes_to_a_new_file_beside() -> None:
    appended = measure(
        "append", part="file", pattern="write", block_bytes="4K", depth=1, appends=True
    )
    assert appended.unit == "iops"
    job = decide_job(appended, Timing(500, 100), FILE)
    assert job.new_file == PurePosixPath("/d/append.data")
    load = decide_fio_load(FILE, Region(0, 4096), [job], timeout_s=60)
    of_all, of_job = render_fio_jobs(load).split("[append]")
    assert "filename" not in of_all, "it would be written to and removed as well"
    for line in ("filename=/d/append.data", "fallocate=none", "create_on_open=1", "unlink=1"):
        assert line in of_job.splitlines()


@pytest.mark.parametrize(
    "changed", [{"part": "volume"}, {"pattern": "randwrite"}, {"pattern": "read"}]
)
def test_only_writes_to_a_file_append(changed: dict[str, str]) -> None:
    values = {"part": "file", "pattern": "write", **changed}
    with pytest.raises(ValidationError, match="a measure that appends"):
        measure("append", appends=True, **values)


def test_all_that_are_compared_have_the_same_region_and_offsets() -> None:
    job = FioJob("x", "read", 4096, 1)
    region = Region(1024, 4096)
    load = decide_fio_load(
        Device(PurePosixPath("/d/image")), region, [job], ramp_ms=100, seed=7, timeout_s=60.2
    )
    assert (load.offset_bytes, load.size_bytes, load.seed, load.ramp_ms) == (1024, 4096, 7, 100)
    assert (load.at_once, load.timeout_s, load.log_prefix) == (False, 61, None)


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
