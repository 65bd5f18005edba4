"""Moving a database into the trash, having it back, and removing it for good, as steps."""

from __future__ import annotations

from datetime import datetime

from pydantic import ConfigDict

from grampus.core.clock import format_moment
from grampus.core.errors import NotFoundError
from grampus.core.models import Model
from grampus.databases.database_work import IMAGE_PREFIX, DatabaseWork
from grampus.databases.kinds import DatabaseOperation
from grampus.databases.left_instances import note_left_volume, unless_lost
from grampus.databases.model import (
    DatabaseSpec,
    DesiredState,
    ReadEndpoint,
    TrashedDatabase,
)
from grampus.databases.step_ports import StepPorts
from grampus.databases.users.user_files import UserFiles
from grampus.state.operations import Step


class TrashOrder(Model):
    """A deletion that can be taken back, as its steps need it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    spec: DatabaseSpec
    desired: DesiredState  # what the user wanted of it until now
    key: str  # what it is known by in the trash
    deleted_at: datetime
    expires_at: datetime


class RestoreOrder(Model):
    """A database that is had back from the trash, as its steps need it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    trashed: TrashedDatabase
    spec: DatabaseSpec  # as it shall be: name, host and address may be others
    # As it was, unless something else has its address by now.
    read_endpoint: ReadEndpoint | None = None


class PurgeOrder(Model):
    """The end of a database in the trash, as its steps need it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    trashed: TrashedDatabase


def _trash_steps(ports: StepPorts, order: TrashOrder) -> list[Step]:
    spec, name = order.spec, order.spec.name
    work = DatabaseWork(ports, spec)

    def note() -> None:
        if ports.records.find_trashed(order.key) is not None or not work.has_own_volume():
            return
        leaves = note_left_volume(ports, spec)
        volume = ports.volumes.trash.drain(name, leaves_lost=leaves)
        record = ports.records.get(name)
        former = record.model_copy(update={"phase": "ready", "desired": order.desired})
        ports.records.put_trashed(
            TrashedDatabase(
                key=order.key,
                record=former,
                volume=volume,
                deleted_at=order.deleted_at,
                expires_at=order.expires_at,
                backups=ports.records.backup_state(record),
                read_endpoint=ports.records.find_read_endpoint(name),
            )
        )

    def trash_volume() -> None:
        trashed = ports.records.find_trashed(order.key)
        if trashed is not None:
            ports.volumes.trash.ensure_trashed(trashed.volume, order.expires_at)

    until = format_moment(order.expires_at)
    return [
        Step("mark", f"Mark {name} as deleting", work.mark_deleting),
        Step("server", "Stop the server", unless_lost(work.stop_server)),
        Step("scratch", "Remove its scratch instance, if any", unless_lost(work.remove_scratch)),
        Step("address", work.taking, unless_lost(work.take_address)),
        Step("drain", "Detach the volume, with its journal applied", note),
        Step("volume", f"Move the image to the trash, until {until}", trash_volume),
        Step("files", f"Remove its files on {spec.host}", unless_lost(work.remove_files)),
        Step(
            "secrets",
            "Keep its passwords in the trash",
            lambda: ports.credentials.ensure_moved(name, order.key),
        ),
        Step("record", f"Delete the record of {name}", work.forget),
    ]


def _restore_steps(ports: StepPorts, order: RestoreOrder) -> list[Step]:
    trashed, spec = order.trashed, order.spec
    name, key = spec.name, trashed.key
    work = DatabaseWork(ports, spec)

    def record() -> None:
        # The start after this is an operation of its own. If it never comes, or fails, what the
        # user wanted of the database is known all the same.
        former = trashed.record.model_copy(update={"spec": spec, "phase": "creating"})
        ports.records.put(former)
        if trashed.backups is not None:
            ports.records.put_backup_state(name, trashed.backups)
        if order.read_endpoint is not None:
            ports.records.put_read_endpoint(name, order.read_endpoint)

    def restore_volume() -> None:
        ports.volumes.trash.ensure_restored(trashed.volume, name, f"{IMAGE_PREFIX}{name}")

    def trash_volume() -> None:
        try:
            restored = ports.volumes.get(name)
        except NotFoundError:
            return
        volume = trashed.volume.model_copy(update={"record": restored})
        ports.volumes.trash.ensure_trashed(volume, trashed.expires_at)

    def take_secrets() -> None:
        ports.credentials.ensure_moved(key, name)
        UserFiles(ports.credentials, name).write_all(spec)

    return [
        Step("record", f"Record {name}", record, lambda: ports.records.remove(name)),
        Step("volume", "Restore the image from the trash", restore_volume, trash_volume),
        Step(
            "secrets",
            "Restore its passwords",
            take_secrets,
            lambda: ports.credentials.ensure_moved(name, key),
        ),
        Step("metadata", "Record it in the metadata of the image", work.write_facts),
        Step("finish", "Record that it exists", work.finish),
        # Last, and undone first: who goes back must find in the trash what goes back there.
        Step(
            "forget",
            "Delete its record in the trash",
            lambda: ports.records.remove_trashed(key),
            lambda: ports.records.put_trashed(trashed),
        ),
    ]


def _purge_steps(ports: StepPorts, order: PurgeOrder) -> list[Step]:
    trashed = order.trashed
    return [
        Step(
            "volume",
            f"Remove the image of {trashed.key} for good",
            lambda: ports.volumes.trash.ensure_purged(trashed.volume),
        ),
        Step(
            "secrets", "Delete its passwords", lambda: ports.credentials.ensure_absent(trashed.key)
        ),
        Step(
            "record",
            f"Delete the record of {trashed.key}",
            lambda: ports.records.remove_trashed(trashed.key),
        ),
    ]


def _address_of(endpoint: ReadEndpoint | None) -> str | None:
    return None if endpoint is None else endpoint.held_address


TRASH = DatabaseOperation(
    kind="db.trash",
    what="deletion of the database",
    document=TrashOrder,
    build=_trash_steps,
    subject=lambda order: order.spec.name,
    when_cut_off="finish",
    takes_volume=True,
)
RESTORE = DatabaseOperation(
    kind="db.undelete",
    what="restore from the trash of the database",
    document=RestoreOrder,
    build=_restore_steps,
    subject=lambda order: order.spec.name,
    when_cut_off="finish-or-undo",
    address=lambda order: order.spec.held_address,
    endpoint_address=lambda order: _address_of(order.read_endpoint),
    takes=lambda order: order.spec.name,
    identity=lambda order: order.trashed.record.id,
)
PURGE = DatabaseOperation(
    kind="db.purge",
    what="removal from the trash of the database",
    document=PurgeOrder,
    build=_purge_steps,
    subject=lambda order: order.trashed.record.spec.name,
    when_cut_off="finish",
    # Another database may have the name that it had; it is known by its key and its image's id.
    subject_is_gone=True,
    identity=lambda order: order.trashed.record.id,
)
