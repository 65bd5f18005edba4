"""A host that is reached by SSH, with daemons as systemd services; see the package's overview."""

from __future__ import annotations

import hashlib
import shlex
import threading
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib import resources
from pathlib import Path, PurePosixPath

from grampus.core.errors import GrampusError, RefusedError, SupersededError
from grampus.core.streams import ByteReader, ByteWriter
from grampus.hosts.announcing import announce_argv, ask_argv, render_announcement
from grampus.hosts.command_server.client import CommandServers
from grampus.hosts.idmapped_mounts import explain_unmapped, mapped_binds
from grampus.hosts.port import (
    COMMAND_TIMEOUT_S,
    CommandFailedError,
    CommandResult,
    CpuWait,
    DaemonSpec,
    DaemonStatus,
    HostUnreachableError,
    Limits,
    RunningCommand,
    Usage,
)
from grampus.hosts.process import read_command, run_command, spawn_command, write_command
from grampus.hosts.remote.addresses import AddressPlace, decide_place
from grampus.hosts.remote.cluster_reach import ClusterReach
from grampus.hosts.remote.epoch_guard import SUPERSEDED, UNDECIDED, HostEpoch
from grampus.hosts.remote.host_parts import LACKS_IMAGE, OTHER_PARTS, explain_refusal
from grampus.hosts.remote.host_root import inside_argv
from grampus.hosts.remote.host_scripts import (
    ABSENT,
    LIMIT,
    LOG,
    MAP_BINDS,
    MEMORY_IN_USE,
    NOT_RUNNING,
    PREPARE_DAEMON,
    READ_FILE,
    START_DAEMON,
    UNMAP_BINDS,
    WRITE_FILE,
    parse_file,
)
from grampus.hosts.remote.image_scripts import MISSING_IMAGE, image_root
from grampus.hosts.remote.inside_daemons import InsideDaemons
from grampus.hosts.remote.ssh import SshPlace, explain_ssh, ssh_argv
from grampus.hosts.remote.units import (
    UnitPlace,
    cpu_waits_argv,
    image_note,
    parse_cpu_waits,
    parse_statuses,
    parse_usages,
    render_new_limits,
    render_start,
    status_argv,
    usage_argv,
)
from grampus.state.home import require_below

# For how long an answer, or its lack, to "does the host answer" is kept.
REACHABLE_FOR_S = 1.0
# To connect takes a third of a second, or more on a busy host.
FIRST_PATIENCE_S = 8.0
# Over a connection that served a moment ago. A packet that is lost is sent again after 1 s.
KNOWN_PATIENCE_S = 2.0
_NO_USER_NAMESPACES = 3
_MAPPING_PROGRAM = resources.files("grampus.hosts").joinpath("idmap_mounts_hook.py")


@dataclass(frozen=True)
class RemoteHostPlace:
    """Where a host is, and what Grampus has there."""

    name: str
    address: str  # as the cluster sees it
    ssh: SshPlace
    directory: str
    tag: str
    image_id: str
    interface: str  # for further addresses; empty: the one in their network
    # Of who gives the commands now; None: the host is not asked whether it has seen a later one.
    epoch: Callable[[], HostEpoch | None] = lambda: None


@dataclass(frozen=True)
class _Answer:
    """Whether the host answered, and when that was seen (monotonic seconds)."""

    at_s: float
    is_reachable: bool


