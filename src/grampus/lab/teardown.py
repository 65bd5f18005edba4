"""Leaving nothing behind: the steps that take a lab off this machine, whatever state it is in."""

from __future__ import annotations

import contextlib
import shutil

from grampus.core.clock import Clock, wait_until
from grampus.core.errors import GrampusError
from grampus.hosts.cgroups import Cgroups
from grampus.hosts.lab_host import LabFleet
from grampus.hosts.loop_devices import ensure_no_loop_devices
from grampus.hosts.machine_shared import ensure_shared_memory_clear
from grampus.hosts.mounts import ensure_unmounted_below, mounts_below
from grampus.hosts.process import run_command
from grampus.lab.making import in_parallel
from grampus.lab.model import LabSpec
from grampus.lab.network import NetworkLock, ensure_network_absent
from grampus.state.home import Home


class LabTeardown:
    """Takes one lab down. Every step may be repeated, and works on a lab that is half there."""

    def __init__(
        self,
        spec: LabSpec,
        home: Home,
        fleet: LabFleet,
        clock: Clock,
        network_lock: NetworkLock,
    ) -> None:
        self._spec = spec
        self._directory = home.lab_dir(spec.name)
        self._fleet = fleet
        self._clock = clock
        self._network_lock = network_lock

    def stop_daemons(self, *, kill: bool) -> None:
        """End every container of the lab, then any process left in its control groups."""
        in_parallel(lambda host: host.stop_all(kill=kill), self._fleet.lab_hosts())
        # FUSE servers are gone: from here on, no unmounting waits for the cluster.
        Cgroups(self._spec.cgroup_path).ensure_ended(self._clock)

    def remove_mounts(self) -> None:
        """Unmount everything below the lab's directory and free its loop devices."""
        # A file system on a loop device goes first, then the loop device, then the FUSE file
        # under it, which the loop device kept busy.
        with contextlib.suppress(GrampusError):
            ensure_unmounted_below(self._directory)
        ensure_no_loop_devices(
            reference_prefix=f"grampus/{self._spec.tag}/", directory=self._directory
        )
        wait_until(
            self._clock, self._is_unmounted, what="the lab's mounts to be removed", timeout_s=60
        )

    def remove_containers(self) -> None:
        """Remove runc's state of the lab, its control groups, and its files in shared memory."""
        runc_root = self._spec.run_dir / "runc"
        if runc_root.is_dir():
            for directory in sorted(runc_root.iterdir()):
                run_command(
                    ["runc", "--root", str(runc_root), "delete", "--force", directory.name],
                    check=False,
                )
        Cgroups(self._spec.cgroup_path).ensure_absent(self._clock)
        if self._spec.run_dir.exists():
            shutil.rmtree(self._spec.run_dir)
        ensure_shared_memory_clear(self._spec.tag)

    def remove_network(self) -> None:
        """Remove namespaces, links and bridge."""
        # The last lab removes what labs share; none may come up meanwhile.
        with self._network_lock.held():
            ensure_network_absent(self._spec)
            with contextlib.suppress(OSError):
                self._spec.run_dir.parent.rmdir()  # not empty while other labs run

    def remove_overlays(self) -> None:
        """Remove what containers left on disk; the data of hosts and daemons stay."""
        self._require_unmounted()
        for host in self._fleet.lab_hosts():
            daemons = self._directory / "hosts" / host.name / "daemons"
            if daemons.exists():
                shutil.rmtree(daemons)

    def remove_data(self) -> None:
        """Remove all that the lab kept on disk."""
        self._require_unmounted()
        if self._directory.exists():
            shutil.rmtree(self._directory)

    def _is_unmounted(self) -> bool:
        with contextlib.suppress(GrampusError):
            ensure_unmounted_below(self._directory)
        return not mounts_below(self._directory)

    def _require_unmounted(self) -> None:
        # Removing files through a mount that is left would remove somebody else's.
        left = mounts_below(self._directory)
        if left:
            raise GrampusError(
                f"{left[0].target} is still mounted, so nothing below it was removed.",
                "Find the user of the mount (`fuser -vm PATH`), then run `grampus lab down` again.",
            )
