"""Virtual machines of databases' servers on hosts, each ensured.

The database is the product's: made, filled and removed by it. While its server runs in a virtual
machine, its container is stopped and its volume lent, so that the machine alone has the image
open. All that a machine has is a daemon, a directory and a key on a host, found by its name.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import PurePosixPath
from typing import Protocol

from grampus.bench.guests.guest_plan import (
    EMULATED_NOTE,
    QEMU_BYTES,
    GuestDisk,
    GuestMachine,
    GuestPlan,
    decide_accelerator,
    guest_daemon_name,
    guest_directory,
    parse_cpu_flags,
    why_no_guest,
)
from grampus.bench.guests.scripts import SERVER_ROOT, render_init, render_link_up, render_start
from grampus.ceph.namespaces import split_image
from grampus.core.clock import Clock
from grampus.core.errors import RefusedError
from grampus.core.progress import Progress
from grampus.databases.instance import (
    await_server,
    observe_answer,
    observe_daemon_state,
    require_running,
)
from grampus.databases.layout import database_directory, plan_instance, render_config
from grampus.databases.model import DatabaseSpec
from grampus.hosts.port import Bind, DaemonSpec, Fleet, Host, Limits
from grampus.volumes.model import VolumeRecord

# The server in it has a minute to write out what it holds, as its container has.
STOP_TIMEOUT_S = 60.0
_LOOK_SCRIPT = "uname -m; test -c /dev/kvm && echo kvm; test -c /dev/net/tun && echo tun; true"
_CPUINFO = PurePosixPath("/proc/cpuinfo")


class GuestImages(Protocol):
    """Host images as virtual machines use them."""

    def qemu_image(self) -> str:
        """The id of the one with QEMU and a guest's kernel, built if need be."""
        ...

    def server_root(self, image_id: str | None) -> str:
        """The directory on hosts with the root of a server's image; None: the hosts' own."""
        ...


class GuestVolumes(Protocol):
    """Volumes as virtual machines use them. All raise GrampusError."""

    def get(self, name: str) -> VolumeRecord:
        """The volume. Raises NotFoundError."""
        ...

    def lend(self, name: str, host: str) -> VolumeRecord:
        """The volume, whose image a client on the host may open with the key that lies there."""
        ...

    def ensure_detached(self, name: str) -> None:
        """The volume closed, and no longer lent; nothing happens when there is none."""
        ...