class RemoteHost:
    """A `Host` over SSH. Safe to be used by several threads."""

    def __init__(
        self,
        place: RemoteHostPlace,
        *,
        monotonic_s: Callable[[], float] = time.monotonic,
        provide_image: Callable[[str], None] | None = None,
    ) -> None:
        """`provide_image` copies the image of that id to the host, for a daemon that needs it."""
        self._place = place
        self._provide_image = provide_image
        self._monotonic_s = monotonic_s
        self._units = UnitPlace(place.tag, place.directory, place.image_id)
        self._answer: _Answer | None = None
        self._asking = threading.Lock()
        self._choosing = threading.Lock()
        self._epoch = place.epoch()
        self._reach = ClusterReach(self.run, self.read_file, monotonic_s)
        self._commands = CommandServers(
            self._own_connection, where=place.name, explain_end=self._explain_end
        )
        self._inside = InsideDaemons(self.observe_daemon, self._units.unit, place.name)

    @property
    def name(self) -> str:
        return self._place.name

    @property
    def address(self) -> str:
        return self._place.address

    @property
    def data_dir(self) -> PurePosixPath:
        return PurePosixPath(self._place.directory) / "data"

    def is_reachable(self) -> bool:
        """Whether commands can be run there now; asked at most once a second.

        A host that did not answer is asked in the background, and counts as lost until it answers:
        nobody waits for the same host again and again.
        """
        answer, now_s = self._answer, self._monotonic_s()
        if answer is None:
            return self._ask(FIRST_PATIENCE_S)
        if now_s < answer.at_s + REACHABLE_FOR_S:
            return answer.is_reachable
        if answer.is_reachable:
            return self._ask(KNOWN_PATIENCE_S)
        if self._asking.acquire(blocking=False):
            threading.Thread(target=self._ask_again, daemon=True).start()
        return False

    @property
    def has_answered(self) -> bool:
        """Whether it did when it was asked last; nobody asks it now."""
        return self._answer is not None and self._answer.is_reachable

    def reaches_cluster(self) -> bool:
        """Whether commands can be run there, and the MONs answer it. Asked once a second."""
        if not self.is_reachable():
            return False
        try:
            return self._reach.observe()
        except HostUnreachableError:
            return False

    def _ask_again(self) -> None:
        try:
            self._ask(FIRST_PATIENCE_S)
        finally:
            self._asking.release()

    def _ask(self, patience_s: float) -> bool:
        try:
            self.run(["true"], timeout_s=patience_s)
            is_reachable = True
        except GrampusError as error:
            # A host that refuses us is not lost: whoever controls it now needs it.
            is_lost = isinstance(error, HostUnreachableError | RefusedError)
            if isinstance(error, SupersededError) or not (is_lost or error.code == "timeout"):
                raise
            is_reachable = False
        self._answer = _Answer(self._monotonic_s(), is_reachable)
        return is_reachable

    def set_epoch(self, epoch: HostEpoch) -> None:
        """From now on the host obeys this epoch, whatever it has seen before.

        For a host that is added: it may have been one of the site before.
        """
        place = self._place
        inside = inside_argv(place.directory, place.image_id, ["true"], epoch, is_forced=True)
        run_on_machine(place.ssh, inside)

    def close(self) -> None:
        """End the processes that wait for the next command. A later command starts them again."""
        self._commands.close()

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: str | None = None,
        timeout_s: float = COMMAND_TIMEOUT_S,
        check: bool = True,
        daemon: str | None = None,
    ) -> CommandResult:
        def ask(argv: list[str]) -> CommandResult:
            return self._servers().run(argv, stdin=stdin, timeout_s=timeout_s, check=False)

        if daemon is None:
            result = ask(list(argv))
        else:
            result = self._inside.run(daemon, argv, has_stdin=stdin is not None, run=ask)
        shown = CommandResult(tuple(argv), result.returncode, result.stdout, result.stderr)
        if check and result.returncode != 0:
            raise CommandFailedError(self.name, shown)
        return shown

    def spawn(self, argv: Sequence[str], *, stdin: str | None = None) -> RunningCommand:
        return spawn_command(self._own_connection(argv), stdin=stdin, where=self.name)

    def reading(self, argv: Sequence[str]) -> AbstractContextManager[ByteReader]:
        return read_command(self._own_connection(argv), where=self.name, shown=argv)

    def writing(self, argv: Sequence[str]) -> AbstractContextManager[ByteWriter]:
        return write_command(self._own_connection(argv), where=self.name, shown=argv)

    def terminal_argv(self, argv: Sequence[str], *, daemon: str, tty: bool) -> list[str]:
        inner = self._inside.argv(daemon, argv)
        place = self._place
        return ssh_argv(place.ssh, inside_argv(place.directory, place.image_id, inner), tty=tty)

    def write_file(
        self, path: PurePosixPath, content: str, *, mode: int = 0o644, uid: int = 0, gid: int = 0
    ) -> None:
        target = str(require_below(path, Path(self.data_dir), self.name))
        self.run(
            ["python3", "-c", WRITE_FILE, target, f"{mode:o}", str(uid), str(gid)], stdin=content
        )

    def ensure_copy(self, source: Path, path: PurePosixPath, *, mode: int = 0o644) -> None:
        target = str(require_below(path, Path(self.data_dir), self.name))
        try:
            content = source.read_bytes()
        except FileNotFoundError:
            raise GrampusError(f"The file {source} does not exist.", code="no-such-file") from None
        digest = hashlib.sha256(content).hexdigest()
        found = self.run(["sha256sum", target], check=False).stdout.split()
        if found[:1] == [digest] and self._mode_of(target) == mode:
            return
        directory, part = shlex.quote(str(path.parent)), shlex.quote(f"{target}.new")
        script = (
            f"set -e; mkdir -p {directory}; cat >{part}; chmod {mode:o} {part}; sync {part}; "
            f'test "$(sha256sum {part} | cut -d" " -f1)" = {digest}; '
            f"mv {part} {shlex.quote(target)}"
        )
        with self.writing(["sh", "-c", script, "ensure-copy"]) as stream:
            stream.write(content)

    def read_file(self, path: PurePosixPath) -> str | None:
        return parse_file(self.run(["python3", "-c", READ_FILE, str(path)]).stdout)

    def ensure_daemon(self, spec: DaemonSpec) -> None:
        status = self.observe_daemon(spec.name)
        if status is not None and status.state == "running":
            return
        self._prepare_daemon(spec)
        start = render_start(spec, self._units, maps_owners=self._map_owners(spec))
        mapped = self._units.mapped_directory(spec.name)
        started = self._outside(START_DAEMON, mapped, *start, check=False)
        if started.returncode != 0:
            said = started.stderr.strip() or self.daemon_log(spec.name, last_lines=3)
            raise GrampusError(
                f"The daemon {spec.name} could not be started on {self.name}: {said}",
                f"`systemctl status {self._unit(spec.name)}` on the host shows more.",
                code="daemon-failed",
            )

    def ensure_daemon_absent(self, name: str, *, kill: bool = False) -> None:
        self._outside(
            ABSENT,
            self._unit(name),
            "kill" if kill else "stop",
            self._units.daemon_directory(name),
            self._units.mapped_directory(name),
        )

    def set_limits(self, name: str, limits: Limits) -> None:
        memory = "" if limits.memory_bytes is None else str(limits.memory_bytes)
        arguments = (self._unit(name), memory, *render_new_limits(limits))
        result = self._outside(LIMIT, *arguments, check=False)
        if result.returncode == NOT_RUNNING:
            raise GrampusError(
                f"The daemon {name} does not run on {self.name}.", code="daemon-absent"
            )
        if result.returncode == MEMORY_IN_USE:
            raise RefusedError(
                f"The daemon {name} on {self.name} uses more memory than the new limit.",
                "Choose a higher limit, or let the daemon free memory first.",
                code="memory-in-use",
            )
        if result.returncode != 0:
            raise CommandFailedError(self.name, result)

    def observe_daemons(self) -> list[DaemonStatus]:
        return self._observe()

    def observe_daemon(self, name: str) -> DaemonStatus | None:
        return next((one for one in self._observe(name) if one.name == name), None)

    def daemon_log(self, name: str, *, last_lines: int = 20) -> str:
        return self._outside(LOG, self._unit(name), str(last_lines)).stdout.rstrip("\n")

    def observe_usage(self) -> dict[str, Usage]:
        return parse_usages(self._on_host(usage_argv(self._units)).stdout)

    def observe_cpu_waits(self, daemons: Collection[str]) -> dict[str, CpuWait]:
        if not daemons:
            return {}
        return parse_cpu_waits(self._on_host(cpu_waits_argv(self._units, daemons)).stdout)

    def ensure_address(self, address: str) -> None:
        place = self._address_place(address)
        entry = f"{address}/{place.prefix_length}"
        self.run(["ip", "address", "replace", entry, "dev", place.interface])
        self.run(announce_argv(place.interface, render_announcement(place.mac, address)))

    def find_address_holder(self, address: str) -> str | None:
        """The MAC of another machine on the segment that has the address."""
        place = self._address_place(address)
        return self.run(ask_argv(place.interface, place.mac, address)).stdout.strip() or None

    def ensure_address_absent(self, address: str) -> None:
        place = self._address_place(address)
        if place.is_there:
            entry = f"{address}/{place.prefix_length}"
            self.run(["ip", "address", "delete", entry, "dev", place.interface])

    # -- inside -------------------------------------------------------------------------------

    def _observe(self, daemon: str = "") -> list[DaemonStatus]:
        shown = self._on_host(status_argv(self._units, daemon)).stdout
        found = parse_statuses(shown, self._place.image_id)
        self._inside.note(found)
        return found

    def _prepare_daemon(self, spec: DaemonSpec) -> None:
        image_id = spec.image or self._place.image_id
        arguments = (
            self._units.daemon_directory(spec.name),
            image_root(self._place.directory, image_id),
            self._unit(spec.name),
            image_note(spec, self._units),
        )
        made = self._outside(PREPARE_DAEMON, *arguments, check=False)
        if made.returncode == MISSING_IMAGE and self._provide_image is not None:
            self._provide_image(image_id)
            made = self._outside(PREPARE_DAEMON, *arguments, check=False)
        if made.returncode != 0:
            raise CommandFailedError(self.name, made)

    def _unit(self, daemon: str) -> str:
        return self._units.unit(daemon)

    def _servers(self) -> CommandServers:
        """Those of the present epoch: the host ends all others when it hears of it."""
        with self._choosing:
            epoch = self._place.epoch()
            if epoch != self._epoch:
                self._epoch = epoch
                self._commands.close()
        return self._commands

    def _own_connection(self, argv: Sequence[str]) -> list[str]:
        place = self._place
        inside = inside_argv(place.directory, place.image_id, argv, place.epoch())
        return ssh_argv(place.ssh, inside)

    def _explain_end(self, said: str) -> GrampusError:
        if OTHER_PARTS in said or LACKS_IMAGE in said:
            return explain_refusal(self.name, said)
        if UNDECIDED in said:
            return RefusedError(
                f"{self.name} obeys nobody: {said.strip()}.",
                f"`grampus host add {self.name}` records the present controller epoch of the site "
                "on the host.",
                code="host-epoch",
            )
        if SUPERSEDED not in said:
            return explain_ssh(self._place.ssh, said)
        return SupersededError(
            f"{self.name} obeys a later controller epoch: {said.strip()}.",
            "Run the command again. `grampus site check NAME` says why the epoch began.",
        )

    def _on_host(self, argv: Sequence[str], *, check: bool = True) -> CommandResult:
        """A command with the host's own programs, outside of our root."""
        outside = ["nsenter", "--target", "1", "--mount", "--wd=/", "--", *argv]
        return self.run(outside, check=check)

    def _outside(self, script: str, *arguments: str, check: bool = True) -> CommandResult:
        return self._on_host(["sh", "-c", script, "grampus-daemon", *arguments], check=check)

    def _map_owners(self, spec: DaemonSpec) -> bool:
        """Make the binds whose files shall belong to the daemon's own user; whether it could."""
        mapped = mapped_binds(spec)
        if not mapped:
            return False
        numbers = [number for number, bind in enumerate(spec.binds) if bind in mapped]
        places = [self._units.mapped(spec.name, number) for number in numbers]
        pairs = [
            word
            for place, number in zip(places, numbers, strict=True)
            for word in (spec.binds[number].source, place)
        ]
        ids = (str(mapped[0].owner), str(spec.uid), str(spec.gid))
        held = self._outside(MAP_BINDS, *ids, *pairs, check=False)
        if held.returncode == _NO_USER_NAMESPACES:
            return False
        if held.returncode != 0:
            raise CommandFailedError(self.name, held)
        directory = self._units.mapped_directory(spec.name)
        note = f"{directory}.note"
        program = _MAPPING_PROGRAM.read_text(encoding="utf-8")
        argv = ["python3", "-c", program, "process", held.stdout.strip(), note, *places]
        made = self.run(argv, check=False)
        if made.returncode == 0:
            return True
        said = self.read_file(PurePosixPath(note))
        self._outside(UNMAP_BINDS, directory)
        if said is None or explain_unmapped(said) is None:
            raise CommandFailedError(self.name, made)
        return False

    def _mode_of(self, target: str) -> int:
        found = self.run(["stat", "--format", "%a", target], check=False).stdout.strip()
        return int(found, 8) if found else -1

    def _address_place(self, address: str) -> AddressPlace:
        shown = self.run(["ip", "-json", "address", "show"]).stdout
        return decide_place(shown, address, interface=self._place.interface, where=self.name)


def run_on_machine(
    ssh: SshPlace, argv: Sequence[str], *, timeout_s: float = COMMAND_TIMEOUT_S, check: bool = True
) -> CommandResult:
    """Run a command with a machine's own programs, before Grampus has anything there.

    Raises the error of `explain_ssh` when it cannot be reached, CommandFailedError when `check`.
    """
    result = run_command(ssh_argv(ssh, argv), timeout_s=timeout_s, check=False, where=ssh.host)
    shown = CommandResult(tuple(argv), result.returncode, result.stdout, result.stderr)
    # ssh(1): 255 is an error of the connection.
    if result.returncode == 255 or "sudo: a password is required" in result.stderr:
        raise explain_ssh(ssh, result.stderr)
    if check and result.returncode != 0:
        raise CommandFailedError(ssh.host, shown)
    return shown
