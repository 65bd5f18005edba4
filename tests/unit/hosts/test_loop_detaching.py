"""Loop devices are detached while they are what was found (INV-99)."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import sys
from functools import partial
from pathlib import Path

import pytest

from grampus.core.errors import GrampusError
from grampus.hosts import loop_devices
from grampus.hosts.loop_devices import (
    AttachedLoop,
    ensure_no_loop_devices,
    ensure_no_loop_devices_below,
    observe_attached_loops,
)
from grampus.hosts.loop_scripts import DETACH_LOOPS


class LoopIoctls:
    """What the kernel answers of one open device that holds `sequence`; None: it is too old."""

    def __init__(self, sequence: int | None, error: int = 0) -> None:
        self._sequence = sequence
        self._error = error
        self.cleared = 0

    def __call__(self, _device: object, request: int, *argument: object) -> int:
        match request, argument:
            case 0x80081280, [bytearray() as number]:
                if self._sequence is None:
                    raise OSError(errno.ENOTTY, os.strerror(errno.ENOTTY))
                number[:] = self._sequence.to_bytes(8, sys.byteorder)
            case 0x4C01, _:
                if self._error:
                    raise OSError(self._error, os.strerror(self._error))
                self.cleared += 1
            case _:
                raise OSError(errno.EIO, os.strerror(errno.EIO))  # its status: the server is gone
        return 0


@pytest.mark.parametrize(
    ("listed", "now", "error", "cleared"),
    [
        ("7", 7, 0, 1),
        ("7", 8, 0, 0),  # another file
        ("", None, 0, 1),  # an older kernel
        ("7", None, 0, 0),
        ("7", 7, errno.ENXIO, 0),  # detached by the kernel
    ],
)
def test_the_script_detaches_what_was_listed_alone(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    listed: str,
    now: int | None,
    error: int,
    cleared: int,
) -> None:
    device = tmp_path / "loop7"
    device.touch()
    ioctls = LoopIoctls(now, error)
    monkeypatch.setattr(fcntl, "ioctl", ioctls)
    gone = str(tmp_path / "loop8")
    monkeypatch.setattr(sys, "argv", ["-c", gone, listed, str(device), listed])
    exec(compile(DETACH_LOOPS, "detach", "exec"), {})  # noqa: S102 - a program of our own
    assert ioctls.cleared == cleared


def test_the_script_tells_of_any_other_failure(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    device = tmp_path / "loop7"
    device.touch()
    monkeypatch.setattr(fcntl, "ioctl", LoopIoctls(7, errno.EPERM))
    monkeypatch.setattr(sys, "argv", ["-c", str(device), "7"])
    with pytest.raises(PermissionError):
        exec(compile(DETACH_LOOPS, "detach", "exec"), {})  # noqa: S102 - a program of our own


def observed_below(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine with the one device loop7, over a file whose server and mount are gone."""
    (tmp_path / "block/loop7/loop").mkdir(parents=True)
    (tmp_path / "block/loop7/loop/backing_file").write_text("/\n")
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/loop7").touch()
    observe = partial(observe_attached_loops, tmp_path / "block", tmp_path / "dev")
    monkeypatch.setattr(loop_devices, "observe_attached_loops", observe)
    monkeypatch.setattr(loop_devices, "run_command", lambda *_, **__: None)
    return tmp_path / "dev/loop7"


@pytest.mark.parametrize(("known", "now", "cleared"), [(7, 7, 1), (7, 8, 0)])
def test_a_lost_hosts_device_is_detached_while_it_is_the_same(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, known: int, now: int, cleared: int
) -> None:
    """Its mounts are gone, so the number may be another lab's by now."""
    device = observed_below(monkeypatch, tmp_path)
    ioctls = LoopIoctls(now)
    monkeypatch.setattr(fcntl, "ioctl", ioctls)
    loop = AttachedLoop(str(device), "/data/exports/demo/image", None, None, known)
    ensure_no_loop_devices_below(tmp_path / "host", files=(), known=[loop])
    assert ioctls.cleared == cleared


def test_a_device_that_gets_another_file_after_it_was_observed_is_left_to_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    observed_below(monkeypatch, tmp_path)
    ioctls = LoopIoctls(7)
    monkeypatch.setattr(fcntl, "ioctl", ioctls)
    observe = loop_devices.observe_attached_loops

    def observe_and_change() -> list[AttachedLoop]:
        found = observe()
        monkeypatch.setattr(fcntl, "ioctl", LoopIoctls(8))
        return found

    monkeypatch.setattr(loop_devices, "observe_attached_loops", observe_and_change)
    ensure_no_loop_devices(reference_prefix="grampus/3f2a0/", directory=tmp_path)
    assert ioctls.cleared == 0


@pytest.mark.parametrize(("error", "fails"), [(errno.ENXIO, False), (errno.EPERM, True)])
def test_a_device_that_cannot_be_detached_is_an_error_unless_it_is_gone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: int, fails: bool
) -> None:
    observed_below(monkeypatch, tmp_path)
    monkeypatch.setattr(fcntl, "ioctl", LoopIoctls(7, error))
    with (
        pytest.raises(GrampusError, match="cannot be detached: Operation not permitted")
        if fails
        else contextlib.nullcontext()
    ):
        ensure_no_loop_devices(reference_prefix="grampus/3f2a0/", directory=tmp_path)
