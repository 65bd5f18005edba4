"""What databases and volumes leave in a lab, to compare before and after."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.system.command_line import CommandLine
from tests.system.images import contents_of_pool, pool_contents
from tests.system.machine import inventory, lab_container
from tests.system.site_machines import Site

_DIRECTORIES = ("databases", "endpoints", "volumes", "exports", "scratch", "etc-ceph")
# What signs certificates of replicas stays with a database for the next one.
_OF_REPLICAS = (".replica-authority.json", ".replicas.ca.pem")


def cluster_inventory(lab: CommandLine) -> dict[str, Any]:
    """What databases leave in the cluster, on hosts, and in Grampus's own files."""
    status = lab.json("lab", "status")
    tag = status["spec"]["tag"]
    data = lab.home / "labs" / lab.lab / "hosts"
    secrets = lab.home / "secrets" / lab.lab
    return {
        "machine": {
            kind: items
            for kind, items in inventory(tag, stays_up=True).items()
            if kind not in ("processes", "run")
        },
        "pool": asdict(pool_contents(tag)),
        "users": sorted(
            word
            for word in lab_container(tag, "h1", "ceph", "auth", "ls").split()
            if word.startswith("client.grampus")
        ),
        "addresses": [
            lab_container(tag, host["name"], "ip", "-brief", "-4", "address")
            for host in status["hosts"]
        ],
        "daemons": [daemon["name"] for host in status["hosts"] for daemon in host["daemons"]],
        "files": sorted(
            str(path.relative_to(data))
            for path in data.glob("*/data/*/*")
            if path.parts[-2] in _DIRECTORIES
        ),
        "secrets": _secrets(secrets),
    }


def site_inventory(site: Site) -> dict[str, Any]:
    """What databases leave on the hosts of a site, in its cluster, and in Grampus's own files."""
    places = " ".join(f"/var/lib/grampus/{site.tag}/data/{name}" for name in _DIRECTORIES)
    # A host gets its ceph.conf, in which no key is, with its first volume, and keeps it.
    listed = f"find {places} -mindepth 1 -maxdepth 1 ! -name ceph.conf 2>/dev/null | sort"
    users = site.cluster.ok("ceph", "auth", "ls").split()
    return {
        # The slice of a site is there from the first service on, and stays.
        "hosts": [
            sorted(line for line in site.left_on(host).splitlines() if ".slice " not in line)
            for host in site.hosts.names
        ],
        "files": [site.hosts.run(host, "sh", "-c", listed) for host in site.hosts.names],
        "pool": asdict(contents_of_pool(site.cluster.ok)),
        "users": sorted(word for word in users if word.startswith("client.grampus")),
        "secrets": _secrets(site.line.home / "secrets" / site.line.lab),
    }


def _secrets(directory: Path) -> list[str]:
    names = {path.name for path in directory.glob("*")} if directory.exists() else set()
    kept = {
        f"{name.removesuffix('.json')}{tail}"
        for name in names
        for tail in _OF_REPLICAS
        if name.endswith(".json")
    }
    return sorted(names - kept)


def differences(before: dict[str, Any], after: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """What of the inventory changed, by kind: as it was, and as it is, without what is the same."""
    return {
        kind: _reduced(before[kind], after[kind]) for kind in before if before[kind] != after[kind]
    }


def _reduced(before: Any, after: Any) -> tuple[Any, Any]:
    if isinstance(before, dict) and isinstance(after, dict):
        keys = [key for key in {**before, **after} if before.get(key) != after.get(key)]
        return {key: before.get(key) for key in keys}, {key: after.get(key) for key in keys}
    return [one for one in before if one not in after], [one for one in after if one not in before]
