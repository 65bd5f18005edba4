"""A data set is reused, loaded or left alone; a half-loaded one is never used."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import pytest

from grampus.bench.client import ArmClient
from grampus.bench.dataset import (
    DatasetState,
    Marker,
    TableFacts,
    decide_dataset,
    ensure_datasets,
    observe_dataset,
)
from grampus.bench.drivers.outcome import DriverError
from grampus.bench.quick_plan import BenchOptions, QuickPlan, decide_quick_plan
from grampus.bench.quick_suite import load_suite
from grampus.core.errors import RefusedError
from grampus.state.runs import ArmName
from tests.fakes.clock import FakeClock
from tests.fakes.progress import RecordedProgress
from tests.fakes.sysbench_host import FakeCommand, FakeServer, SysbenchHost, make_endpoint

from .test_suite import SUITES

ROWS = 127_000
OURS = frozenset({"sbtest1", "sbtest2", "grampus_dataset"})
WHOLE = TableFacts(first_id=1, last_id=ROWS, estimated_rows=ROWS - 900)
MARKER = Marker(tables=2, rows=ROWS, loaded_at="2026-01-01T00:00:00+00:00")


def state(
    tables: frozenset[str] = OURS,
    marker: Marker | None = MARKER,
    second: TableFacts = WHOLE,
) -> DatasetState:
    return DatasetState(tables, marker, (("sbtest1", WHOLE), ("sbtest2", second)))


@pytest.mark.parametrize(
    ("observed", "fresh", "action"),
    [
        (DatasetState(), False, "load"),
        (DatasetState(), True, "load"),
        (state(), False, "reuse"),
        (state(), True, "reload"),
        # A load that was cut off left tables but no marker.
        (state(frozenset({"sbtest1", "sbtest2"}), None), False, "reload"),
        (state(OURS, None), False, "reload"),
        # Another size, or not what the marker says.
        (state(marker=Marker(2, ROWS + 1000, "")), False, "reload"),
        (state(marker=Marker(4, ROWS, "")), False, "reload"),
        (state(OURS | {"sbtest3"}), False, "reload"),
        (state(second=TableFacts(1, ROWS - 1, ROWS)), False, "reload"),
        (state(second=TableFacts(1, ROWS, ROWS // 3)), False, "reload"),
        (state(second=TableFacts(0, 0, 0)), False, "reload"),
        # Somebody put a table beside our data set: it does not concern us.
        (state(OURS | {"notes"}), False, "reuse"),
        (state(OURS | {"notes"}), True, "reload"),
    ],
)
def test_decide_dataset(observed: DatasetState, fresh: bool, action: str) -> None:
    assert decide_dataset(observed, tables=2, rows=ROWS, fresh=fresh, where="on Ceph") == action


@pytest.mark.parametrize("tables", [{"orders"}, {"sbtest1", "orders"}, {"sbtest"}, {"sbtest01"}])
@pytest.mark.parametrize("fresh", [False, True])
def test_a_schema_that_is_not_ours_is_never_touched(tables: set[str], fresh: bool) -> None:
    with pytest.raises(RefusedError) as caught:
        decide_dataset(
            DatasetState(frozenset(tables)), tables=2, rows=ROWS, fresh=fresh, where="on Ceph"
        )
    assert caught.value.code == "schema-not-ours"


def plan(*, fresh: bool = False) -> QuickPlan:
    return decide_quick_plan(
        load_suite(SUITES, "quick"),
        buffer_pool_bytes=48 * 2**20,
        volume_size_bytes=2**31,
        options=BenchOptions(fresh_data=fresh),
    )


class Setup:
    def __init__(self, raw_dir: Path) -> None:
        self.host = SysbenchHost()
        self.raw_dir = raw_dir
        self.progress = RecordedProgress()
        self.servers: dict[ArmName, FakeServer] = {"ceph": FakeServer(), "local": FakeServer()}
        self.clients: dict[ArmName, ArmClient] = {}
        for number, arm in enumerate(self.servers):
            address = f"10.0.1.{number + 1}"
            self.host.servers[address] = self.servers[arm]
            directory = PurePosixPath(f"/data/bench/demo-{arm}")
            self.host.put(directory / "sysbench.cnf", f"mysql-host={address}\n")
            endpoint = make_endpoint(address, f"mysqld-{arm}")
            self.clients[arm] = ArmClient(self.host, endpoint, "mysql", directory)

    def ensure(self, *, fresh: bool = False) -> tuple[ArmName, ...]:
        return ensure_datasets(
            self.clients,
            plan(fresh=fresh),
            raw_dir=self.raw_dir,
            clock=FakeClock(),
            progress=self.progress,
        )


def test_data_is_loaded_once_and_reused(tmp_path: Path) -> None:
    setup = Setup(tmp_path)
    assert set(setup.ensure()) == {"ceph", "local"}
    assert len(setup.host.spawned) == 2
    assert all(command.terminated.is_set() for command in setup.host.spawned)
    assert observe_dataset(setup.clients["ceph"]).marker == Marker(
        4, ROWS, "2026-01-01T00:00:00+00:00"
    )
    assert (tmp_path / "prepare.ceph.txt").read_text().startswith("Creating table")
    assert setup.ensure() == ()
    assert len(setup.host.spawned) == 2
    assert set(setup.ensure(fresh=True)) == {"ceph", "local"}


def test_only_the_arm_that_needs_it_is_loaded(tmp_path: Path) -> None:
    setup = Setup(tmp_path)
    setup.ensure()
    setup.servers["local"].tables["sbtest2"] -= 5
    assert setup.ensure() == ("local",)


def test_a_failed_load_leaves_no_marker(tmp_path: Path) -> None:
    setup = Setup(tmp_path)
    setup.host.scripts["oltp_read_write prepare"] = lambda argv: FakeCommand(
        argv, ["Creating table 'sbtest1'..."], stderr="FATAL: error 1114 (The table is full)\n"
    )
    with pytest.raises(DriverError, match="The table is full"):
        setup.ensure()
    assert setup.servers["ceph"].marker is None
    assert setup.servers["local"].marker is None
    assert all(command.terminated.is_set() for command in setup.host.spawned)


def test_nothing_is_dropped_when_one_schema_is_not_ours(tmp_path: Path) -> None:
    setup = Setup(tmp_path)
    setup.servers["ceph"].tables = {"sbtest1": 3}
    setup.servers["local"].tables = {"orders": 7}
    with pytest.raises(RefusedError, match="on local disk"):
        setup.ensure()
    assert setup.servers["ceph"].tables == {"sbtest1": 3}
    assert setup.servers["local"].tables == {"orders": 7}
