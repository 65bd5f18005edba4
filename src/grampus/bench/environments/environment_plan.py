"""Which environment a cell needs, what it is called, and how big it is. All pure.

An environment is a set of databases, volumes or images, or a pool, that cells share: those that
agree in what a trial cannot change (copies, write path, data set). What is the server's is changed
between trials.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable
from typing import Literal

from pydantic import ConfigDict

from grampus.bench.declared import canonical_json
from grampus.bench.environments.osd_needs import OsdNeeds, decide_name_on
from grampus.bench.matrix.cells import Cell
from grampus.bench.matrix.dimensions import Point, default_of
from grampus.bench.matrix.workloads import WORKLOADS
from grampus.bench.quick_plan import DATA_BYTES_PER_ROW, VOLUME_BYTES_PER_ROW
from grampus.core.errors import RefusedError
from grampus.core.models import Model
from grampus.core.units import GIB, MIB, format_bytes
from grampus.databases.request import MIN_MEMORY_BYTES
from grampus.databases.settings import STATEMENT_BYTES, decide_server_settings
from grampus.volumes.model import DriverName, WritePath

EnvironmentTarget = Literal["database", "volume", "image", "pool"]
Layout = Literal["decoupled", "hyperconverged"]
Runtime = Literal["bare", "container", "vm"]

PREFIX = "bench-"
NO_CODE = "none"
# Beside the data set: system tables, undo, redo log, and the binary log of a minute.
SERVER_ROOM_BYTES = GIB
MAX_FILL = 0.7
SIZE_STEP_BYTES = 256 * MIB
# InnoDB takes no less (the manual, on innodb_buffer_pool_size).
MIN_POOL_BYTES = 5 * MIB
# The manual advises against more than a thousand chunks.
MAX_CHUNKS = 512
MEMORY_STEP_BYTES = 64 * MIB
MAX_MEMORY_BYTES = 1024 * GIB
# Connections beside those of the load: the dataset's, the administrator's.
SPARE_CONNECTIONS = 10
# Each client of sysbench prepares its statements for every table: one where it does one thing, nine
# in its mix (a select by key and four by range, two updates, DELETE, INSERT).
STATEMENTS_OF_MIX = 9
# XFS's own, beside the file that fio writes to.
FILE_SYSTEM_BYTES = 256 * MIB
# rbd's own: an image of whole ones can be written to its last byte in steps of that size.
OBJECT_BYTES = 4 * MIB
# What one cell needs more of than another one on the same environment.
_SIZES = ("size_bytes", "memory_bytes", "max_connections", "chunk_bytes", "statements")


class EnvironmentPlan(Model):
    """An environment as it shall be, with what its cells need at most.

    `memory_bytes`, `max_connections`, `statements` (prepared ones, of all clients together),
    `chunk_bytes` (of the buffer pool), `tables` and
    `rows_per_table` are those of each database and 0 otherwise; `size_bytes` is a volume's or
    an image's, and `block_bytes` the size of an operation on a pool. `runtime` is what servers
    run in. `osds`: those that it stands on, if the place does not have them itself.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    target: EnvironmentTarget
    copies: int
    write_path: WritePath
    count: int
    dataset_bytes: int
    block_bytes: int = 0
    size_bytes: int = 0
    memory_bytes: int = 0
    max_connections: int = 0
    chunk_bytes: int = 0
    statements: int = 0
    tables: int = 0
    rows_per_table: int = 0
    osds: OsdNeeds | None = None
    layout: Layout = "decoupled"
    driver: DriverName | None = None  # None: the best of the host
    has_own_journal_pool: bool = False  # journals are in the place's own pool, not with the data
    erasure_code: str = NO_CODE
    runtime: Runtime = "container"
    # fio's rbd engine knows no other namespace. Attached images have one each.
    in_default_namespace: bool = False

    @property
    def osd_set(self) -> str | None:
        """The OSD set that it stands on; None: the place's own OSDs."""
        return None if self.osds is None else self.osds.name


def environment_name(cell: Cell) -> str:
    """`bench-` and 8 hexadecimal digits of what the cell's environment is."""
    point = cell.point
    target = WORKLOADS[point.workload].target
    content: dict[str, object] = {
        "target": target,
        "copies": point.copies,
        "dataset_bytes": cell.dataset_bytes,
        "tables": cell.tables,
    }
    if target in ("database", "volume"):
        content["write_path"] = point.write_path
    if target == "pool":
        content["block_bytes"] = cell.block_bytes
    # What is at its default is left out, so that a new dimension leaves old names as they are.
    content |= {name: value for name, value in _places(cell).items() if value != default_of(name)}
    return f"{PREFIX}{hashlib.sha256(canonical_json(content).encode()).hexdigest()[:8]}"


