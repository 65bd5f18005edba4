"""What breaks while a suite runs on a real lab: a reason for each cell, no figure (ADR 25)."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from grampus.bench.environments.environment_plan import environment_name
from grampus.bench.matrix.expansion import expand_cells
from grampus.bench.matrix.loading import parse_matrix_suite
from tests.integration.test_growth import fill
from tests.system.command_line import CommandLine
from tests.system.lab_machine import LabMachine, remove_pool
from tests.system.machine import wait_for

NAME = "my-breaks"
SUITE = """
name: my-breaks
kind: matrix
title: What breaks
question: Does anything that broke become a figure?
dimensions: DIMENSIONS
fixed: FIXED
dataset: {block_bytes: 1M}
arms: {first: FIRST, second: SECOND}
baseline: first
conclusions:
  - {name: more, says: It is more., test: ratio, quantity: iops, arm: second, at_least: 1.01}
scales:
  tiny: {warmup_s: 1, measure_s: MEASURE_S, rounds: 1, dataset_bytes: 32M, environment_s: 45}
  small: {warmup_s: 15, measure_s: 60, rounds: 5, dataset_bytes: 1G, environment_s: 240}
  full: {warmup_s: 60, measure_s: 300, rounds: 6, dataset_bytes: 10G, environment_s: 600}
"""
# Those of a lab's directory that warm up or measure, and not those that load the data.
CLIENT = "^sysbench --config-file={directory}/.*--report-interval=1.* run"


def suite_file(
    directory: Path, *, dimensions: str, fixed: str, first: str, second: str, measure_s: int
) -> Path:
    """A suite of two cells, visited once each."""
    file = directory / f"{NAME}.yaml"
    words = {
        "DIMENSIONS": dimensions,
        "FIXED": fixed,
        "FIRST": first,
        "SECOND": second,
        "MEASURE_S": str(measure_s),
    }
    text = SUITE
    for word, value in words.items():
        text = text.replace(word, value)
    file.write_text(text)
    return file


def commits_file(directory: Path, *, rate: str) -> Path:
    """Two cells on one database, which differ in what a running server takes.

    Each is measured for long enough to break something meanwhile. `rate`: transactions a second, or
    none: as many as the server takes.
    """
    return suite_file(
        directory,
        dimensions="{trx_commit: [1, 2]}",
        fixed=f"{{workload: update-index, threads: 4, rate: {rate}}}",
        first="{trx_commit: 1}",
        second="{trx_commit: 2}",
        measure_s=15,
    )


def objects_file(directory: Path) -> Path:
    """Two cells on a pool each, on the lab's first OSDs."""
    return suite_file(
        directory,
        dimensions="{copies: [2, 3]}",
        fixed="{workload: rados-write, threads: 4, media: own, wal_db_device: own}",
        first="{copies: 2}",
        second="{copies: 3}",
        measure_s=4,
    )


class RunningSuite:
    """A run under way, and the visits that it has made."""

    def __init__(self, lab: CommandLine, process: subprocess.Popen[str], known: set[Path]) -> None:
        self._lab = lab
        self._process = process
        self._known = known

    def visits(self) -> list[dict[str, Any]]:
        """Those whose lines are whole."""
        new = [one for one in runs(self._lab) if one not in self._known]
        if not new or not (new[0] / "visits.jsonl").exists():
            return []
        lines = (new[0] / "visits.jsonl").read_text().splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def wait_for_load(self) -> None:
        """Until the first cell is loaded; processes of the hosts are this machine's, too."""
        directory = self._lab.home / "labs" / self._lab.lab / "hosts"
        client = ["pgrep", "-f", CLIENT.format(directory=re.escape(str(directory)))]

        def is_loaded() -> bool:
            return subprocess.run(client, stdout=subprocess.DEVNULL, check=False).returncode == 0

        wait_for(is_loaded, "the first load", timeout_s=300, interval_s=0.5)

    def wait_for_visit(self) -> dict[str, Any]:
        """The first visit, when it has ended."""
        wait_for(lambda: bool(self.visits()), "the first visit to end", timeout_s=180)
        return self.visits()[0]

    def wait(self) -> list[dict[str, Any]]:
        """All visits of the run that ended by itself."""
        _, said = self._process.communicate(timeout=400)
        assert self._process.returncode == 0, said
        return self.visits()


