"""Daemons as OCI containers run by runc, each over an overlay of a host image."""

from __future__ import annotations

import json
import os
import resource
import shutil
import stat
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from grampus.core.clock import Clock, wait_until
from grampus.core.errors import GrampusError, RefusedError
from grampus.core.streams import ByteReader, ByteWriter
from grampus.hosts.cgroups import Cgroups
from grampus.hosts.idmapped_mounts import explain_unmapped
from grampus.hosts.mounts import ensure_overlay, ensure_unmounted_below
from grampus.hosts.oci_config import (
    STOP_TIMEOUT,
    BlockDevice,
    MachineLimits,
    render_new_limits,
    render_oci_config,
)
from grampus.hosts.port import (
    CommandFailedError,
    CommandResult,
    DaemonSpec,
    DaemonState,
    DaemonStatus,
    Limits,
    RunningCommand,
)
from grampus.hosts.process import read_command, run_command, spawn_command, write_command
from grampus.hosts.runc_state import observe_first_process, observe_uid, runs_older_program

# A command must not outlive the Grampus process that started it (kill -9 included): the next
# command would meet it half done. TERM, because `runc exec` passes it on to its process.
DIES_WITH_US = ("setpriv", "--pdeathsig", "TERM")
# What stands for the machine itself.
HOST_CONTAINER = "host"
LOG_KEPT_BYTES = 16 * 1024 * 1024


def observe_machine_limits() -> MachineLimits:
    """What our own process may hand on."""
    status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    mask = next(line.split()[1] for line in status.splitlines() if line.startswith("CapBnd:"))
    return MachineLimits(
        capability_mask=int(mask, 16),
        max_open_files=resource.getrlimit(resource.RLIMIT_NOFILE)[1],
        locked_memory_bytes=resource.getrlimit(resource.RLIMIT_MEMLOCK)[1],
    )


def observe_block_device(path: str) -> BlockDevice:
    """The numbers of the block device at `path`. Raises GrampusError when it is none."""
    try:
        status = Path(path).stat()
    except FileNotFoundError:
        raise GrampusError(f"The block device {path} does not exist.") from None
    if not stat.S_ISBLK(status.st_mode):
        raise GrampusError(f"{path} is not a block device.")
    return BlockDevice(path, os.major(status.st_rdev), os.minor(status.st_rdev))


