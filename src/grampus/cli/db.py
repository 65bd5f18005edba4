"""`grampus db`: databases."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from grampus.cli.app import command, make_noun
from grampus.cli.login_documents import ShowPasswordOption, details_of_login, login_document
from grampus.cli.nouns import app
from grampus.cli.options import (
    FORMAT_DEFAULT,
    LAB_DEFAULT,
    BinlogRetentionOption,
    DryRunOption,
    EncryptOption,
    FailoverModeOption,
    FormatOption,
    JournalMemoryOption,
    JournalPoolOption,
    LabOption,
    MaintenanceWindowOption,
    MaxLagOption,
    RecoveryGoalOption,
    WritePathOption,
    in_lab,
)
from grampus.cli.output import make_output
from grampus.cli.work import work_on_databases
from grampus.core.units import format_bytes, parse_bytes
from grampus.databases.binlog_keeping.decide_purge import LOGS_HELD
from grampus.databases.binlog_keeping.expiry import parse_retention_s
from grampus.databases.model import DatabaseRecord, DatabaseSpec
from grampus.databases.names.decide_labels import has_labels, parse_selectors
from grampus.databases.request import (
    CreateRequest,
    parse_failover_mode,
    parse_maintenance_window,
    parse_recovery_goal_s,
    require_request,
)
from grampus.databases.server_end import ServerEnd, explain_end
from grampus.databases.view import CreatedDatabase, DatabaseView, explain_lost_hosts
from grampus.state.warnings import WarningHistory
from grampus.volumes.write_paths import (
    describe_safety,
    describe_written,
    journal_memory_of,
    journal_pool_of,
    parse_write_options,
)

db_app = make_noun(
    "db",
    "MySQL and MariaDB databases on Ceph volumes.",
    under=app,
    panels={
        "Create and connect": {
            "create": "grampus.cli.db",
            "list": "grampus.cli.db",
            "show": "grampus.cli.db_show",
            "connect": "grampus.cli.db_connect",
        },
        "Daily work": {
            "start": "grampus.cli.db",
            "stop": "grampus.cli.db",
            "restart": "grampus.cli.db_resources",
            "set": "grampus.cli.db_resources",
            "parameter": "grampus.cli.db_resources",
            "resize": "grampus.cli.db_growth",
            "growth": "grampus.cli.db_growth",
            "trim": "grampus.cli.volume_trim",
            "time-zones": "grampus.cli.db_time_zones",
        },
        "Protect the data": {
            "snapshot": "grampus.cli.db_snapshot",
            "backup": "grampus.cli.db_backup",
            "restore": "grampus.cli.db_restore",
            "verify": "grampus.cli.db_verify",
            "protect": "grampus.cli.db",
            "unprotect": "grampus.cli.db",
        },
        "Move and scale": {
            "clone": "grampus.cli.db_clone",
            "flatten": "grampus.cli.db_clone",
            "replica": "grampus.cli.db_replica",
            "move": "grampus.cli.db_move",
            "switchover": "grampus.cli.db_move",
            "migrate": "grampus.cli.db_migrate",
            "upgrade": "grampus.cli.db_upgrade",
            "failover": "grampus.cli.db_failover",
        },
        "Users and certificates": {
            "user": "grampus.cli.db_user",
            "role": "grampus.cli.db_role",
            "rotate": "grampus.cli.db_events",
            "certificate": "grampus.cli.db_certificate",
        },
        "Names, history and trash": {
            "rename": "grampus.cli.db_events",
            "label": "grampus.cli.db_events",
            "events": "grampus.cli.db_events",
            "delete": "grampus.cli.db_trash",
            "undelete": "grampus.cli.db_trash",
            "trash": "grampus.cli.db_trash",
        },
    },
)
NameArgument = Annotated[str, typer.Argument(help="The database's name.")]


@command(db_app, "create", "grampus db create shop --size 10G --memory 512M --cpus 1", is_long=True)
def db_create(
    name: NameArgument,
    size: Annotated[str, typer.Option(metavar="SIZE", help="Size of the volume, such as 10G.")],
    memory: Annotated[
        str, typer.Option(metavar="SIZE", help="Memory limit of the instance.")
    ] = "512M",
    cpus: Annotated[
        float, typer.Option(metavar="NUMBER", help="CPU limit of the instance, such as 0.5.")
    ] = 1.0,
    flavour: Annotated[
        str, typer.Option(metavar="FLAVOUR", help="The server: mysql or mariadb.")
    ] = "mysql",
    version: Annotated[
        str | None,
        typer.Option(
            metavar="VERSION",
            help="The version of the server, such as 11.8 (default: the newest available one).",
        ),
    ] = None,
    host: Annotated[
        str | None,
        typer.Option(metavar="HOST", help="The host to run on (default: the least busy one)."),
    ] = None,
    pool: Annotated[
        str | None,
        typer.Option(
            metavar="POOL", help="The pool for the volume (default: that of the lab or the site)."
        ),
    ] = None,
    protect: Annotated[
        bool,
        typer.Option(
            "--protect", metavar="", help="Refuse to delete the database until `db unprotect`."
        ),
    ] = False,
    flatten: Annotated[
        bool,
        typer.Option(
            "--flatten",
            metavar="",
            help="Make the volume independent of the golden volume: `grampus serve` or `db "
            "flatten` copies the shared data later (default: the data stays shared).",
        ),
    ] = False,
    write_path: WritePathOption = None,
    max_lag: MaxLagOption = None,
    journal_memory: JournalMemoryOption = None,
    journal_pool: JournalPoolOption = None,
    encrypt: EncryptOption = False,
    binlog_retention: BinlogRetentionOption = None,
    recovery_goal: RecoveryGoalOption = None,
    failover: FailoverModeOption = None,
    maintenance_window: MaintenanceWindowOption = None,
    show_password: ShowPasswordOption = False,
    lab: LabOption = LAB_DEFAULT,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Create a database: a volume, an instance with its own address and limits, and a user."""
    path, bounds = parse_write_options(write_path, max_lag, journal_memory, journal_pool)
    window = parse_maintenance_window(maintenance_window or "none")
    request = CreateRequest(
        name=name,
        size_bytes=parse_bytes(size),
        memory_bytes=parse_bytes(memory, what="memory size"),
        cpus=cpus,
        flavour=flavour,
        host=host,
        pool=pool,
        protect=protect,
        write_path=path,
        version=version,
        encrypt=encrypt,
        binlog_retention_s=None
        if binlog_retention is None
        else parse_retention_s(binlog_retention),
        recovery_goal_s=parse_recovery_goal_s(recovery_goal or "none"),
        failover="automatic" if failover is None else parse_failover_mode(failover),
        maintenance_window=None if window is None else str(window),
        **bounds,
    )
    require_request(request)
    with work_on_databases(lab, dry_run=dry_run) as (_, databases):
        spec = databases.plan_create(request)
        created = databases.create(spec, flatten=flatten)
        view = databases.show(name)
    document = {
        **database_document(view),
        **connection_document(created, show_password=show_password),
    }
    document["flatten_due"] = view.record.flatten_due
    make_output(output_format).details(
        document,
        {
            "database": name,
            "server": f"{spec.flavour} {created.record.server_version}",
            "address": f"{created.endpoint.address}:{created.endpoint.port}",
            **details_of_login(
                created.endpoint, created.client_command, show_password=show_password
            ),
            "or": in_lab(f"grampus db connect {name}", lab),
            "write path": (describe_safety if path == "cache" else describe_written)(spec),
            **({"encryption": spec.encryption} if spec.encryption else {}),
            **details_of_due_flatten(view.record),
        },
    )


