"""Drivers that run from an older host image or program than they would start from now."""

from __future__ import annotations

from grampus.hosts.port import Fleet
from grampus.volumes.drivers.volumed import VolumedProgram
from grampus.volumes.model import VolumeRecord


def is_older_driver(
    fleet: Fleet, program: VolumedProgram, record: VolumeRecord, daemon: str | None
) -> bool:
    """Whether the daemon that serves a volume's device is one; the host gets the present program
    first."""
    attachment = record.attachment
    if attachment is None or daemon is None:
        return False
    host = fleet.host(attachment.host)
    if attachment.driver == "volumed" and program.is_built():
        program.ensure_on(host)
    status = host.observe_daemon(daemon)
    return status is not None and status.is_outdated