def _places(cell: Cell) -> dict[str, object]:
    """Where and how the environment's members are."""
    point = cell.point
    places: dict[str, object] = {"layout": point.layout, "erasure_code": point.erasure_code}
    if WORKLOADS[cell.point.workload].target in ("database", "volume"):
        places["driver"] = point.driver
        places["journal_pool"] = point.journal_pool
    if WORKLOADS[point.workload].target == "database":
        places["runtime"] = point.runtime
    return places


def decide_driver(cell: Cell) -> DriverName | None:
    """What the images of the cell are attached through; None: the best of the host.

    Raises RefusedError with code `no-stand` for what attaches no volume.
    """
    driver = cell.point.driver
    if driver == "librbd":
        if cell.point.runtime == "vm":
            return None  # to be filled, its database is attached as any
        raise _no_environment(
            "librbd is QEMU's own way to an image: it attaches no volume to a host."
        )
    return None if driver == "auto" else driver


def member_names(name: str, count: int) -> tuple[str, ...]:
    """The databases, volumes or images of an environment, the first ones of it first."""
    return tuple(f"{name}-{number}" for number in range(1, count + 1))


def decide_environment(cell: Cell) -> EnvironmentPlan:
    """The environment of one cell alone.

    Raises RefusedError with code `no-stand` for a cell that nothing here can be made for.
    """
    point, name = cell.point, environment_name(cell)
    target = WORKLOADS[point.workload].target
    if target == "image":
        return EnvironmentPlan(
            name=name,
            target="image",
            copies=point.copies,
            write_path="direct",
            # One for each client.
            count=point.volumes * point.clients,
            dataset_bytes=cell.dataset_bytes,
            size_bytes=_stepped(cell.dataset_bytes, OBJECT_BYTES),
            layout=point.layout,
            erasure_code=point.erasure_code,
            in_default_namespace=True,
        )
    if target == "pool":
        return EnvironmentPlan(
            name=name,
            target="pool",
            copies=point.copies,
            write_path="direct",
            count=point.clients,
            dataset_bytes=cell.dataset_bytes,
            block_bytes=cell.block_bytes or 0,
            layout=point.layout,
            erasure_code=point.erasure_code,
        )
    if target == "volume":
        if point.runtime != "container":
            raise _no_environment(
                "fio runs on the hosts, beside no server and in no virtual machine."
            )
        return EnvironmentPlan(
            name=name,
            target="volume",
            copies=point.copies,
            write_path=point.write_path,
            count=point.volumes,
            dataset_bytes=cell.dataset_bytes,
            size_bytes=_stepped(cell.dataset_bytes + FILE_SYSTEM_BYTES, SIZE_STEP_BYTES),
            layout=point.layout,
            erasure_code=point.erasure_code,
            driver=decide_driver(cell),
            has_own_journal_pool=_has_own_journal_pool(point),
        )
    _require_driver(point)
    pool_bytes = decide_pool_bytes(cell)
    tables = cell.tables or 1
    rows = rows_per_table(cell)
    room_bytes = math.ceil(tables * rows * VOLUME_BYTES_PER_ROW / MAX_FILL) + SERVER_ROOM_BYTES
    size_bytes = _stepped(room_bytes, SIZE_STEP_BYTES)
    connections = point.clients * point.threads + SPARE_CONNECTIONS
    statements = count_statements(cell)
    return EnvironmentPlan(
        name=name,
        target="database",
        copies=point.copies,
        write_path=point.write_path,
        count=point.databases,
        dataset_bytes=cell.dataset_bytes,
        size_bytes=size_bytes,
        memory_bytes=decide_memory_bytes(
            pool_bytes, connections, size_bytes=size_bytes, statements=statements
        ),
        max_connections=connections,
        statements=statements,
        chunk_bytes=decide_chunk_bytes(pool_bytes),
        tables=tables,
        rows_per_table=rows,
        layout=point.layout,
        erasure_code=point.erasure_code,
        driver=decide_driver(cell),
        has_own_journal_pool=_has_own_journal_pool(point),
        runtime=point.runtime,
    )


def place_on(plan: EnvironmentPlan, osds: OsdNeeds | None) -> EnvironmentPlan:
    """The environment on those OSDs, under a name that tells it from those on others."""
    if osds is None:
        return plan
    return plan.model_copy(update={"name": decide_name_on(plan.name, osds), "osds": osds})


