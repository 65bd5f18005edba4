"""How a script on a host connects to the cluster: in one place, since it must know as whom."""

from __future__ import annotations

# The cephx entity of Grampus, such as `client.grampus`, where it is not the administrator.
ENTITY_VARIABLE = "GRAMPUS_CEPH_ENTITY"
ADMINISTRATOR = "client.admin"
# For the beginning of a script. `connect` takes settings of Ceph. librados reads no name from
# CEPH_ARGS, as Ceph's programs do.
CONNECT = f"""
import os, rados
def connect(**settings):
    entity = os.environ.get("{ENTITY_VARIABLE}") or "{ADMINISTRATOR}"
    return rados.Rados(conffile="", name=entity, conf=settings)
"""
# A cluster that does not answer must not hold a command up for the 5 minutes of librados.
CONNECT_SOON = 'connect(client_mount_timeout="10")'


def client_environment(user: str) -> dict[str, str]:
    """What Ceph's programs and our scripts are told of the cephx user `client.USER`."""
    return {"CEPH_ARGS": f"--name client.{user}", ENTITY_VARIABLE: f"client.{user}"}
