"""The key-value pairs that journals keep in the cluster, counted past Grampus."""

from __future__ import annotations

import json
from collections.abc import Iterable

from tests.system.lab_machine import LabMachine

# Inside the host, with Ceph's own binding: a ring has up to 128 objects, and a command for each
# would take longer than all of this.
_COUNT = """
import json, rados, sys
counts = {}
with rados.Rados(conffile="", name="client.admin") as cluster:
    with cluster.open_ioctx(sys.argv[1]) as pool:
        for namespace in sys.argv[2:]:
            pool.set_namespace(namespace)
            for entry in pool.list_objects():
                if not entry.key.startswith("grampus_journal."):
                    continue
                after, count = "", 0
                while True:
                    with rados.ReadOpCtx() as operation:
                        found, _ = pool.get_omap_keys(operation, after, 1000)
                        pool.operate_read_op(operation, entry.key)
                        keys = [key for key, _ in found]
                    if not keys:
                        break
                    count, after = count + len(keys), keys[-1]
                counts[f"{namespace}/{entry.key}"] = count
print(json.dumps(counts))
"""


def count_by_object(machine: LabMachine, pool: str, namespaces: Iterable[str]) -> dict[str, int]:
    """The pairs of each object of a journal, by namespace and name."""
    counts: dict[str, int] = json.loads(
        machine.ok("python3", "-c", _COUNT, pool, *sorted(set(namespaces)))
    )
    return counts


def slots_prefix(machine: LabMachine, pool: str, image: str) -> str:
    """What namespace and name of a journal's slots begin with, for the image NAMESPACE/NAME."""
    info = json.loads(machine.ok("rbd", "info", f"{pool}/{image}", "--format", "json"))
    return f"{image.rpartition('/')[0]}/grampus_journal.{info['id']}."
