from __future__ import annotations

import contextlib
import stat
from pathlib import Path

import pytest

from grampus.core.errors import GrampusError, NotFoundError, UsageError
from grampus.databases.backup.directory_target import DirectoryTarget
from grampus.databases.backup.target import TARGET_FILE


@pytest.fixture
def target(tmp_path: Path) -> DirectoryTarget:
    made = DirectoryTarget(tmp_path / "backups")
    made.ensure_id()
    return made


def write(target: DirectoryTarget, name: str, content: bytes) -> None:
    with target.writing(name) as file:
        file.write(content)


def begin(target: DirectoryTarget, name: str, content: bytes) -> None:
    """Write, and be interrupted before the end."""
    with contextlib.suppress(KeyboardInterrupt), target.writing(name) as file:
        file.write(content)
        raise KeyboardInterrupt


def test_id_stays_and_differs_from_that_of_others(tmp_path: Path) -> None:
    one, other = DirectoryTarget(tmp_path / "one"), DirectoryTarget(tmp_path / "other")
    assert one.find_id() is None
    assert one.ensure_id() == one.ensure_id() == one.find_id() != other.ensure_id()
    assert len(one.ensure_id()) == 8


def test_parent_that_is_not_there_is_no_new_place(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="mount"):
        DirectoryTarget(tmp_path / "mnt" / "backups").ensure_id()
    assert not (tmp_path / "mnt").exists()


def test_a_file_is_no_place(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("mine")
    with pytest.raises(UsageError, match="is not a directory"):
        DirectoryTarget(tmp_path / "notes").ensure_id()
    assert (tmp_path / "notes").read_text() == "mine"


def test_directory_of_somebody_else_is_not_taken(tmp_path: Path) -> None:
    (tmp_path / TARGET_FILE).write_text("notes about backups")
    with pytest.raises(GrampusError, match="does not have the id"):
        DirectoryTarget(tmp_path).ensure_id()


def test_contents_come_back_and_are_for_the_owner_alone(
    target: DirectoryTarget, tmp_path: Path
) -> None:
    target.put("shop/1/manifest.json", b"{}")
    write(target, "shop/1/image.sealed", b"data")
    write(target, "bar/1/image.sealed", b"more")
    assert target.names() == [
        "bar/1/image.sealed",
        "shop/1/image.sealed",
        "shop/1/manifest.json",
    ]
    assert target.names("shop") == ["shop/1/image.sealed", "shop/1/manifest.json"]
    assert target.read("shop/1/manifest.json") == b"{}"
    with target.reading("shop/1/image.sealed") as file:
        assert file.read(100) == b"data"
    for path in (tmp_path / "backups").rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)


@pytest.mark.parametrize(
    ("below", "after", "found"),
    [
        ("shop/b", "", ["shop/b/1/x", "shop/b/1/y", "shop/b/10/x", "shop/b/2/x"]),
        ("shop", "shop/b.", ["shop/b.c", "shop/b/1/x", "shop/b/1/y", "shop/b/10/x", "shop/b/2/x"]),
        ("shop", "shop/b/1/x", ["shop/b/1/y", "shop/b/10/x", "shop/b/2/x"]),
        ("shop", "shop/b/1/", ["shop/b/1/x", "shop/b/1/y", "shop/b/10/x", "shop/b/2/x"]),
        ("shop", "shop/b/10", ["shop/b/10/x", "shop/b/2/x"]),
        ("shop/b", "shop/b/3", []),
        ("", "shop/c", ["shopping/x"]),
        ("shop/b/2/x", "", []),  # a content, not a directory
    ],
)
def test_names_begin_where_they_are_asked_to(
    target: DirectoryTarget, below: str, after: str, found: list[str]
) -> None:
    """`b.c` sorts before `b/1/x`, though `b` sorts before `b.c`."""
    for name in ("b.c", "b/1/x", "b/1/y", "b/10/x", "b/2/x"):
        target.put(f"shop/{name}", b"1")
    target.put("shopping/x", b"1")
    assert target.names(below, after=after) == sorted(found)
    assert [name for name in target.names(below) if name > after] == sorted(found)


def test_what_was_not_written_to_the_end_is_only_a_part(target: DirectoryTarget) -> None:
    begin(target, "shop/1/image.sealed", b"half")
    assert target.names() == []
    assert target.parts() == ["shop/1/image.sealed"]
    with pytest.raises(NotFoundError), target.reading("shop/1/image.sealed"):
        pass


def test_part_is_written_anew(target: DirectoryTarget) -> None:
    begin(target, "shop/1/image.sealed", b"longer than what comes")
    write(target, "shop/1/image.sealed", b"new")
    with target.reading("shop/1/image.sealed") as file:
        assert file.read(100) == b"new"
    assert target.parts() == []


def test_removed_are_contents_and_parts_below_a_name(target: DirectoryTarget) -> None:
    target.put("shop/1/manifest.json", b"{}")
    begin(target, "shop/1/image.sealed", b"half")
    target.put("shop/2/manifest.json", b"{}")
    target.remove("shop/1", first="manifest.json")
    target.remove("shop/1", first="manifest.json")
    assert target.names() == ["shop/2/manifest.json"]
    assert target.parts() == []


def test_directory_goes_with_its_last_backup(target: DirectoryTarget, tmp_path: Path) -> None:
    target.put("shop/1/manifest.json", b"{}")
    target.remove("shop/1")
    assert [path.name for path in (tmp_path / "backups").iterdir()] == [TARGET_FILE]


def test_nothing_that_was_never_there(tmp_path: Path) -> None:
    target = DirectoryTarget(tmp_path / "none")
    assert target.names() == target.parts("shop") == []
    assert target.read("shop/1/manifest.json") is None
    target.remove("shop/1", first="manifest.json")


def test_one_content_is_taken_away(target: DirectoryTarget) -> None:
    target.put("shop/binlogs/a", b"1")
    target.put("shop/binlogs/ab", b"2")
    for _ in range(2):
        target.discard("shop/binlogs/a")
        assert target.names() == ["shop/binlogs/ab"]


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "shop/../../x"])
def test_name_that_leads_out_is_refused(target: DirectoryTarget, name: str) -> None:
    with pytest.raises(GrampusError, match="not a valid name"):
        target.read(name)
