"""`grampus db backup key`: the key that backups are encrypted with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from grampus.cli.app import command, make_noun
from grampus.cli.composition.session import Session
from grampus.cli.db_backup import backup_app
from grampus.cli.kept_keys import (
    describe_place,
    export_key,
    import_key,
    key_entries,
    require_current_key,
)
from grampus.cli.options import (
    FORMAT_DEFAULT,
    LAB_DEFAULT,
    DryRunOption,
    FormatOption,
    LabOption,
    in_lab,
)
from grampus.cli.output import make_output
from grampus.databases.backup.keys import backup_keys
from grampus.state.locks import hold_lock

KEYS_LOCK = "backup-keys"
_MADE_BY = "The first backup creates one. A site has its own keys: use --site NAME."
key_app = make_noun("key", "The key that backups are encrypted with.", under=backup_app)


@command(key_app, "list", "grampus db backup key list")
def key_list(lab: LabOption = LAB_DEFAULT, output_format: FormatOption = FORMAT_DEFAULT) -> None:
    """List the keys of this home or of a site by id. The keys themselves are never shown."""
    entries = key_entries(backup_keys(Session(lab).keys_home()))
    make_output(output_format).table(
        {"keys": entries},
        ["key", "use"],
        [[entry["id"], "new backups" if entry["current"] else "restores"] for entry in entries],
        f"There is no key yet. {_MADE_BY}",
    )


@command(key_app, "export", "grampus db backup key export --to /media/safe/backup.key")
def key_export(
    to: Annotated[Path, typer.Option(metavar="FILE", help="The file to write, mode 0600.")],
    key: Annotated[
        str | None, typer.Option(metavar="ID", help="The key (default: the key of new backups).")
    ] = None,
    lab: LabOption = LAB_DEFAULT,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Write a key to a file. Keep the file apart from the backups: no backup can be restored
    without its key.
    """
    found = export_key(backup_keys(Session(lab).keys_home()), to, key, made_by=_MADE_BY)
    make_output(output_format).text(
        {"key": found.id, "file": str(to.absolute())},
        f"The key {found.id} is in {to.absolute()}. Keep the file safe, and apart from the "
        "backups.",
    )


@command(key_app, "rotate", "grampus db backup key rotate")
def key_rotate(
    lab: LabOption = LAB_DEFAULT,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Create a new key for new backups. Older backups still need the former key, which is kept.

    The next backup of each database is a full one. If the command is interrupted, run it again.
    """
    session = Session(lab)
    home = session.keys_home()
    keys = backup_keys(home)
    former = require_current_key(keys, made_by=_MADE_BY)
    plan = [
        "Create a new key, and use it for new backups",
        f"Keep the key {former.id}: older backups need it",
    ]
    with session.planning(dry_run=dry_run):
        session.runner.propose(lambda: plan)
    with hold_lock(home, KEYS_LOCK, session.clock):
        former = require_current_key(keys, made_by=_MADE_BY)
        key = keys.ensure_next()
        keys.settle_next(key.id)
    make_output(output_format).text(
        {"key": key.id, "former": former.id},
        f"New backups are encrypted with the key {key.id}. The next backup of each database "
        f"is full.\nExport the key now: `{in_lab('grampus db backup key export --to FILE', lab)}`. "
        f"Keep your copy of {former.id} while there are backups with that key (`grampus db backup "
        "list`).",
    )


@command(key_app, "import", "grampus db backup key import /media/safe/backup.key")
def key_import(
    file: Annotated[Path, typer.Argument(help="The file from `key export`.")],
    lab: LabOption = LAB_DEFAULT,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Add a key to this home or to a site, so that backups from elsewhere can be restored."""
    home = Session(lab).keys_home()
    found = import_key(backup_keys(home), file)
    make_output(output_format).text(
        {"key": found.id}, f"The key {found.id} is {describe_place(home)}."
    )
