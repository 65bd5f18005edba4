"""Cells of every kind of environment, and one measurement of a cell."""

from __future__ import annotations

from grampus.bench.drivers.together import JointSample
from grampus.bench.matrix.cells import Cell
from grampus.bench.trials.place import Measured
from tests.unit.bench.environments.world import EnvironmentWorld, make_cell

UPDATE = make_cell(workload="update-index", copies=2, databases=2)
READ = make_cell(workload="rados-read", clients=2)
WRITE = make_cell(workload="rados-write")
FIO = make_cell(workload="fio-randwrite", volumes=2, threads=32, block_bytes=4096)
CODED = make_cell(workload="fio-read", erasure_code="k2m1", block_bytes=4096)
IMAGE = make_cell(workload="rbd-randwrite", volumes=2, threads=4, block_bytes=4096)
BY_FIO = make_cell(workload="fio-rbd-mix-70-30", volumes=2, threads=4, block_bytes=16384)
GUEST = make_cell(workload="update-index", runtime="vm", driver="librbd", databases=2)
ALL = (UPDATE, READ, WRITE, FIO, CODED, IMAGE, BY_FIO, GUEST)


def measure(world: EnvironmentWorld, cell: Cell) -> Measured:
    """What measuring the cell brought."""
    return world.place().measure(cell, warmup_s=cell.warmup_s, measure_s=cell.measure_s)


def sample_of(measured: Measured) -> JointSample:
    """Its figures, which it must have."""
    assert isinstance(measured.outcome, JointSample), measured.outcome
    return measured.outcome
