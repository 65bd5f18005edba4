"""What a lab could leave behind on this machine."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from grampus.hosts.loop_devices import AttachedLoop, observe_attached_loops
from grampus.lab.model import lab_tag
from grampus.state.home import Home

PROGRAMS_OF_LABS = ("ceph", "mysqld", "mariadbd", "qemu-storage", "tini", "runc", "sysbench")
# The tag of a lab in the names that it gives: links, namespaces, control groups, references.
_TAG = re.compile(r"(?:\bgr-|\bgrampus[-/])([0-9a-f]{5})(?![0-9a-z])")
# A path below what a home keeps of a lab, or of a cluster that is no lab's.
_PLACE = re.compile(r"(/[^\s\"]*)/(labs|clusters)/([^/\s\"]+)")
# Is built for whichever lab wants it first.
_BUILDING = re.compile(r"/images/\.(?:building|removing)-")
# Directories of tests: pytest's, and those that `memory_directory` makes in memory.
_OF_TESTS = re.compile(r"/pytest-of-[^/\s]+/|/grampus-test-")
# What the first lab of this machine makes and the last one removes.
_OF_ALL_LABS = re.compile(r"/run/netns|/run/grampus/made-run-netns|/sys/fs/cgroup/(.*/)?grampus")


@dataclass(frozen=True)
class Thing:
    """Something that outlives a process: its name, and all that tells whose it is."""

    name: str
    clue: str


@contextmanager
def memory_directory() -> Iterator[Path]:
    """A new directory in memory; inventories know that what is in it is a test's, not a lab's."""
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="grampus-test-") as made:
        yield Path(made)


def wait_for(
    condition: Callable[[], bool], what: str, timeout_s: float = 30.0, *, interval_s: float = 0.1
) -> None:
    """Poll until `condition` holds; fail with `what` after `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"gave up waiting for {what} after {timeout_s} s"
        time.sleep(interval_s)


def tag_of(home: Path, lab: str) -> str:
    """What that lab's names on this machine hold, also while it is not there."""
    return lab_tag(Home(home.resolve()), lab)


def owner_of(clue: str) -> str | None:
    """The tag of the lab that a thing belongs to, or another word; None: nobody can tell."""
    place = _PLACE.search(clue)
    if place is not None:
        root, kind, name = place.groups()
        return lab_tag(Home(Path(root)), name) if kind == "labs" else f"cluster {name}"
    tag = _TAG.search(clue)
    if tag is not None:
        return tag[1]
    if _OF_TESTS.search(clue):
        return "a test"
    return "an image" if _BUILDING.search(clue) else None


def without_others(
    things: Iterable[Thing], tag: str, labs: Iterable[str], *, stays_up: bool = False
) -> list[str]:
    """Names of what is the lab's of that tag, or nobody's; `labs` are tags of all that are there.

    Labs beside it may come and go meanwhile, and with them what all labs share. This counts only
    if no other lab is there, and never for a lab that `stays_up` between two inventories: the other
    lab may end between them.
    """
    is_shared_left_out = stays_up or bool(set(labs) - {tag})
    return sorted(
        thing.name
        for thing in things
        if owner_of(thing.clue) in (None, tag)
        and not (is_shared_left_out and _OF_ALL_LABS.fullmatch(thing.name))
    )


def inventory(tag: str, *, stays_up: bool = False) -> dict[str, list[str]]:
    """What outlives a process on this machine, by kind, sorted, without that of other labs.

    `stays_up` says that the lab is up for all inventories that are compared.
    """
    things = _observe_things()
    named = things["links"] + things["namespaces"] + things["run"] + things["control groups"]
    labs = {owner for thing in named if (owner := owner_of(thing.clue)) is not None}
    return {
        kind: without_others(found, tag, labs, stays_up=stays_up) for kind, found in things.items()
    }


def left_behind(before: Mapping[str, list[str]], tag: str) -> dict[str, list[str]]:
    """What this machine has more than it had at the inventory `before`, by kind.

    What it has less is nobody's fault here: the kernel frees a loop device whose last user has
    ended.
    """
    more = {
        kind: sorted((Counter(items) - Counter(before[kind])).elements())
        for kind, items in inventory(tag).items()
    }
    return {kind: items for kind, items in more.items() if items}


def _observe_things() -> dict[str, list[Thing]]:
    loops = settled_loops(lambda: loop_things(observe_attached_loops(), _mounts()))
    return {
        "mounts": _named(path for path, _ in _mounts()),
        "loop devices": loops,
        "links": _named(path.name for path in Path("/sys/class/net").iterdir()),
        "namespaces": _named(Path(path).name for path in _below("/run/netns")),
        "run": _named(_below("/run/grampus")),
        "control groups": _named(
            path for path in _below("/sys/fs/cgroup", files=False) if "/grampus" in path
        ),
        "routes": _named(
            json.dumps(route)
            for route in json.loads(_output("ip", "-json", "route", "show", "table", "all"))
        ),
        "firewall": _named([*_firewall("nft", "list", "ruleset"), *_firewall("iptables-save")]),
        "processes": _lab_processes(),
    }


def _mounts() -> list[tuple[str, str]]:
    """Mount points of this machine, each with its source."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return [(line.split(" ")[4], line.partition(" - ")[2].split(" ")[1]) for line in lines]


def loop_things(
    loops: Iterable[AttachedLoop], mounts: Collection[tuple[str, str]]
) -> list[tuple[Thing, AttachedLoop]]:
    """Each device with what tells whose it is: its reference, its file, where it is mounted.

    A device whose server has died says neither reference nor path, and may still be mounted.
    """
    found = []
    for loop in loops:
        at = [path for path, source in mounts if source == loop.device]
        clue = " ".join([loop.reference or "", loop.backing_file, *at])
        found.append((Thing(Path(loop.device).name, clue), loop))
    return found


def settled_loops(
    observe: Callable[[], list[tuple[Thing, AttachedLoop]]], timeout_s: float = 20.0
) -> list[Thing]:
    """Loop devices, after those of other labs whose servers have died are gone.

    Between the death of its server and its end such a device belongs to nobody who can be named.
    What is still there after `timeout_s` counts as nobody's.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        found = observe()
        unknown = [
            thing
            for thing, loop in found
            if loop.reference is None and owner_of(thing.clue) is None
        ]
        if not unknown or time.monotonic() > deadline:
            return [thing for thing, _ in found]
        time.sleep(0.2)


def _below(directory: str, *, files: bool = True) -> list[str]:
    """Paths of all that is there; other labs may come down meanwhile."""
    return [
        f"{parent}/{name}"
        for parent, directories, others in os.walk(directory)
        for name in (*directories, *(others if files else ()))
    ]


def _named(names: Iterable[str]) -> list[Thing]:
    return [Thing(name, name) for name in names]


def _lab_processes() -> list[Thing]:
    found = []
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            name = (directory / "comm").read_text().strip()
            state = (directory / "stat").read_text().rpartition(")")[2].split()[0]
            groups = (directory / "cgroup").read_text()
            argv = (
                (directory / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            )
        except OSError:
            continue  # it has ended
        # A process that has ended and waits to be reaped by init is gone.
        if state != "Z" and name.startswith(PROGRAMS_OF_LABS):
            found.append(Thing(f"{name} {directory.name}", f"{groups}{argv}"))
    return found


def _firewall(*command: str) -> list[str]:
    return _output(*command).splitlines() if shutil.which(command[0]) else []


def _output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def lab_container(tag: str, host: str, *argv: str) -> str:
    """What a command prints that is run on a lab's host, past Grampus."""
    return _output("runc", "--root", f"/run/grampus/{tag}/runc", "exec", f"{host}.host", *argv)
