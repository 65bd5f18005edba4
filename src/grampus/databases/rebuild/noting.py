"""Records noted on the images that they are about, whenever they have changed.

Not a step of each operation: whatever an operation changes, of whatever feature, is noted once the
command that did it ends. One that is killed before leaves it to the next command, which finds by a
digest what an image has not been told.
"""

from __future__ import annotations

from collections.abc import Callable

from grampus.ceph.cluster import CephCluster
from grampus.ceph.image_notes import write_notes
from grampus.ceph.state_note import generation_key
from grampus.databases.rebuild.decide_noting import (
    NOTED_KIND,
    NotedDigest,
    decide_notes,
    decide_unwritten,
    digest_of,
    name_in,
    subject_of,
)
from grampus.databases.records import LEFT_KIND
from grampus.state.generation import StateGeneration
from grampus.state.store import Store
from grampus.state.unnoted import UnnotedNames


class RecordsNoting:
    """What the images of one lab or cluster have been told."""

    def __init__(
        self,
        store: Store,
        lab: str,
        cluster: CephCluster,
        generation: StateGeneration,
        *,
        require_controller: Callable[[], None] = lambda: None,
    ) -> None:
        """`require_controller` raises when another machine controls the site: what is noted then
        would replace what that one has noted."""
        self._require_controller = require_controller
        self._generation = generation
        self._store = store
        self._lab = lab
        self._cluster = cluster

    def ensure_noted(self) -> int:
        """Note what has changed since; how many images were told something.

        Two commands at once may note the older of two records last: the digest then says so to
        the next one. Raises GrampusError when the cluster does not answer.
        """
        unnoted = UnnotedNames(self._store, self._lab)
        marks = unnoted.find()
        if not marks:
            return 0
        names = {name_in(name) for name in marks}
        records = unnoted.records(names)
        records += [one for one in unnoted.of_kind(LEFT_KIND) if subject_of(one) in names]
        notes = decide_notes(self._lab, records)
        noted = {
            record.name: NotedDigest.model_validate(record.body)
            for record in records
            if record.kind == NOTED_KIND
        }
        unwritten = decide_unwritten(notes, noted)
        told = {digest_of(note): name for name, note in unwritten.items()}
        written = []
        if unwritten:
            self._require_controller()
            generation = generation_key(self._lab), self._generation.advance().model_dump_json()
            written = write_notes(self._cluster, list(unwritten.values()), generation)
        done = set()
        for note in written:
            digest = digest_of(note)
            self._store.put(NOTED_KIND, self._lab, told[digest], NotedDigest(digest=digest))
            done.add(told[digest])
        for name in noted.keys() - notes.keys():
            self._store.remove(NOTED_KIND, self._lab, name)
        # An image that was not there keeps its name marked: it is told by a later command.
        left = unwritten.keys() - done
        unnoted.settle({name: mark for name, mark in marks.items() if name_in(name) not in left})
        return len(written)
