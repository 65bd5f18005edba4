"""A backup, as steps: snapshot, sealed stream into the target, manifest last."""

from __future__ import annotations

import contextlib
from datetime import datetime

from grampus.core.errors import GrampusError, NotFoundError, RefusedError
from grampus.core.units import MIB
from grampus.databases.administrator import StatementFailedError, administrator_of
from grampus.databases.backup.binlog_source import BinlogSource
from grampus.databases.backup.binlogs import BINLOGS_QUERY, parse_binary_logs
from grampus.databases.backup.catalogue import DATA, BackupCatalogue
from grampus.databases.backup.decide_chain import decide_spent_snapshots
from grampus.databases.backup.decide_schedule import BinlogPlace
from grampus.databases.backup.errors import BackupDamagedError, TargetError
from grampus.databases.backup.keys import backup_keys
from grampus.databases.backup.model import BackupManifest, BackupOrder, BaseBackup
from grampus.databases.backup.opening import open_target
from grampus.databases.backup.sealed_stream import SealedWriter, StreamFacts
from grampus.databases.instance import observe_daemon_state
from grampus.databases.kinds import DatabaseOperation
from grampus.databases.layout import server_daemon_name
from grampus.databases.model import DatabaseSpec
from grampus.databases.step_ports import StepPorts
from grampus.state.operations import Step

READ_BYTES = MIB
_GTID_EXPRESSIONS = {"mysql": "@@GLOBAL.gtid_executed", "mariadb": "@@GLOBAL.gtid_current_pos"}


class BackupWork:
    """What the steps of one backup do; every method is idempotent."""

    def __init__(self, ports: StepPorts, order: BackupOrder) -> None:
        self._ports = ports
        self._order = order
        self._keys = backup_keys(ports.home)
        self._target = open_target(order.target, ports.home)
        self._catalogue = BackupCatalogue(self._target, self._keys)
        self._gtid_executed: str | None = None
        self._binlog: BinlogPlace | None = None

    def take_snapshot(self) -> None:
        # Before it: so the snapshot holds these transactions, and maybe more. The log comes first:
        # so what was before that is among them.
        self._binlog = observe_binlog(self._ports, self._order.database)
        self._gtid_executed = observe_gtid_executed(self._ports, self._order.database)
        self._ports.volumes.ensure_snapshot(self._name, self._order.snapshot)
        self._protect(protected=True)

    def drop_snapshot(self) -> None:
        # Unknown counts as not whole here, and only here: it costs the next backup its base, and
        # nothing that is in the target.
        if self._find_whole():
            self.drop_spent_snapshots()  # it stays, and all that it was to end with is this
            return
        self._protect(protected=False)
        self._ports.volumes.ensure_snapshot_absent(self._name, self._order.snapshot)

    def keep(self) -> None:
        """The stream, then the manifest, which is left as it is when it is there; then the lock."""
        self._require_claimed()
        if not self._catalogue.is_whole(self._order.id):
            self._write()
        if self._order.lock_until is not None:
            self._catalogue.lock(self._order.id, self._order.lock_until)

    def _write(self) -> None:
        base = self._find_base()
        taken_at = self._taken_at()
        self._require_same_target()
        facts = self._export()
        # Without its snapshot the cluster gives other bytes, and says nothing.
        self._require_snapshots()
        self._require_same_target()
        volumes = self._ports.volumes
        self._catalogue.keep(
            BackupManifest(
                id=self._order.id,
                kind="full" if base is None else "incremental",
                base=base,
                database=self._order.facts,
                snapshot=self._order.snapshot,
                taken_at=taken_at,
                finished_at=self._ports.clock.now(),
                gtid_executed=self._gtid_executed,
                binlog=self._binlog,
                data=facts,
                key_id=self._order.key_id,
                locked_until=self._order.lock_until,
                volume_key=volumes.encryption.find_sealed_key(volumes.get(self._name).spec),
            )
        )

    def remove_half(self) -> None:
        """Take away what was begun; a backup that is whole stays, whatever came after it.

        So does one of which the target does not say whether it is: it must not hold up the
        database, and what is left without a manifest is listed as incomplete and can be deleted.
        """
        if self._find_whole() is not False:
            return
        with contextlib.suppress(TargetError):
            self._catalogue.remove(self._order.id)

    def drop_spent_snapshots(self) -> None:
        """Only the newest backup's snapshot is of use: the next increment starts from it."""
        self._protect(protected=False)
        found = [snapshot.name for snapshot in self._ports.volumes.snapshots(self._name)]
        order = self._order
        for snapshot in decide_spent_snapshots(found, order.target_id, order.snapshot):
            try:
                self._ports.volumes.ensure_snapshot_absent(self._name, snapshot)
            except RefusedError as error:
                # Somebody found another use for it; it goes once that is over.
                if error.code not in ("protected", "has-clones"):
                    raise

    @property
    def _name(self) -> str:
        return self._order.database.name

    def _export(self) -> StreamFacts:
        order = self._order
        key = self._keys.get(order.key_id)
        with (
            self._target.writing(f"{order.id}/{DATA}") as sink,
            # The inner one ends first: a stream that rbd did not end well gets no name.
            self._ports.volumes.exporting(
                self._name, order.snapshot, since=order.base_snapshot
            ) as source,
        ):
            writer = SealedWriter(sink, key, order.id)
            while data := source.read(READ_BYTES):
                writer.write(data)
            return writer.finish()

    def _find_base(self) -> BaseBackup | None:
        base_id = self._order.base
        if base_id is None:
            return None
        backups = self._catalogue.observe(self._name).backups
        if base_id not in backups:
            raise BackupDamagedError(
                f"The backup {base_id}, the base of this one, does not exist any more.",
                "Try again: the next backup is a full one.",
                code="chain-broken",
            )
        return BaseBackup(id=base_id, plain_sha256=backups[base_id].data.plain_sha256)

    def _taken_at(self) -> datetime:
        return self._require_snapshots()[self._order.snapshot]

    def _require_snapshots(self) -> dict[str, datetime]:
        """The snapshots by name, those that are read among them, with when they were taken."""
        found = {s.name: s.created_at for s in self._ports.volumes.snapshots(self._name)}
        missing = [s for s in (self._order.snapshot, self._order.base_snapshot) if s not in found]
        for snapshot in missing:
            if snapshot is not None:
                raise GrampusError(
                    f"The snapshot {snapshot} of {self._name} was deleted during the backup.",
                    "Try again, and do not delete snapshots whose names begin with `backup-`.",
                    code="snapshot-gone",
                )
        return found

    def _require_same_target(self) -> None:
        """Where another file system was mounted or unmounted, nothing must be written."""
        if self._target.find_id() != self._order.target_id:
            raise TargetError(
                f"{self._target.place} is not the same place of backups as before.",
                "Mount the former place, then try again.",
                code="target-gone",
            )

    def _require_claimed(self) -> None:
        """Another lab may have begun a backup of a database of that name in the same second."""
        self._require_same_target()
        order = self._order
        if order.claim and not self._catalogue.claim(order.id, order.claim):
            raise TargetError(
                f"Another backup of a database named {self._name} has the id {order.id}.",
                "Try again: the backup gets another id.",
                code="target-taken",
            )

    def _protect(self, *, protected: bool) -> None:
        """Whether anybody may delete what this backup is read from; gone ones are left out."""
        order = self._order
        names = [order.snapshot]
        if order.base_snapshot is not None and not order.base_is_protected:
            names.append(order.base_snapshot)
        for name in names:
            with contextlib.suppress(NotFoundError):
                self._ports.volumes.ensure_snapshot_protected(self._name, name, protected=protected)

    def _find_whole(self) -> bool | None:
        """Whether the backup has its manifest; None: the target does not say, or it is another's.

        Something else may be at the target's place by now, such as the directory below a mount.
        """
        order = self._order
        try:
            self._require_same_target()
            if order.claim and self._catalogue.is_claimed_by_other(order.id, order.claim):
                return None
            return self._catalogue.is_whole(order.id)
        except GrampusError:
            return None


