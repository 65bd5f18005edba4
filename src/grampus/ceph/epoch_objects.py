"""Epochs of controllers, as objects in a site's pool: who may give commands to its hosts.

Each epoch is one object, `grampus.SITE.controller.NUMBER`. RADOS creates an object for one of two
clients that try at the same time, so an epoch has one holder. No epoch is removed as long as the
site exists: the holder of N knows that it was superseded when N + 1 is there.
"""

from __future__ import annotations

import json

from grampus.ceph.cluster import CephCluster
from grampus.ceph.connecting import CONNECT

# A pool that cannot serve must not hold up a command for ever: librados would wait for it.
_TIMEOUT_S = 20
_OPEN = f"""
{CONNECT}
import json, sys
pool, prefix, number = sys.argv[1], sys.argv[2], int(sys.argv[3])
def opened():
    seconds = "{_TIMEOUT_S}"
    return connect(client_mount_timeout=seconds, rados_osd_op_timeout=seconds)
def read(ioctx, number):
    try:
        return ioctx.read(prefix + str(number), 65536).decode()
    except rados.ObjectNotFound:
        return None
"""
# POOL PREFIX NUMBER: the text of the last epoch from that one on, as JSON.
FIND = f"""
{_OPEN}
with opened() as cluster, cluster.open_ioctx(pool) as ioctx:
    found = None
    while (text := read(ioctx, number)) is not None:
        found, number = text, number + 1
print(json.dumps(found))
"""
# POOL PREFIX NUMBER, the text on stdin: whether it was created, as JSON.
CREATE = f"""
{_OPEN}
text = sys.stdin.buffer.read()
with opened() as cluster, cluster.open_ioctx(pool) as ioctx, rados.WriteOpCtx() as operation:
    operation.new(rados.LIBRADOS_CREATE_EXCLUSIVE)
    operation.write_full(text)
    created = True
    try:
        ioctx.operate_write_op(operation, prefix + str(number))
    except rados.ObjectExists:
        created = False
print(json.dumps(created))
"""
# POOL PREFIX NUMBER: the last one first, so that those which are left are found by the next time.
REMOVE = f"""
{_OPEN}
with opened() as cluster, cluster.open_ioctx(pool) as ioctx:
    while read(ioctx, number) is not None:
        number += 1
    for one in range(number - 1, 0, -1):
        try:
            ioctx.remove_object(prefix + str(one))
        except rados.ObjectNotFound:
            pass
"""


def epoch_prefix(site: str) -> str:
    """How the names of a site's epochs begin; the number follows."""
    return f"grampus.{site}.controller."


class EpochObjects:
    """The epochs of one site. All methods raise GrampusError when the cluster does not answer."""

    def __init__(self, cluster: CephCluster, pool: str, site: str) -> None:
        self._runner = cluster.runner
        self._pool = pool
        self._prefix = epoch_prefix(site)

    def find(self, first: int) -> str | None:
        """The text of the last epoch from number `first` on; None: that one is absent."""
        found: str | None = json.loads(self._run(FIND, first))
        return found

    def create(self, number: int, text: str) -> bool:
        """Whether it was created; False: it exists, and stays as it is."""
        return bool(json.loads(self._run(CREATE, number, text)))

    def remove_all(self) -> None:
        """Nothing is left of them."""
        self._run(REMOVE, 1)

    def _run(self, script: str, number: int, stdin: str | None = None) -> str:
        argv = ["python3", "-c", script, self._pool, self._prefix, str(number)]
        return self._runner.run(argv, stdin=stdin, timeout_s=_TIMEOUT_S * 3).stdout
