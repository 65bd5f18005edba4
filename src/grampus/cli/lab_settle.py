"""Databases follow their lab: started after it is up, stopped before it goes down."""

from __future__ import annotations

from grampus.cli.composition.copies import database_replicas
from grampus.cli.composition.session import Session
from grampus.cli.work import correct_state, is_older, settle_databases
from grampus.databases.left_instances import silence_cut_off


def silence_left_instances(session: Session) -> None:
    """Before a host that was cut off is let onto the network again: no database answers there
    that failed over.

    Its server could do so from memory, at an address that is another host's by now.
    """
    if not session.require_lab().run_dir.exists():
        return  # nothing of the lab runs
    for sentence in silence_cut_off(session.databases().operations.ports):
        session.progress.note(sentence)


def start_databases(session: Session) -> None:
    """Finish or undo what was interrupted, then start every database that shall run."""
    if is_older(session):
        correct_state(session)
    for sentence in settle_databases(session).ensure_running():
        session.progress.note(sentence)
    if not session.databases().operations.records.all_read_endpoints():
        return
    for primary, change in database_replicas(session).settle_endpoints().items():
        if change.problem is not None:
            session.progress.note(
                f"The read-only endpoint of {primary} cannot be started: {change.problem}"
            )


def stop_databases(session: Session) -> None:
    """Shut every instance down cleanly and detach every volume; `lab up` brings them back."""
    for sentence in session.databases().suspend():
        session.progress.note(sentence)
    fleet, volumes = session.fleet(), session.volumes()
    for record in volumes.all():
        # A fenced volume is attached nowhere, and yet has a dead mount where it was.
        volumes.takeovers.ensure_cleared(record.spec.name)
        if record.host is not None and fleet.is_reachable(record.host):
            volumes.ensure_detached(record.spec.name)
