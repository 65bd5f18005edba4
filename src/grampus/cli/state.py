"""`grampus state`: what Grampus itself remembers."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Annotated, Any

import typer

from grampus.cli.app import command, make_noun
from grampus.cli.composition.session import Session
from grampus.cli.noting import note_records
from grampus.cli.nouns import app
from grampus.cli.options import (
    FORMAT_DEFAULT,
    LAB_DEFAULT,
    DryRunOption,
    FormatOption,
    LabOption,
)
from grampus.cli.output import OutputFormat, make_output
from grampus.cli.reconciling import describe_reconciled, state_rebuild_of
from grampus.cli.work import is_older
from grampus.core.errors import NotFoundError
from grampus.databases.rebuild.rebuilding import Rebuilt
from grampus.databases.records import DATABASE_KIND, TRASHED_KIND
from grampus.lab.lab_file import find_lost_records, restore_lab
from grampus.state.backup import back_up_state
from grampus.state.home import Home
from grampus.state.store import Store
from grampus.state.stored import StoredRecord
from grampus.volumes.records import VOLUME_RECORD

state_app = make_noun("state", "The state of Grampus: rebuild it, and copy it.", under=app)
# What else GRAMPUS_HOME holds of databases.
_NOT_COPIED = ("secrets", "labs", "runs")
_SHOWN = {
    VOLUME_RECORD: "volume",
    DATABASE_KIND: "database",
    TRASHED_KIND: "database in the trash",
}


@command(state_app, "rebuild", "grampus state rebuild --dry-run")
def state_rebuild(
    lab: LabOption = LAB_DEFAULT,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Rebuild a lost state from the metadata of the cluster's images.

    Existing records stay unchanged, and running databases keep running.
    """
    session = Session(lab, makes_lab=True, on_copy=dry_run)
    # Nobody else may make a record between the look at what there is and the writing.
    alone = contextlib.nullcontext() if dry_run else session.alone_in_lab()
    with alone, session.progress:
        # A site that was lost, too, is adopted again before this.
        lost = [] if session.find_site() else find_lost_records(session.home, session.store, lab)
        restore_lab(session.store, lab, lost)
        if not dry_run:
            # Fence before takeover: what is read from here on, nobody else changes.
            session.take_over("its state was rebuilt")
        session.progress.phase("Read the metadata of the images")
        rebuild = state_rebuild_of(session)
        rebuilt = rebuild.plan()
        if not dry_run:
            rebuild.apply(rebuilt)
            if is_older(session):
                # A new state is older too: it does not know what was noted of the lost one.
                reconciled = rebuild.reconcile()
                session.state_watch().take_over()
                if not reconciled.is_nothing:
                    for sentence in describe_reconciled(reconciled):
                        session.progress.note(sentence)
            note_records(session)
    place = f"{'lab' if session.find_site() is None else 'site'} '{lab}'"
    document = rebuilt_document(lab, rebuilt, lost, dry_run=dry_run)
    output = make_output(output_format)
    if output_format is OutputFormat.JSON:
        output.text(document, "")
        return
    records = [*lost, *rebuilt.plan.records]
    rows = [[_SHOWN.get(one.kind, one.kind.replace("-", " ")), one.name] for one in records]
    if rows:
        output.table(document, ["what", "name"], rows, "")
    output.text(document, conclusion(place, rebuilt, len(rows), dry_run=dry_run))


@command(state_app, "backup", "grampus state backup /mnt/safe/grampus-state.db")
def state_backup(
    file: Annotated[Path, typer.Argument(help="The file for the copy. It must not exist.")],
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Copy the state of all labs to a file. The copy can be restored safely later.

    Other commands can run meanwhile. The copy has records, operations and warnings. It has no
    passwords and no keys: those are files in GRAMPUS_HOME/secrets.
    """
    home, target = Home.from_environment(), file.absolute()
    if not home.store_file.exists():
        raise NotFoundError(
            f"{home.root} has no state to copy.",
            "Set GRAMPUS_HOME to the directory with the state.",
        )
    store = Store(home.store_file)
    try:
        closed = back_up_state(store, target)
    finally:
        store.close()
    document = {
        "file": str(target),
        "closed_operations": closed,
        "not_included": [str(home.root / name) for name in _NOT_COPIED],
    }
    text = (
        f"The state is copied to {target}, without passwords and keys. Copy "
        f"{home.root}/secrets, too, to a place that nobody else can read."
    )
    if closed:
        text += f" Operations that had not ended are closed in the copy: {closed}."
    make_output(output_format).text(document, text)


def conclusion(place: str, rebuilt: Rebuilt, count: int, *, dry_run: bool) -> str:
    """What was done at a place (such as `lab 'default'`), and what is left to do."""
    plan = rebuilt.plan
    word = "would be rebuilt" if dry_run else "rebuilt"
    lines = [
        f"{count} records of the {place} {word}; {plan.kept} already existed. Images of "
        f"other labs: {plan.foreign}."
    ]
    lines += [f"Not rebuilt: {sentence}" for sentence in plan.conflicts]
    lines += [
        f"The passwords of '{name}' are not in this home. Its server and the logins of its "
        f"users still work. `grampus db clone {name} NEW` makes a copy with new passwords."
        for name in rebuilt.without_passwords
    ]
    lines += [
        f"'{name}' was being created or removed when the state was lost. `grampus db delete "
        f"{name} --now` removes it."
        for name in rebuilt.unfinished
    ]
    return "\n".join(lines)


def rebuilt_document(
    lab: str, rebuilt: Rebuilt, lost: list[StoredRecord], *, dry_run: bool
) -> dict[str, Any]:
    """The JSON document of a rebuild."""
    return {
        "lab": lab,
        "dry_run": dry_run,
        "records": [
            {"kind": record.kind, "name": record.name} for record in [*lost, *rebuilt.plan.records]
        ],
        "kept": rebuilt.plan.kept,
        "foreign_images": rebuilt.plan.foreign,
        "conflicts": rebuilt.plan.conflicts,
        "without_passwords": rebuilt.without_passwords,
        "unfinished": rebuilt.unfinished,
    }
