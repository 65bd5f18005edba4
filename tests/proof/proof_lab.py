"""The lab of the proof: its own, new, and gone afterwards."""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grampus.bench.layers.probe import exchange
from tests.system.command_line import CHECKOUT, TEST_HOME, CommandLine
from tests.system.exerciser import Exerciser
from tests.system.lab_machine import LabMachine

LAB = "crashes"
HOSTS = ("h1", "h2", "h3")
OSDS = ("osd-0", "osd-1", "osd-2")
MONS = ("mon-h1", "mon-h2", "mon-h3")
DIRECTORY = CHECKOUT / "build" / "crashes"
STATUS_TIMEOUT_S = 5.0
HEAL_TIMEOUT_S = 400.0


@dataclass(frozen=True)
class ProofLab:
    """The command line on the lab, and its hosts."""

    command_line: CommandLine
    machines: dict[str, LabMachine]
    exercisers: dict[str, Exerciser]

    def others(self, host: str) -> list[str]:
        """The hosts but one."""
        return [name for name in self.machines if name != host]

    def fault(self, *arguments: str) -> None:
        self.command_line.ok("lab", "fault", *arguments, timeout_s=HEAL_TIMEOUT_S)

    def heal(self) -> None:
        """Everything runs again, and the cluster is healthy."""
        self.fault("heal")

    def observe_versions(self) -> dict[str, str]:
        """What the lab runs, by name."""
        return observe_versions(self.machines["h1"])


def observe_versions(machine: LabMachine) -> dict[str, str]:
    """What a host of the lab runs, by name."""
    ceph = machine.ok("ceph", "--version").split()
    mysql = machine.ok("mysqld", "--version").split()
    return {
        "Ceph": ceph[2],
        "MySQL": mysql[mysql.index("Ver") + 1],
        "kernel": platform.release(),
        "CPUs": str(os.cpu_count()),
    }


@contextmanager
def own_lab(lab: str, directory: Path, arguments: Sequence[str] = ()) -> Iterator[CommandLine]:
    """A lab of that name, up, with its home in `directory`; gone afterwards whatever happened.

    `arguments` are further ones of `lab up`.
    """
    home = directory / "home"
    home.mkdir(parents=True, exist_ok=True)
    images = home / "images"
    if TEST_HOME.joinpath("images").is_dir() and not images.exists():
        images.symlink_to(TEST_HOME / "images")  # a host image takes a minute and a GiB
    command_line = CommandLine(lab, home)
    command_line.run("lab", "down", "--yes")  # of a proof that was killed
    try:
        command_line.ok("lab", "up", *arguments, timeout_s=900)
        yield command_line
    finally:
        command_line.ok("lab", "down", "--yes")


@contextmanager
def proof_lab(exerciser_program: Path) -> Iterator[ProofLab]:
    """The lab of crashes, up; gone afterwards whatever happened."""
    with own_lab(LAB, DIRECTORY) as command_line:
        machines = {host: LabMachine(command_line, host) for host in HOSTS}
        exercisers = {
            host: Exerciser(machine, exerciser_program) for host, machine in machines.items()
        }
        yield ProofLab(command_line, machines, exercisers)


def ask_status(control_directory: Path) -> dict[str, Any]:
    """What the volumed whose socket is in that directory says of itself; by milliseconds quicker
    than the command line. Raises OSError, ValueError."""
    request = b'{"version":1,"command":"status"}\n'
    with exchange(str(control_directory / "control"), request) as connection:
        connection.settimeout(STATUS_TIMEOUT_S)
        with connection.makefile() as answers:
            answer = json.loads(answers.readline())
    status: dict[str, Any] = answer["result"]
    return status


def digest_of(program: Path) -> str:
    """The first digits of a program's SHA-256: which one it is."""
    return hashlib.sha256(program.read_bytes()).hexdigest()[:16]
