"""Which faults are provoked, in which order, and what is expected of each: pure."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Literal

FaultName = Literal[
    "power-cut",
    "cut-off",
    "cut-from-ceph",
    "cut-from-clients",
    "cut-from-controller",
    "server-hung",
    "server-killed",
    "driver-killed",
    "osd-killed",
    "other-host-power-cut",
    "driver-hung",
    "power-cut-and-controller",
    "power-cut-and-mgr",
    "cut-off-and-frozen",
    "power-cut-and-hung-controller",
    "two-hosts-power-cut",
    "cut-off-incoming",
    "cut-off-outgoing",
]
# `moves`: runs on another host afterwards; `stays`: serves on where it is; `restarts`: is
# interrupted, and serves again where it is; `returns`: waits, and serves again where it is once the
# fault is healed.
Expected = Literal["moves", "stays", "restarts", "returns"]


@dataclass(frozen=True)
class Fault:
    """A fault, how often it is drawn compared with others, and what is to come of it."""

    name: FaultName
    weight: int
    expected: Expected
    what: str


FAULTS = (
    Fault("power-cut", 6, "moves", "the host loses its power: link down, all processes killed"),
    Fault("cut-off", 3, "moves", "the host is cut off from everything, and runs on"),
    Fault("cut-from-ceph", 2, "moves", "the host cannot reach the cluster; commands run there"),
    Fault("cut-from-clients", 2, "moves", "clients cannot reach the host; commands run there"),
    Fault("cut-from-controller", 2, "stays", "Grampus cannot run commands on the host for 10 s"),
    Fault("server-hung", 2, "restarts", "SIGSTOP to mysqld"),
    Fault("server-killed", 2, "restarts", "SIGKILL to mysqld"),
    Fault("driver-killed", 1, "restarts", "SIGKILL to volumed"),
    Fault("osd-killed", 2, "stays", "SIGKILL to the OSD of the host"),
    Fault("other-host-power-cut", 2, "stays", "the host of another database loses its power"),
    Fault("driver-hung", 1, "restarts", "SIGSTOP to volumed"),
    Fault(
        "power-cut-and-controller",
        2,
        "moves",
        "the host loses its power; the controller is killed in the failover, and started again",
    ),
    Fault(
        "power-cut-and-mgr", 1, "moves", "the host loses its power, and an MGR elsewhere is killed"
    ),
    Fault(
        "cut-off-and-frozen",
        2,
        "moves",
        "the host is cut off from everything, and its volumed stops; it goes on after the failover",
    ),
    Fault("cut-off-incoming", 1, "moves", "all packets to the host are lost, its own are not"),
    Fault("cut-off-outgoing", 1, "moves", "all packets of the host are lost, those to it are not"),
    Fault(
        "power-cut-and-hung-controller",
        1,
        "moves",
        "SIGSTOP to the controller, then the host loses its power; a watchdog of 10 s, as "
        "systemd's, replaces the controller",
    ),
    Fault(
        "two-hosts-power-cut",
        1,
        "returns",
        "two of three hosts lose their power for 10 s: no majority of MONs, one copy of the data",
    ),
)
BY_NAME = {fault.name: fault for fault in FAULTS}


def draw_faults(seed: int, runs: int) -> list[Fault]:
    """So many faults; the first ones are the same whatever `runs` is. Every kind comes early."""
    random_source = random.Random(seed)  # noqa: S311 - to be drawn again, not to be secret
    first = random_source.sample(FAULTS, len(FAULTS))
    weights = [fault.weight for fault in FAULTS]
    later = [random_source.choices(FAULTS, weights)[0] for _ in range(runs - len(first))]
    return [*first, *later][:runs]
