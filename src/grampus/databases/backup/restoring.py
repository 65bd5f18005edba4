"""A restore, as steps: a new volume filled from a chain of backups, then a server of its own."""

from __future__ import annotations

from grampus.core.clock import format_moment
from grampus.core.units import format_bytes
from grampus.databases.backup.catalogue import BackupCatalogue
from grampus.databases.backup.decide_chain import decide_chain
from grampus.databases.backup.keys import backup_keys
from grampus.databases.backup.model import RestoreOrder
from grampus.databases.backup.opening import open_target
from grampus.databases.backup.replaying import ReplayWork
from grampus.databases.creating import copied_steps
from grampus.databases.database_work import DatabaseWork
from grampus.databases.kinds import DatabaseOperation, new_identity
from grampus.databases.step_ports import StepPorts
from grampus.state.operations import Step


def ensure_filled(ports: StepPorts, order: RestoreOrder) -> None:
    """Bring the chain into the volume's image, and let it be a volume like any other."""
    name, newest = order.database.name, order.chain[-1]
    if ports.volumes.get(name).is_formatted:
        return
    keys = backup_keys(ports.home)
    catalogue = BackupCatalogue(open_target(order.target, ports.home), keys)
    database, _, _ = newest.partition("/")
    for backup in decide_chain(catalogue.observe(database).backups, newest):
        with ports.volumes.importing(name) as sink:
            for chunk in catalogue.open(backup):
                sink.write(chunk)
    # Each import leaves the snapshot that the next one starts from.
    for snapshot in ports.volumes.snapshots(name):
        ports.volumes.ensure_snapshot_absent(name, snapshot.name)
    ports.volumes.note_formatted(name)


def _restore_steps(ports: StepPorts, order: RestoreOrder) -> list[Step]:
    spec = order.database
    work = DatabaseWork(ports, spec, owner=order.source_user)
    backups = f"{len(order.chain)} backup{'s' if len(order.chain) > 1 else ''}"
    before_start, before_finish = list[Step](), list[Step]()
    filled = spec
    if order.grows_from_bytes is not None:
        # What is imported has the size that it had.
        filled = spec.model_copy(update={"size_bytes": order.grows_from_bytes})
        before_start.append(
            Step(
                "grow",
                f"Grow its volume to {format_bytes(spec.size_bytes)}",
                lambda: ports.volumes.ensure_size(spec.name, spec.size_bytes),
            )
        )
    filling = DatabaseWork(ports, filled, owner=order.source_user)
    if order.replay is not None:
        replaying = ReplayWork(ports, order, order.replay)
        moment = order.replay.moment
        replay = Step(
            "replay",
            f"Apply the transactions before {format_moment(moment)}",
            replaying.apply,
            work.stop_initialise,
        )
        before_start.append(replay)
        check = Step("check", "Compare its transactions with those in the archive", replaying.check)
        before_finish.append(check)
    return copied_steps(
        ports,
        spec,
        [
            Step(
                "volume",
                f"Create a volume of {format_bytes(filled.size_bytes)} in pool {spec.pool}",
                lambda: filling.create_volume(order.volume_key),
                filling.remove_volume,
            ),
            Step(
                "data",
                f"Fill it from {backups}, up to {order.chain[-1]}",
                lambda: ensure_filled(ports, order),
            ),
        ],
        owner=order.source_user,
        # Before its server begins to serve: nobody but Grampus sees what is applied half.
        before_start=before_start,
        before_finish=before_finish,
    )


RESTORE_BACKUP = DatabaseOperation(
    kind="db.restore",
    what="restore into the database",
    document=RestoreOrder,
    build=_restore_steps,
    subject=lambda order: order.database.name,
    when_cut_off="undo",
    address=lambda order: order.database.held_address,
    takes=lambda order: order.database.name,
    identity=new_identity,
)