class Containers:
    """The containers of one host.

    `directory` holds what they leave on disk, a directory each: `bundle/config.json`, the
    overlay (`upper`, `work`, `rootfs`) and `log`. `prefix` starts every container's id in the
    shared runc root.
    """

    def __init__(
        self,
        *,
        directory: Path,
        runc_root: Path,
        prefix: str,
        hostname: str,
        network_namespace: str,
        cgroup_path: str,
        image_root: Callable[[str | None], Path],
        clock: Clock,
    ) -> None:
        self._directory = directory
        self._runc_root = runc_root
        self._prefix = prefix
        self._hostname = hostname
        self._network_namespace = network_namespace
        self._cgroup_path = cgroup_path
        self._image_root = image_root
        self._clock = clock

    def observe(self) -> list[DaemonStatus]:
        """Every container that was started here and not removed, sorted by name."""
        # One after the other: `runc list` fails as a whole when a container that it has just read
        # the name of is removed meanwhile (seen with runc 1.1.5).
        found = (self.observe_one(path.name) for path in sorted(self._directory.glob("*")))
        return [status for status in found if status is not None]

    def observe_one(self, name: str) -> DaemonStatus | None:
        """One of them, whatever else there is; None: it was never started here, or is removed."""
        if not (self._directory / name).is_dir():
            return None
        pid = self._running_pid(name)
        state: DaemonState = "stopped" if pid is None else "running"
        killed = 0 if pid is not None else self._observe_out_of_memory(name)
        uid = None if pid is None else observe_uid(pid)
        is_outdated = pid is not None and runs_older_program(pid)
        return DaemonStatus(name, state, pid, killed, uid, is_outdated)

    def _observe_out_of_memory(self, name: str) -> int:
        return Cgroups(self._cgroup_path).observe_out_of_memory(name)

    def is_running(self, name: str) -> bool:
        """Whether the container's first process is alive."""
        return self._running_pid(name) is not None

    def _running_pid(self, name: str) -> int | None:
        process = observe_first_process(self._runc_root / self._id(name))
        if process is not None:
            return process.pid if process.alive else None
        state = self._state(name)
        return int(state["pid"]) if state is not None and state["status"] == "running" else None

    def ensure_running(self, spec: DaemonSpec) -> None:
        """Start the container unless it runs.

        A container of the same name that has ended, or was started only half, is replaced.
        """
        if self.is_running(spec.name):
            return
        self._delete(spec.name)
        directory = self._directory / spec.name
        rootfs = directory / "rootfs"
        ensure_overlay(
            self._image_root(spec.image), directory / "upper", directory / "work", rootfs
        )
        note = self._bundle(spec.name) / "owners-not-mapped"
        note.unlink(missing_ok=True)
        self._write_config(spec, rootfs, note)
        try:
            self._start(spec.name)
        except GrampusError:
            said = explain_unmapped(note.read_text(encoding="utf-8")) if note.exists() else None
            if said is None:
                raise
            self._delete(spec.name)
            with self._log(spec.name).open("a", encoding="utf-8") as log:
                log.write(
                    f"It runs as the owner of its files, because they cannot be mapped ({said}).\n"
                )
            self._write_config(spec, rootfs, None)
            self._start(spec.name)

    def _write_config(self, spec: DaemonSpec, rootfs: Path, owners_note: Path | None) -> None:
        """Its bundle's `config.json`; `owners_note` as `render_oci_config` says."""
        devices = {
            path: observe_block_device(path)
            for path in (*spec.devices, *(limit.device for limit in spec.limits.block))
        }
        config = render_oci_config(
            spec,
            root=str(rootfs),
            hostname=self._hostname,
            network_namespace=self._network_namespace,
            cgroup_path=f"{self._cgroup_path}/{spec.name}",
            machine=observe_machine_limits(),
            devices=devices,
            host_pid=self._host_pid() if spec.bare else None,
            owners_note=None if owners_note is None else str(owners_note),
        )
        bundle = self._bundle(spec.name)
        bundle.mkdir(parents=True, exist_ok=True)
        (bundle / "config.json").write_text(json.dumps(config, indent=1), encoding="utf-8")

    def _host_pid(self) -> int:
        """The first process of the host container. Raises GrampusError with code `host-down`."""
        pid = self._running_pid(HOST_CONTAINER)
        if pid is None:
            raise GrampusError(f"The host {self._hostname} does not run.", code="host-down")
        return pid

    def restart(self, name: str, *, stop_signal: str, timeout_s: float) -> None:
        """End the container and start it once more, just as it was started the last time.

        One that has ended is started too. Raises GrampusError with code `daemon-absent` when it
        was never started, or is removed.
        """
        if not (self._bundle(name) / "config.json").exists():
            raise GrampusError(
                f"The daemon {name} does not exist on {self._hostname}.", code="daemon-absent"
            )
        self.stop(name, kill=False, stop_signal=stop_signal, timeout_s=timeout_s)
        self._delete(name)
        self._start(name)

    def _start(self, name: str) -> None:
        """Start the container of a bundle that is there."""
        bundle = self._bundle(name)
        log = self._log(name)
        if log.exists() and log.stat().st_size > LOG_KEPT_BYTES:
            log.replace(log.with_suffix(".old"))
        # The shell hands the log over as stdout: runc would keep our pipe open for ever.
        script = 'log=$1; shift; exec "$@" >>"$log" 2>&1 </dev/null'
        argv = [*DIES_WITH_US, *self._runc_argv("run", "--detach", "--bundle", str(bundle))]
        result = run_command(
            ["sh", "-c", script, "sh", str(log), *argv, self._id(name)],
            check=False,
        )
        if result.returncode != 0:
            raise GrampusError(
                f"The daemon {name} could not be started on {self._hostname}: "
                f"{self.log(name, last_lines=3)}",
                code="daemon-failed",
            )

    def set_limits(self, name: str, limits: Limits) -> None:
        """Change the CPU and memory limits of a running container. Errors as `Host.set_limits`."""
        if not self.is_running(name):
            raise GrampusError(
                f"The daemon {name} does not run on {self._hostname}.", code="daemon-absent"
            )
        result = run_command(
            self._runc_argv("update", "--resources", "-", self._id(name)),
            stdin=json.dumps(render_new_limits(limits)),
            check=False,
            where=self._hostname,
        )
        if result.returncode == 0:
            return
        if "unable to set memory limit" in result.stderr or "resource busy" in result.stderr:
            raise RefusedError(
                f"The daemon {name} on {self._hostname} uses more memory than the new limit.",
                "Choose a higher limit, or let the daemon free memory first.",
                code="memory-in-use",
            )
        raise CommandFailedError(self._hostname, result)

    def ensure_absent(self, name: str, *, kill: bool, stop_signal: str, timeout_s: float) -> None:
        """Stop the container, remove it and what it left on disk."""
        self.stop(name, kill=kill, stop_signal=stop_signal, timeout_s=timeout_s)
        self._delete(name)
        directory = self._directory / name
        ensure_unmounted_below(directory)
        if directory.exists():
            shutil.rmtree(directory)

    def stop(self, name: str, *, kill: bool, stop_signal: str, timeout_s: float) -> None:
        """End the container's processes: by `stop_signal`, and by KILL after `timeout_s`, or after
        the time that the daemon was given when it was started, if that is longer."""
        if not self.is_running(name):
            return
        if not kill:
            self._runc("kill", self._id(name), stop_signal, check=False)
            try:
                self._wait_until_ended(name, max(timeout_s, self._stop_timeout_s(name)))
            except GrampusError as error:
                if error.code != "timeout":
                    raise
        if self.is_running(name):
            self._runc("kill", self._id(name), "KILL", check=False)
            self._wait_until_ended(name, 30)

    def _stop_timeout_s(self, name: str) -> float:
        """What the daemon was started with; 0 for one of an earlier version."""
        try:
            config = json.loads((self._bundle(name) / "config.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            return 0.0
        return float(config.get("annotations", {}).get(STOP_TIMEOUT, 0))

    def exec_argv(
        self, name: str, argv: Sequence[str], *, tty: bool = False, ends_by_itself: bool = False
    ) -> list[str]:
        """The command on this machine that runs `argv` inside the container, as its user.

        One that does not end by itself when its stdin does gets TERM at the end of the thread
        that started it.
        """
        config = self._bundle(name) / "config.json"
        try:
            user = json.loads(config.read_text(encoding="utf-8"))["process"]["user"]
        except FileNotFoundError:
            raise GrampusError(
                f"The daemon {name} does not exist on {self._hostname}.", code="daemon-absent"
            ) from None
        return [
            *([] if ends_by_itself else DIES_WITH_US),
            *self._runc_argv(
                "exec",
                *(["--tty"] if tty else []),
                "--user",
                f"{user['uid']}:{user['gid']}",
                self._id(name),
            ),
            *argv,
        ]

    def run(
        self, name: str, argv: Sequence[str], *, stdin: str | None, timeout_s: float, check: bool
    ) -> CommandResult:
        """Run a command inside the container."""
        result = run_command(
            self.exec_argv(name, argv),
            stdin=stdin,
            timeout_s=timeout_s,
            check=False,
            where=self._hostname,
        )
        shown = CommandResult(tuple(argv), result.returncode, result.stdout, result.stderr)
        if check and result.returncode != 0:
            raise CommandFailedError(self._hostname, shown)
        return shown

    def spawn(self, name: str, argv: Sequence[str], *, stdin: str | None) -> RunningCommand:
        """Start a command inside the container."""
        return spawn_command(self.exec_argv(name, argv), stdin=stdin, where=self._hostname)

    def reading(self, name: str, argv: Sequence[str]) -> AbstractContextManager[ByteReader]:
        """What a command inside the container writes to stdout."""
        return read_command(self.exec_argv(name, argv), where=self._hostname, shown=argv)

    def writing(self, name: str, argv: Sequence[str]) -> AbstractContextManager[ByteWriter]:
        """What takes bytes for the stdin of a command inside the container."""
        return write_command(self.exec_argv(name, argv), where=self._hostname, shown=argv)

    def log(self, name: str, *, last_lines: int) -> str:
        """The end of the container's stdout and stderr."""
        log = self._log(name)
        if not log.exists():
            return ""
        with log.open("rb") as stream:
            stream.seek(max(0, log.stat().st_size - 64 * 1024))
            lines = stream.read().decode("utf-8", errors="replace").splitlines()
        return "\n".join(lines[-last_lines:])

    def _id(self, name: str) -> str:
        return f"{self._prefix}.{name}"

    def _bundle(self, name: str) -> Path:
        return self._directory / name / "bundle"

    def _log(self, name: str) -> Path:
        return self._directory / name / "log"

    def _state(self, name: str) -> dict[str, Any] | None:
        """What runc says; None: there is no such container. Raises CommandFailedError.

        A container that is taken for ended would be ended and replaced while it serves.
        """
        directory = self._runc_root / self._id(name)
        if not directory.is_dir():
            return None
        result = self._runc("state", self._id(name), check=False)
        if result.returncode != 0 and (directory / "state.json").exists():
            # Asked before runc had written down what it is starting now, and has by now.
            result = self._runc("state", self._id(name), check=False)
        if result.returncode != 0:
            # Removed meanwhile; or made only half, by a runc that was killed before it wrote down
            # what it had made.
            if not (directory / "state.json").exists():
                return None
            raise CommandFailedError(self._hostname, result)
        state: dict[str, Any] = json.loads(result.stdout)
        return state

    def _delete(self, name: str) -> None:
        # Commands run inside by a Grampus that was killed may outlive the first process: runc
        # would then leave the control group behind.
        cgroups = Cgroups(f"{self._cgroup_path}/{name}")
        cgroups.ensure_ended(self._clock)
        if (self._runc_root / self._id(name)).exists():
            self._runc("delete", "--force", self._id(name), check=False)

    def _wait_until_ended(self, name: str, timeout_s: float) -> None:
        wait_until(
            self._clock,
            lambda: not self.is_running(name),
            what=f"{name} on {self._hostname} to end",
            timeout_s=timeout_s,
            interval_s=0.05,
        )

    def _runc_argv(self, *arguments: str) -> list[str]:
        return ["runc", "--root", str(self._runc_root), *arguments]

    def _runc(self, *arguments: str, check: bool = True) -> CommandResult:
        return run_command(self._runc_argv(*arguments), check=check, where=self._hostname)
