"""A server in a virtual machine on a real lab: killed, gone on with, removed (ADR 30)."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from tests.system.command_line import CommandLine
from tests.system.lab_machine import LabMachine
from tests.system.machine import wait_for

# The first run builds the host image with QEMU; where the CPU is emulated, a machine boots for
# minutes.
pytestmark = [pytest.mark.exhaustive, pytest.mark.timeout(1200)]

SUITE = """
name: my-machines
kind: matrix
title: Reads in a container and in a virtual machine
question: What does a virtual machine cost reads?
dimensions: {runtime: [container, vm], driver: [auto, librbd]}
fixed: {workload: point-select, threads: 2}
exclusions:
  - {when: {runtime: [vm], driver: [auto]}, because: A machine has its image by librbd.}
  - {when: {runtime: [container], driver: [librbd]}, because: A container needs a device.}
arms:
  container: {runtime: container, driver: auto}
  vm: {runtime: vm, driver: librbd}
baseline: container
conclusions:
  - {name: less, says: Less in it., test: ratio, quantity: tps, arm: vm, at_most: 1.05}
scales:
  tiny: {warmup_s: 1, measure_s: 4, rounds: 2, dataset_bytes: 32M, environment_s: 45}
  small: {warmup_s: 15, measure_s: 60, rounds: 5, dataset_bytes: 1G, environment_s: 240}
  full: {warmup_s: 60, measure_s: 300, rounds: 6, dataset_bytes: 10G, environment_s: 600}
"""


def _guests(machines: list[LabMachine]) -> list[str]:
    """Daemons that are virtual machines."""
    daemons = [name for machine in machines for name in machine.daemons()]
    return [name for name in daemons if name.startswith("vm-bench-")]


def _volumes(lab: CommandLine) -> list[str]:
    """Those that are not what the product keeps to clone new databases from."""
    names = [volume["name"] for volume in lab.json("volume", "list")["volumes"]]
    return [name for name in names if not name.startswith("golden-")]


def test_a_killed_run_leaves_a_machine_that_the_next_uses_and_removes(
    lab: CommandLine, tmp_path: Path
) -> None:
    machines = [LabMachine(lab, host) for host in ("h1", "h2", "h3")]
    file = tmp_path / "my-machines.yaml"
    file.write_text(SUITE)
    databases = lab.json("db", "list")
    volumes = _volumes(lab)
    running = lab.start("bench", "run", str(file))
    try:
        wait_for(lambda: bool(_guests(machines)), "a virtual machine", timeout_s=600)
    finally:
        running.send_signal(signal.SIGKILL)
        running.communicate(timeout=60)
    assert _guests(machines), "only what is asked to end does"
    document: dict[str, Any] = lab.json("bench", "run", str(file), "--resume")
    cells = {cell["name"]: cell for cell in document["cells"]}
    assert len(cells) == 2
    for cell in cells.values():
        assert cell["no_figure"] is None, cell
    assert sum("emulated" in note for cell in cells.values() for note in cell["notes"]) <= 1
    assert _guests(machines) == []
    assert lab.json("db", "list") == databases
    assert _volumes(lab) == volumes
