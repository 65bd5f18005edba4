"""Making a golden volume, as a list of steps."""

from __future__ import annotations

import contextlib
from pathlib import PurePosixPath

from grampus.core.errors import NotFoundError
from grampus.core.units import MIB, format_bytes
from grampus.databases.accounts import render_golden_accounts_sql
from grampus.databases.clones.decide_golden import GOLDEN_SNAPSHOT, GoldenSpec
from grampus.databases.credentials import new_password
from grampus.databases.database_work import discard
from grampus.databases.instance import ensure_initialised_with, ensure_server_files
from grampus.databases.kinds import DatabaseOperation, new_identity
from grampus.databases.layout import InstancePlan, database_directory, plan_instance
from grampus.databases.model import DatabaseSpec
from grampus.databases.step_ports import StepPorts
from grampus.hosts.port import Host
from grampus.state.operations import Step
from grampus.volumes.decide_identity import is_same_volume
from grampus.volumes.model import VolumeSpec

# The server that fills it is gone before anybody uses it.
_MEMORY_BYTES = 512 * MIB
_CPUS = 2.0


class _GoldenWork:
    """What the steps of making one do; every method is idempotent."""

    def __init__(self, ports: StepPorts, golden: GoldenSpec) -> None:
        self._ports = ports
        self._golden = golden

    def create_volume(self) -> None:
        self._ports.volumes.ensure_created(self._volume_spec())

    def remove_volume(self) -> None:
        self._ports.volumes.ensure_absent(self._golden.name, self._volume_spec())

    def detach(self) -> None:
        with contextlib.suppress(NotFoundError):
            found = self._ports.volumes.get(self._golden.name).spec
            if is_same_volume(found, self._volume_spec()):
                self._ports.volumes.ensure_detached(self._golden.name)

    def _volume_spec(self) -> VolumeSpec:
        golden = self._golden
        return VolumeSpec(
            name=golden.name,
            pool=golden.pool,
            image=golden.name,
            size_bytes=golden.size_bytes,
            external_log_bytes=golden.external_log_bytes,
            identity=self._ports.identity,
        )

    def files(self) -> None:
        ensure_server_files(self._host(), self._plan())

    def remove_files(self) -> None:
        host = self._host()
        host.run(["rm", "-rf", str(database_directory(host.data_dir, self._golden.name))])

    def initialise(self) -> None:
        sql = render_golden_accounts_sql(
            self._golden.flavour, root_password=new_password().get_secret_value()
        )
        ensure_initialised_with(self._host(), self._plan(), sql, self._ports.clock)

    def stop_initialise(self) -> None:
        self._host().ensure_daemon_absent(f"mysqld-init-{self._golden.name}", kill=True)

    def _host(self) -> Host:
        return self._ports.fleet.host(self._golden.host)

    def _plan(self) -> InstancePlan:
        golden = self._golden
        attachment = self._ports.volumes.ensure_attached(golden.name, golden.host)
        spec = DatabaseSpec(
            name=golden.name,
            flavour=golden.flavour,
            size_bytes=golden.size_bytes,
            memory_bytes=_MEMORY_BYTES,
            cpus=_CPUS,
            pool=golden.pool,
            host=golden.host,
            address="127.0.0.1",  # nobody listens there
            image_id=golden.image_id,
            server_id=1,
        )
        return plan_instance(spec, self._host().data_dir, PurePosixPath(attachment.mount_path))


def _golden_steps(ports: StepPorts, golden: GoldenSpec) -> list[Step]:
    name = golden.name
    work = _GoldenWork(ports, golden)
    return [
        Step(
            "volume",
            f"Create the golden volume {name} of {format_bytes(golden.size_bytes)}",
            work.create_volume,
            work.remove_volume,
        ),
        Step(
            "attach",
            f"Attach it to {golden.host}",
            lambda: discard(ports.volumes.ensure_attached(name, golden.host)),
            work.detach,
        ),
        Step("files", "Write its configuration", work.files, work.remove_files),
        Step("initialise", "Initialise its data directory", work.initialise, work.stop_initialise),
        Step("clear", f"Remove its files on {golden.host}", work.remove_files),
        Step("detach", "Detach it", work.detach),
        Step(
            "snapshot",
            "Take the snapshot for clones",
            lambda: ports.volumes.ensure_snapshot(name, GOLDEN_SNAPSHOT),
        ),
    ]


GOLDEN = DatabaseOperation(
    kind="db.golden",
    what="creation of the golden volume",
    document=GoldenSpec,
    build=_golden_steps,
    subject=lambda golden: golden.name,
    when_cut_off="undo",
    takes=lambda golden: golden.name,
    identity=new_identity,
)
