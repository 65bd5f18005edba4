"""What the volumes of one lab or cluster are worked on with, built from one another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from grampus.ceph.cluster import CephCluster
from grampus.ceph.encryption import RbdEncryption
from grampus.ceph.flattening import RbdFlattening
from grampus.ceph.image_snapshots import RbdSnapshots
from grampus.ceph.rbd import RbdImages
from grampus.ceph.trash import RbdTrash
from grampus.core.clock import Clock
from grampus.core.progress import Progress
from grampus.hosts.port import Fleet
from grampus.operations.runner import OperationRunner
from grampus.state.home import Home
from grampus.state.store import Store
from grampus.volumes.asking import Asking
from grampus.volumes.attaching import Attacher
from grampus.volumes.cloning import Cloning
from grampus.volumes.creating import Creating
from grampus.volumes.drivers.volumed import VolumedProgram
from grampus.volumes.encrypting import Encrypting
from grampus.volumes.exchanging import Exchanging
from grampus.volumes.fencing import Fencing
from grampus.volumes.journals import Journals
from grampus.volumes.key_rotating import KeyRotating
from grampus.volumes.kinds import VolumeStepParts
from grampus.volumes.migrating import Migrating
from grampus.volumes.migrations import VolumeKeyRotation, VolumeMigrations
from grampus.volumes.operations import VolumeOperations
from grampus.volumes.records import VolumeRecords
from grampus.volumes.resizing import Resizing
from grampus.volumes.snapshots import Snapshots
from grampus.volumes.takeovers import Takeovers
from grampus.volumes.transfers import Transfers
from grampus.volumes.trash import VolumeTrash
from grampus.volumes.volume_keys import master_keys


@dataclass(frozen=True)
class VolumeParts:
    """One of each."""

    records: VolumeRecords
    attacher: Attacher
    asking: Asking
    resizing: Resizing
    fencing: Fencing
    journals: Journals
    creating: Creating
    snapshots: Snapshots
    cloning: Cloning
    transfers: Transfers
    operations: VolumeOperations
    trash: VolumeTrash
    migrations: VolumeMigrations
    key_rotation: VolumeKeyRotation
    encrypting: Encrypting
    takeovers: Takeovers


def build_parts(
    lab: str,
    tag: str,
    home: Home,
    store: Store,
    runner: OperationRunner,
    fleet: Fleet,
    cluster: CephCluster,
    images: RbdImages,
    clock: Clock,
    progress: Progress,
    *,
    volumed: Path | None,
    make_namespace: Callable[[str], str],
) -> VolumeParts:
    """All parts."""
    records = VolumeRecords(store, lab)
    program = VolumedProgram(volumed)
    rbd_snapshots = RbdSnapshots(cluster)
    flattening = RbdFlattening(cluster, images, rbd_snapshots)
    encrypting = Encrypting(images, RbdEncryption(cluster), master_keys(home))
    attacher = Attacher(
        *(tag, records, fleet, cluster, images, program, runner, clock, progress),
        encrypting.find_key,
    )
    asking = Asking(fleet, cluster, images, attacher, clock)
    resizing = Resizing(records, fleet, images, attacher, encrypting, asking)
    fencing = Fencing(records, fleet, cluster, images, clock)
    journals = Journals(records, fleet, images, attacher, program)
    creating = Creating(
        *(lab, records, cluster, images, rbd_snapshots, attacher, journals, encrypting),
        *(make_namespace, clock),
    )
    snapshots = Snapshots(
        *(records, images, rbd_snapshots, attacher, journals, encrypting, asking),
        *(runner, progress),
    )
    cloning = Cloning(
        *(records, rbd_snapshots, flattening, attacher, creating, encrypting, asking), progress
    )
    exchanging = Exchanging(records, fleet, images, attacher, journals, clock)
    migrating = Migrating(
        *(records, cluster, images, rbd_snapshots, creating, exchanging, asking), clock, progress
    )
    rotating = KeyRotating(records, fleet, cluster, exchanging)
    steps = VolumeStepParts(
        *(creating, cloning, resizing, fencing, journals, snapshots, migrating, rotating)
    )
    operations = VolumeOperations(lab, home, runner, clock, steps, records.identity_of)
    rbd_trash = RbdTrash(cluster, images)
    return VolumeParts(
        records=records,
        attacher=attacher,
        asking=asking,
        resizing=resizing,
        fencing=fencing,
        journals=journals,
        creating=creating,
        snapshots=snapshots,
        cloning=cloning,
        transfers=Transfers(records, cluster.runner, progress),
        operations=operations,
        trash=VolumeTrash(records, rbd_trash, attacher, journals, creating, operations),
        encrypting=encrypting,
        migrations=VolumeMigrations(records, migrating, journals, operations),
        key_rotation=VolumeKeyRotation(records, rotating, operations),
        takeovers=Takeovers(
            *(records, fleet, cluster, fencing, attacher, creating, operations, progress)
        ),
    )
