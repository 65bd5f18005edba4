"""The block devices over the file of an export.

One for all of it; or, with an external log, two that make different promises over one order of
writes. XFS makes a commit durable by a write to its log, before which it flushes the data. The
journal of a volume keeps a strict prefix of all writes, so the data need only come before the log:
flushes of the data device are answered at once, and writes to the log are durable when they are
answered. An fsync then costs one append to the journal, where it cost two (docs/adr/0060).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath

from grampus.hosts.loop_devices import (
    FLUSH_TIMEOUT_S,
    FilePart,
    drop_flushes,
    ensure_loop_device_absent,
    find_loop_devices,
    make_loop_device,
)
from grampus.hosts.port import Host
from grampus.volumes.drivers.port import MapRequest
from grampus.volumes.model import VolumeSpec


@dataclass(frozen=True)
class Devices:
    """Block devices on a host, such as /dev/loop3."""

    data: str
    log: str | None = None  # None: the log is inside the file system


def keeps_order(spec: VolumeSpec) -> bool:
    """Whether flushes of the data device only keep the order of writes.

    Without a journal nothing keeps it but flushes that are done.
    """
    return spec.external_log_bytes is not None and spec.write_path != "direct"


def make_devices(host: Host, file: PurePosixPath, request: MapRequest) -> Devices:
    """The devices over the file, where there are none."""
    log_bytes = request.volume.external_log_bytes
    if log_bytes is None:
        return Devices(make_loop_device(host, file, reference=request.reference))
    log = make_loop_device(
        host,
        file,
        reference=_log_references(request)[0],
        part=FilePart(0, log_bytes),
        is_durable=True,
    )
    drop_flushes(host, log)  # nothing is left to flush
    rest = FilePart(log_bytes, 0)
    data = make_loop_device(host, file, reference=request.reference, part=rest)
    if keeps_order(request.volume):
        drop_flushes(host, data)
    return Devices(data, log)


def find_devices(host: Host, file: PurePosixPath, request: MapRequest) -> Devices | None:
    """The devices over the file if all of them are there."""
    references = [request.reference, *_log_references(request)]
    found = find_loop_devices(host, references, file=file)
    if len(found) < len(references):
        return None
    return Devices(*(found[reference] for reference in references))


def ensure_devices_absent(host: Host, file: PurePosixPath, request: MapRequest) -> None:
    """Neither device is there. Both count by their references also where the file has no path."""
    others = _log_references(request)
    ensure_loop_device_absent(host, file, reference=request.reference, others=others)


def flush_export(host: Host, file: PurePosixPath) -> None:
    """All that was written is durable: the file is asked, since its devices answer flushes."""
    host.run(["sync", str(file)], timeout_s=FLUSH_TIMEOUT_S)


def _log_references(request: MapRequest) -> list[str]:
    has_log = request.volume.external_log_bytes is not None
    return [f"{request.reference}/log"] if has_log else []
