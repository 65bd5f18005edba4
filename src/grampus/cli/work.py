"""What commands on volumes and on databases begin with: the lab held, leftovers settled."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from grampus.cli.composition.session import Session
from grampus.cli.noting import note_records
from grampus.databases.service import DatabaseService
from grampus.volumes.service import VolumeService


@contextmanager
def work_on_volumes(lab: str, *, settles: bool = True) -> Iterator[tuple[Session, VolumeService]]:
    """The lab, held beside other commands, and its volumes after `settle_volumes`, if it is to."""
    session = Session(lab)
    with session.sharing_lab(), session.progress:
        try:
            yield session, settle_volumes(session) if settles else session.volumes()
        finally:
            note_records(session)


@contextmanager
def work_on_databases(
    lab: str, *, settles: bool = True
) -> Iterator[tuple[Session, DatabaseService]]:
    """The lab, held beside other commands; its databases after `settle_databases`, if it is to."""
    session = Session(lab)
    with session.sharing_lab(), session.progress:
        try:
            yield session, settle_databases(session) if settles else session.databases()
        finally:
            note_records(session)


def settle_volumes(session: Session) -> VolumeService:
    """The volumes, with whatever was interrupted finished or undone first, and told."""
    volumes = session.volumes()
    for sentence in volumes.converge():
        session.progress.note(sentence)
    return volumes


def settle_databases(session: Session) -> DatabaseService:
    """The databases; their volumes are settled before them."""
    settle_volumes(session)
    databases = session.databases()
    for sentence in databases.converge():
        session.progress.note(sentence)
    return databases
