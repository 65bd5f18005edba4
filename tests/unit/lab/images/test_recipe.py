"""The command line that a definition becomes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from grampus.lab.images.definition import ImageDefinition, ImageDirectory, ImageUser
from grampus.lab.images.recipe import render_build_command, render_hooks

DEFINITION = ImageDefinition(
    name="tiny",
    title="Tiny",
    suite="sid",
    ceph_version="20.2",
    database_version="9.7",
    flavours=("mysql",),
    estimated_size_bytes=1000,
    packages=("ceph-osd", "fio"),
    main_packages=("fio",),
    apt_options=('Acquire::Check-Valid-Until "false"',),
    programs=("fio",),
    files=(),
    users=(ImageUser(name="mysql", id=64050, home="/var/lib/mysql"),),
    directories=(ImageDirectory(path="/var/lib/mysql", owner="mysql", mode="0750"),),
)
ROOT = Path("/home/images/root")


def test_command_is_isolated_and_says_what_to_build() -> None:
    command = render_build_command(
        DEFINITION, ROOT, mirror=None, apt_options=['Acquire::https::CaInfo "/ca.pem"']
    )
    assert command.index("setpriv") < command.index("unshare") < command.index("mmdebstrap")
    isolation = command[: command.index("mmdebstrap")]
    assert {"--pdeathsig", "--mount", "--pid", "--kill-child"} <= set(isolation)
    assert "--include=ceph-osd,fio" in command
    assert '--aptopt=Acquire::Check-Valid-Until "false"' in command
    assert '--aptopt=Acquire::https::CaInfo "/ca.pem"' in command
    assert command[-2:] == ["sid", str(ROOT)]


def test_mirror_is_the_last_word() -> None:
    command = render_build_command(DEFINITION, ROOT, mirror="http://archive.test/debian")
    assert command[-3:] == ["sid", str(ROOT), "http://archive.test/debian"]


@pytest.mark.parametrize("known", [True, False])
def test_hooks_run_as_a_shell_reads_them(tmp_path: Path, known: bool) -> None:
    """Run the hooks with a `chroot` that writes down what it is asked for."""
    root = tmp_path / "root"
    for directory in ("run/lock", "run/left", "etc"):
        (root / directory).mkdir(parents=True)
    calls = tmp_path / "calls"
    chroot = tmp_path / "chroot"
    chroot.write_text(
        f'#!/bin/sh\nshift\necho "$@" >> {calls}\ntest "$1" != getent || {str(known).lower()}\n'
    )
    chroot.chmod(0o755)
    for hook in render_hooks(DEFINITION):
        subprocess.run(
            ["sh", "-c", hook, "exec", str(root)],
            check=True,
            env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        )
    added = [
        "groupadd --system --gid 64050 mysql",
        "useradd --system --uid 64050 --gid mysql --home-dir /var/lib/mysql "
        "--no-create-home --shell /usr/sbin/nologin mysql",
    ]
    asked = calls.read_text().splitlines()
    assert [line for line in asked if "add " in line] == ([] if known else added)
    assert asked[-1] == "install -d --owner=mysql --group=mysql --mode=0750 /var/lib/mysql"
    assert [path.name for path in (root / "run").iterdir()] == ["lock"]
    assert (root / "etc/hostname").read_text() == "localhost\n"
