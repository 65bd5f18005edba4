"""`make density`: what 50 volumes take of one host, into docs/proof.

Exit codes: 0 all limits are kept; 1 one is missed.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.proof.density.footprint import Footprint, observe_footprint
from tests.proof.density.page import Found, decide_misses, render_page
from tests.proof.operations.remote_client import RemoteClient
from tests.proof.proof_lab import ask_status, observe_versions, own_lab
from tests.system.command_line import CHECKOUT, CommandLine
from tests.system.forked_commands import forked_commands
from tests.system.lab_machine import LabMachine

LAB = "density"
DIRECTORY = CHECKOUT / "build" / "density"
PAGE = CHECKOUT / "docs" / "proof" / "density.md"
FIGURES = CHECKOUT / "docs" / "proof" / "density" / "figures.json"
HOST, CLIENTS_HOST = "h1", "h3"
VOLUMES, ATTACH_S, LOAD_S, REST_S = 50, 1800, 60, 60
# Each command is a process of its own, and waits for the cluster half of its time.
AT_ONCE = 3
DATABASE = "busy"
TEST, MOST_S = "oltp_update_index", 3600
TABLES, ROWS, THREADS = 4, 20_000, 8


def main() -> int:
    """Measure on a lab of its own, write the page; the exit code."""
    volumes = int(os.environ.get("GRAMPUS_DENSITY_VOLUMES", VOLUMES))
    load_s = int(os.environ.get("GRAMPUS_DENSITY_LOAD_S", LOAD_S))
    rest_s = int(os.environ.get("GRAMPUS_DENSITY_REST_S", REST_S))
    attach_s = int(os.environ.get("GRAMPUS_DENSITY_ATTACH_S", ATTACH_S))
    with own_lab(LAB, DIRECTORY) as command_line, many_commands(command_line):
        found = measure(command_line, volumes, Times(attach_s, load_s, rest_s))
    FIGURES.parent.mkdir(parents=True, exist_ok=True)
    FIGURES.write_text(json.dumps(asdict(found), indent=1) + "\n")
    PAGE.write_text(render_page(found))
    misses = decide_misses(found)
    say(" ".join(misses) or "All limits are kept.", f"The page is {PAGE}.")
    return 1 if misses else 0


@dataclass(frozen=True)
class Times:
    """In seconds: at most, for attaching volumes; under load; before the load and after it."""

    attach_s: int
    load_s: int
    rest_s: int


@contextmanager
def many_commands(command_line: CommandLine) -> Iterator[None]:
    """Commands are forks of one process: a hundred starts would take longer than their work."""
    with (
        TemporaryDirectory() as directory,
        forked_commands(Path(directory), command_line.environment("")) as forked,
    ):
        CommandLine.all_forked = forked
        try:
            yield
        finally:
            CommandLine.all_forked = None


def measure(command_line: CommandLine, volumes: int, times: Times) -> Found:
    """Attach so many volumes to one host, and measure them idle, under load, and idle again."""
    machine = LabMachine(command_line, HOST)
    wanted = [f"v{number:02}" for number in range(1, volumes)]
    deadline_s = time.monotonic() + times.attach_s
    with ThreadPoolExecutor(AT_ONCE) as pool:
        database = pool.submit(ensure_database, command_line)
        attached = pool.map(lambda name: ensure_volume(command_line, name, deadline_s), wanted)
        names = [name for name, is_there in zip(wanted, attached, strict=True) if is_there]
        client = database.result()
    say(f"{len(names) + 1} volumes are attached.")
    time.sleep(times.rest_s)
    pids = {
        name.removeprefix("volumed-"): pid
        for name, pid in machine.daemons().items()
        if name.startswith("volumed-")
    }
    assert len(pids) == len(names) + 1, pids
    (busy_volume,) = set(pids) - set(names)
    # A server works on the other one also when it has no clients.
    idle = {name: observe_footprint(pids[name]) for name in names}
    busy, rate = watch_load(machine, client, (busy_volume, pids[busy_volume]), times.load_s)
    say(f"{rate:.0f} transactions/s.")
    time.sleep(times.rest_s)
    return Found(
        idle=idle,
        busy=busy,
        after={name: observe_footprint(pid) for name, pid in pids.items()},
        busy_volume=busy_volume,
        transactions_per_s=rate,
        facts={
            **observe_versions(machine),
            "load": f"{times.load_s} s; {TABLES} tables of {ROWS} rows; {THREADS} threads",
            "rest before the load and after it": f"{times.rest_s} s",
            "date": f"{datetime.now(UTC):%Y-%m-%d %H:%M} (UTC)",
        },
    )


def ensure_volume(command_line: CommandLine, name: str, deadline_s: float) -> bool:
    """A volume of that name, attached to the host; False when it is too late for another one."""
    if time.monotonic() > deadline_s:
        return False
    command_line.ok("volume", "create", name, "--size", "1G", "--write-path", "journal")
    command_line.ok("volume", "attach", name, "--host", HOST)
    return True


def ensure_database(command_line: CommandLine) -> RemoteClient:
    """The database that is put under load, with its tables."""
    command_line.ok(
        *("db", "create", DATABASE, "--size", "2G", "--memory", "512M", "--cpus", "1"),
        *("--host", HOST),
    )
    client = RemoteClient(LabMachine(command_line, CLIENTS_HOST), DATABASE)
    client.refresh()
    client.rows("create database sbtest")
    sysbench(client, "prepare", f"--threads={TABLES}").communicate()
    return client


def sysbench(client: RemoteClient, command: str, *options: str) -> subprocess.Popen[str]:
    """sysbench on the clients' host."""
    tables = (f"--tables={TABLES}", f"--table-size={ROWS}")
    argv = client.sysbench_argv(TEST, command, *tables, *options, timeout_s=MOST_S)
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def watch_load(
    machine: LabMachine, client: RemoteClient, busy: tuple[str, int], load_s: int
) -> tuple[list[Footprint], float]:
    """Samples of the busy volume, one a second, and sysbench's transactions a second."""
    (name, pid), samples = busy, []
    control = machine.data / "exports" / name
    process = sysbench(client, "run", f"--threads={THREADS}", f"--time={load_s}")
    while process.poll() is None:
        time.sleep(1)
        held = ask_status(control)["journal"]["held_bytes"]
        samples.append(observe_footprint(pid, held))
    said, _ = process.communicate()
    rate = re.search(r"transactions:\s+\d+\s+\(([\d.]+) per sec", said)
    assert rate is not None, said[-2000:]
    return samples, float(rate[1])


def say(*sentences: str) -> None:
    sys.stdout.write(f"{' '.join(sentences)}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
