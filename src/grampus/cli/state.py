"""`grampus state`: what Grampus itself remembers."""

from __future__ import annotations

import contextlib
from typing import Any

from grampus.ceph.migrations import RbdMigrations
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
from grampus.databases.credentials import CredentialFiles
from grampus.databases.rebuild.rebuilding import Rebuilt, StateRebuild
from grampus.databases.records import DATABASE_KIND, TRASHED_KIND
from grampus.lab.lab_file import find_lost_records, restore_lab
from grampus.state.stored import StoredRecord
from grampus.volumes.records import VOLUME_RECORD

state_app = make_noun("state", "What Grampus itself remembers, and how to have it back.", under=app)
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
    """Rebuild a lost state from what the images of the cluster say.

    Records that are there stay as they are, and nothing that runs is touched: databases serve on.
    """
    session = Session(lab, makes_lab=True, on_copy=dry_run)
    # Nobody else may make a record between the look at what there is and the writing.
    alone = contextlib.nullcontext() if dry_run else session.alone_in_lab()
    with alone, session.progress:
        lost = find_lost_records(session.home, session.store, lab)
        restore_lab(session.store, lab, lost)
        credentials = CredentialFiles(session.home.secrets_dir(lab))
        session.progress.phase("Ask the images of the cluster")
        cluster = session.cluster()
        migrations = RbdMigrations(cluster, session.clock)
        rebuild = StateRebuild(
            session.store, lab, cluster, credentials, session.journal, migrations
        )
        rebuilt = rebuild.plan()
        if not dry_run:
            rebuild.apply(rebuilt)
            note_records(session)
    document = rebuilt_document(lab, rebuilt, lost, dry_run=dry_run)
    output = make_output(output_format)
    if output_format is OutputFormat.JSON:
        output.text(document, "")
        return
    records = [*lost, *rebuilt.plan.records]
    rows = [[_SHOWN.get(one.kind, one.kind.replace("-", " ")), one.name] for one in records]
    if rows:
        output.table(document, ["what", "name"], rows, "")
    output.text(document, conclusion(lab, rebuilt, len(rows), dry_run=dry_run))


def conclusion(lab: str, rebuilt: Rebuilt, count: int, *, dry_run: bool) -> str:
    """What was done, and what is left to do."""
    plan = rebuilt.plan
    word = "would be rebuilt" if dry_run else "rebuilt"
    lines = [
        f"{count} records of the lab '{lab}' {word}; {plan.kept} were there already. "
        f"Images not of this lab: {plan.foreign}."
    ]
    lines += [f"Not rebuilt: {sentence}" for sentence in plan.conflicts]
    lines += [
        f"The passwords of '{name}' are not in this home. Its server and its users' logins go on; "
        f"`grampus db clone {name} NEW` makes a copy with new ones."
        for name in rebuilt.without_passwords
    ]
    lines += [
        f"'{name}' was being made or removed when the state was lost: `grampus db delete {name} "
        "--now` ends it."
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
