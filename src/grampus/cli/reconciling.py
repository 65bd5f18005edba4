"""A state that somebody put back from a copy, corrected before a command works with it."""

from __future__ import annotations

from grampus.ceph.migrations import RbdMigrations
from grampus.cli.composition.session import Session
from grampus.cli.noting import note_records
from grampus.databases.credentials import CredentialFiles
from grampus.databases.rebuild.rebuilding import Reconciled, StateRebuild


def state_rebuild_of(session: Session) -> StateRebuild:
    """The rebuild of the session's lab."""
    cluster = session.cluster()
    return StateRebuild(
        session.store,
        session.lab_name,
        cluster,
        CredentialFiles(session.home.secrets_dir(session.lab_name), session.home.shared),
        session.runner,
        RbdMigrations(cluster, session.clock),
    )


def reconcile(session: Session) -> None:
    """Correct the state by what the images tell, and say what became of it; alone in the lab."""
    session.progress.phase("Read the metadata of the images")
    reconciled = state_rebuild_of(session).reconcile()
    session.state_watch().take_over()
    note_records(session)
    for sentence in describe_reconciled(reconciled):
        session.progress.note(sentence)


def describe_reconciled(reconciled: Reconciled) -> list[str]:
    """What was corrected, in sentences."""
    plan = reconciled.plan
    sentences = [
        "The state of Grampus was older than the cluster: a copy of the state had been "
        "restored. Grampus has corrected the state from the metadata of the images."
    ]
    if plan.changed:
        sentences.append(f"Corrected: {', '.join(plan.names(plan.changed))}.")
    gone = sorted(set(plan.names(plan.removed)) - set(plan.names(plan.changed)))
    if gone:
        sentences.append(
            f"Removed from the state, because their images do not exist: {', '.join(gone)}."
        )
    sentences += [
        f"The operation {operation.kind} on '{operation.subject}', which began at "
        f"{operation.started_at[:19].replace('T', ' ')} UTC, had not ended when the copy was "
        "taken. Grampus has closed the operation without finishing or undoing it."
        for operation in reconciled.closed
    ]
    return [*sentences, *(f"Not corrected: {sentence}" for sentence in plan.conflicts)]
