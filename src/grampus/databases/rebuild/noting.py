"""Records noted on the images that they are about, whenever they have changed.

Not a step of each operation: whatever an operation changes, of whatever feature, is noted once the
command that did it ends. One that is killed before leaves it to the next command, which finds by a
digest what an image has not been told.
"""

from __future__ import annotations

from grampus.ceph.cluster import CephCluster
from grampus.ceph.image_notes import write_notes
from grampus.ceph.state_note import generation_key
from grampus.databases.rebuild.decide_noting import (
    NOTED_KIND,
    NotedDigest,
    decide_notes,
    decide_unwritten,
    digest_of,
)
from grampus.state.generation import StateGeneration
from grampus.state.store import Store
from grampus.state.stored import records_of_lab


class RecordsNoting:
    """What the images of one lab or cluster have been told."""

    def __init__(
        self, store: Store, lab: str, cluster: CephCluster, generation: StateGeneration
    ) -> None:
        self._generation = generation
        self._store = store
        self._lab = lab
        self._cluster = cluster

    def ensure_noted(self) -> int:
        """Note what has changed since; how many images were told something.

        Two commands at once may note the older of two records last: the digest then says so to
        the next one. Raises GrampusError when the cluster does not answer.
        """
        notes = decide_notes(self._lab, records_of_lab(self._store, self._lab))
        noted = self._store.all(NOTED_KIND, self._lab, NotedDigest)
        unwritten = decide_unwritten(notes, noted)
        names = {digest_of(note): name for name, note in unwritten.items()}
        written = []
        if unwritten:
            generation = generation_key(self._lab), self._generation.advance().model_dump_json()
            written = write_notes(self._cluster, list(unwritten.values()), generation)
        for note in written:
            digest = digest_of(note)
            self._store.put(NOTED_KIND, self._lab, names[digest], NotedDigest(digest=digest))
        for name in noted.keys() - notes.keys():
            self._store.remove(NOTED_KIND, self._lab, name)
        return len(written)
