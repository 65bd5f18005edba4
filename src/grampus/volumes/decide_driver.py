"""Which way from an RBD image to a block device: decided by what the host can do."""

from __future__ import annotations

from dataclasses import dataclass

from grampus.core.errors import GrampusError, RefusedError, UsageError
from grampus.volumes.model import (
    Attachment,
    DriverName,
    EncryptionName,
    TransportName,
    VolumeSpec,
    WritePath,
)


@dataclass(frozen=True)
class HostCapabilities:
    """What was observed on a host."""

    has_krbd: bool  # the kernel's rbd driver is there (/sys/bus/rbd)
    has_nbd: bool  # the kernel's nbd driver (/sys/block/nbd0) and the rbd-nbd program are there
    has_fuse: bool  # /dev/fuse is there
    volumed_absence: str | None  # why volumed cannot be used; None: it can


@dataclass(frozen=True)
class DriverChoice:
    """A driver, and why it was chosen over those before it."""

    driver: DriverName
    reason: str


def decide_drivers(
    capabilities: HostCapabilities,
    *,
    asked: DriverName | None = None,
    write_path: WritePath = "direct",
    is_unapplied: bool = False,
    encryption: EncryptionName | None = None,
    has_external_log: bool = False,
) -> list[DriverChoice]:
    """Drivers that can work on the host, the best first; empty when there is none.

    krbd needs no process of ours and is the fastest (about 1.4 times librbd at 4K, 2019);
    volumed passes on what librbd delivers, and can be resized, fenced and asked; nbd goes
    through librbd in a process too; qemu-storage-daemon's FUSE export is the slowest. A driver
    that was `asked` for is the only choice. A journal is known to volumed alone, so it is the
    only choice for a volume that writes through one, or whose image lacks what one still holds
    (`is_unapplied`). So it is for one with `encryption`: the others would serve ciphertext, and
    write over it. And for one with an external log: the others give one block device.
    """
    choices: list[DriverChoice] = []
    missing: list[str] = []
    if capabilities.has_krbd:
        choices.append(DriverChoice("krbd", "the kernel has the rbd driver"))
    else:
        missing.append("rbd")
    absence = capabilities.volumed_absence
    if absence is None:
        choices.append(
            DriverChoice("volumed", _because(missing, None, "volumed works on this host"))
        )
    if capabilities.has_nbd:
        reason = _because(missing, absence, "the host has nbd and rbd-nbd")
        choices.append(DriverChoice("nbd", reason))
    else:
        missing.append("nbd")
    if capabilities.has_fuse:
        choices.append(DriverChoice("qsd", _because(missing, absence, "the host has FUSE")))
    need = explain_need(
        write_path,
        is_unapplied=is_unapplied,
        encryption=encryption,
        has_external_log=has_external_log,
    )
    if need is not None:
        choices = [DriverChoice("volumed", need) for choice in choices if _is_volumed(choice)]
    if asked is None:
        return choices
    return [DriverChoice(asked, "requested") for choice in choices if choice.driver == asked]


def explain_need(
    write_path: WritePath,
    *,
    is_unapplied: bool,
    encryption: EncryptionName | None = None,
    has_external_log: bool = False,
) -> str | None:
    """Why only volumed can serve the volume, as a part of a sentence; None when others can."""
    if encryption is not None:
        return "only volumed serves an encrypted volume"
    if write_path != "direct":
        return f"only volumed serves the write path {write_path}"
    if is_unapplied:
        return "only volumed can apply the journal that the image has"
    if has_external_log:
        return "only volumed serves a file system with an external log"
    return None


