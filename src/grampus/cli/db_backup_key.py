"""`grampus db backup key`: the key that backups are encrypted with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from grampus.cli.app import command, make_noun
from grampus.cli.composition.session import Session
from grampus.cli.db_backup import backup_app
from grampus.cli.kept_keys import export_key, import_key, key_entries, require_current_key
from grampus.cli.options import FORMAT_DEFAULT, LAB_DEFAULT, DryRunOption, FormatOption
from grampus.cli.output import make_output
from grampus.databases.backup.kept import backup_keys
from grampus.state.locks import hold_lock

KEYS_LOCK = "backup-keys"
key_app = make_noun("key", "The key that backups are encrypted with.", under=backup_app)


@command(key_app, "list", "grampus db backup key list")
def key_list(output_format: FormatOption = FORMAT_DEFAULT) -> None:
    """The keys that this home has, by id; never the keys themselves."""
    entries = key_entries(backup_keys(Session(LAB_DEFAULT).home))
    make_output(output_format).table(
        {"keys": entries},
        ["key", "use"],
        [[entry["id"], "new backups" if entry["current"] else "restores"] for entry in entries],
        "There is no key yet: the first backup makes one.",
    )


@command(key_app, "export", "grampus db backup key export --to /media/safe/backup.key")
def key_export(
    to: Annotated[Path, typer.Option(metavar="FILE", help="The file to write, mode 0600.")],
    key: Annotated[
        str | None, typer.Option(metavar="ID", help="Which one (default: that of new backups).")
    ] = None,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Write a key to a file, to keep apart from the backups: without it, none can be restored."""
    keys = backup_keys(Session(LAB_DEFAULT).home)
    found = export_key(keys, to, key, made_by="The first backup makes one.")
    make_output(output_format).text(
        {"key": found.id, "file": str(to.absolute())},
        f"The key {found.id} is in {to.absolute()}. Keep it safe, and apart from the backups.",
    )


@command(key_app, "rotate", "grampus db backup key rotate")
def key_rotate(
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Make a new key for new backups; the former stays, since older backups are read with it.

    The next backup of each database is a full one. Cut off, run it again.
    """
    session = Session(LAB_DEFAULT)
    keys = backup_keys(session.home)
    former = require_current_key(keys, made_by="The first backup makes one.")
    plan = [
        "Make a new key, and use it for what is backed up from now on",
        f"Keep the key {former.id}: older backups are read with it",
    ]
    with session.planning(dry_run=dry_run):
        session.runner.propose(lambda: plan)
    with hold_lock(session.home, KEYS_LOCK, session.clock):
        former = require_current_key(keys, made_by="The first backup makes one.")
        key = keys.ensure_next()
        keys.settle_next(key.id)
    make_output(output_format).text(
        {"key": key.id, "former": former.id},
        f"New backups are encrypted with the key {key.id}; the next one of each database is full.\n"
        f"Export it now: `grampus db backup key export --to FILE`. Keep your copy of {former.id} "
        "for as long as there are backups that it encrypts (`grampus db backup list`).",
    )


@command(key_app, "import", "grampus db backup key import /media/safe/backup.key")
def key_import(
    file: Annotated[Path, typer.Argument(help="What `key export` wrote.")],
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Keep a key here, so that what was encrypted with it elsewhere can be restored."""
    found = import_key(backup_keys(Session(LAB_DEFAULT).home), file)
    make_output(output_format).text({"key": found.id}, f"The key {found.id} is here.")
