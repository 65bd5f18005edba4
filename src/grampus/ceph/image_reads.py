"""What is read of an image while a user waits, by scripts that connect once and open it once.

Each takes 20 to 30 ms where `rbd` takes 80 to 200 ms to start, to connect and to open the image
(lab of two cores, Ceph 20.2.4). They open images for reading alone, so they take no lock. The
answers are in the form of `rbd ... --format json`, and so are the codes of failures.
"""

from __future__ import annotations

import json
from typing import Any

from grampus.ceph.connecting import CONNECT
from grampus.ceph.ports import CommandOutput, CommandRunner

ENOENT = 2
READ_TIMEOUT_S = 60.0
# As `rbd` ends, and says it, where there is no such image. The name is as users know it.
_OPEN = f"""
{CONNECT}
import contextlib, json, sys, rbd
def opened(stack, cluster, pool, namespace, name=None, image_id=None):
    context = stack.enter_context(cluster.open_ioctx(pool))
    context.set_namespace(namespace)
    return stack.enter_context(rbd.Image(context, name, read_only=True, image_id=image_id))
def named(stack, cluster):
    namespace, _, name = sys.argv[2].rpartition("/")
    try:
        return opened(stack, cluster, sys.argv[1], namespace, name)
    except (rbd.ImageNotFound, rados.ObjectNotFound) as error:
        print(f"rbd: error opening image {{sys.argv[2]}}: {{error}}", file=sys.stderr)
        sys.exit({ENOENT})
"""
# As `rbd image-meta list`.
LIST_METADATA = f"""
{_OPEN}
with contextlib.ExitStack() as stack:
    image = named(stack, stack.enter_context(connect()))
    print(json.dumps(dict(image.metadata_list())))
"""
# As `rbd snap ls` in the time zone UTC: those of users alone.
LIST_SNAPSHOTS = f"""
{_OPEN}
with contextlib.ExitStack() as stack:
    image = named(stack, stack.enter_context(connect()))
    found = [
        {{
            "id": one["id"],
            "name": one["name"],
            "size": one["size"],
            "protected": str(image.is_protected_snap(one["name"])).lower(),
            "timestamp": image.get_snap_timestamp(one["id"]).strftime("%a %b %d %H:%M:%S %Y"),
        }}
        for one in image.list_snaps()
        if one["namespace"] == rbd.RBD_SNAP_NAMESPACE_TYPE_USER
    ]
print(json.dumps(found))
"""
# What the image is a clone of, what that one is a clone of, and so on, each as `rbd info` shows a
# parent. One in the trash is the last: its name may be another image's by now.
LIST_PARENTS = f"""
{_OPEN}
found = []
with contextlib.ExitStack() as stack:
    cluster = stack.enter_context(connect())
    image = named(stack, cluster)
    while len(found) < int(sys.argv[3]):
        try:
            spec = image.get_parent_image_spec()
        except rbd.ImageNotFound:
            break
        found.append(
            {{
                "pool": spec["pool_name"],
                "pool_namespace": spec["pool_namespace"],
                "image": spec["image_name"],
                "snapshot": spec["snap_name"],
                "trash": spec["trash"],
            }}
        )
        if spec["trash"]:
            break
        place = spec["pool_name"], spec["pool_namespace"]
        image = opened(stack, cluster, *place, image_id=spec["image_id"])
print(json.dumps(found))
"""


def read_image(
    runner: CommandRunner, script: str, pool: str, image: str, *arguments: str
) -> Any | None:
    """The document that one of the scripts answers with; None when there is no such image.

    Raises GrampusError when the cluster does not answer.
    """
    found = _run(runner, script, pool, image, *arguments, check=False)
    if found.returncode == ENOENT:
        return None
    if found.returncode != 0:
        # Once more, so that the runner raises its own error.
        found = _run(runner, script, pool, image, *arguments, check=True)
    return json.loads(found.stdout)


def require_image(runner: CommandRunner, script: str, pool: str, image: str) -> Any:
    """The same. Raises GrampusError also when there is no such image."""
    return json.loads(_run(runner, script, pool, image, check=True).stdout)


def _run(
    runner: CommandRunner, script: str, pool: str, image: str, *arguments: str, check: bool
) -> CommandOutput:
    argv = ["python3", "-c", script, pool, image, *arguments]
    return runner.run(argv, timeout_s=READ_TIMEOUT_S, check=check)
