"""`grampus db backup key`: the key that backups are encrypted with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from grampus.cli.app import command, make_noun
from grampus.cli.composition import Session
from grampus.cli.options import FORMAT_DEFAULT, LAB_DEFAULT, FormatOption
from grampus.cli.output import make_output
from grampus.core.errors import GrampusError, RefusedError, UsageError
from grampus.databases.backup.kept import backup_keys
from grampus.databases.backup.keys import parse_key, render_key
from grampus.state.home import write_atomically

key_app = make_noun("key", "The key that backups are encrypted with.")


@command(key_app, "list", "grampus db backup key list")
def key_list(output_format: FormatOption = FORMAT_DEFAULT) -> None:
    """The keys that this home has, by id; never the keys themselves."""
    keys = backup_keys(Session(LAB_DEFAULT).home)
    current = keys.find_current()
    current_id = current.id if current is not None else None
    ids = keys.ids()
    make_output(output_format).table(
        {"keys": [{"id": key_id, "current": key_id == current_id} for key_id in ids]},
        ["key", "use"],
        [[key_id, "new backups" if key_id == current_id else "restores"] for key_id in ids],
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
    found = keys.get(key) if key is not None else keys.find_current()
    if found is None:
        raise GrampusError(
            "There is no backup key yet.", "The first backup makes one.", code="no-backup-key"
        )
    if to.exists():
        raise RefusedError(f"There is a file {to} already.", "Name a new one.", code="file-exists")
    if not to.absolute().parent.is_dir():
        raise UsageError(f"There is no directory {to.absolute().parent}.", "Make it first.")
    write_atomically(to.absolute(), render_key(found).encode("ascii"), mode=0o600)
    make_output(output_format).text(
        {"key": found.id, "file": str(to.absolute())},
        f"The key {found.id} is in {to.absolute()}. Keep it safe, and apart from the backups.",
    )


@command(key_app, "import", "grampus db backup key import /media/safe/backup.key")
def key_import(
    file: Annotated[Path, typer.Argument(help="What `key export` wrote.")],
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Keep a key here, so that what was encrypted with it elsewhere can be restored."""
    found = parse_key(file.read_text(encoding="utf-8", errors="replace"))
    backup_keys(Session(LAB_DEFAULT).home).add(found)
    make_output(output_format).text({"key": found.id}, f"The key {found.id} is here.")
