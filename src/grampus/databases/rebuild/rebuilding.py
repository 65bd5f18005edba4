"""A lost state rebuilt from what the images of the cluster say."""

from __future__ import annotations

from dataclasses import dataclass

from grampus.ceph.cluster import CephCluster
from grampus.ceph.image_notes import observe_images
from grampus.databases.credentials import CredentialFiles
from grampus.databases.rebuild.decide_rebuild import RebuildPlan, decide_rebuild
from grampus.databases.records import DATABASE_KIND, TRASHED_KIND
from grampus.state.store import Store
from grampus.state.stored import put_record, records_of_lab


@dataclass(frozen=True)
class Rebuilt:
    """What was, or would be, put back."""

    plan: RebuildPlan
    without_passwords: list[str]  # databases whose passwords are not in this home any more
    unfinished: list[str]  # databases that were being made or removed when the state was lost


class StateRebuild:
    """Rebuilds the records of one lab or cluster. Running databases notice nothing of it."""

    def __init__(
        self, store: Store, lab: str, cluster: CephCluster, credentials: CredentialFiles
    ) -> None:
        self._store = store
        self._lab = lab
        self._cluster = cluster
        self._credentials = credentials

    def plan(self) -> Rebuilt:
        """What the images tell of and the state lacks; nothing is changed.

        Raises GrampusError when the cluster does not answer.
        """
        existing = records_of_lab(self._store, self._lab)
        plan = decide_rebuild(self._lab, observe_images(self._cluster), existing)
        names = [*plan.names(DATABASE_KIND), *plan.names(TRASHED_KIND)]
        return Rebuilt(
            plan=plan,
            without_passwords=[name for name in names if not self._credentials.are_there(name)],
            unfinished=[
                record.name
                for record in plan.records
                if record.kind == DATABASE_KIND and record.body.get("phase") != "ready"
            ],
        )

    def apply(self, rebuilt: Rebuilt) -> None:
        """Put the records back. Cut off, it is done again: what is there already stays."""
        for record in rebuilt.plan.records:
            put_record(self._store, self._lab, record)
