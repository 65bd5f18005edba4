"""`make operations`: every operation on a database under load, into docs/proof.

`GRAMPUS_OPERATIONS_ON=site` tries them on a site instead of a lab, and has a page of its own.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from pydantic import TypeAdapter

from grampus.core.units import format_bytes, parse_bytes
from tests.proof.operations.accounts import (
    Ran,
    decide_before,
    decide_may_go,
    decide_must_go,
    decide_times_s,
)
from tests.proof.operations.catalogue import OPERATIONS, Operation, Place
from tests.proof.operations.commit_watch import CommitWatch, longest_wait_s, read_rows
from tests.proof.operations.grounds import (
    DATABASE,
    DIRECTORY,
    FIGURES,
    GROUNDS,
    HOSTS,
    POOL,
    Ground,
    own_ground,
)
from tests.proof.operations.outcome import (
    SizeTried,
    Tried,
    decide_broken,
    merge_tried,
    render_page,
)
from tests.proof.operations.remote_client import RemoteClient
from tests.proof.operations.restored_rows import compare_restores
from tests.proof.operations.steady_load import (
    TRANSACTIONS_PER_S,
    SteadyLoad,
    decide_load_during,
)
from tests.proof.proof_lab import observe_versions
from tests.system.command_line import CommandLine

FULL_SIZES = "200M,5G"
PROMISES = {operation.name: operation.promise for operation in OPERATIONS}
EXPIRY = "binlog_expire_logs_seconds"
HOME, OTHER_HOST = HOSTS[:2]
# sysbench's tables, with indexes, in InnoDB's pages: see bench/quick_plan.py.
BYTES_PER_ROW = 248
TABLES = 4
# A volume for the data, a redo log of an eighth of it, and room to work in.
VOLUME_RATIO, VOLUME_ROOM_BYTES = 1.35, 2**30
OSD_RATIO = 3.8
# The load's binary logs take as much as its tables, three times over, and a lab has one disk: each
# that is full drops those before it.
FEW_BINARY_LOGS = {EXPIRY: "1", "max_binlog_size": str(64 * 2**20)}
FULL_BACKUP = "full backup"
ON_BACKUPS = {"incremental backup", "archiving of binary logs", "restore test"}
REST_S = 3.0  # between operations, so that one's end does not count for the next


def main() -> int:
    """Try all of them; 1 when a promise was broken."""
    sizes = os.environ.get("GRAMPUS_OPERATIONS_SIZES", FULL_SIZES).split(",")
    wanted = os.environ.get("GRAMPUS_OPERATIONS", "")
    chosen = choose(wanted)
    ground = GROUNDS[os.environ.get("GRAMPUS_OPERATIONS_ON", "lab")]  # type: ignore[index]
    found: list[SizeTried] = []
    for size in sizes:
        with own_ground(ground, decide_lab(size)) as client:
            found.append(try_size(client, ground, size, chosen))
    say(f"\n{render_page(found, PROMISES, where=ground.where, title=ground.title)}")
    write_page(ground)
    broken = any(decide_broken(one, PROMISES[one.name]) for size in found for one in size.tried)
    differs = any(one.differing for size in found for one in size.restored)
    return 1 if broken or differs else 0


def choose(wanted: str) -> list[Operation]:
    """The operations with these names; those without, where each name has a minus before it."""
    names = {name for name in wanted.split(",") if name}
    unknown = {name.removeprefix("-") for name in names} - set(PROMISES)
    assert not unknown, f"There is no operation {', '.join(sorted(unknown))}."
    left_out = {name.removeprefix("-") for name in names if name.startswith("-")}
    asked = names - {f"-{name}" for name in left_out} or set(PROMISES)
    if asked & ON_BACKUPS:
        asked.add(FULL_BACKUP)
    return [one for one in OPERATIONS if one.name in asked - left_out]


def decide_lab(size: str) -> tuple[str, ...]:
    """Further arguments of `lab up`: OSDs that hold the database twice, with all its snapshots.

    A migration has all of it in both pools until its end.
    """
    osd_bytes = max(15 * 2**30, int(OSD_RATIO * parse_bytes(size)))
    return ("--osd-size", f"{osd_bytes // 2**30}G")


def write_page(ground: Ground) -> None:
    """The page, from what is kept of each size; it says what was not tried yet."""
    sizes = FULL_SIZES.split(",")
    kept = {size: read_size(ground, size) for size in sizes}
    found = [one for one in kept.values() if one is not None]
    if not found:
        return
    missing = [format_bytes(parse_bytes(size)) for size, one in kept.items() if one is None]
    ground.page.write_text(render_page(found, PROMISES, missing, ground.where, ground.title))


def keep_size(ground: Ground, size: str, tried: SizeTried) -> None:
    """Add to what is kept of a size."""
    merged = merge_tried(read_size(ground, size), tried, tuple(PROMISES))
    FIGURES.mkdir(exist_ok=True)
    ground.kept_file(size).write_text(json.dumps(asdict(merged), indent=1) + "\n")


def read_size(ground: Ground, size: str) -> SizeTried | None:
    """What is kept of a size; None: it was never tried."""
    file = ground.kept_file(size)
    if not file.exists():
        return None
    return TypeAdapter(SizeTried).validate_json(file.read_bytes())


def try_size(
    client: RemoteClient, ground: Ground, size: str, operations: list[Operation]
) -> SizeTried:
    """Make a database that holds so much, try each operation on it, and compare restores."""
    data_bytes = parse_bytes(size)
    command_line = client.command_line
    size_bytes = int(data_bytes * VOLUME_RATIO) + VOLUME_ROOM_BYTES
    size_bytes -= size_bytes % 2**20
    say(f"\nA database for {format_bytes(data_bytes)} ...")
    command_line.ok(
        *("db", "create", DATABASE, "--size", f"{size_bytes // 2**20}M", "--memory", "512M"),
        *("--cpus", "1", "--host", HOME),
    )
    client.refresh()
    load = SteadyLoad(client, data_bytes // BYTES_PER_ROW // TABLES)
    for name, value in FEW_BINARY_LOGS.items():
        command_line.ok("db", "parameter", "set", DATABASE, name, value)
    load.prepare()
    drop_binary_logs(command_line)
    held = format_bytes(load.data_bytes())
    say(f"It has {held} in its tables.")
    facts = {
        **observe_versions(client.machine),
        "sysbench at": f"{TRANSACTIONS_PER_S} transactions/s",
    }
    facts["date"] = f"{datetime.now(UTC):%Y-%m-%d %H:%M} (UTC)"
    done: list[Tried] = []
    place = Place(DATABASE, OTHER_HOST, str(DIRECTORY / f"backups-{data_bytes}"), POOL, size_bytes)
    with CommitWatch(client) as watch, load:
        for operation in operations:
            tried = try_one(client, operation, place, watch, load)
            done.append(tried)
            keep(held, tried)
            keep_size(ground, size, SizeTried(held, done, [], facts))
            client.refresh()
    compared = compare_restores(client, place.directory) if makes_backups(operations) else []
    for one in compared:
        say(f"restore of {one.name:21} {one.took_s:7.1f} s  {'; '.join(one.differing) or 'same'}")
    command_line.ok("db", "verify", DATABASE, "--tables", timeout_s=3600)
    command_line.ok("db", "delete", DATABASE, "--now", "--yes")
    found = SizeTried(held, done, compared, facts)
    keep_size(ground, size, found)
    return found


def makes_backups(operations: list[Operation]) -> bool:
    """Whether there is something to restore afterwards."""
    return any(one.name == FULL_BACKUP for one in operations)


def drop_binary_logs(command_line: CommandLine) -> None:
    """The last ones of the load; those of the operations stay."""
    command_line.ok("db", "restart", DATABASE)  # expired ones go as it starts
    for name in FEW_BINARY_LOGS:
        command_line.ok("db", "parameter", "reset", DATABASE, name)
    say(command_line.ok("db", "trim", DATABASE).stdout.strip())


def try_one(
    client: RemoteClient,
    operation: Operation,
    place: Place,
    watch: CommitWatch,
    load: SteadyLoad,
) -> Tried:
    """One operation, with what its clients noticed."""
    watch.wait_for_more()
    load.wait_for_more()
    time.sleep(REST_S)
    rows_before, failed_before, began_s = len(watch.rows()), watch.failed(), time.monotonic()
    ran, said = run_commands(client.command_line, operation, place, watch)
    ended_s = time.monotonic()
    try:
        watch.wait_for_more()
    except AssertionError as error:
        # Kept as what the operation did; the next one's beginning ends the trial.
        said = f"{said}; {error}" if said else str(error)
    rows = watch.rows()
    kept_back = 0
    if operation.goes_back and len(ran) > 1:
        held = watch.held()
        watch.let_go(decide_may_go(rows, ran[0], ran[1]) - held)
        kept_back = len(decide_must_go(rows, ran[0], ran[1]) & held)
    missing = set(watch.missing())
    if operation.copy and not said:
        copy = client.of(operation.copy.format(**vars(place)))
        copy.refresh()
        missing |= decide_before(rows, ran[-1].began_s) - watch.gone() - read_rows(copy)
    tried = Tried(
        name=operation.name,
        took_s=round(ended_s - began_s, 2),
        committed=len(rows) - rows_before,
        longest_wait_s=round(longest_wait_s(rows, began_s, ended_s + 1.0), 3),
        failed=watch.failed() - failed_before,
        load=decide_load_during(load.seconds(), load.ended(), began_s, ended_s),
        missing=len(missing),
        said=said,
        each_s=decide_times_s(ran, operation.timed),
        kept_back=kept_back,
    )
    broken = "; ".join(decide_broken(tried, operation.promise)) or "kept"
    say(
        f"{tried.name:32} {tried.took_s:7.1f} s  {tried.committed:6} commits  "
        f"longest wait {tried.longest_wait_s:6.2f} s  {broken}"
    )
    return tried


def run_commands(
    command_line: CommandLine, operation: Operation, place: Place, watch: CommitWatch
) -> tuple[list[Ran], str]:
    """Run them until one fails; what was run, and what the one that failed said."""
    ran: list[Ran] = []
    told = ""
    for command in operation.commands(place):
        if operation.goes_back and ran:
            watch.wait_for_more()  # so that there is something to take back
        began_s = time.monotonic()
        finished = command_line.run(*command, timeout_s=3600)
        ran.append(Ran(command, began_s, time.monotonic()))
        if finished.code != 0:
            return ran, finished.stderr[-500:].strip() or f"it ended with {finished.code}"
        told += finished.stdout
    is_told = operation.says in told
    return ran, "" if is_told else f"none of its commands said '{operation.says}'"


def keep(held: str, tried: Tried) -> None:
    """Raw data, one line each."""
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    document: Mapping[str, object] = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "held": held,
        **asdict(tried),
    }
    with Path(DIRECTORY / "operations.jsonl").open("a") as file:
        file.write(f"{json.dumps(document)}\n")


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
