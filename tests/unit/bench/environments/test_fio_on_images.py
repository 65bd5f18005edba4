"""Images under fio's rbd engine, beside rbd bench on the same ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from grampus.bench.drivers.outcome import DriverFailure
from grampus.bench.environments.environment_plan import (
    decide_environment,
    decide_grown,
    environment_name,
)
from grampus.bench.environments.fio_loads import ACCESSES
from grampus.bench.matrix.workloads import WORKLOADS, WorkloadName
from tests.fakes.sysbench_host import FakeCommand
from tests.unit.bench.environments.measured_cells import BY_FIO, IMAGE, measure, sample_of
from tests.unit.bench.environments.world import EnvironmentWorld, make_cell


def test_an_image_is_loaded_through_librbd(tmp_path: Path) -> None:
    world = EnvironmentWorld(tmp_path)
    world.place().prepare([BY_FIO])
    name = environment_name(BY_FIO)
    measured = measure(world, BY_FIO)
    for number, host in enumerate(world.hosts, start=1):
        job = host.text(f"/data/bench/stands/{name}-{number}/load.fio").splitlines()
        for line in (
            *("ioengine=rbd", "clientname=admin", "pool=databases", f"rbdname={name}-{number}"),
            *(
                "rw=randrw",
                "rwmixread=70",
                "bs=16384",
                "iodepth=4",
                "ramp_time=2000ms",
                "runtime=9000ms",
            ),
            f"size={BY_FIO.dataset_bytes}",
        ):
            assert line in job, line
        argv = host.clients[-1]
        assert "CEPH_CONF=/etc/ceph/ceph.conf" in argv
        assert "--output-format=json+" in argv
    assert sample_of(measured).latency is not None
    assert measured.bytes_per_operation == 16384
    assert measured.loop == "closed"
    # No volume is attached, and none is looked for.
    assert world.volumes.drivers == {}
    (watch,) = world.monitors.watches
    assert watch.subjects.volumes == {}
    world.place().dismantle()
    assert world.is_empty


def test_both_drivers_have_the_same_images(tmp_path: Path) -> None:
    world = EnvironmentWorld(tmp_path)
    beside = make_cell(workload="rbd-randwrite", volumes=2, threads=4, block_bytes=16384)
    assert world.place().prepare([BY_FIO, beside]) == {}
    assert environment_name(BY_FIO) == environment_name(beside) == environment_name(IMAGE)
    assert len(world.volumes.records) == 2
    sample_of(measure(world, beside))
    sample_of(measure(world, BY_FIO))


def test_each_client_has_an_image_of_its_own(tmp_path: Path) -> None:
    world = EnvironmentWorld(tmp_path)
    cell = make_cell(workload="fio-rbd-randwrite", volumes=2, clients=2)
    world.place().prepare([cell])
    sample_of(measure(world, cell))
    jobs = [f.content for h in world.hosts for f in h.files.values() if "rbdname" in f.content]
    names = {line for job in jobs for line in job.splitlines() if line.startswith("rbdname=")}
    assert len(jobs) == len(names) == 4


def test_images_in_namespaces_of_their_own_are_made_anew() -> None:
    """fio's rbd engine could not open those that an earlier Grampus made."""
    wanted = decide_environment(BY_FIO)
    assert wanted.in_default_namespace
    assert decide_grown(wanted.model_copy(update={"in_default_namespace": False}), wanted) is None


def test_an_image_that_fio_cannot_open_is_a_reason(tmp_path: Path) -> None:
    world = EnvironmentWorld(tmp_path)
    world.place().prepare([BY_FIO])
    for host in world.hosts:
        host.plays["fio"] = lambda argv: FakeCommand(
            argv, ["fio: rbd_open failed."], returncode=1, stderr=""
        )
    outcome = measure(world, BY_FIO).outcome
    assert isinstance(outcome, DriverFailure)
    assert "rbd_open failed" in outcome.reason


@pytest.mark.parametrize("workload", sorted(ACCESSES))
def test_the_share_of_reads_is_that_of_the_workload(workload: WorkloadName) -> None:
    """What the matrix says of it, and what fio is told."""
    share, access = WORKLOADS[workload].read_share, ACCESSES[workload]
    if access.read_percent is None:
        assert share == (1.0 if access.pattern.endswith("read") else 0.0)
    else:
        assert share == access.read_percent / 100
