"""A memory device behind volumed's transport, with a loop device on top: the transport alone."""

from __future__ import annotations

from pathlib import PurePosixPath

from grampus.bench.paths.blocks import CLASSIC_THREADS, Transport
from grampus.core.clock import Clock, wait_until
from grampus.core.errors import GrampusError
from grampus.core.units import MIB
from grampus.hosts.loop_devices import ensure_loop_device, ensure_loop_device_absent
from grampus.hosts.mounts import ensure_unmounted, observe_mounted_source
from grampus.hosts.port import Bind, DaemonSpec, Host
from grampus.volumes.drivers.volumed import VolumedProgram
from grampus.volumes.live import parse_result, parse_status

MEMORY_DAEMON = "bench-memory"
# Larger than the CPU's caches, small beside any machine's memory; every block is written before
# it is read, or reads would be of pages that do not exist.
DEVICE_BYTES = 256 * MIB
READY_TIMEOUT_S = 20.0
CTL_TIMEOUT_S = 10.0


class MemoryDevice:
    """One volumed over a memory device on a host, in a directory of its own."""

    daemon = MEMORY_DAEMON

    def __init__(
        self,
        host: Host,
        clock: Clock,
        *,
        program: VolumedProgram,
        directory: PurePosixPath,
        reference: str,
    ) -> None:
        self._host = host
        self._clock = clock
        self._program = program
        self._directory = directory
        self._reference = reference

    def ensure_present(self, transport: Transport) -> tuple[PurePosixPath, str]:
        """The loop device over a new memory device, and what the transport says of itself.

        Raises GrampusError with code `no-volumed` when there is none, and `driver-failed` when it
        ends.
        """
        self.ensure_absent()
        program = self._program.ensure_on(self._host)
        file = self._file()
        self._host.run(["mkdir", "-p", str(file.parent)])
        self._host.run(["touch", str(file)])
        self._host.ensure_daemon(self._spec(program, transport))
        # Before the file is really volumed's, losetup would attach the empty one underneath.
        wait_until(
            self._clock,
            self._is_ready,
            what=f"the memory device on {self._host.name}",
            timeout_s=READY_TIMEOUT_S,
            interval_s=0.05,
        )
        device = ensure_loop_device(self._host, file, reference=self._reference)
        return PurePosixPath(device), self._describe_transport()

    def ensure_absent(self) -> None:
        """Loop device, daemon and files gone."""
        file = self._file()
        ensure_loop_device_absent(self._host, file, reference=self._reference)
        self._host.ensure_daemon_absent(MEMORY_DAEMON)
        ensure_unmounted(self._host, file, self._clock)  # a killed daemon could not do it
        self._host.run(["rm", "-rf", "--one-file-system", str(file.parent)])

    def _file(self) -> PurePosixPath:
        return self._directory / "image"

    def _socket(self) -> PurePosixPath:
        return self._directory / "control"

    def _spec(self, program: PurePosixPath, transport: Transport) -> DaemonSpec:
        return DaemonSpec(
            name=MEMORY_DAEMON,
            argv=(
                str(program),
                "serve",
                *("--memory", str(DEVICE_BYTES)),
                *("--mountpoint", str(self._file())),
                *("--socket", str(self._socket())),
                *("--transport", transport),
                *("--classic-threads", str(CLASSIC_THREADS)),
            ),
            binds=(
                Bind(str(program.parent), str(program.parent), read_only=True),
                Bind(str(self._file().parent), str(self._file().parent), shared=True),
            ),
            privileged=True,
        )

    def _is_ready(self) -> bool:
        states = {status.name: status.state for status in self._host.observe_daemons()}
        if states.get(MEMORY_DAEMON) != "running":
            raise GrampusError(
                f"volumed ended on {self._host.name}: "
                f"{self._host.daemon_log(MEMORY_DAEMON, last_lines=2)}",
                "`volumed probe` on that host says what it can do.",
                code="driver-failed",
            )
        if not self._is_mounted():
            return False
        size = self._host.run(["stat", "--format", "%s", str(self._file())], check=False)
        return size.returncode == 0 and int(size.stdout) == DEVICE_BYTES

    def _is_mounted(self) -> bool:
        return observe_mounted_source(self._host, self._file()) is not None

    def _describe_transport(self) -> str:
        argv = [
            str(self._program.path(self._host)),
            "ctl",
            "--socket",
            str(self._socket()),
            "status",
        ]
        status = parse_status(parse_result(self._host.run(argv, timeout_s=CTL_TIMEOUT_S).stdout))
        return f"{status.transport} ({status.transport_reason})"
