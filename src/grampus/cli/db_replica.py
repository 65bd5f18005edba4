"""`grampus db replica`: read replicas of databases."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from grampus.cli.app import EXIT_FAILED, command, make_noun
from grampus.cli.composition.copies import database_replicas, errant_transactions, replica_renewals
from grampus.cli.db import connection_document, database_document, db_app
from grampus.cli.endpoint_documents import (
    describe_change,
    place_of_endpoint,
    read_endpoint_document,
)
from grampus.cli.login_documents import ShowPasswordOption, details_of_login
from grampus.cli.options import (
    FORMAT_DEFAULT,
    LAB_DEFAULT,
    DryRunOption,
    ExternalLogOption,
    FormatOption,
    LabOption,
    YesOption,
    in_lab,
)
from grampus.cli.output import make_output
from grampus.cli.work import work_on_databases
from grampus.core.clock import format_moment
from grampus.core.errors import UsageError
from grampus.core.intervals import format_interval, parse_interval_s
from grampus.core.units import format_bytes, parse_bytes
from grampus.databases.endpoints.read_endpoints import EndpointChange
from grampus.databases.model import PromotedEvents, ReadEndpoint
from grampus.databases.replicas.decide_replicas import (
    Copies,
    ReplicaRequest,
    explain_copies,
    format_lag,
)
from grampus.databases.replicas.gtid_sets import count, parse_rendered
from grampus.databases.replicas.renewals import Renewal
from grampus.databases.replicas.replica_looks import ReplicaView
from grampus.databases.view import DatabaseView

replica_app = make_noun(
    "replica", "Read replicas: databases that follow another one.", under=db_app
)
ReplicaArgument = Annotated[str, typer.Argument(help="The replica's name.")]
_COPIES: dict[int, Copies] = {1: 1, 2: 2, 3: 3}


@command(replica_app, "add", "grampus db replica add shop --name shop-r1 --copies 1", is_long=True)
def replica_add(
    primary: Annotated[str, typer.Argument(help="The database to replicate.")],
    name: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The replica's name (default: PRIMARY-r1, -r2, ...)."),
    ] = None,
    host: Annotated[
        str | None,
        typer.Option(
            metavar="HOST",
            help="The host to run on (default: the least busy one without PRIMARY).",
        ),
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Memory limit of the instance (default: PRIMARY's)."),
    ] = None,
    cpus: Annotated[
        float | None,
        typer.Option(metavar="NUMBER", help="CPU limit of the instance (default: PRIMARY's)."),
    ] = None,
    copies: Annotated[
        int | None,
        typer.Option(
            metavar="1|2|3",
            help="Number of copies of the replica's own data (default: as PRIMARY's). With "
            "1, the loss of a disk can destroy the replica, but never PRIMARY.",
        ),
    ] = None,
    snapshot: Annotated[
        str | None,
        typer.Option(metavar="SNAPSHOT", help="Start from this snapshot of PRIMARY, and catch up."),
    ] = None,
    external_log: ExternalLogOption = False,
    show_password: ShowPasswordOption = False,
    lab: LabOption = LAB_DEFAULT,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Create a read replica from a thin clone of a database, in seconds at any size.

    The replica has its own address, server id and passwords. It refuses every write, and follows
    the primary over TLS. With --external-log, copying the files takes time.
    """
    request = ReplicaRequest(
        primary=primary,
        name=name,
        host=host,
        memory_bytes=None if memory is None else parse_bytes(memory, what="memory size"),
        cpus=cpus,
        copies=None if copies is None else _parse_copies(copies),
        snapshot=snapshot,
        external_log=external_log,
    )
    with work_on_databases(lab, dry_run=dry_run) as (session, databases):
        replicas = database_replicas(session)
        view = replicas.add(request)
        made = view.record.spec.name
        session.progress.phase("Add the replica to the read-only endpoint")
        change = replicas.follow_endpoint(primary)
        created = databases.made(made)
        held = session.cluster().observe_pool(view.record.spec.pool).copies
    make_output(output_format).details(
        {
            **replica_document(view),
            **connection_document(created, show_password=show_password),
            "copies": held,
            "read_endpoint": _changed_document(view, change),
        },
        {
            "replica": made,
            "of": primary,
            "state": view.standing.state,
            "host": view.record.spec.host,
            "address": f"{created.endpoint.address}:{created.endpoint.port}",
            **_pairs_of_endpoint(view, change),
            "copies": explain_copies(held, primary),
            **details_of_login(
                created.endpoint, created.client_command, show_password=show_password
            ),
            "or": in_lab(f"grampus db connect {primary} --read-only", lab),
        },
    )