def runs(lab: CommandLine) -> set[Path]:
    """Directories of all runs of the suite."""
    return set((lab.home / "runs").glob(f"*-{NAME}-tiny"))


@contextmanager
def running_suite(lab: CommandLine, file: Path) -> Iterator[RunningSuite]:
    """The suite, started; nothing of it is left, also if the block fails."""
    databases, known = lab.json("db", "list"), runs(lab)
    process = lab.start("bench", "run", str(file))
    try:
        yield RunningSuite(lab, process, known)
        assert process.poll() is not None
        assert lab.json("db", "list") == databases
    finally:
        if process.poll() is None:
            process.terminate()
            process.communicate(timeout=120)


def require_marked(visit: dict[str, Any], *reasons: str) -> None:
    """A visit without figures, and why."""
    assert "figures" not in visit
    for reason in reasons:
        assert reason in visit["marked"], visit["marked"]


def test_a_broken_cell_has_a_reason_and_the_other_its_figures(
    lab: CommandLine, tmp_path: Path
) -> None:
    """The pool that it would make is there, and somebody else's."""
    file, machine = objects_file(tmp_path), LabMachine(lab, "h1")
    suite = parse_matrix_suite(file.read_text(), source=file.name)
    pool = environment_name(expand_cells(suite, "tiny")[0])
    machine.ok("ceph", "osd", "pool", "create", pool, "8")
    try:
        with running_suite(lab, file) as running:
            broken, sound = sorted(running.wait(), key=lambda visit: "figures" in visit)
        require_marked(broken, f"There is a pool named {pool}, and no benchmark made it")
        assert sound["figures"]["operations_per_s"] > 0
        (conclusion,) = lab.json("bench", "show", "latest")["conclusions"]
        assert conclusion["word"] == "not-tested"
        assert pool in machine.ceph("osd", "pool", "ls")
    finally:
        remove_pool(machine, pool)


def test_an_osd_that_dies_in_a_cell_leaves_no_figures_of_it(
    lab: CommandLine, tmp_path: Path
) -> None:
    with running_suite(lab, commits_file(tmp_path, rate="20")) as running:
        running.wait_for_load()
        try:
            lab.ok("lab", "fault", "kill-daemon", "osd-1")
            require_marked(
                running.wait_for_visit(), "osd.1 was down while it was measured", "(OSD_DOWN)"
            )
        finally:
            lab.ok("lab", "fault", "heal")
        visits = running.wait()
    # Measured once the cluster had repaired itself.
    assert [visit.get("marked") is None for visit in visits] == [False, True]


def test_a_full_volume_leaves_no_figures(lab: CommandLine, tmp_path: Path) -> None:
    # As many as it takes: the server must come to need more than the volume has.
    with running_suite(lab, commits_file(tmp_path, rate="none")) as running:
        running.wait_for_load()
        (database,) = [
            found["name"]
            for found in lab.json("db", "list")["databases"]
            if found["name"].startswith("bench-")
        ]
        fill(lab, database, leave_mib=6)
        visits = running.wait()
    assert len(visits) == 2
    for visit in visits:
        require_marked(visit, f"The volume of {database} is full")


def test_a_full_cluster_leaves_no_figures(lab: CommandLine, tmp_path: Path) -> None:
    machine = LabMachine(lab, "h1")
    with running_suite(lab, commits_file(tmp_path, rate="20")) as running:
        running.wait_for_load()
        try:
            # What every OSD has by itself is more; from now on writes wait.
            set_full_ratios(machine, nearfull="0.00001", backfillfull="0.00005", full="0.0001")
            require_marked(running.wait_for_visit(), "The cluster is not well", "OSD_FULL")
        finally:
            set_full_ratios(machine, nearfull="0.85", backfillfull="0.90", full="0.95")
        running.wait()


def set_full_ratios(machine: LabMachine, **ratios: str) -> None:
    """In their order: Ceph takes one that is larger than the next for an error of its own."""
    for name, ratio in ratios.items():
        machine.ok("ceph", "osd", f"set-{name}-ratio", ratio)
