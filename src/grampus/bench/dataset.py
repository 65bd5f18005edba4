"""The data set of an arm: observed, and loaded by `sysbench prepare`.

The marker table is written last, so that whatever interrupts a load, the next run sees that
the data set is not whole.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from grampus.bench.client import SCHEMA, ArmClient
from grampus.bench.drivers.sysbench_command import LOAD_TIMEOUT_S, sysbench_prepare_argv
from grampus.bench.quick_plan import SysbenchTables
from grampus.bench.sysbench import make_load, read_prepare, started
from grampus.core.clock import Clock
from grampus.core.errors import RefusedError
from grampus.core.progress import Progress
from grampus.state.runs import ArmName

ARM_TITLES: Mapping[ArmName, str] = {"ceph": "Ceph", "local": "local disk"}
_POLL_S = 1.0


def observe_dataset(client: ArmClient) -> DatasetState:
    """What the schema sbtest of the instance holds now."""
    found = client.query(
        "select table_name from information_schema.tables where table_schema = 'sbtest';\n"
    )
    tables = frozenset(row[0] for row in found)
    if MARKER_TABLE not in tables:
        return DatasetState(tables=tables)
    rows = client.query("select `tables`, `rows`, loaded_at from sbtest.grampus_dataset;\n")
    if not rows:
        return DatasetState(tables=tables)
    marker = Marker(tables=int(rows[0][0]), rows=int(rows[0][1]), loaded_at=rows[0][2])
    sysbench_tables = sorted(name for name in tables if is_sysbench_table(name))
    return DatasetState(
        tables=tables, marker=marker, facts=_observe_tables(client, sysbench_tables)
    )


def ensure_datasets(
    clients: Mapping[ArmName, ArmClient],
    plan: SysbenchTables,
    *,
    raw_dir: Path,
    clock: Clock,
    progress: Progress,
) -> tuple[ArmName, ...]:
    """Make both arms hold the plan's data set; returns the arms that had to be loaded.

    Arms are loaded at the same time. Raises RefusedError (nothing was changed then) when a
    schema is not ours, DriverError when loading fails.
    """
    actions = {
        arm: decide_dataset(
            observe_dataset(client),
            tables=plan.tables,
            rows=plan.rows_per_table,
            fresh=plan.fresh_data,
            where=f"on {ARM_TITLES[arm]}",
        )
        for arm, client in clients.items()
    }
    needed = tuple(arm for arm, action in actions.items() if action != "reuse")
    if not needed:
        return ()
    progress.phase("Load data")
    for arm in needed:
        _drop_ours(clients[arm])
    _load({arm: clients[arm] for arm in needed}, plan, raw_dir=raw_dir, progress=progress)
    loaded_at = clock.now().isoformat(timespec="seconds")
    for arm in needed:
        _finish(clients[arm], plan, loaded_at=loaded_at)
    return needed


def _observe_tables(client: ArmClient, tables: Sequence[str]) -> tuple[tuple[str, TableFacts], ...]:
    if not tables:
        return ()
    # Only names that is_sysbench_table accepts get into these statements.
    parts = [
        f"select '{name}', ifnull(min(id), 0), ifnull(max(id), 0), "  # noqa: S608
        "(select ifnull(max(table_rows), 0) from information_schema.tables "
        f"where table_schema = 'sbtest' and table_name = '{name}') from sbtest.{name}"
        for name in tables
    ]
    # MySQL caches these estimates for a day; MariaDB neither caches them nor runs the comment.
    fresh = "set @unused = 0 /*!80000 , session information_schema_stats_expiry = 0 */;\n"
    rows = client.query(f"{fresh}{' union all '.join(parts)};\n")
    return tuple(
        (name, TableFacts(int(first), int(last), int(estimate)))
        for name, first, last, estimate in rows
    )


def _drop_ours(client: ArmClient) -> None:
    state = observe_dataset(client)
    # The marker goes first: without it, an interrupted drop is seen as what it is.
    names = [MARKER_TABLE, *sorted(name for name in state.tables if is_sysbench_table(name))]
    drops = "".join(f"drop table if exists {SCHEMA}.{name};\n" for name in names)
    client.query(f"create database if not exists {SCHEMA};\n{drops}", timeout_s=600)


def _load(
    clients: Mapping[ArmName, ArmClient], plan: SysbenchTables, *, raw_dir: Path, progress: Progress
) -> None:
    with ExitStack() as stack:
        # Entered first, so left last: the readers end once their commands have been ended.
        pool = stack.enter_context(ThreadPoolExecutor(max_workers=len(clients)))
        readers: dict[ArmName, Future[None]] = {}
        for arm, client in clients.items():
            argv = sysbench_prepare_argv(make_load(client, plan))
            running = stack.enter_context(started(client, argv))
            readers[arm] = pool.submit(
                read_prepare,
                running,
                what=f"the loading of the data set on {ARM_TITLES[arm]}",
                raw_file=raw_dir / f"prepare.{arm}.txt",
            )
        pending = set(readers.values())
        while pending:
            done, pending = wait(pending, timeout=_POLL_S)
            for reader in done:
                reader.result()
            if pending:
                _show_loading(clients, readers, plan, progress)


def _show_loading(
    clients: Mapping[ArmName, ArmClient],
    readers: Mapping[ArmName, Future[None]],
    plan: SysbenchTables,
    progress: Progress,
) -> None:
    all_rows = plan.tables * plan.rows_per_table
    shares = {
        arm: 1.0 if readers[arm].done() else min(_observe_loaded(client) / all_rows, 1.0)
        for arm, client in clients.items()
    }
    shown = ", ".join(f"{ARM_TITLES[arm]} {share:.0%}" for arm, share in shares.items())
    progress.detail(f"{shown} of {all_rows:,} rows", fraction=min(shares.values()))


def _observe_loaded(client: ArmClient) -> int:
    tables = [name for name in observe_dataset(client).tables if is_sysbench_table(name)]
    if not tables:
        return 0
    # sysbench numbers its rows 1, 2, 3, ...: the last id is their count, and costs one page.
    counts = " + ".join(
        f"ifnull((select max(id) from sbtest.{name}), 0)"  # noqa: S608 (our own names)
        for name in tables
    )
    return int(client.query(f"select {counts};\n")[0][0])


def _finish(client: ArmClient, plan: SysbenchTables, *, loaded_at: str) -> None:
    tables = ", ".join(f"{SCHEMA}.sbtest{number}" for number in range(1, plan.tables + 1))
    # Statistics made now are the same on both arms and do not change during the run's start.
    client.query(
        f"analyze table {tables};\n"
        f"create table {SCHEMA}.{MARKER_TABLE} (`tables` int not null, `rows` bigint not null, "
        "loaded_at varchar(40) not null) engine = innodb;\n"
        f"insert into {SCHEMA}.{MARKER_TABLE} values "
        f"({plan.tables}, {plan.rows_per_table}, '{loaded_at}');\n",
        timeout_s=LOAD_TIMEOUT_S,
    )


MARKER_TABLE = "grampus_dataset"
_SYSBENCH_TABLE = re.compile(r"sbtest[1-9]\d*")
# InnoDB estimates row counts from sampled pages; half is far outside its usual error.
MIN_ESTIMATED_SHARE = 0.5

DatasetAction = Literal["reuse", "load", "reload"]


@dataclass(frozen=True)
class Marker:
    """The one row of sbtest.grampus_dataset, written when a load is complete."""

    tables: int
    rows: int
    loaded_at: str


@dataclass(frozen=True)
class TableFacts:
    """A table as observed; ids are 0 in an empty table."""

    first_id: int
    last_id: int
    estimated_rows: int


@dataclass(frozen=True)
class DatasetState:
    """What the schema sbtest holds: names of tables and views, the marker, and table facts.

    `facts` is keyed by table and filled only where there is a marker.
    """

    tables: frozenset[str] = frozenset()
    marker: Marker | None = None
    facts: tuple[tuple[str, TableFacts], ...] = ()


def is_sysbench_table(name: str) -> bool:
    """Whether `name` is one of sbtest1, sbtest2, ..., which `sysbench prepare` makes."""
    return _SYSBENCH_TABLE.fullmatch(name) is not None


def decide_dataset(
    state: DatasetState, *, tables: int, rows: int, fresh: bool, where: str
) -> DatasetAction:
    """What to do so that sbtest1..`tables` hold `rows` rows each.

    `load` means that there is nothing to drop. `where` names the instance in errors.

    Raises RefusedError with code `schema-not-ours` when the schema has tables that neither
    sysbench nor Grampus made and no marker of ours.
    """
    foreign = sorted(
        name for name in state.tables if name != MARKER_TABLE and not is_sysbench_table(name)
    )
    if foreign and MARKER_TABLE not in state.tables:
        raise RefusedError(
            f"The schema sbtest {where} holds tables that are not Grampus's "
            f"({', '.join(foreign[:3])}{', ...' if len(foreign) > 3 else ''}).",
            "Rename or drop that schema, or run the benchmark on another database.",
            code="schema-not-ours",
        )
    if not state.tables - set(foreign):
        return "load"
    if fresh or state.marker is None:
        return "reload"
    wanted = {f"sbtest{number}" for number in range(1, tables + 1)}
    present = {name for name in state.tables if is_sysbench_table(name)}
    matches = (state.marker.tables, state.marker.rows) == (tables, rows) and present == wanted
    facts = dict(state.facts)
    whole = all(name in facts and _is_whole(facts[name], rows) for name in wanted)
    return "reuse" if matches and whole else "reload"


def _is_whole(facts: TableFacts, rows: int) -> bool:
    return (
        facts.first_id == 1
        and facts.last_id == rows
        and facts.estimated_rows >= MIN_ESTIMATED_SHARE * rows
    )
