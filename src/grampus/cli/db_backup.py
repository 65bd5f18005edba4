"""`grampus db backup`: backups of databases, kept outside the cluster."""

from __future__ import annotations

from typing import Annotated

import typer

from grampus.cli.app import command, make_noun
from grampus.cli.backup_documents import (
    CredentialsOption,
    EndpointOption,
    FromOption,
    NameArgument,
    ObjectLockOption,
    ToOption,
    backup_document,
    backup_pairs,
    contents_document,
    describe_owner,
    describe_test,
    place_of,
)
from grampus.cli.binlog_documents import keep_binlogs
from grampus.cli.composition.backups import backup_states, binlog_archiver, database_backups
from grampus.cli.composition.session import Session
from grampus.cli.db import db_app
from grampus.cli.options import (
    FORMAT_DEFAULT,
    LAB_DEFAULT,
    DryRunOption,
    FormatOption,
    LabOption,
    YesOption,
    in_lab,
)
from grampus.cli.output import make_output
from grampus.cli.work import work_on_databases
from grampus.core.clock import format_moment
from grampus.core.errors import UsageError
from grampus.core.units import format_bytes
from grampus.databases.backup.kept import KeptBackups
from grampus.databases.backup.model import BackupKind
from grampus.databases.backup.owners import shared_names
from grampus.databases.backup.places import TargetPlace

backup_app = make_noun(
    "backup",
    "Backups of databases: full and incremental, encrypted.",
    under=db_app,
    modules={
        "create": "grampus.cli.db_backup",
        "list": "grampus.cli.db_backup",
        "verify": "grampus.cli.db_backup",
        "delete": "grampus.cli.db_backup",
        "archive": "grampus.cli.db_backup",
        "schedule": "grampus.cli.db_backup_schedule",
        "due": "grampus.cli.db_backup_schedule",
        "test": "grampus.cli.db_backup_test",
        "key": "grampus.cli.db_backup_key",
    },
)

BackupArgument = Annotated[str, typer.Argument(help="The backup, such as shop/20261122t013005z.")]
_DAMAGED = 1


@command(
    backup_app, "create", "grampus db backup create shop --to /srv/backups --keep 14", is_long=True
)
def backup_create(
    name: NameArgument,
    to: ToOption,
    endpoint: EndpointOption = None,
    credentials: CredentialsOption = None,
    full: Annotated[bool, typer.Option("--full", metavar="", help="Read all data.")] = False,
    incremental: Annotated[
        bool,
        typer.Option(
            "--incremental",
            metavar="",
            help="Read only the data that changed since the last backup.",
        ),
    ] = False,
    keep: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Delete older backups of the database afterwards. Keep the newest N and "
            "their bases.",
        ),
    ] = None,
    object_lock: ObjectLockOption = None,
    lab: LabOption = LAB_DEFAULT,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Take a backup while the database runs: incremental if possible, otherwise full."""
    wanted = _wanted(full=full, incremental=incremental)
    place = place_of(to, endpoint, credentials)
    with work_on_databases(lab, dry_run=dry_run) as (session, _):
        taken = database_backups(session).create(
            *(name, place), wanted=wanted, keep=keep, lock_days=object_lock, begins_again=full
        )
    manifest = taken.manifest
    make_output(output_format).details(
        {**backup_document(manifest), "why": taken.why, "deleted": list(taken.deleted)},
        {
            **backup_pairs(manifest),
            "why": taken.why,
            place.word: place.url,
            **({"deleted": ", ".join(taken.deleted)} if taken.deleted else {}),
            "key": f"{manifest.key_id} (keep a copy elsewhere: "
            f"`{in_lab('grampus db backup key export', lab)}`)",
        },
    )


@command(backup_app, "list", "grampus db backup list shop --from /srv/backups")
def backup_list(
    from_: FromOption,
    endpoint: EndpointOption = None,
    credentials: CredentialsOption = None,
    name: Annotated[
        str | None, typer.Argument(help="The database. It need not exist any more.")
    ] = None,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """List the backups in a directory, oldest first. The command needs no key and no lab."""
    place = place_of(from_, endpoint, credentials)
    contents = _kept(Session(LAB_DEFAULT), place).observe(name)
    ordered = sorted(contents.backups.values(), key=lambda backup: (backup.taken_at, backup.id))
    owners = shared_names(ordered)
    # Only where it matters: most places have one database under each name.
    whose = ["database"] if owners else []
    make_output(output_format).table(
        contents_document(contents, ordered),
        ["backup", "kind", "taken", "data", "stored", "base", "key", "tested", *whose],
        [
            [
                backup.id,
                backup.kind,
                format_moment(backup.taken_at),
                format_bytes(backup.data.plain_bytes),
                format_bytes(backup.data.stored_bytes),
                backup.base.id if backup.base is not None else "",
                backup.key_id,
                describe_test(contents.tests.get(backup.id)),
                *([describe_owner(owners.get(backup.id))] if whose else []),
            ]
            for backup in ordered
        ]
        + [[found, "incomplete", *[""] * (6 + len(whose))] for found in contents.incomplete]
        + [
            [found, "unreadable", *[""] * (6 + len(whose))] for found in sorted(contents.unreadable)
        ],
        "There is no backup" + (f" of '{name}'" if name else "") + f" in {from_}.",
    )


@command(backup_app, "verify", "grampus db backup verify --from /srv/backups")
def backup_verify(
    from_: FromOption,
    endpoint: EndpointOption = None,
    credentials: CredentialsOption = None,
    name: Annotated[str | None, typer.Argument(help="The database.")] = None,
    backup: Annotated[
        str | None, typer.Option(metavar="BACKUP", help="Read only this backup.")
    ] = None,
    lab: LabOption = LAB_DEFAULT,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Read backups completely: decrypt them, check each chunk, and check that each chain is
    complete.
    """
    session = Session(lab)
    with session.progress:
        kept = _kept(session, place_of(from_, endpoint, credentials))
        verdicts = kept.verify(database=name, backup_id=backup, tell=session.progress.phase)
    make_output(output_format).table(
        {
            "backups": [
                {"id": v.backup_id, "problem": v.problem, "known": v.is_known} for v in verdicts
            ]
        },
        ["backup", "result"],
        [[v.backup_id, v.words] for v in verdicts],
        f"There is no backup in {from_}.",
    )
    if any(verdict.problem is not None for verdict in verdicts):
        raise typer.Exit(_DAMAGED)


