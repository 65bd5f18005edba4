"""Loop devices through `losetup`, whose answers here are those of util-linux 2.38 to 2.41."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath

import pytest

from grampus.core.errors import GrampusError
from grampus.hosts.loop_devices import (
    AttachedLoop,
    FilePart,
    drop_flushes,
    ensure_flushed,
    ensure_loop_capacity,
    ensure_loop_device,
    ensure_loop_device_absent,
    find_loop_device,
    find_loop_device_below,
    make_loop_device,
    observe_attached_loops,
    parse_loop_reference,
)
from grampus.hosts.loop_scripts import ATTACH_LOOP, DETACH_LOOPS, LIST_LOOPS
from grampus.hosts.port import CommandResult

from .fakes import AnsweringHost

FILE = PurePosixPath("/data/osd/block")
REFERENCE = "grampus/3f2a0/osd-0"
DEVICE_0 = {"name": "/dev/loop0", "ref": "other", "back-file": "/var/other.img"}
DEVICE_1 = {"name": "/dev/loop1", "ref": REFERENCE, "back-file": str(FILE)}
# Its FUSE server is gone: the kernel can say neither reference nor size.
DEAD = {"name": "/dev/loop2", "ref": None, "back-file": str(FILE)}
DELETED = {"name": "/dev/loop3", "ref": None, "back-file": None}


class FakeLosetup:
    """Answers as losetup does, and keeps the devices."""

    def __init__(self, devices: Sequence[dict[str, str | None]]):
        self.devices = list(devices)
        self.asked_for: list[str] = []
        # As `queue/write_cache` of each device says, unless it is `write back`.
        self.write_caches: dict[str, str] = {}
        # Devices that were flushed, and what their write cache was then.
        self.synced: list[tuple[str, str | None]] = []
        self.is_sysfs_writable = True
        self.parts: list[tuple[str, ...]] = []
        self.before_detaching: Callable[[], object] = lambda: None

    def __call__(self, argv: Sequence[str]) -> str:
        match list(argv):
            case ["python3", "-c", script, where] if script == LIST_LOOPS:
                self.asked_for.append(where)
                return json.dumps({"loopdevices": self.devices})
            case ["python3", "-c", script, *pairs] if script == DETACH_LOOPS:
                self.before_detaching()
                for name, listed in zip(pairs[::2], pairs[1::2], strict=True):
                    found = [d for d in self.devices if d["name"] == name]
                    if [d.get("sequence") or "" for d in found] == [listed]:
                        self.devices.remove(found[0])
                        self.write_caches.pop(PurePosixPath(name).name, None)
                return ""
            case ["losetup", "--find", "--show", "--direct-io=on", reference, *part, file]:
                self.parts.append(tuple(part))
                name = f"/dev/loop{90 + len(self.devices)}"
                self.devices.append(
                    {
                        "name": name,
                        "ref": reference.removeprefix("--loop-ref="),
                        "back-file": file,
                    }
                )
                return f"{name}\n"
            case ["sh", "-c", script, "sh", setting]:
                name = PurePosixPath(setting).parts[3]
                assert setting == f"/sys/block/{name}/queue/write_cache"
                if "write through" in script:
                    if self.is_sysfs_writable:
                        self.write_caches[name] = "write through"
                    return ""
                assert "write back" in script
                if self.is_sysfs_writable:
                    self.write_caches.pop(name, None)
                return self.write_caches.get(name, "write back") + "\n"
            case ["sync", device]:
                self.synced.append((device, self.write_caches.get(PurePosixPath(device).name)))
                return ""
            case _:
                raise AssertionError(f"losetup is not known to be called so: {argv}")


def test_a_number_that_another_file_got_meanwhile_is_left_to_it() -> None:
    """As of a device whose last user ended after it was listed."""
    ours, theirs = DEVICE_1 | {"sequence": "7"}, DEVICE_0 | {"name": "/dev/loop1", "sequence": "8"}
    losetup = FakeLosetup([ours])
    losetup.before_detaching = lambda: losetup.devices.__setitem__(0, theirs)
    ensure_loop_device_absent(AnsweringHost("h1", losetup), FILE, reference=REFERENCE)
    assert losetup.devices == [theirs]


@pytest.mark.parametrize("existing", [True, False])
def test_a_device_that_drops_flushes_is_mended_or_refused(existing: bool) -> None:
    losetup = FakeLosetup([DEVICE_1] if existing else [])
    name = "loop1" if existing else "loop90"
    losetup.write_caches = {name: "write through"}
    losetup.is_sysfs_writable = False
    host = AnsweringHost("h1", losetup)
    with pytest.raises(GrampusError, match="drops flushes: its write cache is set to 'write thr"):
        ensure_loop_device(host, FILE, reference=REFERENCE)
    losetup.is_sysfs_writable = True
    assert ensure_loop_device(host, FILE, reference=REFERENCE) == f"/dev/{name}"
    assert losetup.write_caches == {}


def test_flushes_that_were_dropped_are_made_up_for_once_they_pass_again() -> None:
    losetup = FakeLosetup([DEVICE_1])
    host = AnsweringHost("h1", losetup)
    drop_flushes(host, "/dev/loop1")
    assert losetup.write_caches == {"loop1": "write through"}
    for _ in range(2):
        ensure_flushed(host, "/dev/loop1")
        assert losetup.write_caches == {}
    assert losetup.synced == [("/dev/loop1", None)] * 2


def test_a_device_that_goes_on_to_drop_flushes_is_an_error() -> None:
    losetup = FakeLosetup([DEVICE_1])
    host = AnsweringHost("h1", losetup)
    drop_flushes(host, "/dev/loop1")
    losetup.is_sysfs_writable = False
    with pytest.raises(GrampusError, match="drops flushes") as caught:
        ensure_flushed(host, "/dev/loop1")
    assert caught.value.code == "drops-flushes"
    assert losetup.synced == []


def test_where_nothing_can_be_changed_flushes_are_done() -> None:
    losetup = FakeLosetup([DEVICE_1])
    losetup.is_sysfs_writable = False
    host = AnsweringHost("h1", losetup)
    drop_flushes(host, "/dev/loop1")
    ensure_flushed(host, "/dev/loop1")
    assert losetup.write_caches == {}


@pytest.mark.parametrize(
    ("devices", "found"),
    [
        ([], None),
        ([DEVICE_0], None),
        ([DEVICE_0, DEVICE_1], "/dev/loop1"),
        ([DEAD, DELETED], None),
        ([DEAD, DELETED, DEVICE_1], "/dev/loop1"),
        ([{"name": "/dev/loop4"}], None),
    ],
)
def test_found_by_its_reference(devices: list[dict[str, str | None]], found: str | None) -> None:
    losetup = FakeLosetup(devices)
    host = AnsweringHost("h1", losetup)
    assert find_loop_device(host, REFERENCE, file=FILE) == found
    assert find_loop_device_below(host, REFERENCE, directory=FILE.parent) == found
    # Only these are asked.
    assert losetup.asked_for == [str(FILE), f"{FILE.parent}/"]


def test_set_up_once() -> None:
    losetup = FakeLosetup([DEVICE_0])
    host = AnsweringHost("h1", losetup)
    first = ensure_loop_device(host, FILE, reference=REFERENCE)
    assert first == "/dev/loop91"
    assert losetup.devices[-1] == {"name": first, "ref": REFERENCE, "back-file": str(FILE)}
    assert ensure_loop_device(host, FILE, reference=REFERENCE) == first
    assert len(losetup.devices) == 2


def test_device_over_the_same_file_that_is_not_ours_is_not_taken() -> None:
    losetup = FakeLosetup([DEAD])
    assert (
        ensure_loop_device(AnsweringHost("h1", losetup), FILE, reference=REFERENCE) == "/dev/loop91"
    )


@pytest.mark.parametrize(
    ("devices", "left"),
    [
        ([], []),
        ([DEVICE_0, DEVICE_1], [DEVICE_0]),
        ([DEVICE_0, DEAD, DELETED], [DEVICE_0, DELETED]),
        ([DEVICE_1, DEAD], []),
        ([DEVICE_0, DELETED], [DEVICE_0, DELETED]),
    ],
)
def test_ours_is_detached_and_no_other(
    devices: list[dict[str, str | None]], left: list[dict[str, str | None]]
) -> None:
    losetup = FakeLosetup(devices)
    host = AnsweringHost("h1", losetup)
    ensure_loop_device_absent(host, FILE, reference=REFERENCE)
    assert losetup.devices == left
    asked = len(host.commands)
    ensure_loop_device_absent(host, FILE, reference=REFERENCE)
    assert len(host.commands) == asked + 1  # looked, and found nothing more to do


@pytest.mark.parametrize(
    ("back_file", "is_found"),
    [
        (str(FILE), True),
        (f"{FILE} (deleted)", True),
        ("/", True),  # unmounted: no path is left
        (None, True),
        ("/data/other-host/osd/block", False),
    ],
)
def test_the_same_reference_over_another_hosts_file_is_not_ours(
    back_file: str | None, is_found: bool
) -> None:
    """Hosts of a lab are one machine, and see each other's devices."""
    device = {"name": "/dev/loop5", "ref": REFERENCE, "back-file": back_file}
    losetup = FakeLosetup([device])
    host = AnsweringHost("h1", losetup)
    found = find_loop_device(host, REFERENCE, file=FILE)
    assert found == ("/dev/loop5" if is_found else None)
    ensure_loop_device_absent(host, FILE, reference=REFERENCE)
    assert losetup.devices == ([] if is_found else [device])