def observe_gtid_executed(ports: StepPorts, spec: DatabaseSpec) -> str | None:
    """The transactions that the server has executed; None when it does not run or answer."""
    rows = _ask(ports, spec, f"SELECT {_GTID_EXPRESSIONS[spec.flavour]}")
    # Batch mode writes the line ends within a long set as backslash and n.
    return rows[0][0].replace("\\n", "") if rows else None


def observe_binlog(ports: StepPorts, spec: DatabaseSpec) -> BinlogPlace | None:
    """The binary log that a MySQL server is writing; None when it does not run or answer, or when
    nobody but the server can read it."""
    if spec.flavour != "mysql":
        return None
    rows = _ask(ports, spec, BINLOGS_QUERY)
    if len(rows) < 2:
        return None
    newest = parse_binary_logs(rows[1:])[-1]
    try:
        head = BinlogSource(ports, spec).head(newest)
    except GrampusError as error:
        if error.code != "binlog-encrypted":
            raise
        return None
    return BinlogPlace(server_uuid=rows[0][0], file=newest.name, head=head.digest)


def _ask(ports: StepPorts, spec: DatabaseSpec, statements: str) -> list[tuple[str, ...]]:
    if not ports.fleet.is_reachable(spec.host):
        return []
    host = ports.fleet.host(spec.host)
    if observe_daemon_state(host, server_daemon_name(spec.name)) != "running":
        return []
    try:
        return administrator_of(ports, spec).query(statements)
    except StatementFailedError:
        return []  # it starts or stops just now; the backup needs no answer


def _backup_steps(ports: StepPorts, order: BackupOrder) -> list[Step]:
    work = BackupWork(ports, order)
    what = "all data" if order.base is None else f"the changes since {order.base}"
    return [
        Step(
            "snapshot",
            f"Take the snapshot {order.snapshot} of {order.database.name}, and protect it",
            work.take_snapshot,
            work.drop_snapshot,
        ),
        Step(
            "data",
            f"Write {what} to {order.target.url} as {order.id}, compressed and encrypted",
            work.keep,
            work.remove_half,
        ),
        Step(
            "spent",
            "Delete the previous backup's snapshot",
            work.drop_spent_snapshots,
        ),
    ]


BACKUP = DatabaseOperation(
    kind="db.backup",
    what="backup of the database",
    document=BackupOrder,
    build=_backup_steps,
    subject=lambda order: order.database.name,
    # To finish it could take hours, in a command that was to do something else.
    when_cut_off="undo",
    lane="backup",
)
