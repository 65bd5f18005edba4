"""The data set of an arm: observed, and loaded by `sysbench prepare`.

The marker table is written last, so that whatever interrupts a load, the next run sees that
the data set is not whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from pathlib import Path

from grampus.bench.client import SCHEMA, ArmClient
from grampus.bench.dataset_decision import (
    MARKER_TABLE,
    DatasetState,
    Marker,
    TableFacts,
    decide_dataset,
    is_sysbench_table,
)
from grampus.bench.plan import SysbenchTables
from grampus.bench.sysbench import LOAD_TIMEOUT_S, prepare_argv, raw_writer, started
from grampus.bench.sysbench_output import describe_failure
from grampus.core.clock import Clock
from grampus.core.progress import Progress
from grampus.hosts.port import RunningCommand
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
    schema is not ours, SysbenchError when loading fails.
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
            running = stack.enter_context(started(client, prepare_argv(client, plan)))
            raw_file = raw_dir / f"prepare.{arm}.txt"
            readers[arm] = pool.submit(_read_prepare, running, arm, raw_file)
        pending = set(readers.values())
        while pending:
            done, pending = wait(pending, timeout=_POLL_S)
            for reader in done:
                reader.result()
            if pending:
                _show_loading(clients, readers, plan, progress)


def _read_prepare(running: RunningCommand, arm: ArmName, raw_file: Path) -> None:
    with raw_writer(raw_file) as raw:
        lines = []
        for line in running.lines():
            raw.write(f"{line}\n")
            lines.append(line)
        result = running.wait()
        raw.write(result.stderr)
    failure = describe_failure(
        f"loading the data set on {ARM_TITLES[arm]}",
        result.returncode,
        ("\n".join(lines), result.stderr),
    )
    if failure is not None:
        raise failure


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
