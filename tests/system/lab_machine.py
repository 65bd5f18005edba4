"""A lab's hosts, past Grampus: what runs there, and commands of our own there."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.system.command_line import CommandLine, Finished
from tests.system.machine import wait_for


class LabMachine:
    """One host of a lab that is up."""

    def __init__(self, command_line: CommandLine, host: str) -> None:
        self.command_line = command_line
        self.host = host
        self.data = command_line.home / "labs" / command_line.lab / "hosts" / host / "data"
        self.tag = command_line.tag
        self._runc = ("runc", "--root", f"/run/grampus/{self.tag}/runc")

    def run(self, *argv: str, timeout_s: float = 120) -> Finished:
        """Run a command on the host to its end, whatever its code."""
        finished = subprocess.run(
            self.argv(*argv), capture_output=True, text=True, timeout=timeout_s, check=False
        )
        return Finished(finished.returncode, finished.stdout, finished.stderr)

    def ok(self, *argv: str, timeout_s: float = 120) -> str:
        """What a command prints that must succeed."""
        finished = self.run(*argv, timeout_s=timeout_s)
        said = f"{finished.stdout[-2000:]}{finished.stderr[-2000:]}"
        assert finished.code == 0, f"{' '.join(argv)} on {self.host}: {said}"
        return finished.stdout

    def ceph(self, *arguments: str) -> Any:
        """What `ceph ARGUMENTS` answers."""
        return json.loads(self.ok("ceph", *arguments, "--format", "json"))

    def argv(self, *argv: str, options: tuple[str, ...] = ()) -> list[str]:
        """The command on this machine that runs `argv` on the host."""
        return [*self._runc, "exec", *options, f"{self.host}.host", *argv]

    def daemons(self) -> dict[str, int]:
        """The process of each daemon that runs on the host, as seen from this machine."""
        (host,) = (
            host
            for host in self.command_line.json("lab", "status")["hosts"]
            if host["name"] == self.host
        )
        return {
            daemon["name"]: daemon["pid"]
            for daemon in host["daemons"]
            if daemon["state"] == "running"
        }

    def scratch(self) -> Path:
        """A directory on the host's own disk; the same path here and there."""
        path = self.data / "exerciser"
        path.mkdir(exist_ok=True)
        return path


def wait_for_health(command_line: CommandLine, timeout_s: float = 120.0) -> None:
    """Wait until the lab is healthy.

    Several labs on one small machine: a warning that passes, such as of a slow answer, is none.
    """

    def is_healthy() -> bool:
        return bool(command_line.json("lab", "status")["health"] == "HEALTH_OK")

    wait_for(is_healthy, f"{command_line.lab} to be healthy", timeout_s)


def remove_pool(machine: LabMachine, pool: str) -> None:
    """Take a pool off the cluster with all that is in it."""
    machine.ok("ceph", "config", "set", "global", "mon_allow_pool_delete", "true")
    try:
        machine.ok("ceph", "osd", "pool", "rm", pool, pool, "--yes-i-really-really-mean-it")
    finally:
        machine.ok("ceph", "config", "rm", "global", "mon_allow_pool_delete")
