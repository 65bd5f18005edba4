"""A host in memory, behind the commands that volumes run: loop devices, mounts, daemons, files.

It refuses what a real one refuses (a busy mount, loop device or mapping), and fails the test on
what a real one silently does wrong: a loop device over the empty file under an export, a second
mount over the first, a file system made anew over data, a driver stopped under a file system, an
image used without what its journal holds.
"""

from __future__ import annotations

import json
import pathlib
from pathlib import PurePosixPath

from grampus.hosts.loop_scripts import ATTACH_LOOP, DETACH_LOOPS, LIST_LOOPS
from grampus.hosts.mounts import LIST_USERS
from grampus.hosts.port import DaemonSpec, DaemonStatus
from grampus.volumes.drivers.volumed_states import ASK_STATES
from tests.fakes.hosts import FakeFile, FakeHost
from tests.fakes.interruption import Fuse

from .block_devices import Daemon as Daemon
from .block_devices import Loop as Loop
from .block_devices import Mapping as Mapping
from .cluster import FSID, Image, RbdCluster
from .encryption_commands import data_bytes, make_filesystem, opening_problem, write_key
from .exchange_answers import answer_exchange, heard_loops, open_journal
from .local_disk import Log, drain_log, list_asides, open_log, require_removable, write_log
from .namespace_commands import require_place, split_name
from .volumed_answers import STATISTICS, answer_states, volumed_status

Path = PurePosixPath

_NO_RBD_NBD = """\
/usr/bin/rbd-nbd: exec failed: (2) No such file or directory
rbd: rbd-nbd failed with error: /usr/bin/rbd-nbd: exit status: 1
"""


def _log_device(options: str) -> str | None:
    """The device for the log that options of `mount` or of mkfs.xfs name."""
    named = [word for word in options.split(",") if word.startswith("logdev=")]
    return named[0].removeprefix("logdev=") if named else None


