"""The disk of a host with systemd (see `systemd_hosts.py`), and loop devices over files there."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import subprocess
import uuid
from collections.abc import Iterable
from pathlib import Path

from grampus.hosts.loop_devices import (
    AttachedLoop,
    ensure_no_loop_devices_below,
    observe_attached_loops,
)
from tests.system.machine import wait_for

# A user who may become root; the group of that name is Debian's own.
OPERATOR, OPERATOR_ID, OPERATOR_GROUP_ID = "operator", 1000, 37
HOST_KEY = "etc/ssh/ssh_host_ed25519_key"
# Name, major and minor number, mode. No kmsg: the kernel's log is this machine's.
_CHARACTER_DEVICES = (
    ("null", 1, 3, 0o666),
    ("zero", 1, 5, 0o666),
    ("full", 1, 7, 0o666),
    ("random", 1, 8, 0o666),
    ("urandom", 1, 9, 0o666),
    ("tty", 5, 0, 0o666),
    ("ptmx", 5, 2, 0o666),
    ("fuse", 10, 229, 0o600),
    ("loop-control", 10, 237, 0o600),
)
# The kernel makes the node of a new loop device in this machine's /dev alone.
_LOOP_DEVICES = 256


class HostDisk:
    """What a host keeps when its power is cut: an overlay's upper directory, and its data."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.data = directory / "var-lib-grampus"
        self._upper = directory / "upper"

    def make(self, root: Path, name: str, authorized_key: str) -> None:
        """A new disk over the image's root, for a host of that name."""
        for part in ("root", "work", "upper", "var-lib-grampus", "dev"):
            (self.directory / part).mkdir(parents=True)
            (self.directory / part).chmod(0o755)
        _make_devices(self.directory / "dev")
        home = f"home/{OPERATOR}"
        user = f"{OPERATOR}:x:{OPERATOR_ID}:{OPERATOR_GROUP_ID}::/{home}:/bin/bash\n"
        for path, text in (
            ("etc/hostname", f"{name}\n"),
            ("etc/hosts", f"127.0.0.1 localhost\n127.0.1.1 {name}\n"),
            ("etc/machine-id", f"{uuid.uuid4().hex}\n"),
            ("etc/passwd", (root / "etc/passwd").read_text() + user),
            ("etc/shadow", (root / "etc/shadow").read_text() + f"{OPERATOR}:*:20000::::::\n"),
            ("root/.ssh/authorized_keys", authorized_key),
            # As the guide has it, but for the address.
            (f"{home}/.ssh/authorized_keys", f"restrict,pty {authorized_key}"),
        ):
            self._write(root, path, text)
        for own in (self._upper / home, *(self._upper / home).rglob("*")):
            os.chown(own, OPERATOR_ID, OPERATOR_GROUP_ID)
        # Grampus must not need it on hosts; xfsprogs depends on it.
        for program in (root / "usr/bin").glob("python*"):
            self._hide(root, str(program.relative_to(root)))
        self._make_parents(root, HOST_KEY)
        make_key(self._upper / HOST_KEY, comment=name)

    def remove(self) -> None:
        """Remove all of it, if it is there."""
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(self.directory)

    def host_key(self) -> str:
        """Type and key of the host's public key."""
        return " ".join((self._upper / f"{HOST_KEY}.pub").read_text().split()[:2])

    def _write(self, root: Path, path: str, text: str) -> None:
        """A file over the root. What the root has keeps its mode; the rest is for its owner."""
        self._make_parents(root, path)
        (self._upper / path).write_text(text)
        (self._upper / path).chmod(_mode_of(root / path, 0o600))

    def _hide(self, root: Path, path: str) -> None:
        """Hide a file of the root, as an overlay does when it is removed."""
        self._make_parents(root, path)
        os.mknod(self._upper / path, stat.S_IFCHR, os.makedev(0, 0))

    def _make_parents(self, root: Path, path: str) -> None:
        for part in [*reversed(Path(path).parents)][1:]:
            if not (self._upper / part).exists():
                (self._upper / part).mkdir()
                (self._upper / part).chmod(_mode_of(root / part, 0o700))

    def loops_over_own_mounts(self, pids: Iterable[int]) -> list[AttachedLoop]:
        """Loop devices over files in mounts of the host alone, or that it alone has mounted.

        Such as one over a file that a FUSE server there serves. `pids` are the host's processes.
        """
        own: set[int] = set()
        for pid in pids:
            with contextlib.suppress(OSError):  # it has ended
                own |= parse_own_devices(
                    Path(f"/proc/{pid}/mountinfo").read_text(), str(self._upper)
                )
        own -= parse_devices(Path("/proc/self/mountinfo").read_text())
        return [
            loop
            for loop in observe_attached_loops()
            if (loop.file_id is not None and loop.file_id[0] in own)
            or Path(loop.device).stat().st_rdev in own
        ]

    def ensure_loops_detached(self, others: Iterable[AttachedLoop]) -> None:
        """Detach loop devices over files of the disk, and `others` if they are still the same.

        For a host whose processes have ended.
        """
        statuses = [path.stat() for path in self.data.rglob("*") if path.is_file()]
        files = {(status.st_dev, status.st_ino) for status in statuses}

        def are_detached() -> bool:
            left = [
                loop
                for loop in observe_attached_loops()
                if loop.file_id in files or any(is_still(loop, other) for other in others)
            ]
            ensure_no_loop_devices_below(self.directory, files=(), known=left)
            return not left

        wait_for(are_detached, f"the loop devices over {self.directory} to be detached")


def make_key(file: Path, *, comment: str) -> None:
    """An SSH key without a passphrase, new."""
    file.unlink(missing_ok=True)
    argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(file)]
    subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=30, check=True)


def parse_own_devices(mountinfo: str, upper: str) -> set[int]:
    """Devices that a process has mounted whose root is an overlay with that upper directory.

    A process that has not changed its root yet has mounts of this machine.
    """
    mounts = [line.split() for line in mountinfo.splitlines()]
    is_own = any(
        mount[4] == "/" and f"upperdir={upper}" in mount[-1].split(",") for mount in mounts
    )
    return parse_devices(mountinfo) if is_own else set()


def parse_devices(mountinfo: str) -> set[int]:
    """Numbers of the devices that a process has mounted."""
    numbers = (line.split()[2].split(":") for line in mountinfo.splitlines())
    return {os.makedev(int(major), int(minor)) for major, minor in numbers}


def _mode_of(path: Path, otherwise: int) -> int:
    return stat.S_IMODE(path.stat().st_mode) if path.exists() else otherwise


def is_still(loop: AttachedLoop, former: AttachedLoop) -> bool:
    """Whether a device has the file that it had.

    Of one whose server has died the kernel tells no number; of one whose mount has gone, only the
    path within that mount.
    """
    path = loop.backing_file.removesuffix(" (deleted)")
    return (
        loop.device == former.device
        and loop.file_id in (former.file_id, None)
        and (path == "/" or former.backing_file.endswith(path))
    )


def _make_devices(directory: Path) -> None:
    for name, major, minor, mode in _CHARACTER_DEVICES:
        os.mknod(directory / name, stat.S_IFCHR, os.makedev(major, minor))
        (directory / name).chmod(mode)
    for number in range(_LOOP_DEVICES):
        os.mknod(directory / f"loop{number}", stat.S_IFBLK | 0o600, os.makedev(7, number))
    for name, target in (("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")):
        (directory / name).symlink_to(f"/proc/self/fd{target}")
    for name in ("pts", "shm", "mqueue"):
        (directory / name).mkdir()
