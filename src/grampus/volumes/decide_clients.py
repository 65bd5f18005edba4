"""Which RADOS clients are a volume's own: the one that maps it, and whom a fence must cut off.

Decided from who has the image open, and as whom.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


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
