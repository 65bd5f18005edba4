"""A place made, measured and removed, also when its process dies at any moment."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from grampus.bench.calm import POLL_S
from grampus.bench.drivers.outcome import DriverFailure
from grampus.bench.environments.databases import SETTLE_S
from grampus.bench.environments.environment_plan import environment_name
from grampus.bench.environments.environment_records import ENVIRONMENT_RECORD, BenchEnvironment
from grampus.bench.environments.pools import READ_NOTE
from grampus.bench.matrix.cells import Cell
from grampus.bench.measured_ports import IoDevice
from grampus.bench.trials.place import CellPlace
from grampus.core.errors import GrampusError, NotFoundError
from grampus.core.units import GIB, MIB
from tests.fakes.interruption import stopped_runs
from tests.fakes.sysbench_host import FakeCommand
from tests.unit.bench.environments.measured_cells import (
    ALL,
    FIO,
    GUEST,
    IMAGE,
    READ,
    UPDATE,
    WRITE,
    measure,
    sample_of,
)
from tests.unit.bench.environments.world import LAB, EnvironmentWorld, make_cell, option


def test_it_is_a_cell_place(tmp_path: Path) -> None:
    place: CellPlace = EnvironmentWorld(tmp_path).place()
    assert place.name == "lab dev"
    assert place.shape_only
    assert place.facts([])[0].name == "ceph"
    assert place.capabilities().place == "lab dev"


def test_databases_are_made_in_a_pool_of_their_copies(tmp_path: Path) -> None:
    world = EnvironmentWorld(tmp_path)
    assert world.place().prepare([UPDATE]) == {}
    name = environment_name(UPDATE)
    assert sorted(world.databases.records) == [f"{name}-1", f"{name}-2"]
    spec = world.databases.records[f"{name}-1"].spec
    assert (spec.pool, spec.write_path) == ("databases-2-copies", "direct")
    assert int(spec.parameters["max_connections"]) > UPDATE.point.threads
    for server in world.hosts[0].servers.values():
        assert server.marker is not None
        assert server.marker[:2] == (2, round(64 * MIB / 248 / 2))


def test_what_is_there_is_used(tmp_path: Path) -> None:
    world = EnvironmentWorld(tmp_path)
    world.place().prepare(ALL)
    loads = [len(host.spawned) for host in world.hosts]
    clients = [len(host.clients) for host in world.hosts]
    assert world.place().prepare(ALL) == {}
    assert [len(host.spawned) for host in world.hosts] == loads
    assert [len(host.clients) for host in world.hosts] == clients
    assert sample_of(measure(world, UPDATE)).operations_per_s > 0


def test_an_environment_that_is_too_small_is_made_anew(tmp_path: Path) -> None:
    world = EnvironmentWorld(tmp_path)
    world.place().prepare([make_cell(threads=1)])
    (first,) = world.databases.records.values()
    world.place().prepare([make_cell(threads=500)])
    (second,) = world.databases.records.values()
    assert second.spec.memory_bytes > first.spec.memory_bytes


def test_a_trial_sets_the_servers_and_runs_one_sysbench_each(tmp_path: Path) -> None:
    world = EnvironmentWorld(tmp_path)
    cells = [
        make_cell(workload="update-index", databases=2, trx_commit=0, buffer_ratio=4.0),
        make_cell(workload="mix-75-25", doublewrite="disabled"),
    ]
    world.place().prepare(cells)
    world.add_device()
    for number in (1, 2):
        name = f"{environment_name(cells[0])}-{number}"
        log = {"log_device": "/dev/loop9"} if number == 2 else {}
        world.add_device(IoDevice("volume", name, "h1", f"/dev/loop{5 + number}", **log), reads=600)
    world.add_device(IoDevice("volume", "somebody-elses", "h1", "/dev/loop8"), reads=9)
    measured = measure(world, cells[0])
    sample = sample_of(measured)
    host = world.hosts[0]
    warm_ups, clients = host.clients[:2], host.clients[2:]
    assert len(clients) == 2
    assert {option(argv, "time") for argv in warm_ups} == {"2"}
    assert {option(argv, "time") for argv in clients} == {"9"}
    assert {option(argv, "threads") for argv in clients} == {"8"}
    for name, variables in world.databases.variables.items():
        assert variables["innodb_buffer_pool_size"] == str(16 * MIB), name
        assert variables["innodb_flush_log_at_trx_commit"] == variables["sync_binlog"] == "0"
    assert not world.databases.restarts
    assert measured.loop == "closed"
    assert measured.client is not None
    assert measured.queries_per_operation == pytest.approx(20, rel=0.3)
    assert measured.bytes_per_operation is None
    assert measured.osd_device_busy_share == 0.0
    # As long as the recorded sysbench took.
    assert measured.volume_iops == pytest.approx(3 * 600 / 4.1562), "of the log's device too"
    assert measured.provisioned_bytes == 2 * 6 * GIB / cells[0].point.copies
    assert sample.window.duration_s >= 3
    assert any(name.startswith("measuring.") for name in measured.raw)
    # The made hosts are never calm, and no clock goes on while the made clients load.
    assert measured.calm_s == pytest.approx(SETTLE_S, abs=POLL_S)
    assert (measured.change_s, measured.load_s) == (0, 0)

    measure(world, cells[1])
    assert len(world.databases.restarts) == 1
    (argv,) = host.clients[-1:]
    assert "--point_selects=8" in argv
    assert any(word.endswith("/oltp_read_write.lua") for word in argv)
    # Back again: what was set goes.
    measure(world, cells[0])
    assert len(world.databases.restarts) == 2
    record = world.databases.records[f"{environment_name(cells[0])}-1"]
    assert "innodb_doublewrite" not in record.started_parameters


def test_the_servers_variables_are_kept_once_for_each_cell(tmp_path: Path) -> None:
    world = EnvironmentWorld(tmp_path)
    world.place().prepare([UPDATE])
    names = [f"variables.{environment_name(UPDATE)}-{number}.txt" for number in (1, 2)]
    place = world.place()
    for kept in (names, []):
        raw = place.measure(UPDATE, warmup_s=2, measure_s=6).raw
        assert [name for name in raw if name.startswith("variables.")] == kept
        assert all("sync_binlog\t1\n" in raw[name] for name in kept)


def test_volumes_are_attached_through_the_driver_of_their_cell(tmp_path: Path) -> None:
    world = EnvironmentWorld(tmp_path)
    best = make_cell(workload="update-index")
    served = make_cell(workload="update-index", driver="qsd")
    fio = make_cell(workload="fio-randread", driver="volumed", block_bytes=4096)
    assert world.place().prepare([best, served, fio]) == {}
    assert world.databases.drivers == {f"{environment_name(served)}-1": "qsd"}
    assert world.volumes.drivers == {f"{environment_name(fio)}-1": "volumed"}
    for cell in (best, served, fio):
        sample_of(measure(world, cell))
    # Started again as the product would.
    world.databases.drivers.clear()
    sample_of(measure(world, served))
    assert world.databases.drivers == {f"{environment_name(served)}-1": "qsd"}


def test_coded_images_are_in_a_pool_of_their_own(tmp_path: Path) -> None:
    world = EnvironmentWorld(tmp_path)
    coded = make_cell(workload="update-index", erasure_code="k2m1")
    objects = make_cell(workload="rados-read", erasure_code="k2m1")
    assert world.place().prepare([coded, objects]) == {}
    (record,) = world.databases.records.values()
    assert record.spec.pool == "databases-k2m1"
    assert world.pools.codes == {"databases-k2m1": "k2m1", environment_name(objects): "k2m1"}
    sample_of(measure(world, coded))
    sample_of(measure(world, objects))
    world.place().dismantle()
    assert world.is_empty


def test_images_are_written_once_and_never_attached(tmp_path: Path) -> None:
    world = EnvironmentWorld(tmp_path)
    world.place().prepare([IMAGE])
    name = environment_name(IMAGE)
    for number, host in enumerate(world.hosts, start=1):
        (fill,) = host.clients
        assert f"databases/{name}-{number}" in fill
        assert (option(fill, "io-type"), option(fill, "io-total")) == ("write", str(64 * MIB))
    assert world.volumes.drivers == {}
    assert world.place().prepare([IMAGE]) == {}
    assert [len(host.clients) for host in world.hosts] == [1, 1]
    assert {record.spec.size_bytes for record in world.volumes.records.values()} == {64 * MIB}


def test_rbd_bench_is_as_long_as_the_rate_before_it_says(tmp_path: Path) -> None:
    world = EnvironmentWorld(tmp_path)
    world.place().prepare([IMAGE])
    place = world.place()
    measured = place.measure(IMAGE, warmup_s=2, measure_s=6)
    sample = sample_of(measured)
    first, second, run = world.hosts[0].clients[1:]
    # That was over too soon to tell a rate.
    assert int(option(first, "io-total")) == 2 * 200 * 4096
    assert int(option(second, "io-total")) == 2 * 1000 * 4096
    assert int(option(run, "io-total")) == 9 * 1000 * 4096
    assert (option(run, "io-type"), option(run, "io-pattern")) == ("write", "rand")
    assert sample.operations_per_s == pytest.approx(2000, rel=0.01)
    assert measured.bytes_per_operation == 4096
    assert measured.client is not None
    # It says nothing of latencies, so nothing is known of its threads.
    assert measured.client.bound == "no"


def test_each_client_of_rbd_bench_has_an_image_of_its_own(tmp_path: Path) -> None:
    world = EnvironmentWorld(tmp_path)
    cell = make_cell(workload="rbd-read", volumes=2, clients=2)
    world.place().prepare([cell])
    sample_of(measure(world, cell))
    images = [argv[-1] for host in world.hosts for argv in host.clients]
    assert len(set(images)) == 4
    # All of their operations are the load's.
    (watch,) = world.monitors.watches
    assert watch.subjects.threads == 4 * cell.point.threads


def test_an_image_that_cannot_be_written_has_its_reason(tmp_path: Path) -> None:
    world = EnvironmentWorld(tmp_path)
    for host in world.hosts:
        host.plays["rbd"] = lambda argv: FakeCommand(
            argv, [], returncode=1, stderr="rbd: write error: (28) No space left on device\n"
        )
    reason = world.place().prepare([IMAGE])[IMAGE.cell_id]
    assert "No space left" in reason


def test_servers_of_both_runtimes_are_side_by_side(tmp_path: Path) -> None:
    world = EnvironmentWorld(tmp_path)
    cells = {name: make_cell(runtime=name) for name in ("bare", "container")}
    assert world.place().prepare([*cells.values()]) == {}
    for name, cell in cells.items():
        record = world.databases.records[f"{environment_name(cell)}-1"]
        assert record.spec.runtime == name
        sample_of(measure(world, cell))
    fio = make_cell(workload="fio-read", runtime="bare", block_bytes=4096)
    assert "beside no server" in world.place().prepare([fio])[fio.cell_id]


def test_librbd_attaches_no_volume(tmp_path: Path) -> None:
    cell = make_cell(driver="librbd")
    assert "QEMU" in EnvironmentWorld(tmp_path).place().prepare([cell])[cell.cell_id]


def test_a_server_that_was_stopped_is_started(tmp_path: Path) -> None:
    world = EnvironmentWorld(tmp_path)
    world.place().prepare([UPDATE])
    world.databases.stopped = set(world.databases.records)
    sample_of(measure(world, UPDATE))
    assert not world.databases.stopped


def test_a_rate_is_shared_out_among_the_clients(tmp_path: Path) -> None:
    world = EnvironmentWorld(tmp_path)
    cell = make_cell(databases=2, clients=2, rate=400.0)
    world.place().prepare([cell])
    measured = measure(world, cell)
    assert measured.loop == "open"
    assert len(world.hosts[0].clients) == 8
    assert {option(argv, "rate") for argv in world.hosts[0].clients} == {"100"}


@pytest.mark.parametrize("phase", ["warm-up", "measuring"])
def test_a_client_that_dies_is_a_failure_and_no_number(tmp_path: Path, phase: str) -> None:
    world = EnvironmentWorld(tmp_path)
    world.place().prepare([UPDATE])
    host = world.hosts[0]
    ordinary = host.plays["sysbench"]
    doomed = 1 if phase == "warm-up" else 3

    def play(argv: list[str]) -> FakeCommand:
        if len(host.clients) == doomed:
            return FakeCommand(argv, ["Threads started!"], returncode=137, stderr="Killed")
        return ordinary(argv)

    host.plays["sysbench"] = play
    measured = measure(world, UPDATE)
    assert isinstance(measured.outcome, DriverFailure)
    assert measured.outcome.kind == "killed"
    assert measured.client is None


def test_objects_are_read_on_the_host_that_wrote_them(tmp_path: Path) -> None:
    world = EnvironmentWorld(tmp_path)
    world.place().prepare([READ])
    pool = environment_name(READ)
    assert world.pools.pools[pool] == 3
    for host, name in zip(world.hosts, ("client-1", "client-2"), strict=True):
        (fill,) = host.clients
        assert option(fill, "run-name") == name
        assert option(fill, "max-objects") == "16"
    measured = measure(world, READ)
    sample = sample_of(measured)
    for host, name in zip(world.hosts, ("client-1", "client-2"), strict=True):
        assert "rand" in host.clients[-1]
        assert option(host.clients[-1], "run-name") == name
        assert not [argv for argv in host.commands if "cleanup" in argv]
    assert READ_NOTE in sample.notes
    assert measured.bytes_per_operation == 4 * MIB
    assert measured.queries_per_operation is None


def test_written_objects_are_removed_after_each_run(tmp_path: Path) -> None:
    world = EnvironmentWorld(tmp_path)
    world.place().prepare([WRITE])
    measure(world, WRITE)
    cleanups = [argv for argv in world.hosts[0].commands if "cleanup" in argv]
    assert len(cleanups) == 2, "the warm-up and the run"
    assert all(option(argv, "prefix") == "benchmark_data_h1_42_object" for argv in cleanups)
    # Those for reads stay.
    assert all(not option(argv, "run-name").startswith("client-1.") for argv in cleanups)


def test_fio_writes_into_a_file_of_the_data_sets_size(tmp_path: Path) -> None:
    world = EnvironmentWorld(tmp_path)
    world.place().prepare([FIO])
    name = environment_name(FIO)
    assert world.hosts[0].sizes == {f"/mnt/{name}-1/bench.data": 64 * MIB}
    assert world.hosts[1].sizes == {f"/mnt/{name}-2/bench.data": 64 * MIB}
    measured = measure(world, FIO)
    sample_of(measured)
    assert measured.bytes_per_operation == 4096
    job = world.hosts[0].text(f"/data/bench/stands/{name}-1/1/load.fio")
    for line in ("rw=randwrite", "bs=4096", "iodepth=32", "ramp_time=2000ms", "runtime=9000ms"):
        assert line in job.splitlines()
    assert f"filename=/mnt/{name}-1/bench.data" in job


def test_a_cell_without_an_environment_is_refused(tmp_path: Path) -> None:
    world = EnvironmentWorld(tmp_path)
    with pytest.raises(NotFoundError, match="is missing or incomplete"):
        measure(world, UPDATE)
    world.place().prepare([UPDATE])
    world.databases.records.popitem()
    with pytest.raises(NotFoundError, match="does not exist"):
        measure(world, UPDATE)


def test_what_cannot_be_made_leaves_the_others_as_they_are(tmp_path: Path) -> None:
    world = EnvironmentWorld(tmp_path)
    small = make_cell(buffer_ratio=50.0)
    world.databases.failing = f"{environment_name(UPDATE)}-2"
    reasons = world.place().prepare([small, UPDATE, WRITE])
    assert set(reasons) == {small.cell_id, UPDATE.cell_id}
    assert "InnoDB" in reasons[small.cell_id]
    assert "does not start" in reasons[UPDATE.cell_id]
    sample_of(measure(world, WRITE))
    with pytest.raises(NotFoundError):
        measure(world, UPDATE)
    world.databases.failing = None
    assert world.place().prepare([UPDATE]) == {}
    sample_of(measure(world, UPDATE))


@pytest.mark.parametrize("cell", ALL, ids=lambda cell: cell.point.workload)
def test_what_no_benchmark_made_is_left_alone(tmp_path: Path, cell: Cell) -> None:
    world = EnvironmentWorld(tmp_path)
    # As another home's benchmark would leave it: the state knows nothing of it.
    world.place().prepare([cell])
    world.store.remove(ENVIRONMENT_RECORD, LAB, environment_name(cell))
    reasons = world.place().prepare([cell])
    assert "no benchmark made it" in reasons[cell.cell_id]
    world.place().dismantle()
    left = [*world.databases.records, *world.volumes.records, *world.pools.pools]
    assert any(name.startswith(environment_name(cell)) for name in left)


def test_everything_made_is_removed(tmp_path: Path) -> None:
    world = EnvironmentWorld(tmp_path)
    world.place().dismantle()
    world.place().prepare(ALL)
    for cell in ALL:
        measure(world, cell)
    assert not world.is_empty
    world.place().dismantle()
    assert world.is_empty


def test_a_kill_at_any_moment_of_preparing_is_gone_on_from(tmp_path: Path) -> None:
    driven = make_cell(workload="update-index", copies=2, databases=2, driver="qsd")
    cells = (driven, WRITE, FIO, GUEST)
    runs = stopped_runs(
        lambda _: EnvironmentWorld(tmp_path),
        lambda world: world.place().prepare(cells),
        more_than=40,
    )
    for point, world in runs:
        assert world.place().prepare(cells) == {}, point
        for cell in cells:
            sample_of(measure(world, cell))
        environments = world.store.all(ENVIRONMENT_RECORD, LAB, BenchEnvironment)
        assert len(environments) == 4
        assert all(environment.ready for environment in environments.values())
        world.place().dismantle()
        assert world.is_empty, point


def test_a_kill_at_any_moment_of_preparing_leaves_nothing_that_is_not_removed(
    tmp_path: Path,
) -> None:
    runs = stopped_runs(
        lambda _: EnvironmentWorld(tmp_path), lambda world: world.place().prepare(ALL), more_than=50
    )
    for point, world in runs:
        world.place().dismantle()
        assert world.is_empty, point


def test_a_kill_at_any_moment_of_dismantling_is_gone_on_from(tmp_path: Path) -> None:
    def start(_: int) -> EnvironmentWorld:
        world = EnvironmentWorld(tmp_path)
        world.place().prepare(ALL)
        return world

    for point, world in stopped_runs(start, lambda world: world.place().dismantle(), more_than=15):
        world.place().dismantle()
        assert world.is_empty, point


def test_a_failure_while_preparing_is_told_for_its_cells(tmp_path: Path) -> None:
    error = GrampusError("The cluster does not answer.")
    world = EnvironmentWorld(tmp_path)
    world.fuse.left, world.fuse.error = 12, error
    reasons = world.place().prepare(ALL)
    assert any("The cluster does not answer." in reason for reason in reasons.values())
    assert set(reasons) < {cell.cell_id for cell in ALL}


def _run_quietly(world: EnvironmentWorld) -> None:
    with world.place().quiet():
        world.fuse.burn()


@pytest.mark.parametrize("config", [{}, {("mgr", "mgr/balancer/active"): "true"}])
def test_the_cluster_is_quiet_for_a_run_and_then_as_it_was(
    tmp_path: Path, config: dict[tuple[str, str], str]
) -> None:
    world = EnvironmentWorld(tmp_path)
    world.cluster.config = dict(config)
    before = world.cluster.switches
    with world.place().quiet():
        assert {"noscrub", "nodeep-scrub"} <= world.cluster.flags
        assert not world.cluster.balancer
        assert world.cluster.scaling == {"databases": "off", ".mgr": "off"}
    assert world.cluster.switches == before


def test_a_kill_at_any_moment_of_being_quiet_is_undone_by_the_next(tmp_path: Path) -> None:
    before: Any = EnvironmentWorld(tmp_path).cluster.switches
    for point, world in stopped_runs(
        lambda _: EnvironmentWorld(tmp_path), _run_quietly, more_than=8
    ):
        if point % 2:
            _run_quietly(world)
        else:
            world.place().dismantle()
        assert world.cluster.switches == before, point
        assert world.is_empty


def test_a_pool_that_has_gone_meanwhile_is_not_looked_for(tmp_path: Path) -> None:
    world = EnvironmentWorld(tmp_path)
    with world.place().quiet():
        del world.cluster.scaling[".mgr"]
    assert world.cluster.balancer


def test_clients_of_a_killed_run_are_ended_first(tmp_path: Path) -> None:
    world = EnvironmentWorld(tmp_path)
    with world.place().quiet():
        assert [host.ended_clients for host in world.hosts] == [1, 1]


@pytest.mark.parametrize(
    ("after", "said"),
    [
        ({0: 5, 1: 9, 2: 12}, None),
        # One that joins does what no other one has to do any more, but none fell.
        ({0: 5, 1: 9, 2: 12, 3: 20}, None),
        ({0: 5, 1: 21, 2: 12}, "osd.1 was down while it was measured"),
        ({0: 22, 2: 12}, "osd.0 and osd.1 were down while it was measured"),
    ],
)
def test_an_osd_that_fell_and_came_back_spoils_the_trial(
    tmp_path: Path, after: dict[int, int], said: str | None
) -> None:
    """Between the looks before and after a trial the cluster can be ill and well again."""
    world = EnvironmentWorld(tmp_path)
    world.place().prepare([UPDATE])
    world.cluster.osd_maps = [{0: 5, 1: 9, 2: 12}, after]
    outcome = measure(world, UPDATE).outcome
    if said is None:
        assert not isinstance(outcome, DriverFailure)
    else:
        assert isinstance(outcome, DriverFailure)
        assert said in outcome.reason


def test_what_the_system_refuses_is_the_reason_of_its_cells_alone(tmp_path: Path) -> None:
    world = EnvironmentWorld(tmp_path)
    full = OSError(errno.ENOSPC, "No space left on device", "job.fio")
    world.volumes.error = full
    reasons = world.place().prepare([UPDATE, FIO])
    assert reasons == {
        FIO.cell_id: "Its environment could not be created: The system refused it: job.fio: "
        "No space left on device."
    }
    assert sample_of(measure(world, UPDATE)).operations_per_s > 0


def test_unfit_is_said_and_never_raised(tmp_path: Path) -> None:
    world = EnvironmentWorld(tmp_path)
    assert world.place().why_unfit() is None
    world.free_bytes = MIB
    assert "disk is nearly full" in (world.place().why_unfit() or "")
    world.cluster.error = GrampusError("No MON answers.")
    assert world.place().why_unfit() == "The cluster does not answer: No MON answers."


@pytest.mark.parametrize(
    ("cell", "restarts", "dropped"),
    [
        (make_cell(workload="point-select"), 0, 0),
        (make_cell(workload="point-select", caches="osd"), 0, 1),
        (make_cell(workload="point-select", databases=2, caches="all"), 2, 1),
        (make_cell(workload="rados-read", caches="all"), 0, 1),
    ],
)
def test_caches_are_dropped_before_a_trial(
    tmp_path: Path, cell: Cell, restarts: int, dropped: int
) -> None:
    world = EnvironmentWorld(tmp_path)
    world.place().prepare([cell])
    # The first trial brings the servers to their settings.
    measure(world, cell)
    before = len(world.databases.restarts)
    measure(world, cell)
    assert len(world.databases.restarts) - before == restarts
    assert world.cluster.dropped == 2 * dropped
    assert {host.dropped for host in world.hosts} == {2 * dropped}


def test_a_server_whose_pool_shall_be_empty_reads_none_at_its_start(tmp_path: Path) -> None:
    world = EnvironmentWorld(tmp_path)
    cell = make_cell(workload="point-select", caches="all")
    world.place().prepare([cell])
    measure(world, cell)
    (record,) = world.databases.records.values()
    for when in ("load_at_startup", "dump_at_shutdown"):
        assert record.started_parameters[f"innodb_buffer_pool_{when}"] == "OFF"
