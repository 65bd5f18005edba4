"""What a volumed in memory does when it is told to let go of its image, and to open one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from .local_disk import Log, write_log
from .namespace_commands import require_place

if TYPE_CHECKING:
    from tests.unit.volumes.machine import VolumeHost

    from .cluster import Image
    from .machine import Daemon, Loop

DETACHED = {"state": "detached", "state_reason": "asked for by `close-image`"}


def answer_exchange(
    host: VolumeHost, daemon: Daemon, command: str, options: list[str]
) -> tuple[int, str] | None:
    """None for another command that needs an open image, and has one."""
    if command in ("close-image", "open-image") and host.cluster.exchange_failure:
        return 1, f"volumed: {host.cluster.exchange_failure}"
    if command in ("close-image", "open-image"):
        words = dict(zip(options[::2], options[1::2], strict=True))
        if command == "close-image":
            return _close(host, daemon, float(words["--limit-s"]))
        return _open(host, daemon, words.get("--image", daemon.image))
    if daemon.client is None:
        if command in ("check", "snapshot"):
            return 1, "volumed: No image is open. Ask `status`, and again later. (busy)"
        assert command == "status", f"{command} of a volumed without an image"
        return 0, json.dumps(DETACHED)
    if command in ("check", "snapshot"):
        return _ask_cluster(host, daemon, command, options)
    return None


def _ask_cluster(
    host: VolumeHost, daemon: Daemon, command: str, options: list[str]
) -> tuple[int, str]:
    """What comes of a command for which a volumed asks the cluster first."""
    assert daemon.client is not None
    if host.cluster.are_volumeds_old:
        return 1, f"volumed: There is no command {command!r}. (unknown-command)"
    if daemon.client.address in host.cluster.cut_off:
        return 1, "volumed: The cluster did not answer within 10 s. (cluster-silent)"
    if host.cluster.is_fenced(daemon.client):
        return 1, "volumed: The cluster shut this client out. Ask `status`. (fenced)"
    if command == "check":
        return 0, json.dumps({"lock_owner": True})
    assert options[1] == "--timeout-s"
    return host.cluster.take_snapshot(daemon.image, options[0])


def heard_loops(loops: Mapping[str, Loop]) -> list[tuple[str, Loop]]:
    """Those loop devices that are asked, none of which may have a volumed without an image.

    The kernel asks the file, and a volumed whose queues are full of waiting requests never hears.
    """
    for loop in loops.values():
        is_held = loop.server.state == "running" and loop.server.client is None
        assert not is_held, f"whoever asks {loop.file} waits, which waits for its image"
    return sorted(loops.items())


def open_journal(host: VolumeHost, daemon: Daemon, image: Image) -> None:
    """As volumed marks an image before the first write can be in its journal alone."""
    if daemon.write_path != "direct":
        cluster, argv = host.cluster, daemon.spec.argv
        if cluster.journal_ids.get(daemon.image) != image.image_id:
            own = daemon.image.partition("/")[0]
            asked = argv[argv.index("--journal-pool") + 1] if "--journal-pool" in argv else own
            cluster.journal_ids[daemon.image] = image.image_id
            cluster.journal_pools.pop(daemon.image, None)
            if asked != own:
                cluster.journal_pools[daemon.image] = asked
        cluster.journals.add(daemon.image)
        pool = cluster.journal_pools.get(daemon.image)
        require_place(cluster, argv[argv.index("--user") + 1], daemon.image, pool)
        name = f"journal.{daemon.image.replace('/', '.')}"
        image.metadata["grampus.journal.objects"] = f"{pool}/{name}" if pool else name
        image.metadata["grampus.journal"] = "open"


def _close(host: VolumeHost, daemon: Daemon, limit_s: float) -> tuple[int, str]:
    if daemon.client is not None:
        assert not host.cluster.is_fenced(daemon.client)
        assert limit_s >= 60, "it would be opened again under our hands"
        host._end(daemon)
    return 0, json.dumps({"open": False, "client_address": None})


def _open(host: VolumeHost, daemon: Daemon, name: str) -> tuple[int, str]:
    if daemon.client is not None:
        if name != daemon.image:
            return 1, "volumed: Another image is open. (not-detached)"
        return 0, json.dumps({"open": True, "client_address": daemon.client.address})
    image = host.cluster.images.get(name)
    user = daemon.spec.argv[daemon.spec.argv.index("--user") + 1]
    if image is None or not host._has_key(user):
        return 1, f"volumed: There is no {name}. (open-failed)"
    assert image.size_bytes == daemon.size_bytes
    daemon.client = host.cluster.open_image(name, user, host.address)
    daemon.image = name
    image.epoch += 1
    if daemon.local is not None and daemon.write_path == "cache":
        write_log(host.files, daemon.local, Log(image.epoch, 0))
    open_journal(host, daemon, image)
    return 0, json.dumps({"open": True, "client_address": daemon.client.address})
