"""What counts as being in an image."""

from __future__ import annotations

from pathlib import Path

import pytest

from grampus.lab.images.definition import ImageDefinition
from grampus.lab.images.verify import parse_package_versions, resolve_in_root, verify_image

from .test_recipe import DEFINITION

WANTED = DEFINITION.model_copy(update={"files": ("/usr/lib/*/librbd.so.1",)})


def make_root(root: Path) -> Path:
    for directory in ("usr/bin", "usr/lib/x", "etc/alternatives", "var/lib/mysql"):
        (root / directory).mkdir(parents=True)
    (root / "bin").symlink_to("usr/bin")
    (root / "usr/bin/fio").write_text("")
    (root / "usr/bin/fio").chmod(0o755)
    (root / "usr/lib/x/librbd.so.1.20").write_text("")
    (root / "usr/lib/x/librbd.so.1").symlink_to("librbd.so.1.20")
    (root / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\nmysql:x:64050:64050::/:/x\n")
    return root


def test_complete(tmp_path: Path) -> None:
    assert verify_image(make_root(tmp_path), WANTED) == []


def test_absolute_link_is_followed_inside_the_image(tmp_path: Path) -> None:
    root = make_root(tmp_path)
    (root / "usr/bin/fio").rename(root / "usr/bin/fio-3")
    (root / "etc/alternatives/fio").symlink_to("/usr/bin/fio-3")
    (root / "usr/bin/fio").symlink_to("/etc/alternatives/fio")
    assert verify_image(root, WANTED) == []


def break_link_out(root: Path) -> None:
    (root / "usr/bin/fio").unlink()
    (root / "usr/bin/fio").symlink_to("/bin/sh")  # there on this machine, not in the image


def break_library(root: Path) -> None:
    (root / "usr/lib/x/librbd.so.1.20").unlink()


def break_user(root: Path) -> None:
    (root / "etc/passwd").write_text("mysql:x:101:64050::/:/x\n")


@pytest.mark.parametrize(
    ("break_it", "missing"),
    [
        (lambda root: (root / "usr/bin/fio").unlink(), "the program fio"),
        (lambda root: (root / "usr/bin/fio").chmod(0o644), "the program fio"),
        (break_link_out, "the program fio"),
        (break_library, "the file /usr/lib/*/librbd.so.1"),
        (break_user, "the user mysql with number 64050"),
        (lambda root: (root / "etc/passwd").unlink(), "the user mysql with number 64050"),
        (lambda root: (root / "var/lib/mysql").rmdir(), "the directory /var/lib/mysql"),
    ],
)
def test_missing(tmp_path: Path, break_it: object, missing: str) -> None:
    root = make_root(tmp_path)
    assert callable(break_it)
    break_it(root)
    assert verify_image(root, WANTED) == [missing]


def test_empty_root_lacks_everything(tmp_path: Path) -> None:
    definition: ImageDefinition = WANTED
    assert len(verify_image(tmp_path, definition)) == 4


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("/../../etc/passwd", "etc/passwd"),
        ("/bin/fio", "usr/bin/fio"),
        ("/loop", "loop"),
    ],
)
def test_no_path_leads_out_of_the_image(tmp_path: Path, path: str, place: str) -> None:
    root = make_root(tmp_path)
    (root / "loop").symlink_to("/loop")
    assert resolve_in_root(root, path) == root / place


def test_versions_of_installed_packages() -> None:
    status = (
        "Package: fio\nStatus: install ok installed\nVersion: 3.41-2\nDescription: x\n"
        " Version: 9\n\n"
        "Package: tini\nStatus: deinstall ok config-files\nVersion: 0.19\n\n"
        "Package: bash\nStatus: install ok installed\nVersion: 5.3\n"
    )
    assert parse_package_versions(status, ["fio", "tini", "gone"]) == {"fio": "3.41-2"}
