"""What attaching and detaching a volume would do, one line a step, for dry runs."""

from __future__ import annotations

from collections.abc import Sequence

from grampus.hosts.port import Fleet, Host
from grampus.volumes.model import DriverName, VolumeRecord
from grampus.volumes.places import mount_path


def attach_titles(
    record: VolumeRecord, host: Host, drivers: Sequence[DriverName], *, is_unapplied: bool
) -> list[str]:
    """Of an attach to `host` through the first of the drivers that serves it there."""
    spec, steps = record.spec, fenced_titles(record, on=host.name)
    if record.attachment is not None:
        steps.append(f"Keep the attachment to {record.host} if it works, otherwise remove it")
    if is_unapplied:
        steps.append("Apply the journal")
    steps.append(f"Map {spec.pool}/{spec.image} on {host.name} through {' or '.join(drivers)}")
    if not record.is_formatted:
        steps.append(f"Create an {spec.filesystem} file system")
    steps.append(f"Mount it at {mount_path(host, spec.name)}")
    return [*steps, *fenced_titles(record, elsewhere_than=host.name)]


def detach_titles(record: VolumeRecord, fleet: Fleet) -> list[str]:
    """Of a detach from wherever it is attached."""
    spec, steps = record.spec, fenced_titles(record)
    if record.host is None:
        return steps
    steps.append(f"Unmount {mount_path(fleet.host(record.host), spec.name)}")
    if spec.write_path != "direct":
        steps.append("Apply the journal")
    return [*steps, f"Unmap {spec.pool}/{spec.image} from {record.host}"]


def fenced_titles(
    record: VolumeRecord, *, on: str | None = None, elsewhere_than: str | None = None
) -> list[str]:
    """Of clearing away what fences left: on one host, on all others, or on all."""
    return [
        f"Remove the remains on {left.host} from before the fence, if the host can be reached"
        for left in record.fenced
        if left.host != elsewhere_than and on in (None, left.host)
    ]
