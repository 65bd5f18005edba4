"""Loop devices: a block device over a file, found again by a reference of our own."""

from __future__ import annotations

import errno
import fcntl
import json
import struct
import sys
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from grampus.core.errors import GrampusError
from grampus.hosts.loop_scripts import ATTACH_LOOP, DETACH_LOOPS, LIST_LOOPS
from grampus.hosts.port import Host
from grampus.hosts.process import run_command

_LOOP_CLR_FD = 0x4C01
_LOOP_GET_STATUS64 = 0x4C05
_BLOCK_GET_SEQUENCE = 0x80081280
_LOOP_INFO64_LENGTH = 232
_REFERENCE_OFFSET = 56
_REFERENCE_LENGTH = 64
FLUSH_TIMEOUT_S = 300.0
# There is no such device, or it has no file any more.
_NO_LOOP = frozenset({errno.ENOENT, errno.ENODEV, errno.ENXIO})
WRITE_BACK = "write back"  # the kernel's word for a device whose flushes are passed on
WRITE_THROUGH = "write through"  # of one whose flushes it answers itself
_DROP_FLUSHES = f'echo "{WRITE_THROUGH}" > "$1"'
_PASS_FLUSHES = f'[ "$(cat "$1")" = "{WRITE_BACK}" ] || echo "{WRITE_BACK}" > "$1"; cat "$1"'


@dataclass(frozen=True)
class FilePart:
    """The part of a file that a loop device is."""

    offset_bytes: int
    size_bytes: int  # 0: to the end of the file, also after it has grown


def ensure_loop_device(
    host: Host, file: PurePosixPath, *, reference: str, part: FilePart | None = None
) -> str:
    """The loop device over `file` or a part of it, set up if need be, with direct I/O to the file.

    `reference` (at most 63 bytes) marks the device as ours and finds it again; devices over parts
    of one file have one each. Raises GrampusError with code `drops-flushes` when the device cannot
    be made to pass flushes on.
    """
    device = find_loop_device(host, reference, file=file)
    if device is None:
        return make_loop_device(host, file, reference=reference, part=part)
    _ensure_flushes_pass(host, device)
    return device


def make_loop_device(
    host: Host,
    file: PurePosixPath,
    *,
    reference: str,
    part: FilePart | None = None,
    is_durable: bool = False,
) -> str:
    """As `ensure_loop_device`, where there is none: nobody looks for it.

    Each write to one that `is_durable` is so when it is answered (O_DSYNC): the server of the
    file is told, and no flush is needed.
    """
    if is_durable:
        device = _attach_by_script(host, file, reference, part, is_durable=True)
    else:
        device = _attach(host, file, reference, part)
    _ensure_flushes_pass(host, device)
    return device


def _attach_by_script(
    host: Host,
    file: PurePosixPath,
    reference: str,
    part: FilePart | None,
    *,
    is_durable: bool = False,
) -> str:
    place = (0, 0) if part is None else (part.offset_bytes, part.size_bytes)
    arguments = (str(file), reference, *map(str, place), "durable" if is_durable else "flushed")
    return host.run(["python3", "-c", ATTACH_LOOP, *arguments]).stdout.strip()


def _attach(host: Host, file: PurePosixPath, reference: str, part: FilePart | None) -> str:
    options = ["--find", "--show", "--direct-io=on", f"--loop-ref={reference}"]
    if part is not None:
        options += [f"--offset={part.offset_bytes}"]
        options += [f"--sizelimit={part.size_bytes}"] if part.size_bytes else []
    argv = ["losetup", *options, str(file)]
    made = host.run(argv, check=False)
    if knows_no_references(made.returncode, made.stderr):
        return _attach_by_script(host, file, reference, part)
    if made.returncode != 0:
        made = host.run(argv)  # once more, so that the host raises its own error
    return made.stdout.strip()


def knows_no_references(returncode: int, stderr: str) -> bool:
    """Whether losetup refused to be given a reference: it is too old."""
    return returncode != 0 and "unrecognized option" in stderr


def _ensure_flushes_pass(host: Host, device: str) -> None:
    """Take back a `write through` that somebody once gave the device of that number.

    With it the kernel drops every flush: a commit would be acknowledged that is durable nowhere.
    The setting outlives whoever had the device before, and `losetup` does not reset it.
    """
    setting = _write_cache_setting(device)
    said = host.run(_passing_flushes(device), check=False).stdout.strip()
    if said != WRITE_BACK:
        raise GrampusError(
            f"The block device {device} drops flushes: its write cache is set to "
            f"'{said or 'unknown'}', and commits on it would not be durable.",
            f"Run as root: `echo '{WRITE_BACK}' > {setting}`, then try again.",
            code="drops-flushes",
        )


def drop_flushes(host: Host, device: str) -> None:
    """Let the kernel answer flushes of the device itself, until `ensure_flushed`.

    For what nobody relies on yet: a crash may take all that is written meanwhile. On a host that
    does not allow it, flushes go on to be done.
    """
    host.run(["sh", "-c", _DROP_FLUSHES, "sh", _write_cache_setting(device)], check=False)


