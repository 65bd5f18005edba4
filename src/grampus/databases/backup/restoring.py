"""A restore, as steps: a new volume filled from a chain of backups, then a server of its own."""

from __future__ import annotations

from pathlib import Path

from grampus.core.units import format_bytes
from grampus.databases.backup.catalogue import BackupCatalogue
from grampus.databases.backup.decide_chain import decide_chain
from grampus.databases.backup.keys import BackupKeys
from grampus.databases.backup.model import ReplayOrder, RestoreOrder
from grampus.databases.backup.opening import open_target
from grampus.databases.backup.replaying import ReplayWork
from grampus.databases.creating import copied_steps
from grampus.databases.database_work import DatabaseWork
from grampus.databases.kinds import OperationType, new_identity
from grampus.databases.step_ports import StepPorts
from grampus.state.operations import Step


def ensure_filled(ports: StepPorts, order: RestoreOrder) -> None:
    """Bring the chain into the volume's image, and let it be a volume like any other."""
    name, newest = order.database.name, order.chain[-1]
    if ports.volumes.get(name).is_formatted:
        return
    keys = BackupKeys(Path(order.key_directory))
    catalogue = BackupCatalogue(open_target(order.target), keys)
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
    steps = copied_steps(
        ports,
        spec,
        [
            Step(
                "volume",
                f"Create a volume of {format_bytes(spec.size_bytes)} in pool {spec.pool}",
                lambda: work.create_volume(order.volume_key),
                work.remove_volume,
            ),
            Step(
                "data",
                f"Fill it from {backups}, up to {order.chain[-1]}",
                lambda: ensure_filled(ports, order),
            ),
        ],
        owner=order.source_user,
    )
    if order.replay is None:
        return steps
    # Before the last step, which says that the database is ready.
    return [*steps[:-1], *_replay_steps(ports, order, order.replay), steps[-1]]


def _replay_steps(ports: StepPorts, order: RestoreOrder, replay: ReplayOrder) -> list[Step]:
    work = DatabaseWork(ports, order.database, owner=order.source_user)
    replaying = ReplayWork(ports, order, replay)

    def serve_again() -> None:
        # The logs may have changed passwords of the accounts, as they were changed then.
        work.stop_server()
        work.begin_serving_as_new(makes_accounts=False)
        work.finish_serving_as_new()

    return [
        Step("fetch", "Fetch the archived binary logs", replaying.fetch),
        Step(
            "replay",
            f"Apply what was committed before {replay.moment:%Y-%m-%d %H:%M:%S} UTC",
            replaying.apply,
        ),
        Step("again", "Start the server once more with the new passwords", serve_again),
        Step("fetched", "Remove the fetched files", replaying.remove),
    ]


RESTORE_BACKUP = OperationType(
    kind="db.restore",
    what="restore into the database",
    document=RestoreOrder,
    build=_restore_steps,
    subject=lambda order: order.database.name,
    when_cut_off="undo",
    address=lambda order: order.database.address,
    takes=lambda order: order.database.name,
    identity=new_identity,
)
