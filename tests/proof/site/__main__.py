"""`make site-costs`: commands and commits on a site against those in a lab, into docs/proof.

Exit codes: 0 all targets are met; 1 some are not. `GRAMPUS_SITE_ROUNDS`, `GRAMPUS_SITE_LOADS` and
`GRAMPUS_SITE_LOAD_S` make it shorter. `GRAMPUS_SITE_PARTS` chooses among sight, commands and loads;
the others stay as they were measured last.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from tests.proof.measured_command import measure
from tests.proof.operations.remote_client import RemoteClient
from tests.proof.proof_lab import observe_versions, own_lab
from tests.proof.site.page import CREATE, ONE_COMMAND, Compared, decide_misses, render_page
from tests.system.command_line import CHECKOUT, CommandLine
from tests.system.lab_machine import LabMachine
from tests.system.site_machines import LabCluster, Site, joined_machine, new_home, own_site

LAB, SITE = "compared", "compared-site"
DIRECTORY = CHECKOUT / "build" / "site-costs"
PAGE = CHECKOUT / "docs" / "proof" / "site.md"
RAW = CHECKOUT / "docs" / "proof" / "site.json"
HOSTS = ("h1", "h2", "h3")
CLIENTS_HOST = "h3"
NAME, NEW = "busy", "new"
DATED = ("sight", "commands", "loads")
SIZES = ("--size", "2G", "--memory", "512M", "--cpus", "1", "--host", HOSTS[0])
ROUNDS = int(os.environ.get("GRAMPUS_SITE_ROUNDS") or 7)
LOADS = int(os.environ.get("GRAMPUS_SITE_LOADS") or 12)
LOAD_S = int(os.environ.get("GRAMPUS_SITE_LOAD_S") or 20)
PARTS = (os.environ.get("GRAMPUS_SITE_PARTS") or "sight,commands,loads").split(",")
TEST = "oltp_update_index"
TABLES, ROWS, THREADS = 4, 20_000, 8
_RATE = re.compile(r"transactions:\s+\d+\s+\(([\d.]+) per sec")


def main() -> int:
    """Measure on a lab and a site of its own, write the page; the exit code."""
    former = TypeAdapter(Compared).validate_json(RAW.read_bytes()) if RAW.exists() else Compared()
    with own_lab(LAB, DIRECTORY) as lab, own_site_of(lab) as site:
        found = observe(lab, site, former)
    RAW.write_text(json.dumps(asdict(found), indent=1) + "\n")
    PAGE.write_text(render_page(found))
    misses = decide_misses(found)
    say(" ".join(misses) or "All targets are met.", f"The page is {PAGE}.")
    return 1 if misses else 0


@contextmanager
def own_site_of(lab: CommandLine) -> Iterator[Site]:
    """A site on the lab's cluster."""
    line = CommandLine(SITE, new_home(lab.home))
    with (
        tempfile.TemporaryDirectory() as files,
        own_site(line, LabCluster(lab), Path(files), line.home / "machines", HOSTS) as site,
    ):
        yield site


def commands(number: int) -> Iterator[tuple[str, Sequence[str]]]:
    """What is measured, with the arguments of its time number `number`."""
    yield CREATE, ("db", "create", NEW, *SIZES)
    yield "db list", ("db", "list")
    yield "db show", ("db", "show", NAME)
    yield ONE_COMMAND, ("db", "connect", NAME, "-e", "select 1")
    yield "host show", ("host", "show", HOSTS[0])
    yield "db label", ("db", "label", NAME, f"round={number}")
    yield "db snapshot create", ("db", "snapshot", "create", NEW, "first")
    yield "db restart", ("db", "restart", NEW)
    yield "db move", ("db", "move", NEW, "--host", HOSTS[1])
    yield "db delete", ("db", "delete", NEW, "--now", "--yes")


