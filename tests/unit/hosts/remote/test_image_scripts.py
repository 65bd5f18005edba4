"""Host images on a host: the scripts in a real shell, as far as they mount nothing."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from grampus.hosts.remote.host_parts import (
    HOST_FORMAT,
    LACKS_IMAGE,
    OTHER_PARTS,
    HostParts,
    parse_parts,
)
from grampus.hosts.remote.host_root import inside_argv
from grampus.hosts.remote.image_scripts import (
    MISSING_IMAGE,
    FoundImages,
    digest_argv,
    discard_argv,
    free_argv,
    keep_argv,
    note_parts_argv,
    observe_images_argv,
    parse_images,
    remove_image_argv,
)

PARTS = HostParts(HOST_FORMAT, "0.2.0", "sid-1", "d" * 64)


def run(argv: Sequence[str], code: int = 0) -> str:
    """What a script says that ends with that code."""
    ended = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False)
    assert ended.returncode == code, ended.stderr
    return ended.stdout + ended.stderr


def make_image(directory: Path, name: str) -> Path:
    root = directory / "images" / name / "root"
    root.mkdir(parents=True)
    (root / "file").write_text(name)
    return root


def test_images_and_parts_of_a_host_are_observed(tmp_path: Path) -> None:
    assert parse_images(run(observe_images_argv(str(tmp_path)))) == FoundImages(None, {})
    make_image(tmp_path, "sid-1")
    make_image(tmp_path, "sid-2")
    (tmp_path / "images" / ".new-sid-3" / "root").mkdir(parents=True)
    run(note_parts_argv(str(tmp_path), PARTS.words()))
    found = parse_images(run(observe_images_argv(str(tmp_path))))
    assert parse_parts(found.parts or "") == PARTS
    assert found.users == {"sid-1": (), "sid-2": ()}


def test_users_of_images() -> None:
    text = "parts 1 - sid-1 -\nimage sid-1\nuser sid-1 mysqld-shop\nuser sid-1 process 12\n"
    assert parse_images(text) == FoundImages(
        "1 - sid-1 -", {"sid-1": ("mysqld-shop", "process 12")}
    )


def test_an_image_takes_its_place_and_goes(tmp_path: Path) -> None:
    directory = str(tmp_path)
    unfinished = tmp_path / "images" / ".new-sid-1" / "root"
    unfinished.mkdir(parents=True)
    run(keep_argv(directory, "sid-1"))
    # Another one in its place: the first one was changed.
    unfinished.mkdir(parents=True)
    (unfinished / "file").write_text("whole")
    run(keep_argv(directory, "sid-1"))
    assert (tmp_path / "images" / "sid-1" / "root" / "file").read_text() == "whole"
    for _ in range(2):
        run(remove_image_argv(directory, "sid-1"))
        assert list((tmp_path / "images").iterdir()) == []


def test_a_copy_that_is_not_whole_goes(tmp_path: Path) -> None:
    (tmp_path / "images" / ".new-sid-1" / "root").mkdir(parents=True)
    for _ in range(2):
        run(discard_argv(str(tmp_path), "sid-1"))
        assert list((tmp_path / "images").iterdir()) == []
    assert int(run(free_argv(str(tmp_path / "not" / "there")))) > 0


def test_a_digest_is_that_of_contents_and_links(tmp_path: Path) -> None:
    root = make_image(tmp_path, "sid-1")
    before = run(digest_argv(root))
    (root / "link").symlink_to("file")
    linked = run(digest_argv(root))
    (root / "file").write_text("changed")
    assert len({before, linked, run(digest_argv(root))}) == 3
    run(digest_argv(tmp_path / "nowhere"), code=MISSING_IMAGE)


@pytest.mark.parametrize(
    ("parts", "code", "said"),
    [
        (f"{HOST_FORMAT + 1} 9.0.0 sid-9 d", 71, f"{OTHER_PARTS} {HOST_FORMAT + 1} 9.0.0\n"),
        ("damaged", 71, f"{OTHER_PARTS} unknown -\n"),
        ("", 71, f"{OTHER_PARTS} unknown -\n"),
        (f"{HOST_FORMAT} 0.3.0 sid-2 d", MISSING_IMAGE, f"{LACKS_IMAGE} sid-1 sid-2 0.3.0\n"),
        (None, MISSING_IMAGE, f"{LACKS_IMAGE} sid-1 - -\n"),
    ],
)
def test_a_connection_compares_parts_before_it_changes_anything(
    tmp_path: Path, parts: str | None, code: int, said: str
) -> None:
    (tmp_path / "data").mkdir()
    if parts is not None:
        (tmp_path / "data" / "host-parts").write_text(f"{parts}\n" if parts else "")
    assert run(inside_argv(str(tmp_path), "sid-1", ["true"]), code) == said
    assert [path.name for path in tmp_path.iterdir()] == ["data"]
