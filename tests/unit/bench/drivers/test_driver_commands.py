"""Command lines and job files: bounded in time, in the C locale, without a secret."""

from __future__ import annotations

from dataclasses import replace
from pathlib import PurePosixPath

import pytest

from grampus.bench.drivers.command import CephClient
from grampus.bench.drivers.fio_command import (
    Device,
    FioJob,
    FioLoad,
    RbdEngine,
    fio_argv,
    iops_logs,
    render_fio_jobs,
)
from grampus.bench.drivers.rados_command import (
    RadosLoad,
    rados_bench_argv,
    rados_cleanup_argv,
    rados_forget_argv,
)
from grampus.bench.drivers.rbd_bench import RbdLoad, rbd_bench_argv
from grampus.bench.drivers.sysbench_command import (
    SysbenchLoad,
    sysbench_argv,
    sysbench_prepare_argv,
)
from grampus.core.errors import RefusedError

SYSBENCH = SysbenchLoad(
    directory=PurePosixPath("/d"),
    config_file=PurePosixPath("/d/sysbench.cnf"),
    script="oltp_read_write",
    tables=4,
    rows_per_table=1000,
    threads=8,
    duration_s=30,
)
CLIENT = CephClient(PurePosixPath("/d/ceph.conf"), "grampus.bench")
RADOS = RadosLoad(CLIENT, "bench", "write", "bench-h1", duration_s=20, concurrency=16)
RBD = RbdLoad(CLIENT, "bench/ns/image", "write", "rand", 16384, 16, 2**27, timeout_s=300)
JOBS = (
    FioJob("mixed", "randrw", 16384, 32, copies=2, read_percent=70, rate_iops=500),
    FioJob("logged", "randwrite", 4096, 1, zipf=1.1, fsync_every=1),
)
FIO = FioLoad(
    target=Device(PurePosixPath("/dev/loop7")),
    offset_bytes=0,
    size_bytes=2**30,
    jobs=JOBS,
    runtime_ms=30_000,
    ramp_ms=5_000,
    at_once=False,
    seed=7,
    log_prefix=PurePosixPath("/d/log"),
)
BOUNDED = ["LC_ALL=C", "timeout", "--foreground", "--kill-after=5"]


def test_a_closed_loop_has_no_rate() -> None:
    argv = sysbench_argv(SYSBENCH)
    assert argv[:8] == ["env", "-C", "/d", *BOUNDED, "110"]
    assert argv[-2:] == ["/usr/share/sysbench/oltp_read_write.lua", "run"]
    assert {"--threads=8", "--time=30", "--histogram=on", "--report-interval=1"} <= set(argv)
    assert not [word for word in argv if word.startswith(("--rate", "--rand-seed"))]


def test_tables_are_filled_by_a_thread_each() -> None:
    argv = sysbench_prepare_argv(SYSBENCH)
    assert argv[:3] == ["env", "-C", "/d"]
    assert argv[-2:] == ["/usr/share/sysbench/oltp_read_write.lua", "prepare"]
    assert {"--threads=4", "--tables=4", "--table-size=1000", "--rand-type=uniform"} <= set(argv)
    assert not [word for word in argv if word.startswith(("--time", "--events"))]


def test_an_open_loop_has_its_rate() -> None:
    argv = sysbench_argv(replace(SYSBENCH, rate_per_s=250, seed=7))
    assert {"--rate=250", "--rand-seed=7"} <= set(argv)
    with pytest.raises(ValueError, match="rate"):
        sysbench_argv(replace(SYSBENCH, rate_per_s=0))


def test_rados_bench_leaves_what_it_wrote_for_reads() -> None:
    argv = rados_bench_argv(replace(RADOS, op_bytes=65536, object_bytes=4194304, namespace="n"))
    assert argv[:6] == ["env", *BOUNDED, "140"]
    assert argv[6:13] == [
        "rados",
        "--conf",
        "/d/ceph.conf",
        "--id",
        "grampus.bench",
        "--pool=bench",
        "--namespace=n",
    ]
    assert argv[13:16] == ["bench", "20", "write"]
    assert {"--no-cleanup", "--block-size=65536", "--object-size=4194304"} <= set(argv)
    assert {"--concurrent-ios=16", "--run-name=bench-h1"} <= set(argv)
    assert "--format=json" not in argv
    assert "--format=json" in rados_bench_argv(replace(RADOS, as_json=True))


@pytest.mark.parametrize("mode", ["seq", "rand"])
def test_reads_take_the_sizes_of_the_write_before(mode: str) -> None:
    argv = rados_bench_argv(replace(RADOS, mode=mode, object_bytes=4096))  # type: ignore[arg-type]
    assert mode in argv
    assert not [word for word in argv if "size" in word or "cleanup" in word]


def test_cleanup_removes_one_runs_objects_and_no_other_runs() -> None:
    argv = rados_cleanup_argv(RADOS, object_prefix="benchmark_data_h1_47")
    assert argv[-3:-1] == ["cleanup", "--prefix=benchmark_data_h1_47_object"]
    # With the run's own name rados would follow what that left, and not the prefix.
    assert argv[-1] == "--run-name=bench-h1.none"
    assert rados_forget_argv(RADOS)[-2:] == ["rm", "bench-h1"]


