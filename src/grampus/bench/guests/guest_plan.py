"""What a virtual machine of a database's server is, and what runs it. All pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal

from grampus.core.units import MIB
from grampus.databases.layout import InstancePlan

Accelerator = Literal["kvm", "tcg"]

# Its kernel, its page cache, and the programs of its root that lie in memory.
GUEST_SYSTEM_BYTES = 256 * MIB
# What one takes of a core when its server does nothing, under emulation (0.085 measured).
IDLE_CORES = 0.2
# Translated code (`TRANSLATED_MIB`), librbd's own threads and buffers, QEMU itself.
QEMU_BYTES = 768 * MIB
TRANSLATED_MIB = 256
EMULATED_NOTE = (
    "The virtual machine was emulated (QEMU's TCG), as this machine cannot run one by KVM: what it "
    "cost is the emulation's, and nothing of it holds for a virtual machine by KVM."
)


@dataclass(frozen=True)
class GuestMachine:
    """What of a host decides how virtual machines run there."""

    architecture: str  # as `uname -m` says it
    has_kvm_device: bool
    cpu_flags: frozenset[str]
    has_tun_device: bool


@dataclass(frozen=True)
class GuestDisk:
    """The RBD image that the machine has as its disk, and the cephx user that opens it."""

    pool: str
    namespace: str | None
    image: str
    ceph_user: str  # without "client."


@dataclass(frozen=True)
class GuestPlan:
    """One virtual machine on one host, in which the server of a database runs.

    `instance` is the database's own, with the parameters that the server shall have; its container
    does not run meanwhile. `image_id` is the host image with QEMU, and `server_root` the directory
    on the host with the root in which the server's programs are.
    """

    instance: InstancePlan
    image_id: str
    server_root: str
    disk: GuestDisk
    accelerator: Accelerator
    host_address: str
    etc_ceph: PurePosixPath

    @property
    def daemon(self) -> str:
        return guest_daemon_name(self.instance.database)

    @property
    def directory(self) -> PurePosixPath:
        """The machine's files, in the directory of the database's instance."""
        return guest_directory(self.instance.directory)

    @property
    def config_file(self) -> PurePosixPath:
        return self.directory / "my.cnf"

    @property
    def cpus(self) -> int:
        return max(1, math.ceil(self.instance.cpus))

    @property
    def memory_bytes(self) -> int:
        """The machine's memory: what the server's container may use, and its own system."""
        return self.instance.memory_bytes + GUEST_SYSTEM_BYTES


def guest_daemon_name(database: str) -> str:
    """The daemon of the virtual machine in which a database's server runs."""
    return f"vm-{database}"


def guest_directory(instance_directory: PurePosixPath) -> PurePosixPath:
    """Where a virtual machine has its files; removed with the instance's directory."""
    return instance_directory / "guest"


def decide_accelerator(machine: GuestMachine) -> Accelerator:
    """KVM where the processor can do it, since a device alone runs nothing; TCG otherwise."""
    can = machine.has_kvm_device and bool(machine.cpu_flags & {"vmx", "svm"})
    return "kvm" if can else "tcg"


def why_no_guest(machine: GuestMachine) -> str | None:
    """Why a host can run no virtual machine, without a full stop; None: it can."""
    if machine.architecture != "x86_64":
        return (
            f"the kernel for guests is x86_64's, and the machine's processor is "
            f"{machine.architecture}"
        )
    if not machine.has_tun_device:
        return "the kernel has no TUN device (/dev/net/tun) for a guest's network"
    return None


def parse_cpu_flags(cpuinfo: str) -> frozenset[str]:
    """The flags of the first processor in /proc/cpuinfo."""
    for line in cpuinfo.splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "flags":
            return frozenset(value.split())
    return frozenset()
