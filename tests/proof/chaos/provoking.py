"""The faults of `make chaos`, provoked on a real lab or site."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.proof.chaos.draws import Fault, FaultName
from tests.system.machine import wait_for
from tests.system.places import Cut, Place
from tests.system.serving import Serving

DATABASE, NEIGHBOUR, POOL = "chaos", "neighbour", "databases"
RECOVERS_WITHIN_S = 120.0
_CUTS: dict[FaultName, Cut] = {
    "cut-off": "all",
    "cut-off-and-frozen": "all",
    "cut-from-ceph": "ceph",
    "cut-from-clients": "clients",
    "cut-from-controller": "controller",
    "cut-off-incoming": "incoming",
    "cut-off-outgoing": "outgoing",
}
# Of the daemon that is killed, its name without that of the database.
_KILLED: dict[FaultName, str] = {
    "server-killed": "mysqld",
    "server-killed-and-osd": "mysqld",
    "server-killed-in-writes": "mysqld",
    "driver-killed": "volumed",
}
_FROZEN: dict[FaultName, str] = {
    "server-hung": "mysqld",
    "driver-hung": "volumed",
    "cut-off-and-frozen": "volumed",
}


@dataclass(frozen=True)
class Hosts:
    """Where everything is when a fault is provoked."""

    victim: str  # the database's host
    neighbour: str  # of the other database
    clients: str  # of all clients, a host of the lab


class Faults:
    """Faults in one place. Most are healed by its `heal`."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._frozen: list[Callable[[str], None]] = []  # processes that were stopped

    def provoke(self, fault: Fault, hosts: Hosts, serve: Serving, until_healed: ExitStack) -> None:
        """All of it. What is stopped goes on when `thaw` is called, or in the end."""
        name, place = fault.name, self._place
        other_osd = f"osd-{int(hosts.clients[1:]) - 1}"
        until_healed.callback(self.thaw)
        if name in _FROZEN:
            self._freeze(place.process(f"{_FROZEN[name]}-{DATABASE}"))
        if name in _CUTS:
            place.cut(hosts.victim, _CUTS[name])
        if name in _KILLED:
            place.signal(f"{_KILLED[name]}-{DATABASE}", "KILL")
        if name == "osd-hung":
            self._freeze(self._cluster_process(other_osd))
        if name == "pool-full":
            until_healed.callback(self.set_quota, 0)
            self.set_quota(1)
        if "disk-slow" in name:
            iops = "20" if name == "disk-slow" else "50"
            self._break("slow-disk", other_osd, "--iops", iops)
        if name == "osd-killed":
            own = f"osd-{int(hosts.victim[1:]) - 1}"
            self._break("kill-daemon", own, "--force")
        if name == "server-killed-and-osd":
            self._break("kill-daemon", other_osd, "--force")
        if name == "other-host-power-cut":
            place.end(hosts.neighbour)
        if "power-cut" in name and name != "other-host-power-cut":
            self._cut_power(name, hosts, serve)

    def thaw(self) -> None:
        """Let what was stopped go on, unless it was killed."""
        while self._frozen:
            self._frozen.pop()("CONT")

    def set_quota(self, max_bytes: int) -> None:
        """A quota of the pool of the databases; 0: none."""
        self._place.ceph("ceph", "osd", "pool", "set-quota", POOL, "max_bytes", str(max_bytes))

    # -- inside -------------------------------------------------------------------------------

    def _cut_power(self, name: FaultName, hosts: Hosts, serve: Serving) -> None:
        if name == "power-cut-and-hung-controller":
            serve.hang()
        if name == "power-cut-and-controller-machine":
            serve.end_for_good()
        mgr = self._other_mgr(hosts.victim) if name == "power-cut-and-mgr" else None
        with ThreadPoolExecutor(2) as pool:
            beside = []
            if name == "power-cut-and-new-driver":
                # The failover does not wait until all of the host has ended.
                beside.append(pool.submit(self._kill_new_driver, self._find_drivers()))
            if name == "two-hosts-power-cut":
                # One after the other, a failover could be over in between.
                beside.append(pool.submit(self._place.end, hosts.neighbour))
            self._place.end(hosts.victim)
            for one in beside:
                one.result()
        if mgr is not None:
            self._break("kill-daemon", mgr, "--force")
        if name == "power-cut-and-controller":
            serve.wait_for(DATABASE, "host-dead", RECOVERS_WITHIN_S)
            serve.crash()

    def _kill_new_driver(self, known: set[int]) -> None:
        """End the driver of the database on its new host as soon as it is there."""

        def has_killed() -> bool:
            fresh = self._find_drivers() - known
            for pid in fresh:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            return bool(fresh)

        wait_for(has_killed, "the driver on the new host", RECOVERS_WITHIN_S, interval_s=0.02)

    def _find_drivers(self) -> set[int]:
        """Processes of volumed that serve the database, on whichever host.

        No command tells it so fast: a driver that starts would be done with its work.
        """
        found = set()
        for directory in Path("/proc").glob("[0-9]*"):
            try:
                groups = (directory / "cgroup").read_text()
                argv = (directory / "cmdline").read_bytes().decode().split("\0")
            except OSError:
                continue  # it has ended
            is_ours = self._place.control_groups in groups and argv[0].endswith("volumed")
            if is_ours and any(word.endswith(f"db-{DATABASE}") for word in argv):
                found.add(int(directory.name))
        return found

    def _break(self, *fault: str) -> None:
        """A fault of the cluster."""
        self._place.cluster.ok("lab", "fault", *fault)

    def _freeze(self, process: Callable[[str], None]) -> None:
        process("STOP")
        self._frozen.append(process)

    def _other_mgr(self, victim: str) -> str:
        (mgr,) = [
            name
            for name, pid in self._daemons_of_cluster().items()
            if name.startswith("mgr-") and name != f"mgr-{victim}" and pid is not None
        ][:1]
        return mgr

    def _cluster_process(self, daemon: str) -> Callable[[str], None]:
        pid = self._daemons_of_cluster()[daemon]
        assert pid is not None, f"{daemon} does not run"

        def send(name: str) -> None:
            with suppress(ProcessLookupError):
                os.kill(pid, getattr(signal, f"SIG{name}"))

        return send

    def _daemons_of_cluster(self) -> dict[str, int | None]:
        """Their processes by name."""
        hosts = self._place.cluster.json("lab", "status")["hosts"]
        return {daemon["name"]: daemon["pid"] for host in hosts for daemon in host["daemons"]}
