"""A suite of one's own on a real lab: killed and gone on with; clients that die (ADR 25, 26)."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.system.command_line import CommandLine
from tests.system.lab_machine import LabMachine
from tests.system.machine import wait_for

SUITE = """
name: my-commits
kind: matrix
title: Commits with and without a flush
question: What does a flush at each commit cost?
dimensions: {trx_commit: [1, 2]}
fixed: {workload: update-index, threads: 4}
arms: {flushed: {trx_commit: 1}, written: {trx_commit: 2}}
baseline: flushed
conclusions:
  - {name: more, says: More without., test: ratio, quantity: tps, arm: written, at_least: 1.01}
scales:
  tiny: {warmup_s: 1, measure_s: 4, rounds: 2, dataset_bytes: 32M, environment_s: 45}
  small: {warmup_s: 15, measure_s: 60, rounds: 5, dataset_bytes: 1G, environment_s: 240}
  full: {warmup_s: 60, measure_s: 300, rounds: 6, dataset_bytes: 10G, environment_s: 600}
"""
KINDS = {"client", "machine", "daemon", "innodb", "volume", "osd", "device", "monitor"}
FLAGS = {"noscrub", "nodeep-scrub"}


def _visits(lab: CommandLine, known: set[Path]) -> list[dict[str, Any]]:
    """The visits of the one run that is not `known`."""
    new = [one for one in (lab.home / "runs").glob("*-my-commits-tiny") if one not in known]
    if not new or not (new[0] / "visits.jsonl").exists():
        return []
    lines = (new[0] / "visits.jsonl").read_text().splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith("\n")]


def _flags(machine: LabMachine) -> set[str]:
    return FLAGS & set(machine.ceph("osd", "dump")["flags_set"])


def _check_watched(lab: CommandLine, run_id: str, visits: list[dict[str, Any]]) -> None:
    """Each visit has a bottleneck, and series of all that there is in a lab, on one clock."""
    for visit in visits:
        why = visit["figures"]["why"]
        assert why["bottleneck"] != "unknown", why
        assert why["gaps"] == [], why
        times = {one["layer"]: one["share"] for one in why["times"]}
        assert {"client", "server-cpu", "volume", "osd-cpu", "osd-device", "network"} <= set(times)
        assert sum(times.values()) == pytest.approx(1, abs=0.01)
        series = lab.home / "runs" / run_id / "series" / visit["cell_id"]
        lines = (series / f"{visit['round']}.jsonl").read_text().splitlines()
        points = [json.loads(line) for line in lines]
        assert {point["kind"] for point in points} >= KINDS
        daemons = {point["name"].partition("-")[0] for point in points if point["kind"] == "daemon"}
        assert {"mysqld", "osd", "mon"} <= daemons
        # Who waits for a CPU is known of daemons and of clients.
        waiting = {point["kind"] for point in points if "cpu_waiting" in point["values"]}
        assert waiting == {"daemon", "client"}
        assert any("osd_round_trip_ms" in point["values"] for point in points)
        assert {point["name"] for point in points if point["kind"] == "osd"} > {"osd.0"}
        assert all(why["from_s"] < point["at_s"] < why["to_s"] + 30 for point in points)


def _check_recorded(
    directory: Path, document: dict[str, Any], visits: list[dict[str, Any]]
) -> None:
    """What servers ran with is kept, and where they were is told."""
    told = {setting["name"]: setting["value"] for setting in document["environment"]}
    assert told["layout"].startswith("databases and load generators on the OSDs' hosts")
    assert {"grampus commit", "control groups"} <= told.keys()
    for visit in visits:
        assert any("on the OSDs' hosts" in note for note in visit["figures"]["notes"])
        raw = directory / "raw" / visit["cell_id"]
        (kept, *_) = sorted(raw.glob("*/variables.*.txt"))
        lines = [line.partition("\t") for line in kept.read_text().splitlines()]
        variables = {name: value for name, _, value in lines}
        cell = next(one for one in document["cells"] if one["cell_id"] == visit["cell_id"])
        asked = str(cell["point"]["trx_commit"])
        assert variables["innodb_flush_log_at_trx_commit"] == asked
        assert variables["version"]


def test_a_killed_run_goes_on_and_leaves_nothing(lab: CommandLine, tmp_path: Path) -> None:
    machine = LabMachine(lab, "h1")
    file = tmp_path / "my-commits.yaml"
    file.write_text(SUITE)
    known = set((lab.home / "runs").glob("*-my-commits-tiny"))
    databases = lab.json("db", "list")
    flags = _flags(machine)
    running = lab.start("bench", "run", str(file))
    try:
        wait_for(lambda: bool(_visits(lab, known)), "the first visit to end", timeout_s=300)
        assert _flags(machine) == FLAGS
    finally:
        running.send_signal(signal.SIGKILL)
        running.communicate(timeout=60)
    before = _visits(lab, known)
    document = lab.json("bench", "run", str(file), "--resume")
    after = _visits(lab, known)
    assert after[: len(before)] == before
    assert len(after) == 4
    assert [visit.get("marked") for visit in after] == [None] * 4
    assert len({(visit["cell_id"], visit["round"]) for visit in after}) == 4
    _check_watched(lab, document["run_id"], after)
    assert document == lab.json("bench", "show", "latest")
    assert Path(document["report"]).exists()
    _check_recorded(Path(document["dir"]), document, after)
    assert lab.json("db", "list") == databases
    assert _flags(machine) == flags


def test_a_run_whose_clients_die_has_reasons_and_no_figures(
    lab: CommandLine, tmp_path: Path
) -> None:
    file = tmp_path / "my-commits.yaml"
    file.write_text(SUITE)
    known = set((lab.home / "runs").glob("*-my-commits-tiny"))
    machines = [LabMachine(lab, host) for host in ("h1", "h2", "h3")]
    running = lab.start("bench", "run", str(file), "--rounds", "1")
    # Only those that measure: without their data nothing could be.
    client = "sysbench.*--report-interval=1.* run"
    while running.poll() is None:
        for machine in machines:
            machine.run("pkill", "-KILL", "-f", client)
    running.communicate()
    visits = _visits(lab, known)
    assert len(visits) == 2
    for visit in visits:
        assert "figures" not in visit
        assert "sysbench was killed" in visit["marked"], visit["marked"]