def test_a_device_that_is_detached_leaves_no_setting_to_the_next_one_of_its_number() -> None:
    losetup = FakeLosetup([DEVICE_1])
    host = AnsweringHost("h1", losetup)
    drop_flushes(host, "/dev/loop1")
    ensure_loop_device_absent(host, FILE, reference=REFERENCE)
    assert (losetup.devices, losetup.write_caches) == ([], {})


def test_capacity_follows_the_file() -> None:
    host = AnsweringHost("h1", lambda argv: "")
    ensure_loop_capacity(host, "/dev/loop5")
    assert host.commands == [("losetup", "--set-capacity", "/dev/loop5")]


def loop_info64(name: bytes) -> bytes:
    """A `struct loop_info64`: 56 bytes of numbers, the name, and 112 bytes of other things."""
    return b"\xee" * 56 + name.ljust(64, b"\0") + b"\xee" * 112


@pytest.mark.parametrize(
    ("name", "reference"),
    [
        (REFERENCE.encode(), REFERENCE),
        (b"", ""),
        (b"x" * 63, "x" * 63),
        (b"x" * 64, "x" * 64),
        (b"one\0two", "one"),
        (b"\xff\xfe", "\ufffd\ufffd"),
    ],
)
def test_reference_in_the_kernels_struct(name: bytes, reference: str) -> None:
    assert len(loop_info64(name)) == 232
    assert parse_loop_reference(loop_info64(name)) == reference