class VolumeHost(FakeHost):
    """A host with images of `cluster` as block devices and mounts."""

    def __init__(self, name: str, address: str, cluster: RbdCluster, fuse: Fuse) -> None:
        super().__init__(name, address=address, fuse=fuse)
        self.data_dir = Path("/data") / name
        self.cluster = cluster
        self.capabilities: tuple[str, ...] = ("fuse",)
        self.refused_maps: tuple[str, ...] = ()  # device types whose `map` fails
        # Device types whose `map` fails, having mapped all the same.
        self.late_maps: tuple[str, ...] = ()
        self.has_exports = True  # False: the daemon runs, its export never appears
        self.daemon_failure = ""  # what the daemon says as it ends at once
        self.volumed_failure = ""  # the same, of volumed alone
        self.killed_openings = 0  # so many volumeds are killed as soon as they have the image open
        self.probe = '{"fuse": true, "uring": true, "reason": "", "librbd_version": "1.20.0"}'
        self.held_bytes: list[int] = []  # what came in during each draw-down; then nothing
        self.is_volumed_mute = False  # its control socket does not answer
        self.volumed_answers = ""  # what it says instead of status and statistics
        self.disk_is_broken = False  # no directory for a local log can be made
        self.broken_programs: dict[str, int] = {}  # how they end, with EIO
        # Directories that a failing disk cannot remove.
        self.failing_removals: tuple[Path, ...] = ()
        self.drains = True  # False: a journal's volumed runs out of time as it ends
        self.directories: set[Path] = set()
        self.daemons: dict[str, Daemon] = {}
        self.loops: dict[str, Loop] = {}
        self.mappings: dict[str, Mapping] = {}
        self.mounts: dict[Path, str] = {}  # target -> source
        self.mounts_in_use: set[Path] = set()  # somebody has a file open there
        self.programs: dict[Path, bytes] = {}
        self.drops_flushes: set[str] = set()  # devices whose flushes the kernel answers
        self.flushed: list[str] = []  # devices that were flushed
        self._devices = 0

    def play(self, argv: list[str], stdin: str | None, daemon: str | None) -> tuple[int, str]:
        with self.changing():
            return write_key(self.files, argv, stdin) or self._command(argv)

    def ensure_copy(self, source: pathlib.Path, path: Path, *, mode: int = 0o644) -> None:
        assert mode == 0o755, "a program that cannot be run"
        self.programs[path] = source.read_bytes()

    def read_file(self, path: Path) -> str | None:
        for mapping in self.mappings.values():
            if path == Path(f"/sys/bus/rbd/devices/{mapping.number}/cluster_fsid"):
                return f"{mapping.fsid}\n"
        return super().read_file(path)

    def start(self, spec: DaemonSpec) -> Daemon:
        return self._start_volumed(spec) if "serve" in spec.argv else self._start_qsd(spec)

    def stop(self, name: str, *, kill: bool) -> None:
        daemon = self.daemons[name]
        if daemon.state == "running" and kill and self.is_volumed_mute:
            self.kill_daemon(name)
        if (
            daemon.state == "running"
            and self._loops_of(daemon)
            and self.cluster.is_fenced(daemon.client)
        ):
            assert kill, f"{name} cannot end under its loop"
            self.kill_daemon(name)
        if daemon.state == "running":
            assert not self._loops_of(daemon), f"{name} stopped under its loop"
            self.mounts.pop(daemon.export, None)
            self._end(daemon)

    def observe_daemons(self) -> list[DaemonStatus]:
        self.fuse.burn()
        return super().observe_daemons()

    def kill_daemon(self, name: str) -> None:
        """As SIGKILL: the export's mount and what stands on it stay, dead."""
        daemon = self.daemons[name]
        daemon.state = "stopped"
        if daemon.client is not None:
            self.cluster.kill_client(daemon.client)
            daemon.client = None

    def cut_power(self) -> None:
        """Nothing runs, is mounted or attached any more; files and containers' remains stay."""
        for name, daemon in self.daemons.items():
            if daemon.state == "running":
                self.kill_daemon(name)
        for mapping in self.mappings.values():
            if mapping.client is not None:
                self.cluster.kill_client(mapping.client)
        self.mappings.clear()
        self.mounts.clear()
        self.loops.clear()

    def image_of(self, device: str) -> Image | None:
        """The image behind a block device, or None when it answers no more."""
        if device in self.mappings:
            return self.cluster.images[self.mappings[device].image]
        loop = self.loops.get(device)
        if loop is None or loop.server.state != "running":
            return None
        if self.cluster.is_fenced(loop.server.client):
            return None
        return self.cluster.images.get(loop.server.image)

    def _command(self, argv: list[str]) -> tuple[int, str]:
        if argv[0] in self.broken_programs:
            return self.broken_programs[argv[0]], f"{argv[0]}: Input/output error"
        match argv:
            case ["sh", "-c", script, "sh", setting] if setting.endswith("/queue/write_cache"):
                device = f"/dev/{Path(setting).parts[3]}"
                if "write through" in script:
                    self.drops_flushes.add(device)
                    return 0, ""
                self.drops_flushes.discard(device)
                return 0, "write back\n"
            case ["sync", device] if device.startswith("/dev/"):
                assert device not in self.drops_flushes, "a flush that nobody does"
                self.flushed.append(device)
                return 0, ""
            case ["sync", file] if any(str(loop.file) == file for loop in self.loops.values()):
                self.flushed.append(file)
                return 0, ""
            case ["losetup", *options]:
                return self._losetup(options)
            case ["python3", "-c", script, name, reference, *part, how] if script == ATTACH_LOOP:
                return self._add_loop(Path(name), reference, part, is_durable=how == "durable")
            case ["python3", "-c", script, *pairs] if script == DETACH_LOOPS:
                return self._detach_loops(pairs[::2])
            case ["python3", "-c", script, where] if script == LIST_LOOPS:
                return self._list_loops(where)
            case ["python3", "-c", script, _, _] if script == ASK_STATES:
                return answer_states(self.daemons.values(), self._volumed_ctl)
            case ["findmnt", *_, "--mountpoint", target]:
                source = self.mounts.get(Path(target))
                return (1, "") if source is None else (0, f"{source}\n")
            case ["mount", "-t", "xfs", "-o", options, device, target]:
                return self._mount(device, Path(target), _log_device(options))
            case ["umount", target]:
                return self._umount(Path(target))
            case ["sh", "-c", script, "list-users", _] if script == LIST_USERS:
                return 0, "4711 mysqld\n"
            case ["mkfs.xfs", "-q", "-f", "-K", *part, device]:
                image = self.image_of(device)
                assert image is not None
                assert not image.was_mounted, "mkfs over data"
                make_filesystem(image, part, self.loops.get(_log_device(",".join(part)) or ""))
                self._require_layout(image, device)
                return 0, ""
            case ["sh", "-c", _, "write-superblock", target] if Path(target) in self.mounts:
                return 0, ""
            case ["xfs_growfs", "-d", target]:
                device = self.mounts.get(Path(target), "")
                image = self.image_of(device)
                if image is None:
                    return 1, f"xfs_growfs: {target} is not a mounted XFS filesystem"
                image.filesystem_bytes = self._device_size(device)
                return 0, ""
            case ["fstrim", target]:
                image = self.image_of(self.mounts[Path(target)])
                assert image is not None
                image.trimmed_bytes, image.deleted_bytes = image.deleted_bytes, 0
                if not image.is_journal_open:
                    image.apply_journal(closes=False)
                return 0, ""
            case ["blockdev", "--getsize64", device]:
                return 0, f"{self._device_size(device)}\n"
            case ["timeout", _, program, *rest]:
                if Path(program) not in self.programs:
                    return 127, f"timeout: failed to run command {program}"
                return self._volumed_ctl(rest) if rest[0] == "ctl" else self._volumed_tool(rest)
            case [program, "probe"] if Path(program) in self.programs:
                return (0, self.probe) if self.probe else (1, "volumed: cannot run")
            case ["rbd", "device", verb, "--device-type", kind, *rest]:
                return self._rbd_device(verb, kind, rest)
            case ["ceph-conf", "--lookup", "fsid"]:
                return 0, f"{FSID}\n"
            case ["stat", "--format", "%s", name]:
                return self._size(Path(name))
            case ["sh", "-c", script] if "libtcmalloc" in script:
                return 0, "/usr/lib/a/libtcmalloc.so.4\n"
            case ["sh", "-c", _]:
                return 0, "".join(f"{word}\n" for word in self.capabilities)
            case _:
                return self._file_command(argv)

    def _file_command(self, argv: list[str]) -> tuple[int, str]:
        path = Path(argv[-1])
        match argv:
            case ["mkdir", "-p", "-m", "700", _] if self.disk_is_broken:
                return 1, f"mkdir: cannot create directory '{path}': Input/output error"
            case ["mkdir", "-p", _] | ["mkdir", "-p", "-m", "700", _]:
                self.directories.add(path)
            case ["sync", *_]:
                pass
            case ["stat", "--format", "%F", _]:
                if path in self.directories:
                    return 0, "directory\n"
                return 1, f"stat: cannot statx '{path}': No such file or directory"
            case ["find", directory, "-maxdepth", "1", "-name", "log.aside-*"]:
                return 0, list_asides(self.files, Path(directory))
            case ["touch", _]:
                assert path.parent in self.directories
                self.files.setdefault(path, FakeFile(""))
            case ["rmdir", _]:
                if path not in self.directories or path in self.mounts:
                    return 1, "rmdir: failed"
                self.directories.discard(path)
            case ["rm", "-f", *names]:
                for name in names:
                    self.files.pop(Path(name), None)
            case ["rm", "-rf", "--one-file-system", _] if path in self.failing_removals:
                return 1, "rm: Input/output error"
            case ["rm", "-rf", "--one-file-system", _]:
                below = [mount for mount in self.mounts if mount.is_relative_to(path)]
                assert not below, f"rm -r through {below}"
                if path.parent.name == "cache":
                    image = self.cluster.find(path.name)
                    require_removable(self.files, path, image)
                self.files = {f: c for f, c in self.files.items() if not f.is_relative_to(path)}
                self.directories = {d for d in self.directories if not d.is_relative_to(path)}
            case _:
                raise AssertionError(f"a command that no host was told of: {argv}")
        return 0, ""

    def _list_loops(self, file: str) -> tuple[int, str]:
        meant = {device: loop for device, loop in self.loops.items() if str(loop.file) == file}
        devices = [
            {
                "name": device,
                "ref": loop.reference if loop.server.state == "running" else None,
                "back-file": str(loop.file),
            }
            for device, loop in heard_loops(meant)
        ]
        return 0, json.dumps({"loopdevices": devices})

    def _losetup(self, options: list[str]) -> tuple[int, str]:
        match options:
            case ["--find", "--show", "--direct-io=on", reference, *offset, name]:
                part = [word.removeprefix("--offset=") for word in offset]
                return self._add_loop(Path(name), reference.removeprefix("--loop-ref="), part)
            case ["--set-capacity", device]:
                loop = self.loops[device]
                loop.size_bytes = loop.server.size_bytes - loop.offset_bytes
                return 0, ""
        raise AssertionError(f"losetup {options}")

    def _detach_loops(self, devices: list[str]) -> tuple[int, str]:
        for device in devices:
            if device in self.mounts.values():
                return 1, f"{device} is busy: it is mounted"
            del self.loops[device]
            self.drops_flushes.discard(device)
        return 0, ""

    def _add_loop(
        self, file: Path, reference: str, part: list[str], *, is_durable: bool = False
    ) -> tuple[int, str]:
        assert file in self.mounts, "losetup over the empty file under the export"
        assert len(reference) < 64, "a reference that the kernel cuts"
        server = next(d for d in self.daemons.values() if d.export == file)
        offset, size = [*map(int, part), 0, 0][:2]
        device = f"/dev/loop{self._number()}"
        size_bytes = size or server.size_bytes - offset
        self.loops[device] = Loop(file, reference, server, size_bytes, offset, is_durable)
        return 0, f"{device}\n"

    def _require_layout(self, image: Image, device: str, log: str | None = None) -> None:
        """The file system begins behind its log, and what is flushed is durable."""
        loop = self.loops.get(device)
        if loop is None:
            assert image.external_log_bytes is None, "a file system that is not there"
            return
        assert loop.offset_bytes == (image.external_log_bytes or 0), "another file system"
        is_ordered = image.external_log_bytes is not None and loop.server.write_path != "direct"
        assert (device in self.drops_flushes) == is_ordered, "flushes that are lost, or slow"
        assert ("--ordered" in loop.server.spec.argv) == is_ordered, "what is ahead has no bound"
        if log is not None:
            assert self.loops[log].is_durable, "a log whose writes are not durable"

    def _mount(self, device: str, target: Path, log: str | None) -> tuple[int, str]:
        image = self.image_of(device)
        assert target not in self.mounts, f"{target} mounted twice"
        if image is not None and image.has_filesystem:
            assert (log is None) == (image.external_log_bytes is None), "without its log"
            self._require_layout(image, device, log)
        if image is None or not image.has_filesystem or target not in self.directories:
            return 32, f"mount: {target}: can't read superblock on {device}"
        image.was_mounted = True
        self.mounts[target] = device
        return 0, ""

    def _umount(self, target: Path) -> tuple[int, str]:
        if target not in self.mounts:
            return 32, f"umount: {target}: not mounted."
        is_exported = any(loop.file == target for loop in self.loops.values())
        if is_exported or target in self.mounts_in_use:
            return 32, f"umount: {target}: target is busy."
        del self.mounts[target]
        return 0, ""

    def _size(self, file: Path) -> tuple[int, str]:
        for daemon in self.daemons.values():
            if daemon.export == file and file in self.mounts:
                return 0, f"{daemon.size_bytes}\n"
        return (0, "0\n") if file in self.files else (1, "stat: cannot statx")

    def _rbd_device(self, verb: str, kind: str, rest: list[str]) -> tuple[int, str]:
        match verb, rest:
            case "list", ["--format", "json"]:
                if kind not in self.capabilities:  # as seen with Ceph 20.2
                    return (0, "[]") if kind == "krbd" else (22, _NO_RBD_NBD)
                key = "name" if kind == "krbd" else "image"
                return 0, json.dumps(
                    [
                        {
                            "id": str(mapping.number),
                            "pool": split_name(mapping.image)["pool"],
                            "namespace": split_name(mapping.image)["pool_namespace"],
                            key: split_name(mapping.image)["image"],
                            "device": device,
                        }
                        for device, mapping in self.mappings.items()
                        if mapping.kind == kind
                    ]
                )
            case "map", ["--id", user, image]:
                if kind in self.refused_maps:
                    return 95, "rbd: map failed: (95) Operation not supported"
                number = self._number()
                device = f"/dev/{'rbd' if kind == 'krbd' else 'nbd'}{number}"
                self._require_applied(image)
                client = self.cluster.open_image(image, user, self.address)
                self.mappings[device] = Mapping(kind, number, image, client=client)
                if kind in self.late_maps:
                    return 110, "rbd: map failed: (110) Connection timed out"
                return 0, f"{device}\n"
            case "unmap", [device]:
                if device in self.mounts.values():
                    return 16, "rbd: unmap failed: (16) Device or resource busy"
                mapping = self.mappings.pop(device)
                if mapping.client is not None:
                    self.cluster.close_image(mapping.image, mapping.client)
                return 0, ""
        raise AssertionError(f"rbd device {verb} {rest}")

    def _device_size(self, device: str) -> int:
        if device in self.mappings:
            return self.cluster.images[self.mappings[device].image].size_bytes
        return self.loops[device].size_bytes

    def _volumed_ctl(self, words: list[str]) -> tuple[int, str]:
        _, _, socket, command, *options = words
        running = (one for one in self.daemons.values() if one.state == "running")
        if daemon := next((one for one in running if one.socket == Path(socket)), None):
            return self._volumed_answer(daemon, command, options)
        return 3, "volumed: no daemon there"

    def _volumed_answer(self, daemon: Daemon, command: str, options: list[str]) -> tuple[int, str]:
        if self.is_volumed_mute:
            return 124, ""
        if self.volumed_answers and command != "stop":
            return 0, self.volumed_answers
        if (answer := answer_exchange(self, daemon, command, options)) is not None:
            return answer
        assert daemon.client is not None
        image = self.cluster.images.get(daemon.image) or Image(0)  # it may be gone meanwhile
        state = "fenced" if self.cluster.is_fenced(daemon.client) else "running"
        match command:
            case "status":
                facts = {
                    "state": state,
                    "size_bytes": daemon.size_bytes,
                    "client_address": daemon.client.address,
                    "write_path": daemon.write_path,
                }
                return 0, json.dumps(volumed_status(facts, daemon.transport, image.frames))
            case "draw-down":
                held_bytes = self.held_bytes.pop(0) if self.held_bytes else 0
                image.apply_journal(closes=False)
                return 0, json.dumps({"held_bytes": held_bytes})
            case "statistics":
                return 0, json.dumps(STATISTICS)
            case "resize":
                daemon.size_bytes = data_bytes(self.cluster.images[daemon.image])
                if options != ["--size-bytes", str(daemon.size_bytes)]:
                    return 1, f"the image has {daemon.size_bytes} bytes, not {options[1]}"
                return 0, json.dumps({"size_bytes": daemon.size_bytes})
            case "stop":
                assert not self._loops_of(daemon), "volumed stopped under its loop device"
                assert state == "running", "a fenced daemon was asked to flush"
                self.mounts.pop(daemon.export, None)
                if "--leave-journal" in options:
                    self._close(daemon)
                else:
                    self._end(daemon)
                daemon.state = "stopped"
                return 0, "{}"
        raise AssertionError(f"volumed ctl {command}")

    def _start_volumed(self, spec: DaemonSpec) -> Daemon:
        program, verb, *words = (word for word in spec.argv if word != "--ordered")
        options = dict(zip(words[::2], words[1::2], strict=True))
        assert (Path(program) in self.programs, verb) == (True, "serve")
        name, file = options["--image"], Path(options["--mountpoint"])
        daemon = Daemon(spec, image=name, export=file)
        daemon.socket = Path(options["--socket"])
        assert len(str(daemon.socket)) < 108
        daemon.transport = options["--transport"].replace("auto", "uring")
        daemon.write_path = options.get("--write-path", "direct")
        if "--local-dir" in options:
            daemon.local = Path(options["--local-dir"])
            assert daemon.local in self.directories
            assert any(bind.source == str(daemon.local) for bind in spec.binds)
        assert daemon.local or daemon.write_path != "cache", "a cache without its directory"
        failure = self.volumed_failure or opening_problem(
            self.cluster.images[name], options, self.files
        )
        if failure:
            daemon.state, daemon.log = "stopped", failure
            return daemon
        self._serve(daemon, options["--user"])
        if daemon.client is not None:
            daemon.log = f'INFO connected to the cluster address="{daemon.client.address}"'
        if daemon.client is not None and self.killed_openings:
            self.killed_openings -= 1
            self.cluster.kill_client(daemon.client)
            daemon.state = "stopped"
        elif daemon.client is not None:
            image = self.cluster.images[name]
            if daemon.local is not None:
                open_log(self.files, daemon.local, image)
            image.apply_journal()
            image.epoch += 1
            if daemon.write_path == "cache" and daemon.local is not None:
                write_log(self.files, daemon.local, Log(image.epoch, 0))
            open_journal(self, daemon, image)
        return daemon

    def _start_qsd(self, spec: DaemonSpec) -> Daemon:
        image, export = (json.loads(spec.argv[index]) for index in (2, 4))
        name = "/".join(image[key] for key in ("pool", "namespace", "image") if key in image)
        file = Path(export["mountpoint"])
        self._require_applied(name)
        return self._serve(Daemon(spec, image=name, export=file), image["user"])

    def _serve(self, daemon: Daemon, user: str) -> Daemon:
        file = daemon.export
        assert file in self.files, "the export needs a file to be mounted on"
        binds = daemon.spec.binds
        assert any(bind.source == str(file.parent) and bind.shared for bind in binds)
        if self.daemon_failure or not self._has_key(user):
            daemon.state = "stopped"
            daemon.log = self.daemon_failure or "error connecting: no keyring that is private"
            return daemon
        daemon.client = self.cluster.open_image(daemon.image, user, self.address)
        daemon.size_bytes = data_bytes(self.cluster.images[daemon.image])
        if self.has_exports:
            assert file not in self.mounts, f"{file} mounted twice"
            self.mounts[file] = "/dev/fuse"
        return daemon

    def _volumed_tool(self, words: list[str]) -> tuple[int, str]:
        verb, *options = [word for word in words if word != "--accept-damage"]
        match options:
            case ["--image", name, "--user", user, "--conf", "/etc/ceph/ceph.conf", *local]:
                if self.volumed_failure or not self._has_key(user):
                    return 1, self.volumed_failure or "volumed: no keyring that is private"
                known = dict(zip(local[::2], local[1::2], strict=True))
                image = self.cluster.images[name]
                failure = opening_problem(image, known, self.files)
                if failure and verb != "remove-journal":
                    return 1, failure
                client = self.cluster.open_image(name, user, self.address)
                self.cluster.close_image(name, client)
                require_place(self.cluster, user, name, self.cluster.journal_pools.get(name))
                if verb == "replay":
                    if "--local-dir" in known:
                        open_log(self.files, Path(known["--local-dir"]), image)
                    image.epoch += 1
                    frames = image.apply_journal()
                    said = {"replayed_frames": frames, "replayed_bytes": frames * 4096}
                    return 0, self.volumed_answers or json.dumps(said)
                if verb == "remove-journal":
                    image.lose_journal()
                    image.metadata["grampus.journal.objects"] = ""
                    was_there = name in self.cluster.journals
                    pool = self.cluster.journal_pools.pop(name, None)
                    require_place(self.cluster, user, name, pool)
                    self.cluster.journal_ids.pop(name, None)
                    self.cluster.journals.discard(name)
                    return 0, json.dumps({"removed": was_there})
        raise AssertionError(f"volumed {words}")

    def _has_key(self, user: str) -> bool:
        keyring = self.data_dir / "etc-ceph" / f"ceph.client.{user}.keyring"
        return keyring in self.files and self.files[keyring].mode == 0o600

    def _require_applied(self, name: str) -> None:
        image = self.cluster.images[name]
        assert image.passphrase is None, "ciphertext served as data"
        assert not image.is_journal_open, "an image used without what its journal holds"

    def _end(self, daemon: Daemon) -> None:
        """In good order: a journal is drained first, if there is time."""
        image = self.cluster.images.get(daemon.image)
        has_journal = daemon.write_path != "direct" and not self.cluster.is_fenced(daemon.client)
        if image is not None and has_journal and self.drains:
            if daemon.local is not None:
                drain_log(self.files, daemon.local)
            image.apply_journal()
        self._close(daemon)

    def _close(self, daemon: Daemon) -> None:
        if daemon.client is not None:
            self.cluster.close_image(daemon.image, daemon.client)
            daemon.client = None

    def _loops_of(self, daemon: Daemon) -> list[str]:
        return [device for device, loop in self.loops.items() if loop.server is daemon]

    def _number(self) -> int:
        self._devices += 1
        return self._devices
