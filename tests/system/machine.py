"""What a lab could leave behind on this machine."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

PROGRAMS_OF_LABS = ("ceph", "mysqld", "mariadbd", "qemu-storage", "tini", "runc", "sysbench")


def wait_for(condition: Callable[[], bool], what: str, timeout_s: float = 30.0) -> None:
    """Poll until `condition` holds; fail with `what` after `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"gave up waiting for {what} after {timeout_s} s"
        time.sleep(0.1)


def inventory() -> dict[str, list[str]]:
    """Everything that outlives a process on this machine, by kind, sorted."""
    return {
        "mounts": sorted(
            line.split(" ")[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()
        ),
        "loop devices": sorted(path.parent.name for path in Path("/sys/block").glob("*/loop")),
        "links": sorted(path.name for path in Path("/sys/class/net").iterdir()),
        "namespaces": sorted(path.name for path in Path("/run/netns").glob("*")),
        "run": sorted(str(path) for path in Path("/run/grampus").rglob("*")),
        "control groups": sorted(
            str(path) for path in Path("/sys/fs/cgroup").glob("**/grampus/**/")
        ),
        "routes": sorted(_output("ip", "-json", "route", "show", "table", "all").split("},")),
        "firewall": [*_firewall("nft", "list", "ruleset"), *_firewall("iptables-save")],
        "processes": _lab_processes(),
    }


def left_behind(before: Mapping[str, list[str]]) -> dict[str, list[str]]:
    """What this machine has more than it had at the inventory `before`, by kind.

    What it has less is nobody's fault here: a lab of somebody else may come down
    meanwhile, and the kernel frees a loop device whose last user has ended.
    """
    more = {
        kind: sorted((Counter(items) - Counter(before[kind])).elements())
        for kind, items in inventory().items()
    }
    return {kind: items for kind, items in more.items() if items}


def _lab_processes() -> list[str]:
    found = []
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            name = (directory / "comm").read_text().strip()
            state = (directory / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue  # it has ended
        # A process that has ended and waits to be reaped by init is gone.
        if state != "Z" and name.startswith(PROGRAMS_OF_LABS):
            found.append(f"{name} {directory.name}")
    return sorted(found)


def _firewall(*command: str) -> list[str]:
    return _output(*command).splitlines() if shutil.which(command[0]) else []


def _output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def lab_container(tag: str, host: str, *argv: str) -> str:
    """What a command prints that is run on a lab's host, past Grampus."""
    return _output("runc", "--root", f"/run/grampus/{tag}/runc", "exec", f"{host}.host", *argv)
