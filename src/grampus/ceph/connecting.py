"""How a script on a host connects to the cluster: in one place, since it must know as whom."""

from __future__ import annotations

# The cephx entity of Grampus, such as `client.grampus`, where it is not the administrator.
ENTITY_VARIABLE = "GRAMPUS_CEPH_ENTITY"
ADMINISTRATOR = "client.admin"
# Clones of the second format need no protected snapshot (Ceph 13 and later). It is a setting of all
# connections, so that they can be shared.
CLONE_FORMAT = '"rbd_default_clone_format": "2"'
# What keeps connections for scripts that follow (`hosts/command_server/connected.py`).
KEEP = "keep_connection"
# For the beginning of a script. `connect` takes settings of Ceph, and its result is for a `with`
# block. librados reads no name from CEPH_ARGS, as Ceph's programs do.
CONNECT = f"""
import os, rados
def connect(**settings):
    def make():
        entity = os.environ.get("{ENTITY_VARIABLE}") or "{ADMINISTRATOR}"
        return rados.Rados(conffile="", name=entity, conf={{{CLONE_FORMAT}, **settings}})
    keep = globals().get("{KEEP}")
    return make() if keep is None else keep(settings, make)
"""
# A cluster that does not answer must not hold a command up for the 5 minutes of librados.
CONNECT_SOON = 'connect(client_mount_timeout="10")'


def client_environment(user: str) -> dict[str, str]:
    """What Ceph's programs and our scripts are told of the cephx user `client.USER`."""
    return {"CEPH_ARGS": f"--name client.{user}", ENTITY_VARIABLE: f"client.{user}"}
