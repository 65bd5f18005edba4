"""The composition root, of what gives room back."""

from __future__ import annotations

from grampus.ceph.image_snapshots import RbdSnapshots
from grampus.cli.composition.session import Session
from grampus.volumes.service import VolumeService
from grampus.volumes.trimming import VolumeTrims


def volume_trims(session: Session, volumes: VolumeService) -> VolumeTrims:
    return VolumeTrims(volumes, session.fleet(), RbdSnapshots(session.cluster()))
