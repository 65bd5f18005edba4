"""`make scale`: what commands and `serve` take with ten and with a thousand databases.

Exit codes: 0 all targets are met; 1 some are not. `GRAMPUS_SCALE_ROUNDS` and
`GRAMPUS_SCALE_SERVE_S` make it shorter.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from typing import Any

from grampus.state.store import Store
from tests.proof.measured_command import measure
from tests.proof.proof_lab import observe_versions, own_lab
from tests.proof.scale.page import failures, render_page
from tests.system.command_line import CHECKOUT, CommandLine
from tests.system.crowd import ensure_no_crowd, put_crowd
from tests.system.lab_machine import LabMachine

LAB = "scale"
DIRECTORY = CHECKOUT / "build" / "scale"
PAGE = CHECKOUT / "docs" / "proof" / "scale.md"
RAW = CHECKOUT / "docs" / "proof" / "scale.json"
FEW, MANY = 10, 1000
FEW_OPERATIONS, MANY_OPERATIONS = 1000, 100_000
ROUNDS = int(os.environ.get("GRAMPUS_SCALE_ROUNDS") or 7)
SERVE_S = float(os.environ.get("GRAMPUS_SCALE_SERVE_S") or 300)
SETTLE_S = 60.0


def commands(number: int) -> Iterator[tuple[str, Sequence[str]]]:
    """What is measured, with the arguments of its time number `number`."""
    yield "db show", ("db", "show", "shop")
    yield "db label", ("db", "label", "shop", f"round={number}")
    yield "db snapshot create", ("db", "snapshot", "create", "shop", f"s{number}")
    yield "db stop", ("db", "stop", "shop")
    yield "db start", ("db", "start", "shop")
    yield "db set", ("db", "set", "shop", "--write-path", ("journal", "direct")[number % 2])
    yield "volume attach", ("volume", "attach", "scratch", "--host", "h1")
    yield "volume detach", ("volume", "detach", "scratch")
    yield "db list", ("db", "list")


@contextmanager
def crowd(command_line: CommandLine, count: int, operations: int) -> Iterator[None]:
    """The state with so many databases in all, two of them real."""
    with closing(Store(command_line.home / "state.db")) as store:
        put_crowd(store, LAB, "shop", count=count - 2, operations=operations)
    try:
        yield
    finally:
        with closing(Store(command_line.home / "state.db")) as store:
            ensure_no_crowd(store, LAB)


def measure_serve(command_line: CommandLine) -> dict[str, float]:
    """An idle controller, its start included."""
    with (DIRECTORY / "serve.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "grampus", "serve", "--lab", LAB],
            env=command_line.environment(""),
            stdout=log,
            stderr=log,
        )
        began_s = time.monotonic()
        time.sleep(SERVE_S)
        process.send_signal(signal.SIGTERM)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    return {"cpu_s": used.ru_utime + used.ru_stime, "wall_s": time.monotonic() - began_s}


def observe(command_line: CommandLine) -> dict[str, Any]:
    """All of it, as it is kept beside the page."""
    for name in ("shop", "blog"):
        command_line.ok("db", "create", name, "--size", "1G", "--memory", "512M", "--cpus", "0.5")
    command_line.ok("volume", "create", "scratch", "--size", "1G")
    samples: list[dict[str, Any]] = []
    arms = (("few", FEW, FEW_OPERATIONS), ("many", MANY, MANY_OPERATIONS))
    for number in range(ROUNDS):
        for place, (arm, count, operations) in enumerate(arms if number % 2 else arms[::-1]):
            with crowd(command_line, count, operations):
                # What the first command does once (the daily pass over old operations) is over.
                command_line.ok("db", "list")
                for command, arguments in commands(2 * number + place):
                    used = measure(command_line, arguments, arm)
                    samples.append({"command": command, "arm": arm, "round": number, **used})
                    sys.stdout.write(f"{number} {arm:<5} {command:<20} {used['cpu_s']:.2f} s\n")
    with crowd(command_line, MANY, MANY_OPERATIONS):
        serve = measure_serve(command_line)
    return {
        "at": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "versions": observe_versions(LabMachine(command_line, "h1")),
        "few": FEW,
        "many": MANY,
        "few_operations": FEW_OPERATIONS,
        "many_operations": MANY_OPERATIONS,
        "rounds": ROUNDS,
        "samples": samples,
        "serve": serve,
    }


def main() -> int:
    """Measure on a lab of its own, write the page; the exit code."""
    with own_lab(LAB, DIRECTORY) as command_line:
        document = observe(command_line)
    RAW.write_text(json.dumps(document, indent=1) + "\n")
    PAGE.write_text(render_page(document))
    missed = failures(document)
    sys.stdout.write(f"{'; '.join(missed) or 'All targets are met.'}\nThe page is {PAGE}.\n")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
