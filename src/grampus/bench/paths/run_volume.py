"""A volume of one run of `paths`, recorded as a benchmark's before it is made."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import PurePosixPath

from pydantic import ConfigDict

from grampus.bench.calm import is_drained
from grampus.bench.paths.blocks import Block
from grampus.bench.paths.paths_ports import PathsPorts
from grampus.core.errors import GrampusError, RefusedError
from grampus.core.models import Model
from grampus.volumes.model import Attachment, VolumeRecord

VOLUME_RECORD = "bench-volume"


class BenchVolume(Model):
    """Says that the volume of that name is a benchmark's, which may remove it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str


class RunVolume:
    """One volume on one host, by name; it can be attached and detached again and again."""

    def __init__(self, ports: PathsPorts, name: str, host_name: str, *, keep: bool) -> None:
        self._ports = ports
        self._name = name
        self._host_name = host_name
        self._keep = keep

    def create(
        self,
        ends: ExitStack,
        size_bytes: int,
        *,
        filesystem_bytes: int | None = None,
        external_log_bytes: int | None = None,
    ) -> None:
        """Make it, with an end that removes it, or keeps it if it shall be kept.

        Raises RefusedError with code `exists` when there is a volume of that name that no
        benchmark made, or `pool-full`.
        """
        ports, name = self._ports, self._name
        ours = ports.store.get(VOLUME_RECORD, ports.lab, name, BenchVolume)
        if ports.volumes.find(name) is not None:
            if ours is None:
                raise RefusedError(
                    f"There is a volume named '{name}', and no benchmark made it.",
                    "Remove it or give it another name: the suite needs that one.",
                    code="exists",
                )
            ports.progress.phase(f"Remove the volume {name} of an earlier run")
            ports.volumes.delete(name)
        spec = ports.volumes.plan_create(name, ports.cluster.volume_pool(), size_bytes)
        # The intent first: whoever finds the volume later knows whose it is.
        ports.store.put(VOLUME_RECORD, ports.lab, name, BenchVolume(name=name))
        ends.callback(self._leave)
        ports.progress.phase(f"Make the volume {name}")
        wanted = {
            "filesystem_bytes": filesystem_bytes,
            "external_log_bytes": external_log_bytes,
            "write_path": "direct",
            "namespace": "default",  # fio's rbd engine knows no other
        }
        ports.volumes.create(spec.model_copy(update=wanted))

    def ensure_attached_for(self, block: Block) -> Attachment:
        """Mounted through what the block says, with its write path.

        Raises GrampusError with code `no-driver` when the host attaches it in another way.
        """
        volumes = self._ports.volumes
        volumes.ensure_write_path(self._name, block.write_path)
        attachment = volumes.ensure_attached(
            self._name, self._host_name, driver=block.driver, transport=block.transport
        )
        is_driver = attachment.driver == block.driver
        if not is_driver or block.transport not in (None, attachment.transport):
            raise GrampusError(
                f"{block.name} was requested, but the volume is attached through "
                f"{attachment.driver}, transport {attachment.transport}.",
                "`grampus volume show NAME` says why, for a volume that is attached so.",
                code="no-driver",
            )
        return attachment

    def ensure_mounted(self) -> PurePosixPath:
        """Mounted on the host through whatever driver is best."""
        attachment = self._ports.volumes.ensure_attached(self._name, self._host_name)
        return PurePosixPath(attachment.mount_path)

    def ensure_detached(self) -> None:
        """Flushed, unmounted, unmapped."""
        self._ports.volumes.ensure_detached(self._name)

    def record(self) -> VolumeRecord:
        """What is recorded of it. Raises GrampusError when somebody has removed it."""
        found = self._ports.volumes.find(self._name)
        if found is None:
            raise GrampusError(
                f"The volume {self._name} was removed while it was measured.",
                "Run the suite again.",
            )
        return found

    def driver_daemon(self) -> str | None:
        """The daemon that serves its device, if it has one."""
        return self._ports.volumes.driver_daemon(self.record())

    def is_drained(self) -> bool:
        """Whether all that was written is in the image."""
        return is_drained(self._ports.volumes.observe_live(self._name))

    def _leave(self) -> None:
        ports, name = self._ports, self._name
        if ports.volumes.find(name) is None:
            ports.store.remove(VOLUME_RECORD, ports.lab, name)
        elif self._keep:
            ports.volumes.ensure_detached(name)
            ports.progress.note(f"The volume {name} is kept; the next run replaces it.")
        else:
            ports.progress.phase(f"Remove the volume {name}")
            ports.volumes.delete(name)
            ports.store.remove(VOLUME_RECORD, ports.lab, name)
