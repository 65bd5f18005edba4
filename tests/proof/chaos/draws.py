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
    "disk-slow",
    "osd-hung",
    "pool-full",
    "power-cut-and-new-driver",
    "power-cut-and-disk-slow",
    "server-killed-and-osd",
    "power-cut-and-controller-machine",
    "server-killed-in-writes",
    "power-cut-in-writes",
]
# `moves`: runs on another host afterwards; `stays`: serves on where it is; `restarts`: is
# interrupted, and serves again where it is; `returns`: waits, and serves again where it is once the
# fault is healed.
Expected = Literal["moves", "stays", "restarts", "returns"]
PlaceKind = Literal["lab", "site"]


@dataclass(frozen=True)
class Fault:
    """A fault, how often it is drawn compared with others, and what is to come of it."""

    name: FaultName
    weight: int
    expected: Expected  # in a lab, whose hosts have MONs and OSDs, too
    what: str
    on_site: Expected | None = None  # of a site, whose cluster is elsewhere; None: the same
    kinds: tuple[PlaceKind, ...] = ("lab", "site")  # where it can be provoked

    def expected_in(self, kind: PlaceKind) -> Expected:
        """What is to come of it in such a place."""
        return self.on_site or self.expected if kind == "site" else self.expected


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
        "two of three hosts lose their power: in a lab for 10 s, and no majority of MONs and one "
        "copy of the data are left",
        on_site="moves",
    ),
    Fault("disk-slow", 2, "stays", "the disk of an OSD on another host takes 20 IOPS for 10 s"),
    Fault("osd-hung", 1, "stays", "SIGSTOP to an OSD on another host for 10 s"),
    Fault("pool-full", 1, "returns", "the quota of the pool is reached for 10 s"),
    Fault(
        "power-cut-and-new-driver",
        2,
        "moves",
        "the host loses its power, and volumed on the new host is killed in the failover",
    ),
    Fault(
        "power-cut-and-disk-slow",
        1,
        "moves",
        "the host loses its power, and the disk of an OSD elsewhere takes 50 IOPS",
    ),
    Fault(
        "server-killed-and-osd", 1, "restarts", "SIGKILL to mysqld, and to an OSD on another host"
    ),
    Fault(
        "power-cut-and-controller-machine",
        1,
        "moves",
        "SIGKILL to the controller, which nobody starts again, then the host loses its power; a "
        "controller on another machine takes over once this one has been silent for 30 s",
        kinds=("site",),
    ),
    Fault(
        "server-killed-in-writes",
        2,
        "restarts",
        "SIGKILL to mysqld after 20 s of index updates by eight clients on new tables",
    ),
    Fault(
        "power-cut-in-writes",
        3,
        "moves",
        "the host loses its power after 20 s of index updates by eight clients on new tables",
    ),
)
BY_NAME = {fault.name: fault for fault in FAULTS}


def draw_faults(seed: int, runs: int, kind: PlaceKind = "lab") -> list[Fault]:
    """So many faults; the first ones are the same whatever `runs` is. Every one comes early."""
    random_source = random.Random(seed)  # noqa: S311 - to be drawn again, not to be secret
    faults = [fault for fault in FAULTS if kind in fault.kinds]
    first = random_source.sample(faults, len(faults))
    weights = [fault.weight for fault in faults]
    later = [random_source.choices(faults, weights)[0] for _ in range(runs - len(first))]
    return [*first, *later][:runs]
