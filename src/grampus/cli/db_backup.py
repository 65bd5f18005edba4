"""`grampus db backup`: backups of databases, kept outside the cluster."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from grampus.cli.app import command, confirm, make_noun
from grampus.cli.composition import Session
from grampus.cli.db import db_app
from grampus.cli.options import (
    FORMAT_DEFAULT,
    LAB_DEFAULT,
    DryRunOption,
    FormatOption,
    LabOption,
    YesOption,
)
from grampus.cli.output import make_output, show_plan
from grampus.cli.work import work_on_databases
from grampus.core.errors import GrampusError, RefusedError, UsageError
from grampus.core.units import format_bytes, parse_bytes
from grampus.databases.backup.catalogue import Contents
from grampus.databases.backup.kept import KeptBackups, backup_keys
from grampus.databases.backup.keys import parse_key, render_key
from grampus.databases.backup.model import BackupKind, BackupManifest
from grampus.databases.backup.restores import RestoreRequest
from grampus.databases.view import render_client_command
from grampus.state.home import write_atomically

backup_app = make_noun("backup", "Backups of databases: full and incremental, encrypted.")
key_app = make_noun("key", "The key that backups are encrypted with.")
backup_app.add_typer(key_app)

NameArgument = Annotated[str, typer.Argument(help="The database's name.")]
BackupArgument = Annotated[
    str, typer.Argument(metavar="BACKUP", help="The backup, such as shop/20261122t013005z.")
]
FromOption = Annotated[
    Path, typer.Option("--from", metavar="DIR", help="The directory that holds the backups.")
]
ToOption = Annotated[
    Path,
    typer.Option(metavar="DIR", help="The directory to keep it in; made when its parent is there."),
]
_DAMAGED = 1


@command(backup_app, "create", "grampus db backup create shop --to /srv/backups --keep 14")
def backup_create(
    name: NameArgument,
    to: ToOption,
    full: Annotated[bool, typer.Option("--full", metavar="", help="All of it.")] = False,
    incremental: Annotated[
        bool,
        typer.Option("--incremental", metavar="", help="Only what is new since the last one."),
    ] = False,
    keep: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Delete older backups of it afterwards, but the newest N and what they need.",
        ),
    ] = None,
    lab: LabOption = LAB_DEFAULT,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Take a backup while the database goes on: incremental where that works, else full."""
    wanted = _wanted(full=full, incremental=incremental)
    directory = to.absolute()
    with work_on_databases(lab) as (session, _):
        backups = session.database_backups()
        if dry_run:
            plan = backups.plan_create(name, directory, wanted=wanted)
            show_plan(output_format, backups.describe(plan))
            return
        taken = backups.create(name, directory, wanted=wanted, keep=keep)
    manifest = taken.manifest
    make_output(output_format).details(
        {**backup_document(manifest), "why": taken.why, "deleted": list(taken.deleted)},
        {
            **_pairs_of(manifest),
            "why": taken.why,
            "directory": str(directory),
            **({"deleted": ", ".join(taken.deleted)} if taken.deleted else {}),
            "key": f"{manifest.key_id} (keep a copy elsewhere: `grampus db backup key export`)",
        },
    )