@command(replica_app, "list", "grampus db replica list shop")
def replica_list(
    primary: Annotated[str, typer.Argument(help="The primary of the replicas.")],
    lab: LabOption = LAB_DEFAULT,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Show a database and its replicas with their hosts, states and lags."""
    with work_on_databases(lab) as (session, databases):
        view = databases.show(primary)
        found = database_replicas(session).of(primary)
        endpoint = databases.operations.records.find_read_endpoint(primary)
    port = view.record.spec.port
    document: dict[str, Any] = {**_endpoint(view), "state": view.status}
    make_output(output_format).table(
        {
            "primary": document,
            "read_endpoint": read_endpoint_document(primary, port, endpoint) if endpoint else None,
            "replicas": [replica_document(replica) for replica in found],
        },
        ["name", "role", "host", "endpoint", "state", "lag", "behind", "renewed", "problem"],
        [
            [
                primary,
                "primary",
                view.record.spec.host,
                _address(view),
                view.status,
                *("-", "-", "-", "-"),
            ],
            *([endpoint_row(primary, port, endpoint)] if endpoint else []),
            *(_row(replica) for replica in found),
        ]
        if found
        else [],
        f"'{primary}' has no replica. `grampus db replica add {primary}` creates one.",
    )


@command(replica_app, "remove", "grampus db replica remove shop-r1 --yes")
def replica_remove(
    name: ReplicaArgument,
    discard_errant: Annotated[
        bool,
        typer.Option(
            "--discard-errant",
            metavar="",
            help="Also destroy the transactions that only the replica has.",
        ),
    ] = False,
    lab: LabOption = LAB_DEFAULT,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Remove a replica for good.

    Grampus refuses to remove a replica that is ahead of its primary without --discard-errant.
    """
    with work_on_databases(lab, dry_run=dry_run) as (session, _):
        replicas = database_replicas(session)
        order = replicas.plan_remove(name, discards_errant=discard_errant)
        loss = f"{replicas.explain_loss(name)} " if discard_errant else ""
        question = f"{loss}Remove the replica '{name}' of '{order.primary}' for good?"
        session.confirm(question, yes=yes)
        replicas.remove(name, discards_errant=discard_errant)
    make_output(output_format).text(
        {"removed": name, "primary": order.primary}, f"The replica '{name}' is removed."
    )


@command(replica_app, "promote", "grampus db replica promote shop-r1 --wait")
def replica_promote(
    name: ReplicaArgument,
    wait: Annotated[
        bool,
        typer.Option(
            "--wait",
            metavar="",
            help="First wait until the replica has all transactions of its primary.",
        ),
    ] = False,
    lab: LabOption = LAB_DEFAULT,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Make a replica an independent database that accepts writes.

    Grampus first applies all transactions that the replica has received. The replica lacks the
    transactions that the primary had not sent yet. The primary keeps running: redirect its clients,
    or stop it.
    """
    with work_on_databases(lab, dry_run=dry_run) as (session, databases):
        replicas = database_replicas(session)
        primary = replicas.require_replica(name).spec.replica_of or ""
        replicas.promote(name, wait=wait)
        replicas.follow_endpoint(primary)
        view = databases.show(name)
        events = databases.operations.records.promoted_events(view.record)
        held = session.cluster().observe_pool(view.record.spec.pool).copies
        shares = databases.operations.volumes.needs_flattening(name)
    kept = "" if held > 1 else f"\nWarning: {_explain_one_copy(name)}"
    make_output(output_format).text(
        {
            **database_document(view),
            "former_primary": primary,
            "copies": held,
            "events": events.model_dump(mode="json", exclude={"filled"}),
        },
        f"The database '{name}' is independent of '{primary}' and accepts writes at "
        f"{_address(view)}.{_explain_sharing(name, primary) if shares else ''}"
        f"{_explain_events(primary, events)}{kept}",
    )


def _explain_sharing(name: str, primary: str) -> str:
    return (
        f"\nIts volume still shares data with the volume of '{primary}'. "
        f"`grampus db flatten {name}` makes the volume independent."
    )


@command(replica_app, "renew", "grampus db replica renew shop-r1", is_long=True)
def replica_renew(
    name: ReplicaArgument,
    discard_errant: Annotated[
        bool,
        typer.Option(
            "--discard-errant",
            metavar="",
            help="Also destroy the transactions that only the replica has, and renew a "
            "replica whose transactions Grampus cannot compare.",
        ),
    ] = False,
    lab: LabOption = LAB_DEFAULT,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Fill a replica again from a clone of its primary. The replica is not readable for some
    seconds.

    The name, the address and the passwords stay the same. The replica shares all its data with the
    primary again. Grampus refuses to renew a replica that is ahead of its primary without
    --discard-errant.
    """
    with work_on_databases(lab, dry_run=dry_run) as (session, _):
        replicas = database_replicas(session)
        if discard_errant:
            replicas.plan_renew(name, discards_errant=True)
            loss = replicas.explain_loss(name)
            session.confirm(f"{loss} Renew '{name}' anyway?", yes=yes)
        view = replicas.renew(name, discards_errant=discard_errant)
        replicas.follow_endpoint(view.record.spec.replica_of or "")
    make_output(output_format).text(
        replica_document(view),
        f"The replica '{name}' was renewed from '{view.record.spec.replica_of}'; it is "
        f"{view.standing.state}.",
    )


@command(replica_app, "errant", "grampus db replica errant shop-r1 --output errant.sql")
def replica_errant(
    name: ReplicaArgument,
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write the transactions to this new file: rows as comments, and the events.",
        ),
    ] = None,
    lab: LabOption = LAB_DEFAULT,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Show the transactions that only a replica has, or save them to a file.

    Grampus compares the GTID sets of both servers, and the commits of both servers after each start
    of the primary: a primary that lost transactions in a crash may have reused their GTIDs.
    """
    with work_on_databases(lab) as (session, _):
        errant = errant_transactions(session)
        written = None if output is None else errant.write(name, output)
        compared = errant.show(name) if written is None else written.comparison
        primary = database_replicas(session).require_replica(name).spec.replica_of
    number = count(parse_rendered(compared.ahead))
    said = f"'{name}' has no transaction that '{primary}' lacks."
    if compared.ahead:
        said = f"'{name}' has {number} transactions that '{primary}' lacks: {compared.ahead}"
    elif compared.unknown:
        said = f"'{name}' has no known transaction that '{primary}' lacks."
    if compared.unknown:
        said += f"\nThere may be more: {compared.unknown}"
    if written is not None:
        said += f"\nThey are in {output} ({format_bytes(written.size_bytes)})."
    make_output(output_format).text(
        {
            "replica": name,
            "primary": primary,
            "transactions_ahead": number,
            "ahead": compared.ahead or None,
            "unknown": compared.unknown,
            "file": None if output is None else str(output),
        },
        said,
    )


@command(replica_app, "schedule", "grampus db replica schedule shop-r1 --every 1d")
def replica_schedule(
    name: ReplicaArgument,
    every: Annotated[
        str | None, typer.Option(metavar="INTERVAL", help="Interval, such as 12h or 1d.")
    ] = None,
    off: Annotated[bool, typer.Option("--off", metavar="", help="Renew only manually.")] = False,
    lab: LabOption = LAB_DEFAULT,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Set or show the renewal schedule of a replica. `db replica due` applies the schedule."""
    if off and every is not None:
        raise UsageError("--off and --every contradict each other.", "Remove one of them.")
    every_s = None if every is None else parse_interval_s(every)
    with work_on_databases(lab, dry_run=dry_run) as (session, _):
        renewals = replica_renewals(session)
        if off or every_s is not None:
            renewals.put(name, every_s)
        every_s = renewals.get(name)
    make_output(output_format).text(
        {"replica": name, "renew_every_s": every_s},
        f"The replica '{name}' is renewed only manually."
        if every_s is None
        else f"The replica '{name}' is renewed every {format_interval(every_s)}.",
    )


@command(replica_app, "due", "grampus db replica due")
def replica_due(
    lab: LabOption = LAB_DEFAULT,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Renew the replicas that are due, and those that can never catch up; for cron.

    Grampus never renews a replica that is ahead of its primary. It reports the replica as a
    problem.
    """
    with work_on_databases(lab, dry_run=dry_run) as (session, _):
        renewals = replica_renewals(session).carry_out(changes_nothing=dry_run)
        session.runner.propose(
            lambda: [
                f"Renew {entry.replica} from {entry.primary} ({entry.reason})"
                if entry.problem is None
                else f"Keep {entry.replica} unchanged: {entry.problem}"
                for entry in renewals
            ]
        )
    make_output(output_format).table(
        {"renewals": [_renewal_document(entry) for entry in renewals]},
        ["replica", "primary", "why", "problem"],
        [[entry.replica, entry.primary, entry.reason, entry.problem or "-"] for entry in renewals],
        "No replica is due.",
    )
    if any(entry.problem for entry in renewals):
        raise typer.Exit(EXIT_FAILED)


def replica_document(view: ReplicaView) -> dict[str, Any]:
    """The JSON document of a replica; it holds no secret."""
    spec, standing = view.record.spec, view.standing
    return {
        "name": spec.name,
        "replica_of": spec.replica_of,
        "host": spec.host,
        "address": spec.address,
        "port": spec.port,
        "pool": spec.pool,
        "state": standing.state,
        "lag_s": None if standing.lag_ms is None else standing.lag_ms / 1000,
        "transactions_behind": standing.behind,
        "transactions_ahead": standing.ahead_count,
        "ahead": standing.ahead,
        "problem": standing.problem,
        "renewed_at": view.record.renewed_at.isoformat() if view.record.renewed_at else None,
        "renew_every_s": spec.renew_every_s,
    }


def _row(view: ReplicaView) -> list[str]:
    spec, standing, renewed_at = view.record.spec, view.standing, view.record.renewed_at
    return [
        spec.name,
        "replica",
        spec.host,
        f"{spec.address}:{spec.port}",
        standing.state,
        format_lag(standing.lag_ms),
        "-" if standing.behind is None else str(standing.behind),
        format_moment(renewed_at) if renewed_at else "-",
        standing.problem or "-",
    ]


def endpoint_row(primary: str, port: int, endpoint: ReadEndpoint) -> list[str]:
    """Its row among those of replicas; `port` is the primary's."""
    state = ", ".join(endpoint.members) or "no readable replica"
    where = place_of_endpoint(port, endpoint)
    return [primary, "read-only", endpoint.host or "-", where, state, *("-", "-", "-", "-")]


def _changed_document(view: ReplicaView, change: EndpointChange | None) -> dict[str, Any] | None:
    spec = view.record.spec
    if change is None:
        return None
    problem = None if change.problem is None else str(change.problem)
    return read_endpoint_document(spec.replica_of or "", spec.port, change.endpoint, problem)


def _pairs_of_endpoint(view: ReplicaView, change: EndpointChange | None) -> dict[str, str]:
    if change is None:
        return {}
    return {"read-only": describe_change(view.record.spec.port, change)}


def _endpoint(view: DatabaseView) -> dict[str, Any]:
    spec = view.record.spec
    return {
        "name": spec.name,
        "host": spec.host,
        "address": spec.address,
        "port": spec.port,
        "address_kind": spec.address_kind,
    }


def _address(view: DatabaseView) -> str:
    return f"{view.record.spec.address}:{view.record.spec.port}"


def _explain_events(primary: str, events: PromotedEvents) -> str:
    said = ""
    if events.enabled:
        said += f"\nEvents that are enabled here, as on '{primary}': {', '.join(events.enabled)}."
    if events.disabled:
        said += f"\nEvents that are disabled here, as on '{primary}': {', '.join(events.disabled)}."
    if events.unknown:
        said += (
            "\nEvents that are still disabled, because Grampus does not know whether "
            f"'{primary}' had enabled them: {', '.join(events.unknown)}. `ALTER EVENT ... "
            "ENABLE` enables one."
        )
    return said


def _explain_one_copy(name: str) -> str:
    return (
        f"new data of '{name}' has one copy. When an OSD stops, the data cannot be read until "
        "the OSD is back. When a disk is lost, the database is lost."
    )


def _renewal_document(entry: Renewal) -> dict[str, Any]:
    return {
        "replica": entry.replica,
        "primary": entry.primary,
        "reason": entry.reason,
        "problem": entry.problem,
    }


def _parse_copies(copies: int) -> Copies:
    if copies not in _COPIES:
        raise UsageError(f"{copies} is not a supported number of copies.", "Choose 1, 2 or 3.")
    return _COPIES[copies]
