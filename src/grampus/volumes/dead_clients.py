"""Clients of an image that ended without closing it, and the fence for them.

A client that was killed keeps its watch, and with it the exclusive lock, for 30 s. Its exact
address is never used again, so a fence needs no undoing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from grampus.ceph.cluster import CephCluster
from grampus.ceph.rbd import RbdImages
from grampus.hosts.port import Host
from grampus.volumes.drivers.port import Driver, MapRequest
from grampus.volumes.model import VolumeRecord


@contextmanager
def fenced(
    cluster: CephCluster,
    images: RbdImages,
    record: VolumeRecord,
    host: Host,
    drivers: Sequence[Driver],
    request: MapRequest,
) -> Iterator[None]:
    """In the block the volume's drivers on `host` are ended; whoever of them still watches the
    image afterwards is fenced.

    One that was killed while it opened the image is in no record: its own log knows it.
    """
    addresses = [address for one in drivers for address in one.observe_clients(host, request)]
    if record.attachment is not None and record.attachment.client_address is not None:
        addresses.append(record.attachment.client_address)
    yield
    spec = record.spec
    if not addresses or images.find(spec.pool, spec.image) is None:
        return
    for address in images.watchers(spec.pool, spec.image):
        if address in addresses:
            cluster.ensure_blocklisted(address)