@command(backup_app, "list", "grampus db backup list shop --from /srv/backups")
def backup_list(
    from_: FromOption,
    name: Annotated[
        str | None, typer.Argument(help="Of one database only; it need not exist any more.")
    ] = None,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """The backups in a directory, oldest first; needs neither the key nor a lab."""
    contents = _kept(from_).observe(name)
    ordered = sorted(contents.backups.values(), key=lambda backup: (backup.taken_at, backup.id))
    make_output(output_format).table(
        contents_document(contents, ordered),
        ["backup", "kind", "taken", "data", "stored", "stands on", "key"],
        [
            [
                backup.id,
                backup.kind,
                f"{backup.taken_at:%Y-%m-%d %H:%M:%S}",
                format_bytes(backup.data.plain_bytes),
                format_bytes(backup.data.stored_bytes),
                backup.base.id if backup.base is not None else "",
                backup.key_id,
            ]
            for backup in ordered
        ]
        + [[found, "incomplete", "", "", "", "", ""] for found in contents.incomplete]
        + [[found, "unreadable", "", "", "", "", ""] for found in sorted(contents.unreadable)],
        "There is no backup" + (f" of '{name}'" if name else "") + f" in {from_}.",
    )


@command(backup_app, "verify", "grampus db backup verify --from /srv/backups")
def backup_verify(
    from_: FromOption,
    name: Annotated[str | None, typer.Argument(help="Of one database only.")] = None,
    backup: Annotated[
        str | None, typer.Option(metavar="BACKUP", help="One backup, and no other.")
    ] = None,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Read backups to their ends: decrypt, check each chunk, and whether chains are whole."""
    session = Session(LAB_DEFAULT)
    with session.progress:
        verdicts = _kept(from_).verify(database=name, backup_id=backup, tell=session.progress.phase)
    make_output(output_format).table(
        {"backups": [{"id": v.backup_id, "problem": v.problem} for v in verdicts]},
        ["backup", "result"],
        [[v.backup_id, v.problem or "whole"] for v in verdicts],
        f"There is no backup in {from_}.",
    )
    if any(verdict.problem is not None for verdict in verdicts):
        raise typer.Exit(_DAMAGED)


@command(backup_app, "delete", "grampus db backup delete shop/20261122t013005z --from /srv/backups")
def backup_delete(
    backup: BackupArgument,
    from_: FromOption,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Delete a backup, or what is left of one; refused while increments stand on it."""
    kept = _kept(from_)
    kept.plan_delete(backup)
    if dry_run:
        show_plan(output_format, [f"Delete {backup} in {kept.target.place}"])
        return
    confirm(f"Delete the backup {backup}?", yes=yes)
    kept.delete(backup)
    make_output(output_format).text({"deleted": backup}, f"The backup {backup} is deleted.")


@command(db_app, "restore", "grampus db restore shop-again --from /srv/backups --latest --of shop")
def db_restore(
    name: Annotated[str, typer.Argument(help="The name of the new database.")],
    from_: FromOption,
    backup: Annotated[
        str | None, typer.Option(metavar="BACKUP", help="The backup to restore.")
    ] = None,
    latest: Annotated[
        bool, typer.Option("--latest", metavar="", help="The newest one there is.")
    ] = False,
    time: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="The rows as of that moment, from archived binary logs (UTC, such as "
            "2026-11-22T01:30:00).",
        ),
    ] = None,
    of: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="With --latest or --time: of which database, if of several."
        ),
    ] = None,
    memory: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Memory limit (default: as it had).")
    ] = None,
    cpus: Annotated[
        float | None, typer.Option(metavar="NUMBER", help="CPU limit (default: as it had).")
    ] = None,
    host: Annotated[
        str | None,
        typer.Option(metavar="HOST", help="The host to run on (default: the least busy)."),
    ] = None,
    lab: LabOption = LAB_DEFAULT,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Make a new database from a backup; nothing that is there is ever overwritten."""
    if [backup is not None, latest, time is not None].count(True) != 1:
        raise UsageError(
            "Say what to restore, in one way.",
            "Give --backup BACKUP, --latest or --time TIME; `grampus db backup list` shows what "
            "there is.",
        )
    if of is not None and backup is not None:
        raise UsageError(
            "--of goes with --latest or --time.", "Leave it out: --backup says it all."
        )
    moment = None if time is None else parse_moment(time)
    request = RestoreRequest(
        name=name,
        directory=from_.absolute(),
        backup_id=backup,
        source=of,
        moment=moment,
        memory_bytes=None if memory is None else parse_bytes(memory, what="memory size"),
        cpus=cpus,
        host=host,
    )
    with work_on_databases(lab) as (session, databases):
        restores = session.database_restores()
        if dry_run:
            show_plan(output_format, restores.describe(restores.plan_restore(request)))
            return
        restored = restores.restore(request)
        endpoint = databases.endpoint(name)
        option_file = databases.option_file(name)
    record, manifest = restored.record, restored.manifest
    make_output(output_format).details(
        {
            "name": name,
            "backup": backup_document(manifest),
            "address": endpoint.address,
            "port": endpoint.port,
            "user": endpoint.user,
            "option_file": str(option_file),
        },
        {
            "database": name,
            "server": f"{record.spec.flavour} {record.server_version}",
            "address": f"{endpoint.address}:{endpoint.port}",
            "restored": f"{manifest.id}, as of {moment or manifest.taken_at:%Y-%m-%d %H:%M:%S} UTC",
            "user": f"{endpoint.user} (as it was; its password is new)",
            "client": render_client_command(record.spec.flavour, str(option_file)),
            "or": f"grampus db connect {name}",
        },
    )


@command(backup_app, "archive", "grampus db backup archive shop --to /srv/backups")
def backup_archive(
    name: NameArgument,
    to: ToOption,
    new_stretch: Annotated[
        bool,
        typer.Option(
            "--new-stretch", metavar="", help="Go on after a gap; take a new backup as well."
        ),
    ] = False,
    lab: LabOption = LAB_DEFAULT,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Copy the binary logs that are not archived yet, for `db restore --time`.

    One call copies all that there is now: let a timer call it, every few seconds if you like. A
    gap is an error and is never skipped.
    """
    with work_on_databases(lab) as (session, _):
        archived = session.binlog_archiver().archive(name, to.absolute(), new_stretch=new_stretch)
    make_output(output_format).details(
        {
            "database": name,
            "stretch": archived.stretch,
            "copied_bytes": archived.copied_bytes,
            "until": archived.until.isoformat(),
        },
        {
            "copied": format_bytes(archived.copied_bytes),
            "restorable until": f"{archived.until:%Y-%m-%d %H:%M:%S} UTC",
        },
    )


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


