"""Databases that go on with a newer server."""

from __future__ import annotations

from dataclasses import dataclass

from grampus.databases.model import DatabaseRecord
from grampus.databases.operating import DatabaseOperations
from grampus.databases.ports import ImagePort
from grampus.databases.snapshots.decide_retention import name_at
from grampus.databases.upgrades.decide_server import choose_version, parse_version, require_upgrade
from grampus.databases.upgrades.upgrade_steps import UPGRADE, UpgradeOrder

SNAPSHOT_PREFIX = "before-upgrade-"


@dataclass(frozen=True)
class Upgraded:
    """What became of an upgrade."""

    record: DatabaseRecord
    former_version: str
    snapshot: str  # of what was there before


class DatabaseUpgrades:
    """Upgrades of the databases of one lab or cluster."""

    def __init__(self, operations: DatabaseOperations, images: ImagePort) -> None:
        self._operations = operations
        self._images = images

    def plan(self, name: str, version: str | None) -> UpgradeOrder | None:
        """The upgrade to that version (None: the newest there is); None: it runs that already.

        The server's image is built if there is none yet. Raises NotFoundError, UsageError with
        code `unknown-version`, RefusedError with code `not-ready`, `downgrade` or
        `version-between`, HostUnreachableError.
        """
        record = self._operations.ready(name)
        spec = record.spec
        chosen = choose_version(spec.flavour, version, self._images.versions(spec.flavour))
        require_upgrade(name, spec.flavour, record.server_version, chosen)
        image_id = self._images.image_for(spec.flavour, chosen, as_defined=True)
        is_there = parse_version(record.server_version)[: len(parse_version(chosen))]
        if image_id == spec.image_id and is_there == parse_version(chosen):
            return None
        self._operations.require_reachable(spec.host, spec.name)
        now = self._operations.clock.now()
        return UpgradeOrder(
            id=f"{chosen} {now.isoformat()}",
            spec=spec,
            image_id=image_id,
            version=chosen,
            former_version=record.server_version,
            snapshot=name_at(SNAPSHOT_PREFIX, now),
            restarts=record.desired == "running",
            summary=f"{record.server_version} to {chosen}",
        )

    def upgrade(self, name: str, version: str | None) -> Upgraded | None:
        """Let the database go on with that version's server; None: it does already.

        It is stopped meanwhile. When the upgrade fails, it goes on with the former server and the
        data of before; nobody could write in between. Raises what `plan` raises, and GrampusError
        with code `upgrade-failed`.
        """
        with self._operations.locked(name):
            self._operations.settle(name)
            order = self.plan(name, version)
            if order is None:
                return None
            self._operations.run(UPGRADE, order)
            record = self._operations.records.get(name)
            return Upgraded(record, order.former_version, order.snapshot)
