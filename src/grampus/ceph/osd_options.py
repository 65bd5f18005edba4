"""Options of all OSDs in the cluster's own configuration (`ceph config`)."""

from __future__ import annotations

import json
from collections.abc import Mapping

from grampus.ceph.cluster import CephCluster
from grampus.ceph.connecting import CONNECT
from grampus.ceph.mon_commands import CONNECT_TIMEOUT_S

WHO = "osd"
# One connection for all: to connect takes ten times what an option takes.
SET_OPTIONS = f"""
{CONNECT}
import errno, json, sys
with connect(client_mount_timeout="{CONNECT_TIMEOUT_S}") as cluster:
    for command in json.loads(sys.argv[1]):
        code, _, complained = cluster.mon_command(json.dumps(command), b"")
        if code:
            name = errno.errorcode.get(-code, code)
            sys.exit(f"Error {{name}}: {{command['name']}}: {{complained}}")
"""


def observe_osd_options(cluster: CephCluster) -> dict[str, str]:
    """What is set for all OSDs, by name; not what is for some of them, or by a daemon's file."""
    return {
        entry["name"]: str(entry["value"])
        for entry in cluster.ask("config dump")
        if entry["section"] == WHO and not entry.get("mask")
    }


def set_osd_options(cluster: CephCluster, options: Mapping[str, str | None]) -> None:
    """Set these for all OSDs; None: no longer. Raises GrampusError for one that Ceph refuses."""
    commands = [
        {"prefix": "config rm", "who": WHO, "name": name}
        if value is None
        else {"prefix": "config set", "who": WHO, "name": name, "value": value}
        for name, value in options.items()
    ]
    cluster.runner.run(["python3", "-c", SET_OPTIONS, json.dumps(commands)], timeout_s=60)