def test_parts_of_a_file_are_devices_of_their_own() -> None:
    losetup = FakeLosetup([])
    host = AnsweringHost("h1", losetup)
    part = FilePart(offset_bytes=4 << 30, size_bytes=2 << 30)
    first = ensure_loop_device(host, FILE, reference=REFERENCE)
    second = ensure_loop_device(host, FILE, reference=f"{REFERENCE}-db", part=part)
    assert first != second
    assert ensure_loop_device(host, FILE, reference=f"{REFERENCE}-db", part=part) == second
    assert losetup.parts == [(), ("--offset=4294967296", "--sizelimit=2147483648")]


class OldLosetup(FakeLosetup):
    """That of util-linux 2.38, which knows of no references, on a host with Python."""

    def __call__(self, argv: Sequence[str]) -> CommandResult | str:
        match list(argv):
            case ["losetup", "--find", *_]:
                return self._refused(argv, "losetup: unrecognized option '--loop-ref=x'")
            case ["python3", "-c", script, file, reference, *part] if script == ATTACH_LOOP:
                options = ["--find", "--show", "--direct-io=on", f"--loop-ref={reference}"]
                return super().__call__(["losetup", *options, *part, file])
        return super().__call__(argv)

    @staticmethod
    def _refused(argv: Sequence[str], said: str) -> CommandResult:
        return CommandResult(tuple(argv), 1, "", said)


