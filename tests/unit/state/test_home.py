from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from grampus.state.home import DEFAULT_HOME, HOME_VARIABLE, Home, write_atomically

# Writes big files over one another until it is killed.
WRITER = """
import itertools, sys
from pathlib import Path
from grampus.state.home import write_atomically
for letter in itertools.cycle((b"a", b"b")):
    write_atomically(Path(sys.argv[1]), letter * 4_000_000)
    print(letter.decode(), flush=True)
"""


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644, 0o755])
def test_file_has_the_mode_asked_for_whatever_the_umask(tmp_path: Path, mode: int) -> None:
    before = os.umask(0o077)
    try:
        write_atomically(tmp_path / "file", b"content", mode=mode)
    finally:
        os.umask(before)
    assert mode_of(tmp_path / "file") == mode
    assert (tmp_path / "file").read_bytes() == b"content"


def test_replacing_changes_the_mode_too(tmp_path: Path) -> None:
    write_atomically(tmp_path / "secret", b"open", mode=0o644)
    write_atomically(tmp_path / "secret", b"closed", mode=0o600)
    assert mode_of(tmp_path / "secret") == 0o600
    assert (tmp_path / "secret").read_bytes() == b"closed"


def test_missing_directories_are_made(tmp_path: Path) -> None:
    write_atomically(tmp_path / "a" / "b" / "file", b"")
    assert (tmp_path / "a" / "b" / "file").read_bytes() == b""


def test_reader_that_has_the_old_file_open_goes_on_reading_it(tmp_path: Path) -> None:
    file = tmp_path / "file"
    write_atomically(file, b"old")
    with file.open("rb") as reader:
        write_atomically(file, b"newer and longer")
        assert reader.read() == b"old"


def test_other_name_of_the_old_file_keeps_its_content(tmp_path: Path) -> None:
    write_atomically(tmp_path / "file", b"old")
    os.link(tmp_path / "file", tmp_path / "other")
    write_atomically(tmp_path / "file", b"new")
    assert (tmp_path / "other").read_bytes() == b"old"


def test_failed_write_leaves_what_was_there_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    (tmp_path / "target" / "inside").write_text("kept")
    with pytest.raises(OSError, match="directory"):
        write_atomically(tmp_path / "target", b"content")
    assert [path.name for path in tmp_path.iterdir()] == ["target"]
    assert (tmp_path / "target" / "inside").read_text() == "kept"


def test_content_that_cannot_be_written_leaves_no_temporary_file(tmp_path: Path) -> None:
    write_atomically(tmp_path / "file", b"old")
    with pytest.raises(TypeError):
        write_atomically(tmp_path / "file", "text")  # type: ignore[arg-type]
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_bytes() == b"old"


def test_killed_in_the_middle_the_file_is_whole(tmp_path: Path) -> None:
    file = tmp_path / "file"
    child = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(file)], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    for _ in range(4):
        assert child.stdout.readline().strip() in ("a", "b")
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    content = file.read_bytes()
    assert content in (b"a" * 4_000_000, b"b" * 4_000_000)


@pytest.mark.parametrize(
    ("setting", "root"),
    [
        (None, DEFAULT_HOME),
        ("", DEFAULT_HOME),
        ("/somewhere/else", Path("/somewhere/else")),
        ("relative", Path.cwd() / "relative"),
    ],
)
def test_home_from_environment(
    monkeypatch: pytest.MonkeyPatch, setting: str | None, root: Path
) -> None:
    if setting is None:
        monkeypatch.delenv(HOME_VARIABLE, raising=False)
    else:
        monkeypatch.setenv(HOME_VARIABLE, setting)
    assert Home.from_environment().root == root


def test_everything_lies_below_the_root_and_apart(tmp_path: Path) -> None:
    home = Home(tmp_path)
    places = [
        home.store_file,
        home.images_dir,
        home.locks_dir,
        home.runs_dir,
        *(place for lab in ("one", "two") for place in (home.lab_dir(lab), home.secrets_dir(lab))),
    ]
    assert len(set(places)) == len(places)
    assert all(place.is_relative_to(tmp_path) for place in places)
    assert not any(a.is_relative_to(b) for a in places for b in places if a != b)
    assert list(tmp_path.iterdir()) == []


def test_unusable_home_is_explained() -> None:
    error = Home(Path("/srv/x")).unusable(OSError(errno.EACCES, os.strerror(errno.EACCES)))
    assert str(error).startswith("/srv/x cannot be used: Permission denied.")
    assert HOME_VARIABLE in error.remedy
    assert error.code == "home-unusable"
