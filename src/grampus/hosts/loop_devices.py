"""Loop devices: a block device over a file, found again by a reference of our own."""

from __future__ import annotations

import errno
import fcntl
import json
from pathlib import Path, PurePosixPath

from grampus.hosts.port import Host
from grampus.hosts.process import run_command

_LOOP_GET_STATUS64 = 0x4C05
_LOOP_INFO64_LENGTH = 232
_REFERENCE_OFFSET = 56
_REFERENCE_LENGTH = 64


def ensure_loop_device(host: Host, file: PurePosixPath, *, reference: str) -> str:
    """The loop device over `file`, set up if need be, with direct I/O to the file.

    `reference` (at most 63 bytes) marks the device as ours and finds it again.
    """
    existing = find_loop_device(host, reference)
    if existing is not None:
        return existing
    argv = ["losetup", "--find", "--show", "--direct-io=on", f"--loop-ref={reference}", str(file)]
    return host.run(argv).stdout.strip()


def find_loop_device(host: Host, reference: str) -> str | None:
    """The device set up with `reference`, or None."""
    for device in _observe_loop_devices(host):
        if device.get("ref") == reference:
            return str(device["name"])
    return None


def ensure_loop_device_absent(host: Host, file: PurePosixPath, *, reference: str) -> None:
    """Detach the device over `file` set up with `reference`; nothing happens without one.

    The file counts too: a device whose FUSE server is gone can no longer say its reference.
    """
    for device in _observe_loop_devices(host):
        if device.get("ref") == reference or device.get("back-file") == str(file):
            host.run(["losetup", "--detach", str(device["name"])])


def _observe_loop_devices(host: Host) -> list[dict[str, str | None]]:
    listed = host.run(["losetup", "--list", "--json", "--output", "NAME,REF,BACK-FILE"]).stdout
    devices: list[dict[str, str | None]] = json.loads(listed or "{}").get("loopdevices", [])
    return devices


def ensure_no_loop_devices(*, reference_prefix: str, directory: Path) -> None:
    """Detach every loop device of this machine that was set up with such a reference.

    A device whose file is served by a FUSE server that has gone cannot say its reference any
    more; it counts as ours when its file was below `directory`, or was unmounted altogether.
    """
    for attached in sorted(Path("/sys/block").glob("loop*/loop")):
        device = Path("/dev") / attached.parent.name
        if _is_ours(device, attached / "backing_file", reference_prefix, directory):
            run_command(["losetup", "--detach", str(device)], timeout_s=30)


def parse_loop_reference(loop_info64: bytes) -> str:
    """The reference in a `struct loop_info64` (linux/loop.h: `lo_file_name`, 64 bytes)."""
    name = loop_info64[_REFERENCE_OFFSET : _REFERENCE_OFFSET + _REFERENCE_LENGTH]
    return name.split(b"\0", 1)[0].decode(errors="replace")


def _is_ours(device: Path, backing_file: Path, reference_prefix: str, directory: Path) -> bool:
    info = bytearray(_LOOP_INFO64_LENGTH)
    try:
        with device.open("rb") as stream:
            fcntl.ioctl(stream, _LOOP_GET_STATUS64, info)
    except OSError as error:
        if error.errno not in (errno.ENOTCONN, errno.ECONNABORTED, errno.EIO):
            return False  # detached meanwhile
        try:
            file = backing_file.read_text().strip()
        except OSError:
            return False
        return file.startswith(f"{directory}/") or file in ("/", "/ (deleted)")
    return parse_loop_reference(bytes(info)).startswith(reference_prefix)
