"""What scripts ask of a cluster, in the words of `ceph` and `rbd`, which its fakes answer to."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from grampus.ceph.image_reads import LIST_METADATA, LIST_PARENTS, LIST_SNAPSHOTS
from grampus.ceph.mon_commands import ASK_MONS

# Of `ceph` they are options; all others are words in their order.
_VALUED_OPTIONS = ("autoscale_mode",)
_READS = {
    LIST_METADATA: ["rbd", "image-meta", "list", "--format", "json"],
    LIST_SNAPSHOTS: ["env", "TZ=UTC", "rbd", "snap", "ls", "--format", "json"],
}


def as_ceph_command(argv: Sequence[str]) -> list[str]:
    """The command line of `ceph` or `rbd` that asks the same; what has none stays as it is."""
    if list(argv[:2]) == ["python3", "-c"] and argv[2] in _READS:
        return [*_READS[argv[2]], f"{argv[3]}/{argv[4]}"]
    if list(argv[:3]) != ["python3", "-c", ASK_MONS]:
        return list(argv)
    document = json.loads(argv[3])
    words = document.pop("prefix").split()
    form = document.pop("format", None)
    for name, value in document.items():
        option = f"--{name.replace('_', '-')}"
        if value is True:
            words.append(option)
        elif name in _VALUED_OPTIONS:
            words.append(f"{option}={value}")
        else:
            words += value if isinstance(value, list) else [_shown(value)]
    words += ["-i", "-"] if argv[5:] else []
    connect = ["--connect-timeout", "20"]
    return ["ceph", *connect, *words, *(["--format", form] if form else [])]


def asks_parents(argv: Sequence[str]) -> bool:
    """Whether it is the script that lists what an image is a clone of."""
    return list(argv[:3]) == ["python3", "-c", LIST_PARENTS]


def follow_parents(argv: Sequence[str], ask: Callable[[list[str]], Any]) -> list[Any]:
    """What that script answers, from the documents that `ask` says to `rbd info`."""
    place, most = f"{argv[3]}/{argv[4]}", int(argv[5])
    found: list[Any] = []
    while len(found) < most:
        parent = ask(["rbd", "info", "--format", "json", place]).get("parent")
        if parent is None:
            break
        found.append(parent)
        if parent.get("trash"):
            break
        namespace = parent.get("pool_namespace", "")
        place = "/".join(part for part in (parent["pool"], namespace, parent["image"]) if part)
    return found


def _shown(value: object) -> str:
    return f"{value:.0f}" if isinstance(value, float) else str(value)
