"""Caches that are dropped before a trial, as sources of published experiments did.

Dropping a page cache is a request to the kernel of a machine: the hosts of a lab share one,
with all else that runs on it.
"""

from __future__ import annotations

from typing import Protocol

from grampus.core.errors import GrampusError
from grampus.hosts.port import Fleet

# What was written must be on the disk before it can be dropped, and that may be slow.
DROP_TIMEOUT_S = 120.0
# A server that keeps no list of what its buffer pool had, and reads none at its start.
EMPTY_START = {
    "innodb_buffer_pool_dump_at_shutdown": "OFF",
    "innodb_buffer_pool_load_at_startup": "OFF",
}
_DROP_PAGES = "sync && echo 3 > /proc/sys/vm/drop_caches"


class CephCommand(Protocol):
    """The `ceph` command, as of `CephCluster`."""

    def ceph(self, *arguments: str) -> object:
        """Run `ceph ARGUMENTS`. Raises GrampusError on a non-zero code."""
        ...


def drop_storage_caches(cluster: CephCommand, fleet: Fleet) -> None:
    """The OSDs' own caches, then the page caches of all hosts. Raises GrampusError."""
    cluster.ceph("tell", "osd.*", "cache", "drop")
    for host in fleet.hosts():
        if not fleet.is_reachable(host.name):
            raise GrampusError(
                f"The host {host.name} cannot be reached, so its caches are as they were.",
                "Bring it back (`grampus lab fault heal`), then try again.",
                code="caches-kept",
            )
        host.run(["sh", "-c", _DROP_PAGES], timeout_s=DROP_TIMEOUT_S)