@command(backup_app, "delete", "grampus db backup delete shop/20261122t013005z --from /srv/backups")
def backup_delete(
    backup: BackupArgument,
    from_: FromOption,
    endpoint: EndpointOption = None,
    credentials: CredentialsOption = None,
    yes: YesOption = False,
    lab: LabOption = LAB_DEFAULT,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Delete a backup, also an incomplete one. Grampus refuses while increments depend on it.

    The command also updates what `db show` reports as restorable for the database in the lab.
    """
    place = place_of(from_, endpoint, credentials)
    session = Session(lab)
    kept = _kept(session, place)
    kept.plan_delete(backup)
    with session.planning(dry_run=dry_run):
        session.confirm(f"Delete the backup {backup}?", yes=yes)
        session.runner.propose(lambda: [f"Delete {backup} in {kept.target.place}"])
        kept.delete(backup)
    states, database = backup_states(session), backup.partition("/")[0]
    if states.find(database, place) is not None:
        states.refresh(database, place)
    make_output(output_format).text({"deleted": backup}, f"The backup {backup} is deleted.")


@command(backup_app, "archive", "grampus db backup archive shop --to /srv/backups")
def backup_archive(
    name: NameArgument,
    to: ToOption,
    endpoint: EndpointOption = None,
    credentials: CredentialsOption = None,
    new_stretch: Annotated[
        bool,
        typer.Option(
            "--new-stretch", metavar="", help="Continue after a gap. Take a new backup, too."
        ),
    ] = False,
    lab: LabOption = LAB_DEFAULT,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Copy the binary logs that are not archived yet, for `db restore --time`.

    One call copies all logs that exist now. Call the command from a timer, every few seconds if you
    like. A gap is an error. Grampus never skips a gap.
    """
    place = place_of(to, endpoint, credentials)
    with work_on_databases(lab) as (session, _):
        archived = binlog_archiver(session).archive(name, place, new_stretch=new_stretch)
        if archived.problem is not None:
            session.progress.note(f"{archived.problem.problem} {archived.problem.remedy}")
        keep_binlogs(session, [name])
    restorable = archived.restorable_until
    make_output(output_format).details(
        {
            "database": name,
            "stretch": archived.stretch,
            "copied_bytes": archived.copied_bytes,
            "until": archived.until.isoformat(),
            "restorable_until": restorable.isoformat() if restorable else None,
            "problem": archived.problem.problem if archived.problem else None,
        },
        {
            "copied": format_bytes(archived.copied_bytes),
            "archived until": format_moment(archived.until),
            "restorable until": format_moment(restorable)
            if restorable
            else "there is no backup yet",
            **({"problem": archived.problem.problem} if archived.problem else {}),
        },
    )


def _wanted(*, full: bool, incremental: bool) -> BackupKind | None:
    if full and incremental:
        raise UsageError(
            "--full and --incremental exclude each other.", "Use one of them, or neither."
        )
    if full:
        return "full"
    return "incremental" if incremental else None


def _kept(session: Session, place: TargetPlace) -> KeptBackups:
    return KeptBackups(session.keys_home(), session.clock, place)