def parse_moment(text: str) -> datetime:
    """A moment in UTC, unless it names another zone. Raises UsageError."""
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        raise UsageError(
            f"{text!r} is no moment.", "Write it as 2026-11-22T01:30:00, in UTC.", code="no-moment"
        ) from None
    return (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).astimezone(UTC)


def backup_document(backup: BackupManifest) -> dict[str, Any]:
    """The stable JSON form of a backup."""
    return {
        "id": backup.id,
        "kind": backup.kind,
        "database": backup.database.model_dump(mode="json"),
        "taken_at": backup.taken_at.isoformat(),
        "finished_at": backup.finished_at.isoformat(),
        "base": backup.base.id if backup.base is not None else None,
        "plain_bytes": backup.data.plain_bytes,
        "stored_bytes": backup.data.stored_bytes,
        "stored_sha256": backup.data.stored_sha256,
        "gtid_executed": backup.gtid_executed,
        "key": backup.key_id,
    }


def contents_document(contents: Contents, ordered: list[BackupManifest]) -> dict[str, Any]:
    """The stable JSON form of what a directory holds."""
    return {
        "backups": [backup_document(backup) for backup in ordered],
        "incomplete": list(contents.incomplete),
        "unreadable": contents.unreadable,
    }


def _pairs_of(backup: BackupManifest) -> Mapping[str, str]:
    return {
        "backup": backup.id,
        "kind": backup.kind,
        "taken": f"{backup.taken_at:%Y-%m-%d %H:%M:%S} UTC",
        "data": format_bytes(backup.data.plain_bytes),
        "stored": f"{format_bytes(backup.data.stored_bytes)}, compressed and encrypted",
    }


def _wanted(*, full: bool, incremental: bool) -> BackupKind | None:
    if full and incremental:
        raise UsageError(
            "A backup is either full or incremental.", "Choose one of the two, or neither."
        )
    if full:
        return "full"
    return "incremental" if incremental else None


def _kept(directory: Path) -> KeptBackups:
    session = Session(LAB_DEFAULT)
    return KeptBackups(session.home, session.clock, directory.absolute())
