"""Building, sharing, falling back and cleaning up, against a fake mmdebstrap."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from grampus.core.clock import SystemClock
from grampus.core.errors import GrampusError, NotFoundError, UsageError
from grampus.core.progress import SilentProgress
from grampus.lab.images import HostImage, HostImages
from grampus.lab.images.cache import LOCKS_DIRECTORY
from grampus.lab.images.trees import BUILDER_FILE, observe_start_ticks
from grampus.state.home import Home
from grampus.state.locks import hold_lock_in
from tests.fakes.progress import RecordedProgress

from .fakes import FakeMachine

BUILD_IN_A_PROCESS = """
import sys
from pathlib import Path
from grampus.core.clock import SystemClock
from grampus.core.progress import SilentProgress
from grampus.lab.images import HostImages
from grampus.state.home import Home
images = HostImages(
    Home(Path(sys.argv[1])), Path(sys.argv[2]), SystemClock(), effective_uid=lambda: 0
)
images.ensure("sid", SilentProgress())
"""
QUIET = SilentProgress()


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeMachine:
    return FakeMachine(tmp_path, monkeypatch)


@pytest.fixture
def images(machine: FakeMachine) -> HostImages:
    return images_of(machine)


def images_of(machine: FakeMachine, *, uid: int = 0) -> HostImages:
    return HostImages(
        Home(machine.home_dir), machine.definitions_dir, SystemClock(), effective_uid=lambda: uid
    )


def start_process(machine: FakeMachine) -> subprocess.Popen[bytes]:
    """Another grampus process that ensures the image `sid`."""
    return subprocess.Popen(
        [
            sys.executable,
            "-c",
            BUILD_IN_A_PROCESS,
            str(machine.home_dir),
            str(machine.definitions_dir),
        ],
        stderr=subprocess.DEVNULL,
    )


def wait_until_recorded(machine: FakeMachine) -> None:
    """Until the other process has written down who builds."""
    deadline = time.monotonic() + 20
    while not list((machine.home_dir / "images").glob(f".building-*/{BUILDER_FILE}")):
        assert time.monotonic() < deadline
        os.sched_yield()


def test_built_once_then_found(machine: FakeMachine, images: HostImages) -> None:
    assert images.find("sid") is None
    built = images.ensure("sid", QUIET)
    assert images.ensure("sid", QUIET) == built == images.find("sid")
    assert len(machine.builds()) == 1
    assert built.root == machine.home_dir / "images" / built.id / "root"
    assert (built.definition, built.flavours) == ("sid", ("mysql",))
    assert built.versions == {"fio": "3.41-2"}
    assert built.size_bytes > 0
    assert built.built_at.tzinfo is not None
    assert machine.image_entries() == [built.id]


def test_image_directory_is_for_root_alone(images: HostImages) -> None:
    directory = images.ensure("sid", QUIET).root.parent
    assert directory.stat().st_mode & 0o777 == 0o700


def test_archive_of_the_machine_is_used_and_forgotten(
    machine: FakeMachine, images: HostImages
) -> None:
    image = images.ensure("sid", QUIET)
    (command,) = machine.builds()
    assert command.endswith("/root http://archive.test/debian")
    assert "hidden" not in command
    assert "http_proxy=http://user:hidden@proxy.test:3128" in machine.environment()
    assert not (image.root / "etc/apt/sources.list").exists()


def test_archive_of_the_user_wins(
    machine: FakeMachine, images: HostImages, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRAMPUS_DEBIAN_MIRROR", "http://mine.test/debian/")
    images.ensure("sid", QUIET)
    assert machine.builds()[0].endswith("/root http://mine.test/debian")
    monkeypatch.setenv("GRAMPUS_DEBIAN_MIRROR", "mine")
    with pytest.raises(UsageError):
        images.ensure("trixie", QUIET)


def test_progress_has_phases_and_a_moving_bar(images: HostImages) -> None:
    progress = RecordedProgress()
    images.ensure("sid", progress)
    assert progress.phases == [
        "Read the package lists",
        "Download packages",
        "Install packages",
        "Check the host image",
    ]
    assert progress.details == [("unpacking fio", 0.5), ("setting up fio", 1.0)]


def test_changed_definition_is_another_image(machine: FakeMachine, images: HostImages) -> None:
    old = images.ensure("sid", QUIET)
    file = machine.definitions_dir / "sid.toml"
    file.write_text(file.read_text().replace('packages = ["fio"]', 'packages = ["fio", "tini"]', 1))
    assert images.find("sid") is None
    new = images.ensure("sid", QUIET)
    assert new.id != old.id
    assert {image.id for image in images.list()} == {old.id, new.id}


@pytest.mark.parametrize(
    ("mode", "code", "words"),
    [
        ("gone", "package-gone", "fio is no longer in Debian's suite 'sid'"),
        ("unreachable", "archive-unreachable", "archive.test"),
        ("incomplete", "image-incomplete", "lacks the program fio"),
        ("odd", "image-build-failed", "the moon is full"),
    ],
)
def test_failure_leaves_nothing_half_built(
    machine: FakeMachine, images: HostImages, mode: str, code: str, words: str
) -> None:
    machine.mode(mode)
    with pytest.raises(GrampusError, match=words) as caught:
        images.ensure("sid", QUIET)
    assert caught.value.code == code
    assert machine.image_entries() == []
    machine.mode("ok")
    assert images.ensure("sid", QUIET) == images.find("sid")


def test_log_of_a_failure_is_where_the_error_says(machine: FakeMachine, images: HostImages) -> None:
    machine.mode("odd")
    with pytest.raises(GrampusError) as caught:
        images.ensure("sid", QUIET)
    log = machine.home_dir / "images/sid-build.log"
    assert str(log) in caught.value.remedy
    assert "the moon is full" in log.read_text()
    machine.mode("ok")
    images.ensure("sid", QUIET)
    assert not log.exists()


def test_what_is_refused_before_anything_begins(machine: FakeMachine, images: HostImages) -> None:
    machine.define("trixie", size_bytes=10**18)
    with pytest.raises(GrampusError, match=r"needs 1.* TiB") as caught:
        images.ensure("trixie", QUIET)
    assert caught.value.code == "disk-full"
    with pytest.raises(NotFoundError, match="Did you mean 'sid'"):
        images.ensure("sit", QUIET)
    with pytest.raises(GrampusError, match="needs root") as caught:
        images_of(machine, uid=1000).ensure("sid", QUIET)
    assert caught.value.code == "needs-root"
    assert machine.builds() == []


def test_cached_image_needs_neither_root_nor_network(
    machine: FakeMachine, images: HostImages
) -> None:
    built = images.ensure("sid", QUIET)
    machine.mode("unreachable")
    assert images_of(machine, uid=1000).ensure("sid", QUIET) == built


def test_missing_mmdebstrap(machine: FakeMachine, images: HostImages) -> None:
    machine.without_mmdebstrap()
    with pytest.raises(GrampusError, match="Install the package mmdebstrap") as caught:
        images.ensure("sid", QUIET)
    assert caught.value.code == "program-missing"
    assert machine.image_entries() == []


def test_fallback_says_why(machine: FakeMachine, images: HostImages) -> None:
    machine.mode("gone", suite="sid")
    progress = RecordedProgress()
    assert images.ensure_first_available(["sid", "trixie"], progress).definition == "trixie"
    (note,) = progress.notes
    assert "'sid' is not available: The package fio is no longer" in note
    assert "Using 'trixie' (Image trixie) instead." in note


def test_no_fallback_when_the_first_can_be_had(images: HostImages) -> None:
    progress = RecordedProgress()
    assert images.ensure_first_available(["sid", "trixie"], progress).definition == "sid"
    assert progress.notes == []


def test_network_failure_is_not_repeated_for_the_next(
    machine: FakeMachine, images: HostImages
) -> None:
    machine.mode("unreachable")
    with pytest.raises(GrampusError, match="cannot be reached"):
        images.ensure_first_available(["sid", "trixie"], QUIET)
    assert len(machine.builds()) == 1
    machine.mode("ok")
    images.ensure("trixie", QUIET)
    machine.mode("unreachable")
    assert images.ensure_first_available(["sid", "trixie"], QUIET).definition == "trixie"


def test_error_of_the_first_when_none_can_be_had(machine: FakeMachine, images: HostImages) -> None:
    machine.mode("gone", suite="sid")
    machine.mode("odd", suite="trixie")
    with pytest.raises(GrampusError, match="suite 'sid'"):
        images.ensure_first_available(["sid", "trixie"], QUIET)


def test_second_process_waits_and_shares(machine: FakeMachine, images: HostImages) -> None:
    machine.mode("wait")
    built: list[HostImage] = []
    waiting = threading.Event()

    class Waiting(RecordedProgress):
        def phase(self, name: str) -> None:
            super().phase(name)
            waiting.set()

    second_progress = Waiting()
    first = threading.Thread(target=lambda: built.append(images.ensure("sid", QUIET)))
    second = threading.Thread(target=lambda: built.append(images.ensure("sid", second_progress)))
    first.start()
    machine.wait_until_building()
    second.start()
    assert waiting.wait(timeout=20)
    machine.let_go()
    first.join()
    second.join()
    assert built[0] == built[1]
    assert second_progress.phases == ["Wait for the host image"]
    assert len(machine.builds()) == 1


def test_ctrl_c_leaves_nothing(machine: FakeMachine) -> None:
    machine.mode("wait")
    process = start_process(machine)
    builder = machine.wait_until_building()
    wait_until_recorded(machine)
    process.send_signal(signal.SIGINT)
    process.wait(timeout=30)
    assert process.returncode != 0
    assert machine.image_entries() == []
    assert observe_start_ticks(builder) is None


def test_kill_9_is_cleaned_up_by_the_next(machine: FakeMachine, images: HostImages) -> None:
    machine.mode("wait")
    process = start_process(machine)
    builder = machine.wait_until_building()
    wait_until_recorded(machine)
    process.kill()
    process.wait()
    # The fake setpriv does not tie the build to its parent, so it is still there.
    assert observe_start_ticks(builder) is not None
    assert len(machine.image_entries()) == 1
    assert images.find("sid") is None
    machine.mode("ok")
    image = images.ensure("sid", QUIET)
    assert machine.image_entries() == [image.id]
    assert observe_start_ticks(builder) is None


def test_death_before_the_rename_leaves_no_image(
    machine: FakeMachine, images: HostImages, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRAMPUS_FAILPOINTS", "host-image.before-rename=kill")
    process = start_process(machine)
    assert process.wait(timeout=30) == -signal.SIGKILL
    monkeypatch.delenv("GRAMPUS_FAILPOINTS")
    assert images.find("sid") is None
    image = images.ensure("sid", QUIET)
    assert machine.image_entries() == [image.id]
    assert len(machine.builds()) == 2


def test_leftovers_of_the_living_stay(machine: FakeMachine, images: HostImages) -> None:
    images_dir = machine.home_dir / "images"
    dead = images_dir / ".building-other-0123456789ab-1"
    living = images_dir / ".building-third-0123456789ab-2"
    foreign = images_dir / ".kept"
    for directory in (dead, living, foreign):
        directory.mkdir(parents=True)
    lock = "host-image.third-0123456789ab"
    with hold_lock_in(images_dir / LOCKS_DIRECTORY, lock, SystemClock()):
        images.ensure("sid", QUIET)
    assert [path.exists() for path in (dead, living, foreign)] == [False, True, True]


def test_homes_that_share_their_images_build_each_once(
    machine: FakeMachine, images: HostImages, tmp_path: Path
) -> None:
    image = images.ensure("sid", QUIET)
    other_home = tmp_path / "other-home"
    other_home.mkdir()
    (other_home / "images").symlink_to(machine.home_dir / "images")
    others = HostImages(
        Home(other_home), machine.definitions_dir, SystemClock(), effective_uid=lambda: 0
    )
    assert others.ensure("sid", QUIET).id == image.id
    locks = other_home / "images" / LOCKS_DIRECTORY
    with hold_lock_in(locks, f"host-image.{image.id}", SystemClock()):
        assert images.remove_unused(set()) == []
    assert len(machine.builds()) == 1


def test_damaged_image_is_built_again(machine: FakeMachine, images: HostImages) -> None:
    image = images.ensure("sid", QUIET)
    (image.root.parent / "image.json").write_text("{")
    assert images.find("sid") is None
    assert images.list() == []
    assert images.ensure("sid", QUIET).id == image.id
    assert len(machine.builds()) == 2


def test_remove_unused_keeps_what_it_must(machine: FakeMachine, images: HostImages) -> None:
    sid, trixie = images.ensure("sid", QUIET), images.ensure("trixie", QUIET)
    locks = machine.home_dir / "images" / LOCKS_DIRECTORY
    with hold_lock_in(locks, f"host-image.{trixie.id}", SystemClock()):
        assert images.remove_unused({sid.id}) == []
    assert images.remove_unused({sid.id}) == [trixie.id]
    assert machine.image_entries() == [sid.id]
    assert images.remove_unused(set()) == [sid.id]
    assert list(images.list()) == []


def test_remove_unused_spares_what_an_overlay_stands_on(
    machine: FakeMachine, images: HostImages, tmp_path: Path
) -> None:
    image = images.ensure("sid", QUIET)
    upper, work, merged = (tmp_path / name for name in ("upper", "work", "merged"))
    for directory in (upper, work, merged):
        directory.mkdir()
    options = f"lowerdir={image.root},upperdir={upper},workdir={work}"
    mounted = subprocess.run(
        ["mount", "-t", "overlay", "overlay", "-o", options, merged], stderr=subprocess.DEVNULL
    )
    if mounted.returncode != 0:
        pytest.skip("mounting needs root; `make test` runs as root")
    try:
        assert images.remove_unused(set()) == []
    finally:
        subprocess.run(["umount", merged], check=True)
    assert images.remove_unused(set()) == [image.id]
