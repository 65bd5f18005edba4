"""Which RADOS clients are a volume's own.

The one that maps it, the one that a fence must cut off, and the one whose lock no command may take.
Decided from who has the image open, and as whom.

librbd asks the owner of a lock for it. An owner that the cluster does not hear any more (its watch
has ended) cannot be asked: librbd blocklists it, breaks the lock and goes on. That is right when
the owner is dead. When only the storage network of its host is down, it costs a living volume its
client, and a snapshot lacks what was flushed to the journal (INV-69).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from grampus.ceph.rbd import ImageLock
from grampus.core.errors import RefusedError
from grampus.volumes.model import VolumeRecord


def decide_client_address(
    watchers: Sequence[str], others: Sequence[str], host_address: str
) -> str | None:
    """The client (address:port/nonce) that began to watch the image from our host, or None.

    `others` watched before the image was mapped: a client that died on the same host may be
    among them, and a later fence must hit ours.
    """
    for watcher in watchers:
        if watcher.startswith(f"{host_address}:") and watcher not in others:
            return watcher
    return None


@dataclass(frozen=True)
class FenceTargets:
    """The clients to blocklist, or the one that forbids the fence."""

    addresses: tuple[str, ...]  # address:port/nonce, each exactly
    foreign_owner: str | None = None  # `ENTITY at ADDRESS` that holds the lock and is not ours


def decide_fence_targets(
    *,
    entity: str,
    recorded: str | None,
    host_address: str | None,
    lock_owners: Sequence[str],
    watchers: Sequence[str],
    entities: Mapping[str, str],
) -> FenceTargets:
    """The clients of one volume, and no other client of its host.

    `entity` is the volume's own cephx user (`client.X`), which nothing but its driver uses.
    `recorded` is the client that the attachment began with, `host_address` that of the host it
    is attached to. `entities` says as whom each connected client logged in; a client that is
    cut off or dead is not in it.

    A client that logged in as somebody else is never a target, whatever it has open: it may be
    the administrator's, and so one of our own commands. If it holds the lock, the lock cannot
    be taken, and it is the `foreign_owner`. A client without a session is a target when it is
    the recorded one; when nothing is recorded (the attaching was cut off), also one from the
    volume's host; and always when it is from there and holds the lock.
    """
    targets: list[str] = []
    for address in dict.fromkeys([*filter(None, [recorded]), *lock_owners, *watchers]):
        user = entities.get(address)
        holds_lock = address in lock_owners
        if user is not None:
            is_target = user == entity
        else:
            is_from_host = host_address is not None and address.startswith(f"{host_address}:")
            is_target = address == recorded or (is_from_host and (holds_lock or recorded is None))
        if is_target:
            targets.append(address)
        elif holds_lock:
            return FenceTargets((), f"{user or 'an unknown client'} at {address}")
    return FenceTargets(tuple(targets))


def decide_silent_owner(
    record: VolumeRecord,
    host_address: str | None,
    locks: Sequence[ImageLock],
    watchers: Collection[str],
    blocklist: Collection[str],
) -> str | None:
    """The volume's own client that holds the lock and is not heard; None: the lock can be taken.

    `host_address` is that of the host which the volume is attached to. Of a volume that is attached
    nowhere its own client is gone: what else holds a lock silently is a command that was killed. A
    client that is blocklisted changes nothing any more.
    """
    for lock in locks:
        if lock.address in watchers or lock.address in blocklist:
            continue
        if _may_be_its_client(record, host_address, lock.address):
            return lock.address
    return None


def _may_be_its_client(record: VolumeRecord, host_address: str | None, address: str) -> bool:
    if record.host is None:
        return False
    recorded = record.attachment.client_address if record.attachment else None
    if recorded is not None:
        return address == recorded
    # Half attached, lent, or through a driver that does not say who its client is.
    return host_address is None or address.startswith(f"{host_address}:")


def owner_is_silent(record: VolumeRecord, why: str) -> RefusedError:
    """The refusal of a command that would take the lock of the volume's own client."""
    name, host = record.spec.name, record.host
    return RefusedError(
        f"The volume '{name}' is in use on {host}, and {why}. Nothing was changed: this "
        "command would have cut off the client of the volume.",
        f"Check the storage network of {host}, then try again. If {host} is lost: `grampus "
        f"volume fence {name}`. If only the driver of the volume has ended: `grampus volume "
        f"attach {name} --host {host}`; for a database: `grampus db start {name}`.",
        code="owner-silent",
    )
