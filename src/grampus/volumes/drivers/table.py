"""Every driver by its name."""

from __future__ import annotations

from grampus.core.clock import Clock
from grampus.volumes.drivers.export import ExportDriver
from grampus.volumes.drivers.kernel import KernelDriver
from grampus.volumes.drivers.port import Driver
from grampus.volumes.drivers.qemu import QemuStorageDaemon
from grampus.volumes.drivers.volumed import Volumed, VolumedProgram
from grampus.volumes.model import DriverName


def build_drivers(clock: Clock, program: VolumedProgram) -> dict[DriverName, Driver]:
    """The drivers that there are."""
    return {
        "krbd": KernelDriver("krbd", clock),
        "volumed": ExportDriver(Volumed(program), clock),
        "nbd": KernelDriver("nbd", clock),
        "qsd": ExportDriver(QemuStorageDaemon(), clock),
    }