@pytest.mark.parametrize(
    ("part", "place"),
    [(None, ("0", "0", "flushed")), (FilePart(4096, 8192), ("4096", "8192", "flushed"))],
)
def test_a_losetup_that_knows_no_references_is_done_without(
    part: FilePart | None, place: tuple[str, ...]
) -> None:
    losetup = OldLosetup([DEVICE_0])
    host = AnsweringHost("h1", losetup)
    device = ensure_loop_device(host, FILE, reference=REFERENCE, part=part)
    assert device == "/dev/loop91"
    assert losetup.parts == [place]
    assert ensure_loop_device(host, FILE, reference=REFERENCE, part=part) == device
    assert len(losetup.devices) == 2
    ensure_loop_device_absent(host, FILE, reference=REFERENCE)
    assert losetup.devices == [DEVICE_0]


def test_one_whose_writes_are_durable_is_attached_without_losetup() -> None:
    """It has no option for O_DSYNC."""
    losetup = OldLosetup([DEVICE_0])
    host, part = AnsweringHost("h1", losetup), FilePart(0, 8192)
    make_loop_device(host, FILE, reference=REFERENCE, part=part, is_durable=True)
    assert losetup.parts == [("0", "8192", "durable")]


def test_a_part_may_reach_to_the_end_of_the_file() -> None:
    """Whatever that is: it grows."""
    asked: list[Sequence[str]] = []
    losetup = FakeLosetup([])

    def answer(argv: Sequence[str]) -> CommandResult | str:
        asked.append(argv)
        return losetup(argv)

    make_loop_device(AnsweringHost("h1", answer), FILE, reference=REFERENCE, part=FilePart(4096, 0))
    (attached,) = [argv for argv in asked if "--find" in argv]
    assert [word for word in attached if word.startswith(("--offset", "--size"))] == [
        "--offset=4096"
    ]


def test_another_failure_of_losetup_is_its_own() -> None:
    losetup = FakeLosetup([])

    def answer(argv: Sequence[str]) -> CommandResult | str:
        if "--find" in argv:
            return CommandResult(tuple(argv), 1, "", "losetup: cannot open /dev/loop-control")
        return losetup(argv)

    with pytest.raises(GrampusError, match="loop-control"):
        ensure_loop_device(AnsweringHost("h1", answer), FILE, reference=REFERENCE)


@pytest.mark.parametrize("script", [LIST_LOOPS, ATTACH_LOOP, DETACH_LOOPS])
def test_the_scripts_are_python(script: str) -> None:
    compile(script, "script", "exec")


@pytest.mark.parametrize("taken", [errno.EBUSY, errno.ENXIO, errno.ENODEV, errno.ENOENT])
@pytest.mark.parametrize("where", ["open", "configure"])
def test_a_free_device_that_another_process_takes_first_is_left_to_it(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    taken: int,
    where: str,
) -> None:
    opened = {"/data/export": 3, "/dev/loop-control": 4, "/dev/loop7": 7, "/dev/loop8": 8}
    free, closed = iter([7, 8]), []

    def fail(call: str, device: int) -> None:
        if where == call and device == 7:
            raise OSError(taken, os.strerror(taken))

    def open_(path: str, _flags: int) -> int:
        fail("open", opened[path])
        return opened[path]

    def ioctl(file: int, request: int, *_config: bytes) -> int:
        if request == 0x4C82:
            return next(free)
        fail("configure", file)
        return 0

    monkeypatch.setattr(sys, "argv", ["-c", "/data/export", "reference", "0", "0", "durable"])
    monkeypatch.setattr(os, "open", open_)
    monkeypatch.setattr(os, "close", closed.append)
    monkeypatch.setattr(fcntl, "ioctl", ioctl)
    exec(compile(ATTACH_LOOP, "attach", "exec"), {})  # noqa: S102 - a program of our own
    assert capsys.readouterr().out == "/dev/loop8\n"
    assert closed == ([7, 8] if where == "configure" else [8])


