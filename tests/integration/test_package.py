"""The Debian package of `make package`, installed on a clean Debian without a checkout."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.clean_debian import CleanDebian
from tests.system.command_line import CHECKOUT

BUILD = CHECKOUT / "build"
DEBIAN_12_PYTHON = (3, 11)
VERSION = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]["version"]
# What dpkg and apt keep on their own: logs, the list of packages, caches.
OF_DPKG = (
    "/srv/",
    "/var/cache/",
    "/var/lib/apt/",
    "/var/lib/dpkg/",
    "/var/log/",
)
# Imports all of Grampus: a module that is missing, or that only developers have, is found here.
IMPORT_ALL = """
import importlib, pkgutil, grampus
names = [found.name for found in pkgutil.walk_packages(grampus.__path__, "grampus.")]
for name in names:
    if name != "grampus.__main__":
        importlib.import_module(name)
print(len(names), grampus.__file__)
"""


def build(directory: Path) -> Path:
    """The package, built in this directory."""
    script = str(CHECKOUT / "scripts" / "build_package.py")
    argv = [sys.executable, script, "--directory", str(directory)]
    built = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr[-4000:]
    return Path(built.stdout.strip())


@pytest.fixture(scope="module")
def package() -> Path:
    if sys.version_info[:2] != DEBIAN_12_PYTHON:
        pytest.skip("A package is for the Debian that it is built on, and this is not Debian 12.")
    return build(BUILD / "package")


@pytest.fixture(scope="module")
def debian(package: Path) -> Iterator[CleanDebian]:
    """A clean Debian with the package."""
    with CleanDebian(BUILD / "package-machine", root_cache=BUILD / "clean-debian") as debian:
        install = ("apt-get", "install", "--yes", "--no-install-recommends", debian.put(package))
        said = debian.ok(*install, timeout_s=180)
        assert "0 upgraded, 1 newly installed" in said
        yield debian


def test_the_same_commit_makes_the_same_file(package: Path, tmp_path: Path) -> None:
    again = build(tmp_path)
    assert again.name == package.name
    digests = {hashlib.sha256(file.read_bytes()).hexdigest() for file in (package, again)}
    shutil.rmtree(tmp_path)
    assert len(digests) == 1


def test_no_file_mentions_a_path_of_the_build_machine(package: Path, tmp_path: Path) -> None:
    subprocess.run(["dpkg-deb", "--raw-extract", str(package), str(tmp_path)], check=True)
    files = [path for path in tmp_path.rglob("*") if path.is_file() and not path.is_symlink()]
    assert len(files) > 1000
    # Compiled packages of others may have the paths of their own builds, such as /root/.cargo.
    ours = {tmp_path / "usr/lib/grampus/volumed"}
    home = os.fsencode(Path.home()) + b"/"
    found = {}
    for path in files:
        content = path.read_bytes()
        found[str(path.relative_to(tmp_path))] = os.fsencode(CHECKOUT) in content or (
            home in content and path in ours
        )
    shutil.rmtree(tmp_path)
    assert [name for name, mentions in found.items() if mentions] == []
    assert not {name for name in found if name.endswith(("direct_url.json", "/RECORD"))}


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--version"], 0, f"grampus {VERSION}\n"),
        (["--help"], 0, "Usage: grampus"),
        (["db", "list"], 3, "There is no lab named 'default'.\n`grampus lab up` creates one.\n"),
        (["db", "list", "--site", "prod"], 3, "prod"),
        (["site", "caps", "prod"], 0, "ceph auth get-or-create client.grampus "),
        (["site", "adopt", "prod", "--conf", "no", "--keyring", "no"], 2, "no does not exist"),
        (["bench", "list"], 0, "redhat-2016-cores-per-nvme"),  # suites
        (["lab", "up", "--image", "no", "--dry-run"], 3, "There is no host image named 'no'."),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_commands(debian: CleanDebian, words: list[str], code: int, said: str) -> None:
    finished = debian.run("grampus", *words)
    assert said in finished.stdout + finished.stderr
    assert finished.returncode == code
    assert "Traceback" not in finished.stderr


def test_all_modules_are_there_with_what_they_import(debian: CleanDebian) -> None:
    python = "/usr/lib/grampus/bin/python3"
    count, file = debian.ok(python, "-c", IMPORT_ALL).split()
    assert int(count) > 700
    assert file == "/usr/lib/grampus/lib/python3.11/site-packages/grampus/__init__.py"
    # As commands with --async start themselves.
    assert debian.ok(python, "-m", "grampus", "--version") == f"grampus {VERSION}\n"


def test_volumed_runs(debian: CleanDebian) -> None:
    assert "Usage: volumed" in debian.ok("/usr/lib/grampus/volumed", "--help")


def test_the_shell_completes(debian: CleanDebian) -> None:
    complete = (
        ". /usr/share/bash-completion/completions/grampus; "
        "COMP_WORDS=(grampus sit) COMP_CWORD=1; "
        '_grampus_completion grampus; echo "${COMPREPLY[*]}"'
    )
    assert debian.ok("bash", "-c", complete).split() == ["site"]


def test_files_are_as_dpkg_noted_them(debian: CleanDebian) -> None:
    # The root has no documentation of any package.
    said = debian.run("dpkg", "--verify", "grampus").stdout.splitlines()
    assert [line for line in said if "/usr/share/doc/" not in line] == []


def test_a_purge_leaves_nothing_but_the_data(debian: CleanDebian) -> None:
    """Last: the package is gone afterwards."""
    debian.ok("sh", "-c", "mkdir -p /var/lib/grampus && echo key > /var/lib/grampus/key")
    assert {"/usr/bin/grampus", "/usr/share/grampus/images/sid.toml"} <= debian.written()
    said = debian.ok("dpkg", "--purge", "grampus")
    assert "not empty" not in said
    left = {path for path in debian.written() if not path.startswith(OF_DPKG)}
    assert "/var/lib/grampus/key" in left
    assert [path for path in left if not path.startswith("/var/lib/grampus/")] == []
    assert debian.run("dpkg", "--status", "grampus").returncode == 1
