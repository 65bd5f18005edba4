"""volumed: our own daemon between librbd and FUSE, one a volume."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath

from grampus.core.errors import GrampusError
from grampus.core.units import MIB
from grampus.hosts.port import Bind, CommandResult, DaemonSpec, Host, Limits
from grampus.volumes.drivers.export import ServerFacts, is_daemon_running
from grampus.volumes.drivers.export_devices import keeps_order
from grampus.volumes.drivers.port import ClientAnswer, MapRequest
from grampus.volumes.live import (
    DEAD_STATES,
    SERVING_STATES,
    LiveVolume,
    parse_journal_counts,
    parse_result,
    parse_statistics,
    parse_status,
)
from grampus.volumes.local_logs import ensure_local_directory
from grampus.volumes.model import DEFAULT_JOURNAL_MEMORY_BYTES, VolumeSpec, WritePath

NOT_BUILT = "it has not been built (`make setup` builds it)"
# What `volumed ctl` ends with when no daemon listens.
CTL_NO_DAEMON = 3
CTL_WRONG_USE = 2
ASK_TIMEOUT_S = 10.0
STOP_TIMEOUT_S = 60.0
# The same of one whose image is removed next: nobody needs what it has not written by then.
LEAVE_TIMEOUT_S = 10.0
# Closing brings what a journal holds into the image first; writers wait for the last of it alone.
CLOSE_TIMEOUT_S = 90.0
OPEN_TIMEOUT_S = 60.0
# How long a volumed that ends applies what its journal holds; the rest stays in the journal.
DRAIN_TIMEOUT_S = 60.0
DRAW_DOWN_TIMEOUT_S = 60.0
CHECK_TIMEOUT_S = 10.0
# Drawing a journal down, holding requests, the snapshot itself. What is late is not taken.
SNAPSHOT_TIMEOUT_S = 100.0
# A volumed takes 15 MiB of its own when it is idle, and what its requests need when it is busy, on
# any number of CPUs (docs/proof/density.md). Being killed for memory would cost the volume, so the
# limit lies far above: it only keeps a defect from taking the host's memory.
BASE_MEMORY_LIMIT_BYTES = 896 * MIB
# The index of the read cache, and what waits to be written to it and to the log on the host.
CACHE_MEMORY_BYTES = (128 + 32) * MIB
# LUKS2 lets Argon2id fill up to 1 GiB while the image is opened (libcryptsetup's default cost).
KEY_DERIVATION_MEMORY_BYTES = (1024 + 32) * MIB


# What it logs as soon as it is a client of the cluster, before it opens the image (rbd.rs).
_CONNECTED = re.compile(r'connected to the cluster address="([^"]+)"')


class VolumedProgram:
    """The volumed of this checkout, put on a host when the host needs it."""

    def __init__(self, source: Path | None) -> None:
        """`source` is the built program on this machine, or None."""
        self._source = source

    def is_built(self) -> bool:
        return self._source is not None and self._source.is_file()

    def path(self, host: Host) -> PurePosixPath:
        """Where it is on the host, once `ensure_on` put it there."""
        return host.data_dir / "bin" / "volumed"

    def ensure_on(self, host: Host) -> PurePosixPath:
        """The program on the host, that of this checkout. Daemons that run keep the one they have.

        Raises GrampusError with code `no-volumed` when it has not been built.
        """
        if self._source is None or not self.is_built():
            raise GrampusError(f"volumed does not exist: {NOT_BUILT}.", code="no-volumed")
        host.ensure_copy(self._source, self.path(host), mode=0o755)
        return self.path(host)

    def observe_absence(self, host: Host) -> str | None:
        """Why volumed cannot be used on the host, or None when it can."""
        if not self.is_built():
            return NOT_BUILT
        argv = [str(self.ensure_on(host)), "probe"]
        result = host.run(argv, check=False, timeout_s=ASK_TIMEOUT_S)
        if result.returncode != 0:
            return f"`volumed probe` failed: {last_line(result)}"
        return explain_probe(result.stdout)


class Volumed:
    """An `ExportServer`."""

    grows_live = True
    exchanges_live = True

    def __init__(self, program: VolumedProgram) -> None:
        self._program = program

    def daemon(self, request: MapRequest) -> str:
        return f"volumed-{request.volume.name}"

    def prepare(self, host: Host, request: MapRequest, file: PurePosixPath) -> DaemonSpec:
        program, socket = self._program.ensure_on(host), control_socket(file)
        allocator = _observe_allocator(host)
        write_path = request.volume.write_path
        local: list[str] = []
        if request.has_local_log:
            local.append(str(ensure_local_directory(host, request.volume.name)))
        return DaemonSpec(
            name=self.daemon(request),
            argv=(
                str(program),
                "serve",
                *("--image", request.image),
                *("--user", request.ceph_user),
                *("--conf", "/etc/ceph/ceph.conf"),
                *("--mountpoint", str(file)),
                *("--socket", str(socket)),
                *("--transport", request.transport),
                *_write_path_options(request.volume),
                *(option for directory in local for option in ("--local-dir", directory)),
                *key_file_options(request.key_file),
                *("--log-format", "text"),
            ),
            binds=(
                Bind(str(host.data_dir / "etc-ceph"), "/etc/ceph", read_only=True),
                Bind(str(program.parent), str(program.parent), read_only=True),
                Bind(str(file.parent), str(file.parent), shared=True),
                *(Bind(directory, directory) for directory in local),
                *_key_binds(request.key_file),
            ),
            env={} if allocator is None else {"LD_PRELOAD": allocator},
            limits=Limits(memory_bytes=memory_limit_bytes(request.volume)),
            privileged=True,
            stop_timeout_s=STOP_TIMEOUT_S + _drain_timeout_s(write_path),
        )

    def is_ready(self, host: Host, request: MapRequest, file: PurePosixPath) -> bool:
        del request
        result = self._ask(host, file, "status")
        return result.returncode == 0 and (
            parse_status(parse_result(result.stdout)).state in SERVING_STATES
        )

    def is_alive(self, host: Host, request: MapRequest, file: PurePosixPath) -> bool:
        return self._observe_status(host, request, file).state not in DEAD_STATES

    def observe_facts(self, host: Host, request: MapRequest, file: PurePosixPath) -> ServerFacts:
        status = self._observe_status(host, request, file)
        return ServerFacts(status.client_address, status.transport)

    def grow(self, host: Host, request: MapRequest, file: PurePosixPath) -> None:
        size = ("--size-bytes", str(request.volume.size_bytes))
        result = self._ask(host, file, "resize", *size, check=True)
        size_bytes = parse_result(result.stdout).get("size_bytes")
        if size_bytes != request.volume.size_bytes:
            raise GrampusError(
                f"{self.daemon(request)} on {host.name} serves {size_bytes} bytes of "
                f"{request.image}, not {request.volume.size_bytes}.",
                "Try again. `rbd info` shows the size of the image.",
                code="driver-failed",
            )

    def close_image(
        self, host: Host, request: MapRequest, file: PurePosixPath, *, limit_s: float
    ) -> None:
        limit = ("--limit-s", f"{limit_s:g}")
        result = self._exchange(host, file, "close-image", *limit, timeout_s=CLOSE_TIMEOUT_S)
        if result.returncode != 0:
            raise _exchange_failed(self.daemon(request), host, result)

    def open_image(self, host: Host, request: MapRequest, file: PurePosixPath) -> str | None:
        image = ("--image", request.image)
        result = self._exchange(host, file, "open-image", *image, timeout_s=OPEN_TIMEOUT_S)
        if result.returncode != 0:
            raise _exchange_failed(self.daemon(request), host, result)
        address = parse_result(result.stdout).get("client_address")
        return None if address is None else str(address)

    def ensure_answering(self, host: Host, request: MapRequest, file: PurePosixPath) -> None:
        if self._observe_status(host, request, file).state != "detached":
            return
        opened = self._exchange(host, file, "open-image", timeout_s=ASK_TIMEOUT_S)
        if opened.returncode != 0:
            # What waits was promised to nobody, and nothing that was flushed is in its memory.
            host.ensure_daemon_absent(self.daemon(request), kill=True)

    def draw_down(self, host: Host, request: MapRequest, file: PurePosixPath) -> int | None:
        if request.volume.write_path == "direct":
            return 0
        # Of an earlier release, or stalled: what is left is applied as it is detached.
        drawn = self._exchange(host, file, "draw-down", timeout_s=DRAW_DOWN_TIMEOUT_S)
        held = parse_result(drawn.stdout).get("held_bytes") if drawn.returncode == 0 else None
        return held if isinstance(held, int) else None

    def check_cluster(self, host: Host, request: MapRequest, file: PurePosixPath) -> ClientAnswer:
        del request
        result = self._exchange(host, file, "check", timeout_s=CHECK_TIMEOUT_S)
        return classify_answer(result.returncode, last_line(result))

    def take_snapshot(
        self, host: Host, request: MapRequest, file: PurePosixPath, snapshot: str
    ) -> ClientAnswer:
        result = self._exchange(host, file, "snapshot", snapshot, timeout_s=SNAPSHOT_TIMEOUT_S)
        said = last_line(result)
        answer = classify_answer(result.returncode, said)
        if answer == ClientAnswer() and not is_unasked(result.returncode, said):
            raise GrampusError(
                f"{self.daemon(request)} on {host.name} took no snapshot: {said}",
                f"`grampus volume show {request.volume.name}` shows the state of the volume. "
                "Then try again.",
                code="snapshot-failed",
            )
        return answer

    def stop(self, host: Host, request: MapRequest, file: PurePosixPath) -> None:
        state = self._observe_status(host, request, file).state
        if state == "dead":
            return
        if state in DEAD_STATES:
            # Nothing of it can reach the image any more: there is nothing to wait for.
            host.ensure_daemon_absent(self.daemon(request), kill=True)
            return
        # The file system above has flushed as it was unmounted. A stop that fails or takes too
        # long is tried again by signal, then by force.
        patience_s = LEAVE_TIMEOUT_S if request.leaves_journal else STOP_TIMEOUT_S
        timeout_s = patience_s + _drain_timeout_s(request.volume.write_path) + 5
        # One of an earlier release knows no --leave-journal, and is ended by signal.
        options = ("--leave-journal",) if request.leaves_journal else ()
        wait = ("--timeout-s", f"{patience_s:g}")
        self._ask(host, file, "stop", *options, *wait, timeout_s=timeout_s)

    def observe_live(
        self, host: Host, request: MapRequest, file: PurePosixPath
    ) -> LiveVolume | None:
        status = self._observe_status(host, request, file)
        if status.state in ("dead", "unknown"):  # one that says nothing is not waited for twice
            return status
        statistics = self._ask(host, file, "statistics")
        if statistics.returncode != 0:
            return status
        try:
            document = parse_result(statistics.stdout)
            kinds, counts = parse_statistics(document), parse_journal_counts(document)
        except GrampusError as error:
            return status.model_copy(update={"state_reason": error.problem})
        return status.model_copy(update={"kinds": kinds, "journal_counts": counts})

    def parse_clients(self, log: str) -> list[str]:
        return _CONNECTED.findall(log)

    def _observe_status(self, host: Host, request: MapRequest, file: PurePosixPath) -> LiveVolume:
        name = self.daemon(request)
        result = self._ask(host, file, "status")
        why = f"{name} does not answer"
        if result.returncode == 0:
            try:
                return parse_status(parse_result(result.stdout))
            except GrampusError as error:
                why = error.problem
        if result.returncode != CTL_NO_DAEMON and is_daemon_running(host, name):
            # It serves its device beside the socket: whoever cannot ask must not replace it.
            return LiveVolume(state="unknown", state_reason=why)
        return LiveVolume(state="dead", state_reason=f"{name} does not run")

    def _exchange(
        self, host: Host, file: PurePosixPath, *command: str, timeout_s: float
    ) -> CommandResult:
        wait = ("--timeout-s", f"{timeout_s:g}")
        return self._ask(host, file, *command, *wait, timeout_s=timeout_s + 5)

    def _ask(
        self,
        host: Host,
        file: PurePosixPath,
        *command: str,
        check: bool = False,
        timeout_s: float = ASK_TIMEOUT_S,
    ) -> CommandResult:
        # A path that no socket can have is nobody's, and refused as one is made: whoever undoes
        # that finds no daemon here.
        argv = [str(self._program.path(host)), "ctl", "--socket", str(control_socket(file))]
        # timeout(1) ends it on the host too, with code 124.
        limited = ["timeout", f"{timeout_s:g}", *argv, *command]
        return host.run(limited, check=check, timeout_s=timeout_s + 10)


def is_unasked(returncode: int, said: str) -> bool:
    """Whether `volumed ctl` reached nobody who knows the command."""
    # A program of an earlier release takes the command for a wrong use of itself.
    return returncode in (CTL_NO_DAEMON, CTL_WRONG_USE) or "(unknown-command)" in said


def classify_answer(returncode: int, said: str) -> ClientAnswer:
    """What a volumed said that was to ask the cluster; `said` is the last line of `volumed ctl`."""
    if returncode == 0:
        return ClientAnswer(is_done=True)
    if said.endswith("(cluster-silent)"):
        why = said.removeprefix("volumed: ").removesuffix("(cluster-silent)").strip()
        return ClientAnswer(is_silent=True, said=why.rstrip("."))
    return ClientAnswer()


def control_socket(file: PurePosixPath) -> PurePosixPath:
    """The control socket of the volumed that exports `file`.

    Its path may be longer than a socket's address: whoever connects opens its directory first.
    """
    return file.parent / "control"


def _exchange_failed(daemon: str, host: Host, result: CommandResult) -> GrampusError:
    said = last_line(result)
    if "unknown-command" in said:
        return GrampusError(
            f"{daemon} on {host.name} belongs to a release that cannot close an open image.",
            "Detach the volume and attach it again (for a database: `grampus db restart NAME`).",
            code="exchange-failed",
        )
    return GrampusError(
        f"{daemon} on {host.name} could not exchange its image: {said}",
        "`grampus volume show NAME` shows the state of the volume. The next command finishes "
        "or undoes the change.",
        code="exchange-failed",
    )


def explain_probe(text: str) -> str | None:
    """Why volumed cannot serve an image, from what `volumed probe` printed, or None."""
    document = parse_result(text)
    if not document.get("fuse"):
        return f"FUSE cannot be used ({document.get('reason') or 'no reason given'})"
    if not document.get("librbd_version"):
        return f"librbd cannot be loaded ({document.get('librbd_reason') or 'no reason given'})"
    return None


def memory_limit_bytes(volume: VolumeSpec) -> int:
    """What a volumed may use."""
    # As much again as the journal holds is on its way to the cluster.
    wanted_bytes = volume.journal_memory_bytes or 0
    journal_bytes = 2 * max(wanted_bytes, DEFAULT_JOURNAL_MEMORY_BYTES)
    if volume.write_path == "direct":
        journal_bytes = 0
    cache_bytes = CACHE_MEMORY_BYTES if volume.write_path == "cache" else 0
    key_bytes = 0 if volume.encryption is None else KEY_DERIVATION_MEMORY_BYTES
    return BASE_MEMORY_LIMIT_BYTES + journal_bytes + cache_bytes + key_bytes


def _write_path_options(volume: VolumeSpec) -> tuple[str, ...]:
    match volume.write_path:
        case "direct":  # also known to a volumed that knows no other
            return ()
        case "journal":
            return ("--write-path", "journal", *_journal_options(volume))
        case "cache":
            lag = ("--max-lag-ms", str(volume.max_lag_ms))
            return ("--write-path", "cache", *lag, *_journal_options(volume))


def _journal_options(volume: VolumeSpec) -> tuple[str, ...]:
    wanted_bytes = volume.journal_memory_bytes
    memory = () if wanted_bytes is None else ("--journal-memory", str(wanted_bytes))
    wanted_pool = volume.journal_pool
    pool = () if wanted_pool is None else ("--journal-pool", wanted_pool)
    return (*memory, *pool, *(("--ordered",) if keeps_order(volume) else ()))


def key_file_options(file: PurePosixPath | None) -> tuple[str, ...]:
    """What tells volumed the key of an encrypted volume."""
    return () if file is None else ("--encryption-key-file", str(file))


def _key_binds(file: PurePosixPath | None) -> tuple[Bind, ...]:
    # A privileged daemon sees the host's own /dev.
    if file is None or file.is_relative_to("/dev"):
        return ()
    return (Bind(str(file.parent), str(file.parent), read_only=True),)


def _drain_timeout_s(write_path: WritePath) -> float:
    return 0.0 if write_path == "direct" else DRAIN_TIMEOUT_S


def _observe_allocator(host: Host) -> str | None:
    """The host's tcmalloc, or None: librbd allocates much, and glibc's own costs it speed."""
    script = "ls /usr/lib/*/libtcmalloc.so.4 /usr/lib*/libtcmalloc.so.4 2>/dev/null; true"
    found = host.run(["sh", "-c", script]).stdout.split()
    return found[0] if found else None


def last_line(result: CommandResult) -> str:
    """The last thing that a command said, or its code when it said nothing."""
    lines = (result.stderr.strip() or result.stdout.strip()).splitlines()
    return lines[-1] if lines else f"code {result.returncode}"