@command(db_app, "list", "grampus db list")
def db_list(
    label: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="Show only databases with this label. Repeatable."),
    ] = None,
    lab: LabOption = LAB_DEFAULT,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """List all databases, or those with certain labels."""
    wanted = parse_selectors(label or [])
    with work_on_databases(lab) as (session, databases):
        views = [v for v in databases.list() if has_labels(v.record.spec.labels, wanted)]
        warnings = WarningHistory(session.store, session.lab_name, session.clock)
        held = warnings.lasting_of_kind(LOGS_HELD)
    shown = {view.record.spec.name for view in views}
    crowded = [one.warned.text for one in held if one.warned.subject in shown]
    for sentence in [*explain_lost_hosts(views), *crowded]:
        session.progress.note(sentence)
    make_output(output_format).table(
        {"databases": [database_document(view) for view in views]},
        ["name", "status", "server", "size", "memory", "cpus", "host", "address"],
        [
            [
                view.record.spec.name,
                view.status,
                f"{view.record.spec.flavour} {view.record.server_version}".strip(),
                format_bytes(view.record.spec.size_bytes),
                format_bytes(view.record.spec.memory_bytes),
                f"{view.record.spec.cpus:g}",
                view.record.spec.host,
                describe_address(view.record.spec),
            ]
            for view in views
        ],
        "No database has these labels."
        if wanted
        else "There is no database yet. `grampus db create NAME --size 10G` creates one.",
    )


