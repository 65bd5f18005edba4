"""`make bottlenecks`: is the layer named that was made slow on purpose? Into docs/proof.

Exit codes: 0 the targets are met; 1 some are not. `GRAMPUS_BOTTLENECKS` are layers, with commas
between them, of which alone the page is not written.
"""

from __future__ import annotations

import json
import os
import sys
import time
from datetime import UTC, datetime
from typing import Any

from tests.proof.bottlenecks.injections import Injection, injections, while_loaded
from tests.proof.bottlenecks.judging import Judged, failures, judge, rate_of
from tests.proof.bottlenecks.page import render_page
from tests.proof.experiments.measuring import TIMEOUT_S
from tests.proof.proof_lab import observe_versions, own_lab
from tests.system.command_line import CHECKOUT, CommandLine
from tests.system.lab_machine import LabMachine

LAB = "inject"
DIRECTORY = CHECKOUT / "build" / "bottlenecks"
SUITE = CHECKOUT / "suites" / "checks" / "injected-bottlenecks.yaml"
PAGE = CHECKOUT / "docs" / "proof" / "bottlenecks.md"
RAW = CHECKOUT / "docs" / "proof" / "bottlenecks.json"


def measure(lab: CommandLine) -> dict[str, Any]:
    """A new run of the suite, as `bench show` tells it."""
    arguments = ("bench", "run", str(SUITE), "--scale", "tiny", "--format", "json")
    lab.ok(*arguments, timeout_s=TIMEOUT_S)
    shown: dict[str, Any] = lab.json("bench", "show", "latest")
    return shown


def measure_injected(
    lab: CommandLine, injection: Injection, uninjected: dict[str, Any]
) -> list[Judged]:
    """The suite while one layer is slow."""
    began_s = time.monotonic()
    with while_loaded(injection):
        shown = measure(lab)
    judged = judge(injection.layer, shown["cells"], uninjected["cells"])
    for one in judged:
        sys.stdout.write(f"  {one}\n")
    took_s = time.monotonic() - began_s
    sys.stdout.write(f"{injection.layer}: {rate_of(judged)} right, {took_s:.0f} s\n")
    sys.stdout.flush()
    return judged


def main() -> int:
    """Measure on a lab of its own, write the page; the exit code."""
    asked = [word for word in os.environ.get("GRAMPUS_BOTTLENECKS", "").split(",") if word]
    judged: list[Judged] = []
    with own_lab(LAB, DIRECTORY) as lab:
        versions = observe_versions(LabMachine(lab, "h1"))
        chosen = [one for one in injections(lab) if not asked or one.layer in asked]
        uninjected = measure(lab)
        for injection in chosen:
            judged += measure_injected(lab, injection, uninjected)
    document = {
        "at": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "versions": versions,
        "injections": {one.layer: one.says for one in chosen},
        "uninjected": judge("none", uninjected["cells"], uninjected["cells"]),
        "judged": judged,
    }
    if not asked:
        PAGE.write_text(render_page(document))
        RAW.write_text(json.dumps(document, default=vars, indent=1) + "\n")
    missed = failures(judged)
    found = rate_of(judged)
    line = {"trials": found.trials, "right": found.right, "missed": missed}
    sys.stdout.write(f"{json.dumps(line)}\n")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
