"""A lab's cluster taken for somebody's own: measured from this machine, and as it was after it.

This machine has none of Ceph's programs: small scripts of their names run them on a host of the
lab, where the configuration and the keyring have the same paths.
"""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.system.command_line import CommandLine
from tests.system.lab_machine import LabMachine
from tests.system.machine import wait_for

SUITE = """
name: my-cluster
kind: matrix
title: One and four requests at once
question: Do more requests at once bring more?
dimensions: {workload: [rados-write, rbd-randread], threads: [1, 4]}
fixed: {copies: 2, media: own, wal_db_device: own, objectstore: own}
dataset: {block_bytes: 64K}
arms: {one: {threads: 1}, four: {threads: 4}}
baseline: one
conclusions:
  - {name: more, says: More., test: ratio, quantity: mb-per-s, arm: four, at_least: 1.01}
scales:
  tiny: {warmup_s: 1, measure_s: 4, rounds: 1, dataset_bytes: 16M, environment_s: 20}
  small: {warmup_s: 15, measure_s: 60, rounds: 5, dataset_bytes: 1G, environment_s: 240}
  full: {warmup_s: 60, measure_s: 300, rounds: 6, dataset_bytes: 10G, environment_s: 600}
"""
FLAGS = {"noscrub", "nodeep-scrub"}


class FromThisMachine(CommandLine):
    """The command line with a home of its own, which knows no lab."""

    def __init__(self, lab: str, home: Path, programs: Path) -> None:
        super().__init__(lab, home)
        self._programs = programs

    def environment(self, failpoints: str) -> dict[str, str]:
        found = super().environment(failpoints)
        return {**found, "PATH": f"{self._programs}:{os.environ['PATH']}"}

    def visits(self) -> list[dict[str, Any]]:
        """Of the newest run, those that ended."""
        runs = sorted((self.home / "runs").glob("*-my-cluster-tiny"))
        file = runs[-1] / "visits.jsonl" if runs else None
        if file is None or not file.exists():
            return []
        lines = file.read_text().splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("\n")]


@pytest.fixture
def machine(lab: CommandLine) -> LabMachine:
    return LabMachine(lab, "h1")


@pytest.fixture
def client(lab: CommandLine, machine: LabMachine, tmp_path: Path) -> FromThisMachine:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("ceph", "rados", "rbd"):
        file = programs / name
        file.write_text(f'#!/bin/sh\nexec {" ".join(machine.argv(name))} "$@"\n')
        file.chmod(0o755)
    (tmp_path / "my-cluster.yaml").write_text(SUITE)
    return FromThisMachine(lab.lab, tmp_path / "home", programs)


def _cluster(machine: LabMachine) -> list[str]:
    """Options that name the lab's cluster."""
    directory = machine.data / "etc-ceph"
    keyring = directory / "ceph.client.admin.keyring"
    return ["--conf", str(directory / "ceph.conf"), "--keyring", str(keyring)]


def _settings(machine: LabMachine) -> dict[str, Any]:
    """All that is the owner's."""
    return {
        "flags": set(machine.ceph("osd", "dump")["flags_set"]),
        "balancer": machine.ceph("balancer", "status")["active"],
        "pools": {
            pool["pool_name"]: (pool["size"], pool["pg_autoscale_mode"])
            for pool in machine.ceph("osd", "pool", "ls", "detail")
        },
        "configuration": machine.ceph("config", "dump"),
        "rules": machine.ceph("osd", "crush", "rule", "ls"),
    }


def test_a_cluster_is_measured_and_is_as_it_was(
    client: FromThisMachine, machine: LabMachine, tmp_path: Path
) -> None:
    before = _settings(machine)
    suite = str(tmp_path / "my-cluster.yaml")
    plan = client.json("bench", "run", suite, *_cluster(machine), "--dry-run")
    assert [cell["not_runnable"] for cell in plan["cells"]] == [None] * 4
    assert not client.home.exists()
    document = client.json("bench", "run", suite, *_cluster(machine))
    fsid = machine.ceph("fsid")["fsid"]
    assert document["place"] == f"cluster {fsid}"
    assert not document["shape_only"]
    visits = client.visits()
    assert [visit.get("marked") for visit in visits] == [None] * 4
    for visit in visits:
        why = visit["figures"]["why"]
        assert any("OSDs are on hosts" in gap for gap in why["gaps"])
        assert visit["figures"]["operations_per_s"] > 0
    told = {setting["name"]: setting["value"] for setting in document["environment"]}
    assert told["FSID"] == fsid
    assert "bluestore" in told["OSDs"]
    assert _settings(machine) == before
    assert client.json("bench", "tidy", *_cluster(machine))["done"] == []


def test_what_a_killed_run_left_is_tidied(
    client: FromThisMachine, machine: LabMachine, tmp_path: Path
) -> None:
    before = _settings(machine)
    running = client.start("bench", "run", str(tmp_path / "my-cluster.yaml"), *_cluster(machine))
    try:
        wait_for(lambda: bool(client.visits()), "the first visit to end", timeout_s=200)
        meanwhile = _settings(machine)
    finally:
        running.send_signal(signal.SIGKILL)
        running.communicate(timeout=60)
    assert meanwhile["flags"] - before["flags"] == FLAGS - before["flags"]
    made = set(meanwhile["pools"]) - set(before["pools"])
    assert len(made) == 2
    for pool in made:
        # Both the pool of objects and that of images bear the mark.
        assert "grampus_bench" in machine.ok("ceph", "osd", "pool", "application", "get", pool)
    plan = client.json("bench", "tidy", *_cluster(machine), "--dry-run")["plan"]
    assert "Unset the flag noscrub" in plan
    assert _settings(machine)["flags"] == meanwhile["flags"]
    assert client.json("bench", "tidy", *_cluster(machine))["done"] == plan
    assert _settings(machine) == before
