"""Disks with one arm, emulated: a file that volumed serves as slowly as such a disk answers.

A limit of the kernel counts requests and bytes, each by itself. A disk takes time for both: to move
its arm, and for each byte. So large requests are not held up by a limit of requests a second, and
small ones behind one another are not as slow as small ones here and there.
"""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from grampus.core.clock import Clock, SystemClock, wait_until
from grampus.core.errors import GrampusError
from grampus.core.installation import find_volumed
from grampus.hosts.lab_host import DISK_DAEMON_PREFIX
from grampus.hosts.loop_devices import ensure_loop_device_absent
from grampus.hosts.media import DiskModel
from grampus.hosts.mounts import ensure_unmounted, observe_mounted_source
from grampus.hosts.port import Bind, DaemonSpec, Host
from grampus.lab.slice_devices import disks_directory

START_TIMEOUT_S = 30.0
ASK_TIMEOUT_S = 10.0
_SYSTEM_CLOCK = SystemClock()


class EmulatedDisks:
    """The emulated disks of hosts: a daemon for each file. Every method can be repeated."""

    def __init__(self, program: Path | None = None, clock: Clock = _SYSTEM_CLOCK) -> None:
        """`program` is the built volumed (default: that of this installation)."""
        self._program = program or find_volumed()
        self._clock = clock

    def ensure(
        self, host: Host, file: PurePosixPath, model: DiskModel, *, is_synced: bool = True
    ) -> PurePosixPath:
        """The file that is served in place of `file`, with its daemon.

        Where it is not to be `is_synced`, a flush takes the model's time alone. The end of the
        daemon loses nothing, a crash of the machine may.

        Raises GrampusError with code `no-volumed` where volumed is not built, and with code
        `disk-failed` when the daemon ends.
        """
        served = served_file(host, file)
        if self.find(host, file) is None:
            # What a daemon that has ended left: nothing under its mount answers any more.
            self.ensure_absent(host, file)
            host.run(["mkdir", "-p", str(served.parent)])
            host.run(["touch", str(served)])
            host.ensure_daemon(self._spec(host, file, model, is_synced=is_synced))
            # Before it is there, a loop device would be one over the empty file underneath.
            wait_until(
                self._clock,
                lambda: self._is_served(host, file),
                what=f"the emulated disk {served.parent.name} on {host.name}",
                timeout_s=START_TIMEOUT_S,
                interval_s=0.02,
            )
        return served

    def find(self, host: Host, file: PurePosixPath) -> PurePosixPath | None:
        """The file that is served in place of `file`, or None unless its daemon serves it."""
        status = host.observe_daemon(disk_daemon(host, file))
        if status is None or status.state != "running":
            return None
        served = served_file(host, file)
        return served if observe_mounted_source(host, served) is not None else None

    def ensure_absent(self, host: Host, file: PurePosixPath) -> None:
        """No daemon, no mount, and no loop device over what it served. Its users must have ended.

        What was flushed is in `file`, and so is all else that the daemon has answered.
        """
        served = served_file(host, file)
        # By the file alone: whose slices they are, nobody need know.
        ensure_loop_device_absent(host, served, reference=str(served))
        host.ensure_daemon_absent(disk_daemon(host, file), kill=True)
        ensure_unmounted(host, served, self._clock)
        host.run(["rm", "-rf", "--one-file-system", str(served.parent)])

    def set_paced(self, host: Host, file: PurePosixPath, *, is_paced: bool) -> None:
        """Whether it is as slow as the disk, or as fast as the machine. Raises GrampusError."""
        ctl = [str(_program(host)), "ctl", "--socket", str(disk_socket(host, file))]
        host.run([*ctl, "pace", "on" if is_paced else "off"], timeout_s=ASK_TIMEOUT_S)

    def _is_served(self, host: Host, file: PurePosixPath) -> bool:
        if observe_mounted_source(host, served_file(host, file)) is not None:
            return True
        name = disk_daemon(host, file)
        status = host.observe_daemon(name)
        if status is not None and status.state == "running":
            return False
        said = host.daemon_log(name, last_lines=2)
        raise GrampusError(
            f"The emulated disk {name} ended: {said}",
            "Fix the error above, then try again.",
            code="disk-failed",
        )

    def _spec(
        self, host: Host, file: PurePosixPath, model: DiskModel, *, is_synced: bool
    ) -> DaemonSpec:
        program, served = _program(host), served_file(host, file)
        if not self._program.is_file():
            raise GrampusError(
                "Hard disks are emulated by volumed, which has not been built.",
                "Run `make setup`, or choose another medium.",
                code="no-volumed",
            )
        host.ensure_copy(self._program, program, mode=0o755)
        return DaemonSpec(
            name=disk_daemon(host, file),
            argv=(
                str(program),
                "serve",
                *("--file", str(file)),
                *("--emulate-disk", model.render()),
                *(() if is_synced else ("--no-sync",)),
                *("--mountpoint", str(served)),
                *("--socket", str(disk_socket(host, file))),
            ),
            binds=(
                Bind(str(program.parent), str(program.parent), read_only=True),
                Bind(str(file.parent), str(file.parent)),
                Bind(str(served.parent), str(served.parent), shared=True),
            ),
            privileged=True,
        )


def disk_daemon(host: Host, file: PurePosixPath) -> str:
    """The daemon that serves `file`; files of several hosts have the same name."""
    return f"{DISK_DAEMON_PREFIX}{host.name}-{file.name.removesuffix('.img')}"


def served_file(host: Host, file: PurePosixPath) -> PurePosixPath:
    """What is served in place of `file`. Its directory holds nothing but what serving it needs."""
    return disks_directory(host) / file.name.removesuffix(".img") / "disk"


def _program(host: Host) -> PurePosixPath:
    # Where volumes have theirs, too: it is the same one.
    return host.data_dir / "bin" / "volumed"


def disk_socket(host: Host, file: PurePosixPath) -> PurePosixPath:
    """The control socket of the volumed that serves `file`."""
    return served_file(host, file).parent / "control"