class Guests:
    """The virtual machines of one lab or cluster."""

    def __init__(
        self,
        fleet: Fleet,
        images: GuestImages,
        volumes: GuestVolumes,
        clock: Clock,
        progress: Progress,
    ) -> None:
        self._fleet = fleet
        self._images = images
        self._volumes = volumes
        self._clock = clock
        self._progress = progress

    def ensure_image(self) -> None:
        """What machines are made of, built if need be; that takes minutes, once."""
        self._images.qemu_image()

    def ensure_serving(self, spec: DatabaseSpec) -> None:
        """The database's server in a virtual machine on its host, with the spec's parameters.

        The database must be stopped. One that runs with other parameters is stopped in good order
        and started anew. Raises RefusedError with code `no-guest` when the host can run none,
        `attached-elsewhere` or `in-use` when the database is not stopped, and GrampusError with
        code `server-stopped` or `timeout` when the server does not come up.
        """
        host = self._fleet.host(spec.host)
        machine = observe_guest_machine(host)
        why = why_no_guest(machine)
        if why is not None:
            raise RefusedError(
                f"{host.name} can run no virtual machine: {why}.",
                "Measure in a container, or on another machine.",
                code="no-guest",
            )
        plan = self._plan(spec, host, machine)
        files = render_files(plan)
        is_running = observe_daemon_state(host, plan.daemon) == "running"
        if not is_running or any(host.read_file(path) != text for path, text in files.items()):
            self._start(plan, host, files)
        serving = replace(plan.instance, daemon=plan.daemon)

        def answered() -> bool:
            require_running(host, serving, plan.daemon)
            return observe_answer(host, serving).version is not None

        # Also of one that runs: who started it may have been killed before it answered. Nobody
        # listens on the host itself, so only a client can tell.
        await_server(self._clock, host, serving, answered, listens=False)

    def ensure_absent(self, name: str) -> None:
        """The database's virtual machine ended in good order, and nothing of it on any host.

        The database itself is left stopped. Nothing happens when there is none.
        """
        daemon = guest_daemon_name(name)
        for host in self._fleet.hosts():
            if not self._fleet.is_reachable(host.name):
                continue
            if observe_daemon_state(host, daemon) != "absent":
                self._progress.phase(f"Stop the virtual machine of {name}")
                host.ensure_daemon_absent(daemon)
                self._volumes.ensure_detached(name)
            directory = guest_directory(database_directory(host.data_dir, name))
            host.run(["rm", "-rf", "--", str(directory)])

    def note(self, host: str) -> str | None:
        """What must stand beside figures of a virtual machine there."""
        machine = observe_guest_machine(self._fleet.host(host))
        return EMULATED_NOTE if decide_accelerator(machine) == "tcg" else None

    def _start(self, plan: GuestPlan, host: Host, files: dict[PurePosixPath, str]) -> None:
        name = plan.instance.database
        self._progress.phase(f"Start the virtual machine of {name}")
        host.ensure_daemon_absent(plan.daemon)
        self._volumes.lend(name, host.name)
        for path, text in files.items():
            host.write_file(path, text, mode=0o755 if path.suffix == ".sh" else 0o644)
        host.ensure_daemon(guest_daemon(plan))

    def _plan(self, spec: DatabaseSpec, host: Host, machine: GuestMachine) -> GuestPlan:
        return GuestPlan(
            # Its volume is nowhere on the host.
            instance=plan_instance(spec, host.data_dir, PurePosixPath("/nonexistent")),
            image_id=self._images.qemu_image(),
            server_root=self._images.server_root(spec.image_id),
            disk=_disk(self._volumes.get(spec.name)),
            accelerator=decide_accelerator(machine),
            host_address=host.address,
            etc_ceph=host.data_dir / "etc-ceph",
        )


def guest_daemon(plan: GuestPlan) -> DaemonSpec:
    """The daemon that is the virtual machine; its processors bound what CPU it takes."""
    directory = str(plan.instance.directory)
    return DaemonSpec(
        name=plan.daemon,
        argv=("/bin/sh", str(plan.directory / "start.sh")),
        binds=(
            Bind(str(plan.etc_ceph), "/etc/ceph", read_only=True),
            Bind(directory, directory, read_only=True),
            Bind(plan.server_root, str(SERVER_ROOT), read_only=True),
        ),
        limits=Limits(memory_bytes=plan.memory_bytes + QEMU_BYTES),
        image=plan.image_id,
        privileged=True,  # for KVM, and for a network device and a route
        stop_timeout_s=STOP_TIMEOUT_S,
    )


def render_files(plan: GuestPlan) -> dict[PurePosixPath, str]:
    """All files of the machine; no secret is in them."""
    return {
        plan.config_file: render_config(plan.instance),
        plan.directory / "init": render_init(plan),
        plan.directory / "link-up.sh": render_link_up(plan),
        plan.directory / "start.sh": render_start(plan),
    }


def observe_guest_machine(host: Host) -> GuestMachine:
    """What a host is to virtual machines."""
    found = host.run(["sh", "-c", _LOOK_SCRIPT]).stdout.split()
    return GuestMachine(
        architecture=found[0] if found else "unknown",
        has_kvm_device="kvm" in found,
        cpu_flags=parse_cpu_flags(host.read_file(_CPUINFO) or ""),
        has_tun_device="tun" in found,
    )


def _disk(volume: VolumeRecord) -> GuestDisk:
    namespace, image = split_image(volume.spec.image)
    return GuestDisk(
        pool=volume.spec.pool,
        namespace=namespace or None,
        image=image,
        ceph_user=volume.ceph_user,
    )
