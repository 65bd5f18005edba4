"""Where an instance goes: its host, its address, and whether the machine can hold it."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from grampus.core.errors import GrampusError, RefusedError


@dataclass(frozen=True)
class HostLoad:
    """A host as placement sees it."""

    name: str
    reachable: bool
    databases: int


def decide_placement(loads: Sequence[HostLoad]) -> str:
    """The reachable host with the fewest databases; the first by name among equals.

    Raises RefusedError with code `no-host` when none can be reached.
    """
    reachable = [load for load in loads if load.reachable]
    if not reachable:
        raise RefusedError(
            "No host can be reached." if loads else "The lab has no host.",
            "Start the hosts (`grampus lab up`), then try again.",
            code="no-host",
        )
    return min(reachable, key=lambda load: (load.databases, load.name)).name


def decide_address(candidates: Sequence[str], used: Collection[str]) -> str:
    """The first candidate that is not used. Raises RefusedError with code `no-address`."""
    for candidate in candidates:
        if candidate not in used:
            return candidate
    raise RefusedError(
        f"All {len(candidates)} addresses for databases are in use.",
        "Delete a database that is no longer needed.",
        code="no-address",
    )


def decide_server_id(address: str) -> int:
    """The address as a number: as unique as the address, and within 32 bits as MySQL wants."""
    return int(ipaddress.IPv4Address(address))


def parse_memory_total(meminfo: str) -> int:
    """Bytes of memory of a machine, from the text of its /proc/meminfo (proc(5), in KiB)."""
    match = re.search(r"^MemTotal:\s+(\d+) kB$", meminfo, re.MULTILINE)
    if match is None:
        raise GrampusError("/proc/meminfo does not show the size of the memory.")
    return int(match[1]) * 1024
