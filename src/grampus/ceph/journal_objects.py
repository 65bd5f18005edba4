"""The objects of the write journals of volumes, as volumed names them.

They are `grampus_journal.IMAGE-ID` (the record) and `grampus_journal.IMAGE-ID.SLOT`, in the image's
namespace, and in its pool or in another one. Metadata of the image says where: `PREFIX`, or
`POOL/PREFIX` (`journal_place.rs`).
"""

from __future__ import annotations

from grampus.ceph.cluster import CephCluster
from grampus.ceph.connecting import CONNECT
from grampus.ceph.rbd import METADATA_PREFIX

OBJECTS_KEY = f"{METADATA_PREFIX}journal.objects"
_PREFIX = "grampus_journal."
# Python for scripts that run beside librados. Nobody says how many slots there are, and a removal
# that was cut off has left gaps.
JOURNAL_OBJECTS = f"""
ABSENT_IN_A_ROW = 64
def journal_of(image_id):
    return "{_PREFIX}" + image_id
def each_slot(image_id, is_there):
    found, slot, absent = [], 0, 0
    while absent < ABSENT_IN_A_ROW:
        name = "%s.%04x" % (journal_of(image_id), slot)
        absent = 0 if is_there(name) else absent + 1
        found += [] if absent else [name]
        slot += 1
    return found
def journal_pool(image, own_pool):
    try:
        pool, _, prefix = image.metadata_get("{OBJECTS_KEY}").rpartition("/")
    except KeyError:
        return own_pool
    # A clone has the mark of its parent.
    return pool if pool and prefix == journal_of(image.id()) else own_pool
"""
REMOVE_JOURNAL = f"""
{CONNECT}
import sys, rados
{JOURNAL_OBJECTS}
pool, namespace, image_id = sys.argv[1:]
with connect() as cluster, cluster.open_ioctx(pool) as context:
    context.set_namespace(namespace)
    def remove(name):
        try:
            context.remove_object(name)
        except rados.ObjectNotFound:
            return False
        return True
    each_slot(image_id, remove)
    remove(journal_of(image_id))
"""
# Of all namespaces: the pool is listed as a whole, so ask only of one without images.
COUNT_JOURNALS = f"""
{CONNECT}
import sys, rados
found = set()
with connect() as cluster, cluster.open_ioctx(sys.argv[1]) as context:
    context.set_namespace(rados.LIBRADOS_ALL_NSPACES)
    for item in context.list_objects():
        if item.key.startswith("{_PREFIX}"):
            found.add((item.nspace, item.key.split(".")[1]))
print(len(found))
"""


def parse_journal_pool(mark: str | None, image_id: str) -> str | None:
    """The pool of the image's journal by its mark; None: that of the image, or there is none."""
    pool, _, prefix = (mark or "").rpartition("/")
    return pool if pool and prefix == _PREFIX + image_id else None


def has_own_journal(mark: str | None, image_id: str) -> bool:
    """Whether the mark is of a journal of this very image."""
    return (mark or "").rpartition("/")[2] == _PREFIX + image_id


def ensure_journal_absent(cluster: CephCluster, pool: str, namespace: str, image_id: str) -> None:
    """Remove the journal of the image with that id from the pool, whatever it holds."""
    argv = ["python3", "-c", REMOVE_JOURNAL, pool, namespace, image_id]
    cluster.runner.run(argv, timeout_s=120)


def count_journals(cluster: CephCluster, pool: str) -> int:
    """Journals in the pool, in all of its namespaces. All OSDs are up."""
    listed = cluster.runner.run(["python3", "-c", COUNT_JOURNALS, pool], timeout_s=60)
    return int(listed.stdout)
