"""`grampus volume`: RBD images attached to hosts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from grampus.cli.app import command, make_noun
from grampus.cli.composition.session import Session
from grampus.cli.journal_details import (
    describe_replayed,
    details_of_counts,
    details_of_journal,
    details_of_read_cache,
)
from grampus.cli.nouns import app
from grampus.cli.options import (
    DRIVER_NAMES,
    FORMAT_DEFAULT,
    LAB_DEFAULT,
    TRANSPORT_NAMES,
    DriverOption,
    DryRunOption,
    EncryptOption,
    FormatOption,
    JournalMemoryOption,
    JournalPoolOption,
    LabOption,
    MaxLagOption,
    TransportOption,
    WritePathOption,
    YesOption,
)
from grampus.cli.output import make_output
from grampus.cli.work import work_on_volumes
from grampus.core.clock import format_duration
from grampus.core.errors import GrampusError, NotFoundError, RefusedError, UsageError
from grampus.core.names import require_name
from grampus.core.units import LEAST_FOR_P99, format_bytes, parse_bytes
from grampus.volumes.encrypting import MasterKeyUse
from grampus.volumes.fencing import FenceOrder
from grampus.volumes.live import LiveVolume
from grampus.volumes.local_logs import Aside
from grampus.volumes.model import VolumeRecord, WritePath
from grampus.volumes.service import VolumeService
from grampus.volumes.write_paths import (
    WriteBounds,
    describe_safety,
    describe_written,
    explain_losses,
    is_asked_for,
    journal_memory_of,
    journal_pool_of,
    parse_write_options,
)

volume_app = make_noun(
    "volume",
    "RBD images attached to hosts.",
    under=app,
    panels={
        "Create and use": {
            "create": "grampus.cli.volume",
            "list": "grampus.cli.volume",
            "show": "grampus.cli.volume",
            "attach": "grampus.cli.volume",
            "detach": "grampus.cli.volume",
            "resize": "grampus.cli.volume",
            "set": "grampus.cli.volume",
            "trim": "grampus.cli.volume_trim",
        },
        "Protect the data": {
            "snapshot": "grampus.cli.volume_snapshot",
            "verify": "grampus.cli.volume_verify",
            "rotate": "grampus.cli.volume_migrate",
            "key": "grampus.cli.volume_key",
        },
        "Move and copy": {
            "clone": "grampus.cli.volume_snapshot",
            "flatten": "grampus.cli.volume_snapshot",
            "migrate": "grampus.cli.volume_migrate",
        },
        "Recover and delete": {
            "fence": "grampus.cli.volume",
            "replay": "grampus.cli.volume",
            "delete": "grampus.cli.volume",
        },
    },
)
NameArgument = Annotated[str, typer.Argument(help="The volume's name.")]


@command(volume_app, "create", "grampus volume create scratch --size 2G")
def volume_create(
    name: NameArgument,
    size: Annotated[str, typer.Option(metavar="SIZE", help="Size, such as 2G.")],
    pool: Annotated[
        str | None,
        typer.Option(
            metavar="POOL", help="The pool for the image (default: that of the lab or the site)."
        ),
    ] = None,
    write_path: WritePathOption = None,
    max_lag: MaxLagOption = None,
    journal_memory: JournalMemoryOption = None,
    journal_pool: JournalPoolOption = None,
    encrypt: EncryptOption = False,
    lab: LabOption = LAB_DEFAULT,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Create a volume. The first attach creates an XFS file system on it."""
    require_name("volume", name)
    size_bytes = parse_bytes(size)
    path, bounds = parse_write_options(write_path, max_lag, journal_memory, journal_pool)
    with work_on_volumes(lab, dry_run=dry_run) as (session, volumes):
        spec = volumes.plan_create(
            name,
            pool or session.database_pool(),
            size_bytes,
            write_path=path or "direct",
            encryption="luks2" if encrypt else None,
            **bounds,
        )
        image = f"{'encrypted ' if encrypt else ''}image {spec.pool}/{spec.image}"
        session.runner.propose(lambda: [f"Create the {image} ({format_bytes(size_bytes)})"])
        record = volumes.create(spec)
    make_output(output_format).details(volume_document(record), details_of_record(record))


@command(volume_app, "list", "grampus volume list")
def volume_list(lab: LabOption = LAB_DEFAULT, output_format: FormatOption = FORMAT_DEFAULT) -> None:
    """List all volumes."""
    session = Session(lab)
    session.require_place()
    records = session.volumes().all()
    make_output(output_format).table(
        {"volumes": [volume_document(record) for record in records]},
        ["name", "image", "size", "host", "driver", "device"],
        [
            [
                record.spec.name,
                f"{record.spec.pool}/{record.spec.image}",
                format_bytes(record.spec.size_bytes),
                record.host or "-",
                record.attachment.driver if record.attachment else "-",
                record.attachment.device if record.attachment else "-",
            ]
            for record in records
        ],
        "There is no volume yet.",
    )