@command(db_app, "protect", "grampus db protect shop")
def db_protect(
    name: NameArgument,
    lab: LabOption = LAB_DEFAULT,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Refuse to delete a database until `db unprotect`."""
    _set_protection(lab, name, output_format, protected=True, dry_run=dry_run)


@command(db_app, "unprotect", "grampus db unprotect shop")
def db_unprotect(
    name: NameArgument,
    lab: LabOption = LAB_DEFAULT,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Allow the deletion of a database again."""
    _set_protection(lab, name, output_format, protected=False, dry_run=dry_run)


@command(db_app, "start", "grampus db start shop")
def db_start(
    name: NameArgument,
    lab: LabOption = LAB_DEFAULT,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Start a stopped database, or repair one that has crashed."""
    with work_on_databases(lab, dry_run=dry_run) as (_, databases):
        databases.start(name)
        view = databases.show(name)
    make_output(output_format).text(
        database_document(view), f"The database '{name}' is {view.status}."
    )


@command(db_app, "stop", "grampus db stop shop")
def db_stop(
    name: NameArgument,
    lab: LabOption = LAB_DEFAULT,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Shut a database down cleanly. The volume is kept."""
    with work_on_databases(lab, dry_run=dry_run) as (_, databases):
        databases.stop(name)
        view = databases.show(name)
    sentence = f"The database '{name}' is {view.status}."
    if view.status == "host-down":
        host = view.record.spec.host
        sentence = (
            f"{host} cannot be reached. Grampus stops the database '{name}' when {host} is back."
        )
    make_output(output_format).text(database_document(view), sentence)


def details_of_due_flatten(record: DatabaseRecord) -> dict[str, str]:
    """For people: that its volume is to be flattened, by whom, and how to do it now."""
    if not record.flatten_due:
        return {}
    now = f"`grampus db flatten {record.spec.name}` does it now"
    return {"flattening": f"pending: `grampus serve` does it; {now}"}


def database_document(view: DatabaseView) -> dict[str, Any]:
    """The JSON document of a database; it holds no secret."""
    spec, volume = view.record.spec, view.volume
    attachment = volume.attachment if volume else None
    return {
        "name": spec.name,
        "status": view.status,
        "failure": failure_document(view.end),
        "flavour": spec.flavour,
        "server_version": view.record.server_version,
        "server_uid": view.server_uid,
        "host": spec.host,
        "address": spec.address,
        "port": spec.port,
        "address_kind": spec.address_kind,
        "user": view.record.user,
        "size_bytes": spec.size_bytes,
        "memory_bytes": spec.memory_bytes,
        "cpus": spec.cpus,
        "buffer_pool_bytes": view.record.buffer_pool_bytes,
        "protected": spec.protected,
        "failover": spec.failover,
        "recovery_goal_s": spec.recovery_goal_s,
        "maintenance_window": spec.maintenance_window,
        "replica_of": spec.replica_of,
        "labels": spec.labels,
        "write_path": spec.write_path,
        "max_lag_ms": spec.max_lag_ms if spec.write_path == "cache" else None,
        "journal_memory_bytes": journal_memory_of(spec),
        "journal_pool": journal_pool_of(spec),
        "encryption": spec.encryption,
        "created_at": view.record.created_at.isoformat(),
        "volume": {
            "pool": volume.spec.pool,
            "image": volume.spec.image,
            "ceph_user": volume.ceph_user,
            "driver": attachment.driver if attachment else None,
            "device": attachment.device if attachment else None,
        }
        if volume
        else None,
    }


def describe_address(spec: DatabaseSpec) -> str:
    """Where a database is reached, in one column; a word says when that changes with its host."""
    return f"{spec.address}:{spec.port}{' (host)' if spec.shares_address else ''}"


def failure_document(end: ServerEnd | None) -> dict[str, str] | None:
    """How a failed server ended; None: it has not failed."""
    return None if end is None else {"reason": end.kind, "text": explain_end(end)}


def connection_document(created: CreatedDatabase, *, show_password: bool) -> dict[str, Any]:
    """How to reach a new database, as `login_document`."""
    return login_document(
        created.endpoint,
        created.client_command,
        created.endpoint.option_file,
        show_password=show_password,
    )


def _set_protection(
    lab: str, name: str, output_format: FormatOption, *, protected: bool, dry_run: bool
) -> None:
    with work_on_databases(lab, dry_run=dry_run) as (_, databases):
        databases.protect(name, protected)
        view = databases.show(name)
    state = "protected" if protected else "no longer protected"
    make_output(output_format).text(database_document(view), f"The database '{name}' is {state}.")