def ensure_flushed(host: Host, device: str) -> None:
    """Flushes of the device pass again, and all that was written before is flushed.

    Raises GrampusError with code `drops-flushes` when the device cannot be made to pass them on.
    """
    _ensure_flushes_pass(host, device)
    # Not the file system: for it, what it had flushed meanwhile is flushed.
    host.run(["sync", device], timeout_s=FLUSH_TIMEOUT_S)


def _passing_flushes(device: str) -> list[str]:
    return ["sh", "-c", _PASS_FLUSHES, "sh", _write_cache_setting(device)]


def _write_cache_setting(device: str) -> str:
    return f"/sys/block/{PurePosixPath(device).name}/queue/write_cache"


def find_loop_device(host: Host, reference: str, *, file: PurePosixPath) -> str | None:
    """The device set up with `reference` over `file`, or None.

    Devices over other files are not asked: one may stand still.
    """
    return find_loop_devices(host, [reference], file=file).get(reference)


def find_loop_devices(
    host: Host, references: Collection[str], *, file: PurePosixPath
) -> dict[str, str]:
    """The devices over `file` by the references that they were set up with, asked for at once."""
    return {
        str(device["ref"]): str(device["name"])
        for device in _observe_loop_devices(host, str(file))
        if device.get("ref") in references and _may_be_over(device, file)
    }


@dataclass(frozen=True)
class ListedLoop:
    """A loop device as a host lists it; without a reference when it cannot be asked for it."""

    name: str
    reference: str | None
    backing_file: str


def list_loop_devices(host: Host, directory: PurePosixPath) -> list[ListedLoop]:
    """The devices over files somewhere below `directory`; no other one is asked."""
    return [
        ListedLoop(str(one["name"]), one.get("ref"), str(one.get("back-file")))
        for one in _observe_loop_devices(host, f"{directory}/")
    ]


def find_loop_device_below(host: Host, reference: str, *, directory: PurePosixPath) -> str | None:
    """The device set up with `reference` over a file somewhere below `directory`, or None."""
    for one in list_loop_devices(host, directory):
        if one.reference == reference:
            return one.name
    return None


def ensure_loop_device_absent(
    host: Host, file: PurePosixPath, *, reference: str, others: Collection[str] = ()
) -> None:
    """Detach the device over `file` set up with `reference`; nothing happens without one.

    `others` are references of further devices over parts of it.

    The file counts too: a device whose FUSE server is gone can no longer say its reference.
    """
    arguments: list[str] = []
    for device in _observe_loop_devices(host, str(file)):
        is_ours = device.get("ref") in (reference, *others) and _may_be_over(device, file)
        if is_ours or device.get("back-file") == str(file):
            arguments += [str(device["name"]), device.get("sequence") or ""]
    if arguments:
        host.run(["python3", "-c", DETACH_LOOPS, *arguments])


def ensure_loop_capacity(host: Host, device: str) -> None:
    """Make the device as big as its file is now."""
    host.run(["losetup", "--set-capacity", device])


def _may_be_over(device: Mapping[str, str | None], file: PurePosixPath) -> bool:
    """Whether the device's file can be `file`.

    Hosts that are one machine see each other's devices: the same volume may have one on each,
    once it was taken away from a host. A file that was unmounted has no path left to compare.
    """
    path = device.get("back-file")
    return path in (None, str(file), f"{file} (deleted)", "/", "/ (deleted)")


def _observe_loop_devices(host: Host, where: str) -> list[dict[str, str | None]]:
    listed = host.run(["python3", "-c", LIST_LOOPS, where])
    devices: list[dict[str, str | None]] = json.loads(listed.stdout)["loopdevices"]
    return devices


@dataclass(frozen=True)
class AttachedLoop:
    """A loop device of this machine that has a file.

    The kernel tells `reference` and `file_id` (device and inode number of the file) only while
    the file can be asked: both are None once the FUSE server behind it has gone.
    `backing_file` is the path within the mount that it was opened through: once that mount is
    gone from every namespace, only what is below its root is left of the path. `sequence` is the
    kernel's number for what the device holds: it has another one once it has another file. None
    where the kernel does not tell it.
    """

    device: str
    backing_file: str
    reference: str | None
    file_id: tuple[int, int] | None
    sequence: int | None = None


def ensure_no_loop_devices(*, reference_prefix: str, directory: Path) -> None:
    """Detach every loop device of this machine that was set up with such a reference.

    A device whose file is served by a FUSE server that has gone cannot say its reference any
    more; it counts as ours when its file was below `directory`, or was unmounted altogether.
    """
    for loop in observe_attached_loops():
        if belongs_to(loop, reference_prefix=reference_prefix, directory=str(directory)):
            _detach(loop)