@command(volume_app, "show", "grampus volume show demo --format json")
def volume_show(
    name: NameArgument,
    lab: LabOption = LAB_DEFAULT,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Show a volume: its image, its host, its driver, and its state."""
    volumes = Session(lab).volumes()
    record, live = volumes.get(name), volumes.observe_live(name)
    is_unapplied = _observe_unapplied(volumes, record)
    master_key = _observe_master_key(volumes, record)
    asides = volumes.observe_asides(name)
    document = {
        **volume_document(record),
        **losses_document(record.spec.write_path, record.spec.max_lag_ms),
        "master_key": master_key.model_dump(mode="json") if master_key is not None else None,
        "has_unapplied_journal": is_unapplied,
        "local_asides": [aside.path for aside in asides],
        "live": live.model_dump(mode="json") if live is not None else None,
    }
    pairs = details_of_record(record) | {"write path": describe_safety(record.spec)}
    if master_key is not None:
        missing = "" if master_key.is_here else ", which is not here"
        pairs["encryption"] += f", key sealed with the master key {master_key.id}{missing}"
    if is_unapplied:
        pairs["journal"] = (
            f"not applied completely: the next attach applies it, or `grampus volume replay {name}`"
        )
    pairs |= details_of_asides(asides)
    make_output(output_format).details(document, pairs | details_of_live(live))


@command(volume_app, "attach", "grampus volume attach scratch --host h1 --driver volumed")
def volume_attach(
    name: NameArgument,
    host: Annotated[
        str, typer.Option(metavar="HOST", help="The host to attach it to, such as h1.")
    ],
    driver: DriverOption = None,
    transport: TransportOption = None,
    lab: LabOption = LAB_DEFAULT,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Attach a volume to a host and mount it, or repair an attachment that has crashed."""
    asked_driver, asked_transport = DRIVER_NAMES[driver], TRANSPORT_NAMES[transport]
    with work_on_volumes(lab, dry_run=dry_run) as (session, volumes):
        _require_free_of_database(session, name, to_host=host)
        volumes.ensure_attached(name, host, driver=asked_driver, transport=asked_transport)
        volumes.takeovers.ensure_cleared(name)
        record = volumes.get(name)
    make_output(output_format).details(volume_document(record), details_of_record(record))


@command(volume_app, "resize", "grampus volume resize scratch --size 8G")
def volume_resize(
    name: NameArgument,
    size: Annotated[str, typer.Option(metavar="SIZE", help="The new size, such as 8G.")],
    lab: LabOption = LAB_DEFAULT,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Grow a volume and its file system while they are used. A volume cannot shrink."""
    size_bytes = parse_bytes(size)
    with work_on_volumes(lab, dry_run=dry_run) as (session, volumes):
        if _holds_database(session, name):
            session.databases().resize(name, size_bytes)
        else:
            volumes.resize(volumes.plan_resize(name, size_bytes))
        record = volumes.get(name)
    make_output(output_format).details(volume_document(record), details_of_record(record))


@command(volume_app, "set", "grampus volume set scratch --write-path cache --max-lag 50ms")
def volume_set(
    name: NameArgument,
    write_path: WritePathOption = None,
    max_lag: MaxLagOption = None,
    journal_memory: JournalMemoryOption = None,
    journal_pool: JournalPoolOption = None,
    lab: LabOption = LAB_DEFAULT,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Set the write path of a detached volume, from its next attach on."""
    path, bounds = parse_write_options(write_path, max_lag, journal_memory, journal_pool)
    require_something_to_set(path, bounds)
    with work_on_volumes(lab, dry_run=dry_run) as (session, volumes):
        if _holds_database(session, name):
            options = f" --write-path {path}" if path else ""
            options += f" --max-lag {max_lag}" if max_lag else ""
            options += f" --journal-memory {journal_memory}" if journal_memory else ""
            options += f" --journal-pool {journal_pool}" if journal_pool else ""
            raise RefusedError(
                f"The volume '{name}' belongs to the database '{name}'.",
                "Set the write path of the database, which restarts it: `grampus db set "
                f"{name}{options}`.",
                code="in-use",
            )
        record = volumes.ensure_write_path(name, path, **bounds)
    make_output(output_format).details(volume_document(record), details_of_record(record))


@command(volume_app, "replay", "grampus volume replay scratch")
def volume_replay(
    name: NameArgument,
    accept_loss: Annotated[
        bool,
        typer.Option(
            "--accept-loss",
            help="Replay a damaged journal up to the damage, and lose all later writes.",
        ),
    ] = False,
    lab: LabOption = LAB_DEFAULT,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Apply the journal of a detached volume to its image.

    An attach with volumed does the same. Use this command before another use of the image, or if
    the journal is damaged.
    """
    with work_on_volumes(lab, dry_run=dry_run) as (_, volumes):
        replayed = volumes.replay(name, accept_loss=accept_loss)
    make_output(output_format).text(replayed.model_dump(mode="json"), describe_replayed(replayed))


@command(volume_app, "fence", "grampus volume fence scratch --yes")
def volume_fence(
    name: NameArgument,
    lab: LabOption = LAB_DEFAULT,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Take a volume away from its host without the help of the host, for example if the host is
    lost.

    Grampus cuts the volume's client on that host off from the cluster for good, and no other
    client: every read and write of the volume fails there at once. Then the volume can be attached
    again, to that host or another one.
    """
    with work_on_volumes(lab, dry_run=dry_run) as (session, volumes):
        order = None if yes or dry_run else volumes.plan_fence(name)
        if order is not None:
            session.confirm(_fence_question(session, order, volumes.get(name)), yes=yes)
        record = volumes.fence(name)
    make_output(output_format).details(volume_document(record), details_of_record(record))


@command(volume_app, "detach", "grampus volume detach scratch")
def volume_detach(
    name: NameArgument,
    lab: LabOption = LAB_DEFAULT,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Flush, unmount and detach a volume."""
    with work_on_volumes(lab, dry_run=dry_run) as (session, volumes):
        volumes.get(name)
        _require_free_of_database(session, name, to_host=None)
        volumes.ensure_detached(name)
        record = volumes.get(name)
    make_output(output_format).details(volume_document(record), details_of_record(record))


@command(volume_app, "delete", "grampus volume delete scratch --yes")
def volume_delete(
    name: NameArgument,
    lab: LabOption = LAB_DEFAULT,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Delete a volume and all its data."""
    with work_on_volumes(lab, dry_run=dry_run) as (session, volumes):
        volumes.get(name)
        if _holds_database(session, name):
            raise RefusedError(
                f"The volume '{name}' belongs to the database '{name}'.",
                f"Delete the database: `grampus db delete {name}`.",
                code="in-use",
            )
        session.confirm(f"Delete the volume '{name}' and all its data?", yes=yes)
        volumes.delete(name)
    make_output(output_format).text({"deleted": name}, f"The volume '{name}' is deleted.")


def volume_document(record: VolumeRecord) -> dict[str, Any]:
    """The JSON document of a volume."""
    attachment = record.attachment
    return {
        "name": record.spec.name,
        "pool": record.spec.pool,
        "image": record.spec.image,
        "size_bytes": record.spec.size_bytes,
        "filesystem": record.spec.filesystem,
        "filesystem_bytes": record.spec.filesystem_bytes,
        "external_log_bytes": record.spec.external_log_bytes,
        "write_path": record.spec.write_path,
        "max_lag_ms": record.spec.max_lag_ms if record.spec.write_path == "cache" else None,
        "journal_memory_bytes": journal_memory_of(record.spec),
        "journal_pool": journal_pool_of(record.spec),
        "encryption": record.spec.encryption,
        "ceph_user": record.ceph_user,
        "host": record.host,
        "driver": attachment.driver if attachment else None,
        "driver_reason": attachment.driver_reason if attachment else None,
        "transport": attachment.transport if attachment else None,
        "device": attachment.device if attachment else None,
        "log_device": attachment.log_device if attachment else None,
        "export_path": attachment.export_path if attachment else None,
        "mount_path": attachment.mount_path if attachment else None,
        "client_address": attachment.client_address if attachment else None,
        "fenced": [
            {
                "host": left.host,
                "client_addresses": list(left.client_addresses),
                "fenced_at": left.fenced_at,
                "expires_at": left.expires_at,
            }
            for left in record.fenced
        ],
        "local_logs": [{"host": log.host, "state": log.state} for log in record.local_logs],
    }


def details_of_record(record: VolumeRecord) -> dict[str, str]:
    """A volume as names and values, for people."""
    document = volume_document(record)
    document["size"] = format_bytes(document.pop("size_bytes"))
    part_bytes = document.pop("filesystem_bytes")
    if part_bytes is not None:
        document["filesystem"] += f", on the first {format_bytes(part_bytes)}"
    log_bytes = document.pop("external_log_bytes")
    if log_bytes is not None:
        document["filesystem"] += f", with an external log in the first {format_bytes(log_bytes)}"
    del document["max_lag_ms"], document["journal_memory_bytes"], document["journal_pool"]
    document["write_path"] = describe_written(record.spec)
    logs = document.pop("local_logs")
    if logs:
        document["logs on hosts"] = ", ".join(
            # That of the host where it is attached is in use: its journal says how it does.
            log["host"] + ("" if log["host"] == record.host else f" ({_LOG_STATES[log['state']]})")
            for log in logs
        )
    left = document.pop("fenced")
    if left:
        document["fenced"] = ", ".join(
            f"{' and '.join(entry['client_addresses'])} on {entry['host']}, not removed yet"
            for entry in left
        )
    return _shown(document)


def losses_document(write_path: WritePath, max_lag_ms: int) -> dict[str, str]:
    """What is lost if what fails, as keys of a JSON document."""
    losses = explain_losses(write_path, max_lag_ms)
    return {
        "lost_if_host_fails": losses.host_fails,
        "lost_if_disk_fails": losses.disk_fails,
        "lost_if_copies_fail": losses.copies_fail,
    }


def details_of_asides(asides: Sequence[Aside]) -> dict[str, str]:
    """Logs that were set aside, for people."""
    if not asides:
        return {}
    places = ", ".join(f"{aside.path} on {aside.host}" for aside in asides)
    return {
        "set aside": f"{places}: each can have commits that the volume lacks; deleting the "
        "volume removes them"
    }


def details_of_live(live: LiveVolume | None) -> dict[str, str]:
    """State and statistics, for people."""
    if live is None:
        return {}
    oldest_ms = live.oldest_in_flight_ms
    oldest = f", oldest {format_duration(oldest_ms / 1000)}" if oldest_ms else ""
    pairs = {
        "state": live.state + (f" ({live.state_reason})" if live.state_reason else ""),
        "in flight": f"{live.in_flight}{oldest}",
        "transport reason": live.transport_reason,
        **details_of_journal(live.journal),
        **details_of_counts(live.journal_counts),
        **details_of_read_cache(live.read_cache),
    }
    for name, kind in live.kinds.items():
        if kind.operations and kind.p50_us is not None and kind.p99_us is not None:
            errors = f", {kind.errors} errors" if kind.errors else ""
            is_known = kind.operations >= LEAST_FOR_P99
            p99 = f", p99 {kind.p99_us:.0f} us" if is_known else ""
            pairs[name.replace("_", " ")] = (
                f"{kind.operations} of {format_bytes(kind.bytes)} in all, "
                f"p50 {kind.p50_us:.0f} us{p99}{errors}"
            )
    return _shown(pairs)


def require_something_to_set(write_path: WritePath | None, bounds: WriteBounds) -> None:
    """Raise UsageError when `set` was given nothing to set."""
    if not is_asked_for(write_path, bounds):
        raise UsageError(
            "There is nothing to set.",
            "Give --write-path direct, journal or cache, --max-lag, --journal-memory or "
            "--journal-pool.",
        )


def _observe_unapplied(volumes: VolumeService, record: VolumeRecord) -> bool | None:
    """Of a volume that may have a journal; None when it is attached, or nobody can say."""
    if record.spec.write_path == "direct":
        return None
    try:
        return volumes.observe_unapplied(record.spec.name)
    except GrampusError:
        return None  # the rest is known without the cluster, and worth showing without it


def _observe_master_key(volumes: VolumeService, record: VolumeRecord) -> MasterKeyUse | None:
    try:
        return volumes.encryption.find_master_key(record.spec)
    except GrampusError:
        return None  # as above; an attach says what is wrong


def _shown(document: Mapping[str, Any]) -> dict[str, str]:
    return {
        name.replace("_", " "): "-" if value is None else str(value)
        for name, value in document.items()
    }


def _holds_database(session: Session, name: str) -> bool:
    try:
        session.databases().get(name)
    except NotFoundError:
        return False
    return True


_LOG_STATES = {
    "current": "can have commits that the cluster lacks",
    "drained": "the image has all its data",
    "fenced": "from before the fence: applied only if no client opens the volume before",
}


def _fence_question(session: Session, order: FenceOrder, record: VolumeRecord) -> str:
    if not order.client_addresses:
        return f"Lose the commits that only the log of '{order.name}' on {order.host} has?"
    place = f"from {order.host}" if order.host else "from its client"
    holds_database = _holds_database(session, order.name)
    loss = f"; the database '{order.name}' fails there at once" if holds_database else ""
    if record.spec.write_path == "cache":
        lag = format_duration(record.spec.max_lag_ms / 1000)
        loss += f"; the commits of its last {lag} can be lost"
    return f"Take the volume '{order.name}' away {place}{loss}?"


def _require_free_of_database(session: Session, name: str, *, to_host: str | None) -> None:
    """A database's volume is moved and stopped through the database alone."""
    if _holds_database(session, name):
        view = session.databases().show(name)
        if view.status == "running" and to_host != view.record.spec.host:
            raise RefusedError(
                f"The database '{name}' runs on this volume.",
                f"Stop it first: `grampus db stop {name}`.",
                code="in-use",
            )
