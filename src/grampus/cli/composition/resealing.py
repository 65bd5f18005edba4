"""The composition root, of master keys and of the volumes that they seal."""

from __future__ import annotations

from grampus.cli.composition.session import Session
from grampus.databases.records import DatabaseRecords
from grampus.volumes.records import VolumeRecords
from grampus.volumes.resealing import Resealing


def volume_resealing(session: Session) -> Resealing:
    databases = DatabaseRecords(session.store, session.lab_name)
    return Resealing(
        session.home,
        session.runner,
        session.clock,
        session.cluster(),
        VolumeRecords(session.store, session.lab_name),
        session.master_keys(),
        lambda: [trashed.volume for trashed in databases.all_trashed().values()],
        session.volumes().operations,
    )
