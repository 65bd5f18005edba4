"""What commands on volumes and on databases begin with: the lab held, leftovers settled."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

from grampus.cli.composition.session import Session
from grampus.cli.housekeeping import forget_operations, keep_touched_binlogs, telling_of_space
from grampus.cli.noting import note_records
from grampus.core.errors import GrampusError
from grampus.databases.service import DatabaseService
from grampus.volumes.service import VolumeService


@contextmanager
def work_on_volumes(
    lab: str, *, settles: bool = True, dry_run: bool = False
) -> Iterator[tuple[Session, VolumeService]]:
    """The lab, held beside other commands, and its volumes after `settle_volumes`, if it is to.

    A dry run ends at the first change, or at the end, by raising Planned.
    """
    with _holding(lab) as session:
        volumes = settle_volumes(session) if settles else session.volumes()
        with session.planning(dry_run=dry_run):
            yield session, volumes


@contextmanager
def work_on_databases(
    lab: str, *, settles: bool = True, dry_run: bool = False
) -> Iterator[tuple[Session, DatabaseService]]:
    """The lab, held beside other commands; its databases after `settle_databases`, if it is to.

    A dry run ends at the first change, or at the end, by raising Planned.
    """
    with _holding(lab) as session:
        databases = settle_databases(session) if settles else session.databases()
        with session.planning(dry_run=dry_run):
            yield session, databases
        keep_touched_binlogs(session)


@contextmanager
def _holding(lab: str) -> Iterator[Session]:
    """A session with a current state, whose lab is held; at its end what changed is noted."""
    session = Session(lab)
    with telling_of_space(session):
        session.prepare_cluster()
        ensure_current(session)
        with session.sharing_lab(), session.progress:
            try:
                yield session
                announce_addresses(session)
            finally:
                note_records(session)
                forget_operations(session)


def announce_addresses(session: Session) -> None:
    """Tell entry hosts and the address hook of the site where databases are now.

    A failure is only noted.
    """
    site = session.find_site()
    if site is not None and site.ports:
        import_module("grampus.cli.serve_entries").direct_now(session)
    if site is not None and site.address_hook:
        import_module("grampus.cli.serve_addresses").announce_now(session)


def is_older(session: Session) -> bool:
    """Whether the state is a copy of an earlier time, as far as that can be said now.

    The cluster is asked only where the state may have been put back. If it does not answer, that
    is told: operations that were cut off stay as they are until it does.
    """
    watch = session.state_watch()
    if watch.is_known():
        return False
    try:
        return watch.ask() == "older"
    except GrampusError as error:
        session.progress.note(
            "Grampus could not check whether its state is the newest one. It finishes and "
            f"undoes no interrupted operation until the check succeeds: {error}"
        )
        return False


def ensure_current(session: Session) -> None:
    """Correct the state if it is older than what the cluster has noted, alone in the lab.

    Raises NotFoundError when there is no lab, RefusedError with code `busy`, and
    GrampusError.
    """
    session.require_place()
    if is_older(session):
        with session.alone_in_lab(), session.progress:
            correct_state(session)


def correct_state(session: Session) -> None:
    """As `reconciling.reconcile`, whose modules nearly all commands go without."""
    import_module("grampus.cli.reconciling").reconcile(session)


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
