"""Which RADOS client is a volume's own: decided from the watchers before and after mapping."""

from __future__ import annotations

from collections.abc import Sequence


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
