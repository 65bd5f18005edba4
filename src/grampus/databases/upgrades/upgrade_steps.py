"""An upgrade as steps: rolled back when it fails, until clients can reach the new server."""

from __future__ import annotations

from pathlib import PurePosixPath

from pydantic import ConfigDict

from grampus.core.models import Model
from grampus.databases.administrator import administrator_of
from grampus.databases.database_work import DatabaseWork, discard
from grampus.databases.instance import observe_daemon_state
from grampus.databases.kinds import DatabaseOperation
from grampus.databases.layout import plan_instance, server_daemon_name
from grampus.databases.lifecycle import bring_up
from grampus.databases.model import DatabaseSpec
from grampus.databases.step_ports import StepPorts
from grampus.databases.upgrades.upgrade_daemon import UpgradeServer
from grampus.state.operations import Step

# Everything purged and merged: the redo log of one version is not read by another.
SLOW_SHUTDOWN = "SET GLOBAL innodb_fast_shutdown = 0"


class UpgradeOrder(Model):
    """An upgrade, with all that its steps need."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str  # no other upgrade of the database has it
    spec: DatabaseSpec  # as it is
    image_id: str | None  # that holds the new server; None: the host's own
    version: str  # the new server's series, such as `11.8`
    former_version: str  # as the server said it
    snapshot: str  # taken first, to go back to
    restarts: bool  # it shall run
    summary: str  # for its history

    @property
    def changed(self) -> DatabaseSpec:
        return self.spec.model_copy(update={"image_id": self.image_id})


class _UpgradeWork:
    """What the steps of one upgrade do; every method is idempotent."""

    def __init__(self, ports: StepPorts, order: UpgradeOrder) -> None:
        self._ports = ports
        self._order = order
        self._name = order.spec.name
        self._former = DatabaseWork(ports, order.spec)
        self._new = DatabaseWork(ports, order.changed)

    def prepare(self) -> None:
        administrator = administrator_of(self._ports, self._order.spec)
        if observe_daemon_state(administrator.host, server_daemon_name(self._name)) == "running":
            administrator.query(SLOW_SHUTDOWN)

    def run_former(self) -> None:
        if self._order.restarts and not self.is_open():
            bring_up(self._ports, self._order.spec)

    def detach(self) -> None:
        self._ports.volumes.ensure_detached(self._name)

    def take_snapshot(self) -> None:
        if not self.is_open():
            self._ports.volumes.ensure_snapshot(self._name, self._order.snapshot)

    def remove_snapshot(self) -> None:
        if not self.is_open():
            self._ports.volumes.ensure_snapshot_absent(self._name, self._order.snapshot)

    def record_new(self) -> None:
        self._ports.records.change(self._name, spec=self._order.changed)
        self._new.write_facts()

    def record_former(self) -> None:
        if not self.is_open():
            self._ports.records.change(self._name, spec=self._order.spec)
            self._former.write_facts()

    def upgrade(self) -> None:
        if self.is_open():
            return
        self._new.files()
        version = self._server().upgrade()
        # One write: from here on there is no way back.
        self._ports.records.change(self._name, last_upgrade=self._order.id, server_version=version)

    def go_back(self) -> None:
        """The data as it was: no client can have written since."""
        if self.is_open():
            return
        self._server().ensure_absent()
        self.detach()
        snapshots = self._ports.volumes.snapshots(self._name)
        if any(found.name == self._order.snapshot for found in snapshots):
            self._ports.volumes.ensure_rolled_back(self._name, self._order.snapshot)

    def is_open(self) -> bool:
        """Clients may have written to the new server: there is no way back."""
        return self._ports.records.get(self._name).last_upgrade == self._order.id

    def serve(self) -> None:
        if self._order.restarts:
            bring_up(self._ports, self._order.changed)
        else:
            self.detach()

    def _server(self) -> UpgradeServer:
        host = self._new.host()
        attachment = self._ports.volumes.get(self._name).attachment
        mount_path = attachment.mount_path if attachment else "/nonexistent"
        plan = plan_instance(self._order.changed, host.data_dir, PurePosixPath(mount_path))
        password = self._ports.credentials.load(self._name).admin_password
        return UpgradeServer(host, plan, self._ports.clock, password)


def _upgrade_steps(ports: StepPorts, order: UpgradeOrder) -> list[Step]:
    work, spec = _UpgradeWork(ports, order), order.spec
    server = f"{spec.flavour} {order.version}"
    return [
        Step("prepare", "Prepare a complete shutdown of the server", work.prepare),
        Step("server", "Stop the server", DatabaseWork(ports, spec).stop_server, work.run_former),
        Step("detach", "Detach the volume, with its journal applied", work.detach),
        Step(
            "snapshot",
            f"Take the safety snapshot '{order.snapshot}'",
            work.take_snapshot,
            work.remove_snapshot,
        ),
        Step("record", f"Record that it runs {server}", work.record_new, work.record_former),
        Step(
            "attach",
            f"Attach the volume to {spec.host}",
            lambda: discard(ports.volumes.ensure_attached(spec.name, spec.host)),
        ),
        Step(
            "upgrade", f"Upgrade its tables to {server} without clients", work.upgrade, work.go_back
        ),
        Step(
            "serve",
            f"Start the {server} server" if order.restarts else "Detach the volume again",
            work.serve,
        ),
    ]


UPGRADE = DatabaseOperation(
    kind="db.upgrade",
    what="upgrade of the database",
    document=UpgradeOrder,
    build=_upgrade_steps,
    subject=lambda order: order.spec.name,
    when_cut_off="finish-or-undo",
    address=lambda order: order.spec.held_address,
    takes_volume=True,
    opens_volume=True,
)