def ensure_no_loop_devices_below(
    directory: Path, *, files: Iterable[Path], known: Collection[AttachedLoop]
) -> None:
    """Detach every loop device of this machine over a file below `directory`, or over such a one.

    `files` of ours and devices `known` to be ours find what the path no longer tells, see
    AttachedLoop.
    """
    statuses = [file.stat() for file in files]
    file_ids = {(status.st_dev, status.st_ino) for status in statuses}
    loops = observe_attached_loops()
    ours = {(loop.device, loop.sequence) for loop in known}
    below = {
        loop.device
        for loop in loops
        if (loop.device, loop.sequence) in ours
        or is_below(loop, directory=str(directory), file_ids=file_ids)
    }
    for loop in order_loops(loops, below):
        _detach(loop)


def belongs_to(loop: AttachedLoop, *, reference_prefix: str, directory: str) -> bool:
    """Whether a loop device was set up with such a reference, or had to lose it (see above)."""
    if loop.reference is not None:
        return loop.reference.startswith(reference_prefix)
    file = loop.backing_file
    return file.startswith(f"{directory}/") or file in ("/", "/ (deleted)")


def is_below(loop: AttachedLoop, *, directory: str, file_ids: Collection[tuple[int, int]]) -> bool:
    """Whether a loop device stands on a file below `directory`, or on one of `file_ids`."""
    return loop.backing_file.startswith(f"{directory}/") or loop.file_id in file_ids


def order_loops(loops: Iterable[AttachedLoop], below: Collection[str]) -> list[AttachedLoop]:
    """The devices named `below` and those that stand on them, which come first. Pure."""
    found = [loop for loop in loops if loop.device in below or loop.backing_file in below]
    return sorted(found, key=lambda loop: loop.device in below)


def observe_attached_loops(
    blocks: Path = Path("/sys/block"), devices: Path = Path("/dev")
) -> list[AttachedLoop]:
    """Every loop device of this machine that has a file, whoever attached it.

    Its status is asked of the file system below. Of one whose server has died, the answer depends
    on how far that has come (ENOTCONN, ECONNABORTED, ECANCELED, EIO): the device is there all the
    same. Raises OSError when a device cannot be opened.
    """
    found = []
    for attached in sorted(blocks.glob("loop*/loop")):
        device = devices / attached.parent.name
        info = bytearray(_LOOP_INFO64_LENGTH)
        try:
            file = (attached / "backing_file").read_text().strip()
            with device.open("rb") as stream:
                answer = _ask(stream, info)
                sequence = _ask_sequence(stream)
        except OSError as error:
            if error.errno in _NO_LOOP:
                continue  # detached meanwhile
            raise
        if answer in _NO_LOOP:
            continue
        reference = parse_loop_reference(bytes(info)) if answer == 0 else None
        file_id = parse_loop_file_id(bytes(info)) if answer == 0 else None
        found.append(AttachedLoop(str(device), file, reference, file_id, sequence))
    return found


def _ask(device: BinaryIO, info: bytearray) -> int:
    """Read the status of an open loop device into `info`; 0 or the error's number."""
    try:
        fcntl.ioctl(device, _LOOP_GET_STATUS64, info)
    except OSError as error:
        return error.errno or errno.EIO
    return 0


def _ask_sequence(device: BinaryIO) -> int | None:
    """What the kernel counts of an open device (linux/fs.h: BLKGETDISKSEQ); None: nothing."""
    number = bytearray(8)
    try:
        fcntl.ioctl(device, _BLOCK_GET_SEQUENCE, number)
    except OSError:
        return None
    return int.from_bytes(number, sys.byteorder)


def parse_loop_reference(loop_info64: bytes) -> str:
    """The reference in a `struct loop_info64` (linux/loop.h: `lo_file_name`, 64 bytes)."""
    name = loop_info64[_REFERENCE_OFFSET : _REFERENCE_OFFSET + _REFERENCE_LENGTH]
    return name.split(b"\0", 1)[0].decode(errors="replace")


def parse_loop_file_id(loop_info64: bytes) -> tuple[int, int]:
    """Device and inode number in a `struct loop_info64` (its first two 64-bit members)."""
    device, inode = struct.unpack_from("=QQ", loop_info64)
    return device, inode


def _detach(loop: AttachedLoop) -> None:
    """Detach a device that still is what was observed.

    The kernel lets go of a file by itself when the last user of a device ends that was to be
    detached meanwhile, and gives the number to whoever asks next. While it is open here, it cannot.
    """
    try:
        with Path(loop.device).open("rb") as stream:
            if _ask_sequence(stream) == loop.sequence:
                run_command(_passing_flushes(loop.device), check=False)
                fcntl.ioctl(stream, _LOOP_CLR_FD)
    except OSError as error:
        if error.errno not in _NO_LOOP:
            raise GrampusError(
                f"The loop device {loop.device} cannot be detached: {error.strerror}.",
                f"See who uses it: `lsof {loop.device}`, then try again.",
                code="detach-failed",
            ) from error