@pytest.mark.parametrize(
    ("backing_file", "is_found"),
    [
        ("/g/1a2b3/data/exports/demo/image", True),
        ("/g/1a2b3/data/exports/demo/image (deleted)", True),
        # Attached in the root of an older host image.
        ("/g/1a2b3/roots/sid-0/root/g/1a2b3/data/exports/demo/image", True),
        # That of another site on the same machine, and other files.
        ("/g/1a2b3/roots/sid-0/root/g/99999/data/exports/demo/image", False),
        ("/g/1a2b3/roots/sid-0/other/g/1a2b3/data/exports/demo/image", False),
        ("/g/1a2b3/data/exports/other/image", False),
    ],
)
def test_a_device_is_known_by_its_file_from_each_root_of_a_host(
    tmp_path: Path, backing_file: str, is_found: bool
) -> None:
    attached = tmp_path / "block/loop7/loop"
    attached.mkdir(parents=True)
    (attached / "backing_file").write_text(f"{backing_file}\n")
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/loop7").touch()
    script = LIST_LOOPS.replace("/sys/block", f"{tmp_path}/block").replace(
        "/dev/{", f"{tmp_path}/dev/{{"
    )
    for where in ("/g/1a2b3/data/exports/demo/image", "/g/1a2b3/data/exports/demo/"):
        argv = [sys.executable, "-c", script, where]
        listed = subprocess.run(argv, capture_output=True, text=True, check=True)
        found = [one["back-file"] for one in json.loads(listed.stdout)["loopdevices"]]
        suffix = " (deleted)" if "deleted" in backing_file else ""
        assert found == ([f"/g/1a2b3/data/exports/demo/image{suffix}"] if is_found else [])


@pytest.mark.parametrize("is_gone", [True, False])
def test_device_that_cannot_be_asked_is_not_left_out(tmp_path: Path, is_gone: bool) -> None:
    attached = tmp_path / "block/loop7/loop"
    attached.mkdir(parents=True)
    (attached / "backing_file").write_text("/data/exports/demo/image\n")
    (tmp_path / "dev").mkdir()
    if not is_gone:
        (tmp_path / "dev/loop7").symlink_to("loop7")  # ELOOP stands for any other failure
    script = LIST_LOOPS.replace("/sys/block", f"{tmp_path}/block").replace(
        "/dev/{", f"{tmp_path}/dev/{{"
    )
    argv = [sys.executable, "-c", script, "/data/exports/demo/image"]
    listed = subprocess.run(argv, capture_output=True, text=True, check=False)
    if is_gone:
        assert json.loads(listed.stdout) == {"loopdevices": []}
    else:
        assert listed.returncode != 0


@pytest.mark.parametrize(
    ("answer", "is_there"),
    [
        (errno.ENXIO, False),
        (errno.ENODEV, False),
        # What a file says whose FUSE server is dying or dead; the last stands for any other.
        (errno.ENOTCONN, True),
        (errno.ECONNABORTED, True),
        (errno.ECANCELED, True),
        (errno.EIO, True),
        (errno.ESHUTDOWN, True),
    ],
)
def test_a_device_over_a_dead_file_is_still_a_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: int, is_there: bool
) -> None:
    attached = tmp_path / "block/loop7/loop"
    attached.mkdir(parents=True)
    (attached / "backing_file").write_text("/data/exports/demo/image\n")
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/loop7").write_bytes(b"")

    def ioctl(*_: object) -> int:
        raise OSError(answer, os.strerror(answer))

    monkeypatch.setattr(fcntl, "ioctl", ioctl)
    found = observe_attached_loops(tmp_path / "block", tmp_path / "dev")
    device = AttachedLoop(str(tmp_path / "dev/loop7"), "/data/exports/demo/image", None, None)
    assert found == ([device] if is_there else [])


def test_a_device_that_cannot_be_opened_is_an_error(tmp_path: Path) -> None:
    attached = tmp_path / "block/loop7/loop"
    attached.mkdir(parents=True)
    (attached / "backing_file").write_text("/data/exports/demo/image\n")
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/loop7").symlink_to("loop7")  # ELOOP stands for any failure
    with pytest.raises(OSError, match="symbolic links"):
        observe_attached_loops(tmp_path / "block", tmp_path / "dev")
