"""What the Debian package says of itself (scripts/package/control.py), and what it is made of."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from email import message_from_string
from pathlib import Path

import pytest
from scripts.package.control import (
    PROGRAMS,
    PROGRAMS_OF_LABS,
    Project,
    Target,
    parse_project,
    render_checksums,
    render_control,
    render_depends,
    render_file_name,
    render_metadata,
    render_venv,
    site_packages,
)
from scripts.package.tree import FILES, MAINTAINER_SCRIPTS, ensure_modes

from tests.system.clean_debian import DEFINITIONS, IMAGE
from tests.system.command_line import CHECKOUT

PROJECT = Project("0.2.0", "Databases on Ceph", ">=3.11", ("typer>=0.12", "rich>=13.7"))
TARGET = Target("amd64", (3, 11), "2.36")


def test_the_project_is_that_of_pyproject() -> None:
    text = (CHECKOUT / "pyproject.toml").read_text()
    project = parse_project(text)
    assert project.version == tomllib.loads(text)["project"]["version"]
    assert "typer>=0.12" in project.dependencies
    assert render_file_name(PROJECT, TARGET) == "grampus_0.2.0_amd64.deb"


@pytest.mark.parametrize(("installed_bytes", "kib"), [(1, "1"), (1024, "1"), (1025, "2"), (0, "0")])
def test_control(installed_bytes: int, kib: str) -> None:
    control = message_from_string(render_control(PROJECT, TARGET, installed_bytes))
    assert control["Package"] == "grampus"
    assert control["Version"] == "0.2.0"
    assert control["Architecture"] == "amd64"
    assert control["Installed-Size"] == kib
    assert control["Recommends"] == "runc"
    assert control["Description"].splitlines()[0] == "Databases on Ceph"
    assert not control.get_payload()  # no line ends the fields


@pytest.mark.parametrize(
    ("python", "wanted"),
    [
        ((3, 11), ["python3 (>= 3.11)", "python3 (<< 3.12)"]),
        ((3, 13), ["python3 (>= 3.13)", "python3 (<< 3.14)"]),
    ],
)
def test_compiled_packages_bind_it_to_one_python(
    python: tuple[int, int], wanted: list[str]
) -> None:
    depends = render_depends(Target("amd64", python, "2.36")).split(", ")
    assert [one for one in depends if one.startswith("python3")] == wanted
    assert site_packages(python).endswith(f"/python3.{python[1]}/site-packages")
    assert f"version = 3.{python[1]}\n" in render_venv(python)


def test_the_programs_are_those_that_a_checkout_installs() -> None:
    text = (CHECKOUT / "scripts" / "setup.sh").read_text()
    wanted = re.search(r"^programs=\((.*?)\)", text, re.DOTALL | re.MULTILINE)
    assert wanted is not None
    essential = {"util-linux"}
    checkout = set(re.findall(r"=([a-z0-9-]+)", wanted[1])) - essential
    assert checkout == {*PROGRAMS, *PROGRAMS_OF_LABS} - {"debian-archive-keyring"}
    assert "missing+=(debian-archive-keyring)" in text


def test_the_clean_debian_has_what_the_package_depends_on_and_nothing_more() -> None:
    definition = tomllib.loads((DEFINITIONS / f"{IMAGE}.toml").read_text())
    assert set(definition["packages"]) == {*PROGRAMS, "python3"}


def test_metadata_has_the_version_and_what_is_required() -> None:
    metadata = message_from_string(render_metadata(PROJECT))
    assert metadata["Version"] == "0.2.0"
    assert metadata.get_all("Requires-Dist") == ["typer>=0.12", "rich>=13.7"]


def test_checksums_are_in_the_order_of_paths() -> None:
    assert render_checksums({"usr/b": "2", "usr/a": "1"}) == "1  usr/a\n2  usr/b\n"


def test_remapped_paths_may_have_spaces(tmp_path: Path) -> None:
    """As cargo gets them from the script that builds what is released."""
    cargo = tmp_path / "programs" / "cargo"
    cargo.parent.mkdir()
    cargo.write_text('#!/bin/sh\nprintf "%s\\n" "$PWD" "$*" "$CARGO_ENCODED_RUSTFLAGS"\n')
    cargo.chmod(0o755)
    path = f"{cargo.parent}:{os.environ['PATH']}"
    finished = subprocess.run(
        [CHECKOUT / "scripts" / "cargo-release.sh", "--package", "one"],
        env={"PATH": path, "HOME": "/home/a b", "CARGO_HOME": "/cargo home"},
        capture_output=True,
        text=True,
        check=True,
    )
    directory, arguments, flags = finished.stdout.splitlines()
    assert directory == str(CHECKOUT / "dataplane")
    assert arguments == "build --locked --release --quiet --target-dir target --package one"
    assert flags.split("\x1f") == [
        "--remap-path-prefix=/home/a b=/build",
        "--remap-path-prefix=/cargo home=/cargo",
        f"--remap-path-prefix={CHECKOUT}=/grampus",
    ]


def test_modes_and_times_do_not_depend_on_the_build_machine(tmp_path: Path) -> None:
    for name, mode in (("usr", 0o700), ("usr/program", 0o711), ("usr/text", 0o600)):
        path = tmp_path / name
        path.mkdir() if name == "usr" else path.touch()
        path.chmod(mode)
    (tmp_path / "usr/link").symlink_to("absent")
    ensure_modes(tmp_path, 1_700_000_000)
    found = {path.name: path.lstat() for path in (tmp_path / "usr", *(tmp_path / "usr").iterdir())}
    assert {status.st_mtime for status in found.values()} == {1_700_000_000}
    modes = {name: found[name].st_mode & 0o777 for name in ("usr", "program", "text")}
    assert modes == {"usr": 0o755, "program": 0o755, "text": 0o644}


@pytest.mark.parametrize("place", ["lab", "site"])
def test_units_are_as_the_guide_has_them(place: str) -> None:
    unit = (FILES / f"grampus-{place}@.service").read_text()
    guide = (CHECKOUT / "docs" / "guide" / "install.md").read_text()
    (shown,) = re.findall(r"\[Service\]\n(.*?)\n\n", guide, re.DOTALL)
    wanted = shown.replace("/usr/local/bin", "/usr/bin").replace("--lab default", f"--{place} %i")
    assert f"[Service]\n{wanted}\n" in unit


@pytest.mark.parametrize("name", MAINTAINER_SCRIPTS)
def test_maintainer_scripts_stop_at_the_first_error(name: str) -> None:
    lines = (FILES / name).read_text().splitlines()
    assert lines[0] == "#!/bin/sh"
    assert "set -e" in lines
