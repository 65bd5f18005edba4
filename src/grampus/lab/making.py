"""What making a daemon's store takes: a marker of what is whole, keys, work on many hosts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from grampus.hosts.port import Host

# A store's directory without it was begun and not finished.
MADE_MARKER = "made-by-grampus"
ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")


def in_parallel(function: Callable[[ItemT], ResultT], items: Iterable[ItemT]) -> list[ResultT]:
    """`function` of every item, at the same time; the first failure is raised after all ended."""
    with ThreadPoolExecutor(max_workers=8) as pool:
        # Not `map`: at the first failure it cancels what has not begun.
        futures = [pool.submit(function, item) for item in items]
    return [future.result() for future in futures]


def new_key(host: Host) -> str:
    """A key for cephx that nobody has yet."""
    return host.run(["ceph-authtool", "--gen-print-key"]).stdout.strip()


def render_keyring(entity: str, key: str, capabilities: Mapping[str, str]) -> str:
    """The text of a keyring with one key."""
    lines = [f"[{entity}]", f"\tkey = {key}"]
    lines += [f'\tcaps {daemon} = "{caps}"' for daemon, caps in capabilities.items()]
    return "\n".join([*lines, ""])