@pytest.mark.parametrize(
    "prefix",
    ["", "benchmark_data_", "benchmark_data_h1", "benchmark_data_h1_", "rbd_data.1", "b_1"],
)
def test_cleanup_of_anything_else_is_refused(prefix: str) -> None:
    with pytest.raises(RefusedError):
        rados_cleanup_argv(RADOS, object_prefix=prefix)


@pytest.mark.parametrize(("direction", "pattern"), [("read", "seq"), ("write", "rand")])
def test_rbd_bench(direction: str, pattern: str) -> None:
    argv = rbd_bench_argv(replace(RBD, direction=direction, pattern=pattern))  # type: ignore[arg-type]
    assert argv[:6] == ["env", *BOUNDED, "300"]
    assert argv[6] == "rbd"
    assert {f"--io-type={direction}", f"--io-pattern={pattern}", "--io-size=16384"} <= set(argv)
    assert argv[-1] == "bench/ns/image"


def sections(text: str) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for line in text.splitlines():
        if line.startswith("["):
            found[line.strip("[]")] = {}
        else:
            name, _, value = line.partition("=")
            found[list(found)[-1]][name] = value
    return found


def test_fios_jobs_wait_for_each_other_unless_they_run_at_once() -> None:
    one_by_one, at_once = (
        sections(render_fio_jobs(replace(FIO, at_once=value))) for value in (False, True)
    )
    assert all("stonewall" in one_by_one[job.name] for job in JOBS)
    assert not any("stonewall" in at_once[job.name] for job in JOBS)
    assert fio_argv(FIO, PurePosixPath("/d/a.fio"))[5] == "190"
    assert fio_argv(replace(FIO, at_once=True), PurePosixPath("/d/a.fio"))[5] == "155"
    assert fio_argv(replace(FIO, timeout_s=77), PurePosixPath("/d/a.fio"))[5] == "77"


def test_fios_job_file() -> None:
    found = sections(render_fio_jobs(FIO))
    assert {found[job.name]["filename"] for job in JOBS} == {"/dev/loop7"}
    assert (found["global"]["direct"], found["global"]["lat_percentiles"]) == ("1", "1")
    assert (found["global"]["runtime"], found["global"]["ramp_time"]) == ("30000ms", "5000ms")
    assert found["mixed"] == {
        "rw": "randrw",
        "bs": "16384",
        "iodepth": "32",
        "numjobs": "2",
        "filename": "/dev/loop7",
        "stonewall": "",
        "rwmixread": "70",
        "rate_iops": "500",
    }
    assert found["logged"]["random_distribution"] == "zipf:1.1"
    assert found["logged"]["fsync"] == "1"


def test_a_job_that_moves_so_many_bytes_has_no_time() -> None:
    job = FioJob("fill", "write", 2**20, 16, flushes_at_end=True, total_bytes=2**30)
    fill = sections(render_fio_jobs(replace(FIO, jobs=(job,))))["fill"]
    assert (fill["io_size"], fill["time_based"], fill["ramp_time"]) == ("1073741824", "0", "0")
    assert (fill["runtime"], fill["end_fsync"]) == ("0", "1")


def test_a_job_may_have_a_time_of_its_own() -> None:
    job = FioJob("short", "read", 4096, 1, runtime_ms=300)
    assert sections(render_fio_jobs(replace(FIO, jobs=(job,))))["short"]["runtime"] == "300ms"


def test_without_a_place_for_logs_there_are_none() -> None:
    load = replace(FIO, log_prefix=None)
    assert "log" not in render_fio_jobs(load).replace("[logged]", "")
    assert iops_logs(load) == {}


def test_fios_rbd_engine_gets_the_image_and_no_key() -> None:
    load = replace(FIO, target=RbdEngine(PurePosixPath("/d/ceph.conf"), "u", "pool", "image"))
    found = sections(render_fio_jobs(load))["global"]
    assert (found["ioengine"], found["pool"], found["rbdname"], found["clientname"]) == (
        "rbd",
        "pool",
        "image",
        "u",
    )
    assert "filename" not in found
    argv = fio_argv(load, PurePosixPath("/d/a.fio"))
    assert argv[6:] == [
        "env",
        "CEPH_CONF=/d/ceph.conf",
        "LD_PRELOAD=libtcmalloc.so.4",
        "fio",
        "--output-format=json+",
        "/d/a.fio",
    ]


def test_fio_numbers_the_logs_of_all_copies_on() -> None:
    names = {name: [str(file) for file in files] for name, files in iops_logs(FIO).items()}
    assert names == {
        "mixed": ["/d/log_iops.1.log", "/d/log_iops.2.log"],
        "logged": ["/d/log_iops.3.log"],
    }


@pytest.mark.parametrize("jobs", [(), (JOBS[0], JOBS[0])])
def test_fios_jobs_have_names_of_their_own(jobs: tuple[FioJob, ...]) -> None:
    with pytest.raises(ValueError, match="names"):
        render_fio_jobs(replace(FIO, jobs=jobs))