def observe(lab: CommandLine, site: Site, former: Compared) -> Compared:
    """All that is asked for, and the rest as it was."""
    site.line.ok("db", "create", NAME, *SIZES, timeout_s=600)
    first_database_s = time.monotonic() - site.begun_s
    lab.ok("db", "create", NAME, *SIZES, timeout_s=600)
    machine = LabMachine(lab, CLIENTS_HOST)
    seen = observe_sight(site) if "sight" in PARTS else former.seen_s
    pairs = observe_commands(lab, site) if "commands" in PARTS else former.seconds
    rates = observe_loads(machine, site) if "loads" in PARTS else former.updates_per_s
    date = f"{datetime.now(UTC):%Y-%m-%d %H:%M} (UTC)"
    load = f"{LOAD_S} s; {TABLES} tables of {ROWS} rows; {THREADS} threads"
    facts = {
        **observe_versions(machine),
        "load": load if "loads" in PARTS else former.facts["load"],
        **{part: date if part in PARTS else former.facts[part] for part in DATED},
    }
    return Compared(pairs, rates, seen, first_database_s, facts)


def observe_commands(lab: CommandLine, site: Site) -> dict[str, list[tuple[float, float]]]:
    """Seconds of each command, by its name: of the site and of the lab, for each round."""
    arms = {"lab": lab, "site": site.line}
    pairs: dict[str, list[tuple[float, float]]] = {}
    for number in range(ROUNDS):
        for command, arguments in commands(number):
            took = in_turn(number, lambda arm, a=arguments: _wall_s(arms[arm], a, arm))  # type: ignore[misc]
            pairs.setdefault(command, []).append(took)
            say(f"{number} {command:<20} lab {took[1]:6.2f} s  site {took[0]:6.2f} s")
    return pairs


def observe_loads(machine: LabMachine, site: Site) -> list[tuple[float, float]]:
    """Transactions a second on the site and in the lab, for each round."""
    clients = {
        "lab": RemoteClient(machine, NAME),
        "site": RemoteClient(machine, NAME, site.line, site.data_of),
    }
    for client in clients.values():
        client.refresh()
        client.rows("create database sbtest")
        sysbench(client, "prepare", f"--threads={TABLES}")
    rates = []
    for number in range(LOADS):
        rates.append(in_turn(number, lambda arm: update_index(clients[arm])))
        say(f"{number} update-index         lab {rates[-1][1]:6.0f}/s  site {rates[-1][0]:6.0f}/s")
    return rates


def in_turn(number: int, one: Callable[[str], float]) -> tuple[float, float]:
    """The figures of the site and of the lab; every other round begins with the site."""
    order = ("lab", "site") if number % 2 else ("site", "lab")
    found = {arm: one(arm) for arm in order}
    return found["site"], found["lab"]


def _wall_s(line: CommandLine, arguments: Sequence[str], arm: str) -> float:
    return measure(line, arguments, arm)["wall_s"]


def observe_sight(site: Site) -> list[float]:
    """Seconds from the end of an operation until `operation wait` of another machine has ended."""
    seen = []
    with joined_machine(site) as second:
        for number in range(ROUNDS):
            with site.line.start("db", "restart", NAME) as changing:
                listed: list[dict[str, Any]] = []
                while not listed:
                    assert changing.poll() is None, "it ended before another machine looked"
                    found = second.line.json("operation", "list", "--last", "0")
                    listed = found["operations"]
                with second.line.start("operation", "wait", str(listed[0]["id"])) as waiting:
                    assert changing.wait(120) == 0
                    ended_s = time.monotonic()
                    assert waiting.wait(60) == 0
                    seen.append(time.monotonic() - ended_s)
            say(f"{number} seen by another machine after {seen[-1]:.2f} s")
    return seen


def update_index(client: RemoteClient) -> float:
    """Transactions a second of one load."""
    said = sysbench(client, "run", f"--threads={THREADS}", f"--time={LOAD_S}")
    rate = _RATE.search(said)
    assert rate is not None, said[-2000:]
    return float(rate[1])


def sysbench(client: RemoteClient, command: str, *options: str) -> str:
    """What sysbench says on the clients' host; it must succeed."""
    tables = (f"--tables={TABLES}", f"--table-size={ROWS}")
    argv = client.sysbench_argv(TEST, command, *tables, *options, timeout_s=LOAD_S + 300)
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


def say(*sentences: str) -> None:
    sys.stdout.write(f"{' '.join(sentences)}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
