"""`make operations`: every operation on a database under load, into docs/proof."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from grampus.core.units import format_bytes, parse_bytes
from tests.proof.operations.catalogue import OPERATIONS, Operation, Place, Promise
from tests.proof.operations.commit_watch import CommitWatch, longest_wait_s
from tests.proof.operations.outcome import Tried, decide_broken, render_page
from tests.proof.operations.remote_client import RemoteClient
from tests.proof.operations.restored_rows import Restored, compare_restores
from tests.proof.operations.steady_load import (
    TRANSACTIONS_PER_S,
    SteadyLoad,
    decide_load_during,
)
from tests.proof.proof_lab import observe_versions, own_lab
from tests.system.command_line import CHECKOUT, CommandLine
from tests.system.lab_machine import LabMachine

LAB = "operations"
DIRECTORY = CHECKOUT / "build" / "operations"
PAGE = CHECKOUT / "docs" / "proof" / "operations.md"
FULL_SIZES = "200M,5G"
DATABASE, POOL = "worked", "other-pool"
CLIENTS_HOST, HOME = "h3", "h1"
# sysbench's tables, with indexes, in InnoDB's pages: see bench/plan.py.
BYTES_PER_ROW = 248
TABLES = 4
# A volume for the data, its binary logs while it is loaded, and room to work in.
VOLUME_RATIO, VOLUME_ROOM_BYTES = 2.2, 2**30
REST_S = 3.0  # between operations, so that one's end does not count for the next


def main() -> int:
    """Try all of them; 1 when a promise was broken."""
    sizes = os.environ.get("GRAMPUS_OPERATIONS_SIZES", FULL_SIZES)
    wanted = os.environ.get("GRAMPUS_OPERATIONS", "")
    chosen = [one for one in OPERATIONS if not wanted or one.name in wanted.split(",")]
    found: dict[str, list[tuple[Tried, Promise]]] = {}
    restored: dict[str, list[Restored]] = {}
    with own_lab(LAB, DIRECTORY) as command_line:
        machine = LabMachine(command_line, CLIENTS_HOST)
        facts = {**observe_versions(machine), "sysbench": f"{TRANSACTIONS_PER_S} transactions/s"}
        facts["date"] = f"{datetime.now(UTC):%Y-%m-%d %H:%M} (UTC)"
        for size in sizes.split(","):
            try_size(machine, parse_bytes(size), chosen, found, restored)
    page = render_page(found, restored, facts)
    is_full = sizes == FULL_SIZES and is_whole(chosen)
    file = PAGE if is_full else DIRECTORY / PAGE.name
    file.write_text(page)
    say(f"\n{page}")
    broken = any(decide_broken(*one) for tried in found.values() for one in tried)
    differs = any(one.differing for compared in restored.values() for one in compared)
    return 1 if broken or differs else 0


def is_whole(operations: list[Operation]) -> bool:
    """Whether all of them are tried, so that there are backups to restore."""
    return len(operations) == len(OPERATIONS)


def try_size(
    machine: LabMachine,
    data_bytes: int,
    operations: list[Operation],
    found: dict[str, list[tuple[Tried, Promise]]],
    restored: dict[str, list[Restored]],
) -> None:
    """Make a database that holds so much, try each operation on it, and compare restores."""
    command_line = machine.command_line
    size_bytes = int(data_bytes * VOLUME_RATIO) + VOLUME_ROOM_BYTES
    size_bytes -= size_bytes % 2**20
    say(f"\nA database for {format_bytes(data_bytes)} ...")
    command_line.run("db", "delete", DATABASE, "--now", "--yes")
    command_line.ok(
        *("db", "create", DATABASE, "--size", f"{size_bytes // 2**20}M", "--memory", "512M"),
        *("--cpus", "1", "--host", HOME),
    )
    ensure_pool(machine)
    client = RemoteClient(machine, DATABASE)
    client.refresh()
    load = SteadyLoad(client, data_bytes // BYTES_PER_ROW // TABLES)
    load.prepare()
    held = f"{format_bytes(load.data_bytes())} in its tables"
    say(f"It has {held}.")
    done = found.setdefault(held, [])
    place = Place(DATABASE, "h2", str(DIRECTORY / f"backups-{data_bytes}"), POOL, size_bytes)
    with CommitWatch(client) as watch, load:
        for operation in operations:
            tried = try_one(command_line, operation, place, watch, load)
            done.append((tried, operation.promise))
            keep(held, tried)
            client.refresh()
    compared = compare_restores(client, place.directory) if is_whole(operations) else []
    for one in compared:
        say(f"restore of {one.name:21} {one.took_s:7.1f} s  {'; '.join(one.differing) or 'same'}")
    restored[held] = compared
    command_line.ok("db", "verify", DATABASE, "--tables")
    command_line.ok("db", "delete", DATABASE, "--now", "--yes")


def try_one(
    command_line: CommandLine,
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
    said = ""
    for command in operation.commands(place):
        finished = command_line.run(*command, timeout_s=3600)
        if finished.code != 0:
            said = finished.stderr[-500:].strip()
            break
    ended_s = time.monotonic()
    watch.wait_for_more()
    rows = watch.rows()
    tried = Tried(
        name=operation.name,
        took_s=round(ended_s - began_s, 2),
        committed=len(rows) - rows_before,
        longest_wait_s=round(longest_wait_s(rows, began_s, ended_s + 1.0), 3),
        failed=watch.failed() - failed_before,
        load=decide_load_during(load.seconds(), load.ended(), began_s, ended_s),
        missing=len(watch.missing()),
        said=said,
    )
    broken = "; ".join(decide_broken(tried, operation.promise)) or "kept"
    say(
        f"{tried.name:32} {tried.took_s:7.1f} s  {tried.committed:6} commits  "
        f"longest wait {tried.longest_wait_s:6.2f} s  {broken}"
    )
    return tried


def ensure_pool(machine: LabMachine) -> None:
    """Another pool, with as many copies."""
    if POOL not in machine.ceph("osd", "pool", "ls"):
        machine.ok("ceph", "osd", "pool", "create", POOL, "16", "16", "--autoscale-mode=off")
        machine.ok("rbd", "pool", "init", POOL)


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