def require_driver_serves(
    asked: DriverName | None, spec: VolumeSpec, *, is_unapplied: bool
) -> None:
    """Raise RefusedError when the driver `asked` for would leave out the journal, or the key.

    The code is `unapplied-journal` when the image lacks what its journal holds: through another
    driver it would be an old, torn state. It is `write-path` when the journal is empty, and the
    volume shall write through it all the same. It is `encrypted` when the driver would serve
    ciphertext, and `external-log` when it gives one block device and the volume needs two.
    """
    if asked in (None, "volumed"):
        return
    image = f"{spec.pool}/{spec.image}"
    if spec.encryption is not None:
        raise RefusedError(
            f"The volume '{spec.name}' is encrypted, and the driver {asked} cannot decrypt "
            f"{image}: only volumed can.",
            "Remove --driver.",
            code="encrypted",
        )
    if is_unapplied:
        raise RefusedError(
            f"The journal of {image} may have writes that are not in the image yet, and the "
            f"driver {asked} cannot read the journal.",
            f"Apply the journal first: `grampus volume replay {spec.name}`. Or remove --driver.",
            code="unapplied-journal",
        )
    if spec.write_path != "direct":
        raise RefusedError(
            f"The volume '{spec.name}' has the write path {spec.write_path}, which the driver "
            f"{asked} cannot serve: only volumed can.",
            f"Remove --driver, or first run `grampus volume set {spec.name} --write-path direct`.",
            code="write-path",
        )
    if spec.external_log_bytes is not None:
        raise RefusedError(
            f"The file system of the volume '{spec.name}' has an external log, which the driver "
            f"{asked} cannot serve: only volumed can.",
            "Remove --driver.",
            code="external-log",
        )


def explain_absence(capabilities: HostCapabilities, driver: DriverName) -> str:
    """Why `driver` cannot be used on a host, as a part of a sentence."""
    reasons: dict[DriverName, str] = {
        "krbd": "its kernel has no rbd driver",
        "volumed": capabilities.volumed_absence or "it can be used",
        "nbd": "its kernel has no nbd driver, or the program rbd-nbd is missing",
        "qsd": "its kernel has no FUSE",
    }
    return reasons[driver]


def _is_volumed(choice: DriverChoice) -> bool:
    return choice.driver == "volumed"


def _because(missing: list[str], volumed_absence: str | None, found: str) -> str:
    parts = []
    if missing:
        parts.append(f"the kernel has no {' nor '.join(missing)} driver")
    if volumed_absence is not None:
        parts.append(f"volumed cannot be used: {volumed_absence}")
    return "; ".join([*parts, found])


def decide_asked(driver: DriverName | None, transport: TransportName | None) -> DriverName | None:
    """The driver that is asked for: volumed also by asking for one of its transports.

    Raises UsageError when another driver is asked for with a transport.
    """
    if transport is None or driver == "volumed":
        return driver
    if driver is not None:
        raise UsageError(
            f"The driver {driver} has no transports.",
            "Remove --transport, or use --driver volumed.",
        )
    return "volumed"


def require_as_asked(
    name: str,
    current: Attachment,
    asked: DriverName | None,
    transport: TransportName | None,
) -> None:
    """Raise RefusedError when an attached volume is asked for with another driver or transport."""
    other_driver = asked is not None and current.driver != asked
    other_transport = transport not in (None, "auto", current.transport)
    if other_driver or other_transport:
        way = current.driver + (f", transport {current.transport}" if current.transport else "")
        raise RefusedError(
            f"The volume '{name}' is attached already, through {way}.",
            f"Detach it first: `grampus volume detach {name}`.",
            code="attached-otherwise",
        )


def with_refused(choice: DriverChoice, refused: list[str]) -> DriverChoice:
    """The choice, and why each driver before it could not map the image."""
    return DriverChoice(choice.driver, "; ".join([choice.reason, *refused]))


def no_driver_error(host: str, capabilities: HostCapabilities, need: str | None) -> GrampusError:
    """No driver at all, or not the one that is needed: `need` says why volumed is."""
    if need is not None:
        return GrampusError(
            f"{host} cannot attach the volume: {need}, and there "
            f"{explain_absence(capabilities, 'volumed')}.",
            "Choose a host that can run volumed. `volumed probe` on the host shows what is "
            "missing.",
            code="no-driver",
        )
    return GrampusError(
        f"{host} cannot attach an RBD image: its kernel has no rbd, nbd or FUSE.",
        "Load one of the modules rbd, nbd or fuse on that host.",
        code="no-driver",
    )