def merge_environments(plans: Iterable[EnvironmentPlan]) -> dict[str, EnvironmentPlan]:
    """One plan for each name, with the most that any of its cells needs."""
    merged: dict[str, EnvironmentPlan] = {}
    for plan in plans:
        merged[plan.name] = _joined(merged[plan.name], plan) if plan.name in merged else plan
    return merged


def decide_grown(found: EnvironmentPlan, wanted: EnvironmentPlan) -> EnvironmentPlan | None:
    """The environment that is there with as many members as `wanted`; None: it must be made anew.

    One that was made for more serves cells that need less.
    """
    is_enough = all(getattr(found, name) >= getattr(wanted, name) for name in _SIZES)
    kept = {name: getattr(found, name) for name in _SIZES}
    count = max(found.count, wanted.count)
    grown = wanted.model_copy(update={**kept, "count": count})
    same = found.model_copy(update={"count": count})
    return grown if is_enough and grown == same else None


def rows_per_table(cell: Cell) -> int:
    """Rows of each table, so that all of them are the data set."""
    return max(1, round(cell.dataset_bytes / DATA_BYTES_PER_ROW / (cell.tables or 1)))


def decide_pool_bytes(cell: Cell) -> int:
    """The InnoDB buffer pool that the cell asks for, in whole MiB.

    Raises RefusedError with code `no-stand` below what InnoDB takes.
    """
    wanted_bytes = round(cell.dataset_bytes / cell.point.buffer_ratio / MIB) * MIB
    if wanted_bytes < MIN_POOL_BYTES:
        raise _no_environment(
            f"InnoDB has no buffer pool as small as {format_bytes(wanted_bytes)}, which is the "
            f"data set over {cell.point.buffer_ratio:g}."
        )
    chunk_bytes = decide_chunk_bytes(wanted_bytes)
    # It would round up to whole chunks by itself.
    return math.ceil(wanted_bytes / chunk_bytes) * chunk_bytes


def decide_chunk_bytes(pool_bytes: int) -> int:
    """Steps of the buffer pool's size: 1 MiB, or a greater power of two of a big pool."""
    chunk_bytes = MIB
    while pool_bytes > MAX_CHUNKS * chunk_bytes:
        chunk_bytes *= 2
    return chunk_bytes


def count_statements(cell: Cell) -> int:
    """Prepared statements that all clients of a database together have."""
    share = WORKLOADS[cell.point.workload].read_share
    each = 1 if share in (0.0, 1.0) else STATEMENTS_OF_MIX
    return each * (cell.tables or 1) * cell.point.clients * cell.point.threads


def decide_memory_bytes(
    pool_bytes: int, connections: int, *, size_bytes: int, statements: int = 0
) -> int:
    """The least memory with which Grampus itself would give a server that pool and connections,
    with room for so many prepared statements beside.

    Raises RefusedError with code `no-stand` when no machine has so much.
    """
    memory_bytes = MIN_MEMORY_BYTES
    while memory_bytes <= MAX_MEMORY_BYTES:
        settings = decide_server_settings("mysql", size_bytes, memory_bytes, 1.0)
        if settings.buffer_pool_bytes >= pool_bytes and settings.max_connections >= connections:
            return memory_bytes + _stepped(statements * STATEMENT_BYTES, MEMORY_STEP_BYTES)
        memory_bytes += MEMORY_STEP_BYTES
    raise _no_environment(
        f"A server with {connections} connections and a buffer pool of {format_bytes(pool_bytes)} "
        "is too big."
    )


def _has_own_journal_pool(point: Point) -> bool:
    if point.journal_pool == default_of("journal_pool"):
        return False
    if point.write_path == "direct":
        raise _no_environment("The write path direct has no journal that could be elsewhere.")
    return True


def _require_driver(point: Point) -> None:
    """A virtual machine opens its image itself, by librbd."""
    if point.runtime == "vm" and (point.driver != "librbd" or point.write_path != "direct"):
        raise _no_environment(
            "A virtual machine has its image by QEMU's librbd, so its driver is librbd and its "
            "write path direct."
        )


def _joined(one: EnvironmentPlan, other: EnvironmentPlan) -> EnvironmentPlan:
    most = {name: max(getattr(one, name), getattr(other, name)) for name in ("count", *_SIZES)}
    return one.model_copy(update=most)


def _stepped(size_bytes: int, step_bytes: int) -> int:
    return math.ceil(size_bytes / step_bytes) * step_bytes


def _no_environment(problem: str) -> RefusedError:
    return RefusedError(problem, "Measure the suite's other cells.", code="no-stand")
