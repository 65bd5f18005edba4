"""A machine whose mmdebstrap is a small script, first in PATH: the wire of the builder."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from grampus.lab.images.cache import LOCKS_DIRECTORY
from tests.fakes.programs import put_programs

DEFINITION = """
name = "{name}"
title = "Image {name}"
suite = "{name}"
ceph_version = "20.2"
database_version = "9.7"
flavours = ["mysql"]
estimated_size_bytes = {size_bytes}
packages = ["fio"]
main_packages = ["fio"]
programs = ["fio"]
files = []
"""

# Reads its orders from the directory $FAKE: `mode` (or `mode-SUITE`) and, for `wait`, a fifo
# `started` that it writes its number to and a fifo `go` that it waits for.
MMDEBSTRAP = """#!/bin/sh
test "$1" != --version || exit 0
for word; do case $word in --*) ;; *) test -z "$suite" && suite=$word || root=${root:-$word};; esac
done
echo "$@" >> "$FAKE/calls"
env > "$FAKE/environment"
mode=$(cat "$FAKE/mode-$suite" 2> /dev/null || cat "$FAKE/mode")
mkdir -p "$root/usr/bin" "$root/var/lib/dpkg" "$root/etc/apt/apt.conf.d"
echo "I: running apt-get update..."
case $mode in
    *wait*) echo $$ > "$FAKE/started"; read line < "$FAKE/go" ;;
esac
case $mode in
    gone*) echo "E: Unable to locate package fio" >&2; exit 1 ;;
    unreachable*) echo "  Could not resolve 'archive.test'" >&2; exit 1 ;;
    odd*) echo "E: the moon is full" >&2; exit 25 ;;
esac
echo "I: installing remaining packages inside the chroot..."
echo "0 upgraded, 1 newly installed, 0 to remove and 0 not upgraded."
echo "Unpacking fio (3.41-2) ..."
echo "Setting up fio (3.41-2) ..."
case $mode in *incomplete*) ;; *) echo > "$root/usr/bin/fio"; chmod 755 "$root/usr/bin/fio" ;; esac
echo secret > "$root/etc/apt/sources.list"
printf 'Package: fio\\nStatus: install ok installed\\nVersion: 3.41-2\\n' \\
    > "$root/var/lib/dpkg/status"
"""

# setpriv and unshare: drop their own options, run the rest.
PASS_ON = """#!/bin/sh
while test "$1" != mmdebstrap && test "$1" != unshare; do shift; done
exec "$@"
"""
APT_CONFIG = """#!/bin/sh
echo 'Acquire::http::Proxy "http://user:hidden@proxy.test:3128";'
"""
APT_GET = """#!/bin/sh
echo 'Debian|Debian|main|http://archive.test/debian/'
"""


class FakeMachine:
    """The scripts, their orders and what they were asked for."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.definitions_dir = directory / "definitions"
        self.home_dir = directory / "home"
        self._orders = directory / "orders"
        self._monkeypatch = monkeypatch
        self._programs = programs = directory / "bin"
        for path in (self.definitions_dir, self._orders):
            path.mkdir()
        passed_on = dict.fromkeys(("setpriv", "unshare"), PASS_ON)
        apt = {"apt-config": APT_CONFIG, "apt-get": APT_GET}
        put_programs(programs, {"mmdebstrap": MMDEBSTRAP, **passed_on, **apt})
        for fifo in ("started", "go"):
            os.mkfifo(self._orders / fifo)
        monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
        monkeypatch.setenv("FAKE", str(self._orders))
        monkeypatch.delenv("GRAMPUS_DEBIAN_MIRROR", raising=False)
        monkeypatch.delenv("http_proxy", raising=False)
        self.mode("ok")
        self.define("sid")
        self.define("trixie")

    def define(self, name: str, *, size_bytes: int = 1000) -> None:
        text = DEFINITION.format(name=name, size_bytes=size_bytes)
        (self.definitions_dir / f"{name}.toml").write_text(text)

    def mode(self, mode: str, *, suite: str = "") -> None:
        """How mmdebstrap behaves, for one suite or for all others."""
        (self._orders / (f"mode-{suite}" if suite else "mode")).write_text(mode)

    def without_mmdebstrap(self) -> None:
        """A machine where it is not installed, nor anything else that we do not need."""
        (self._programs / "mmdebstrap").unlink()
        (self._programs / "rm").symlink_to(shutil.which("rm") or "rm")
        self._monkeypatch.setenv("PATH", str(self._programs))

    def builds(self) -> list[str]:
        """The command lines that mmdebstrap was started with."""
        calls = self._orders / "calls"
        return calls.read_text().splitlines() if calls.exists() else []

    def environment(self) -> str:
        return (self._orders / "environment").read_text()

    def wait_until_building(self) -> int:
        """The process that builds (mode `wait`), once it does."""
        return int((self._orders / "started").read_text())

    def let_go(self) -> None:
        """Let the waiting build go on."""
        (self._orders / "go").write_text("go\n")

    def image_entries(self) -> list[str]:
        """Names under images/ but logs and locks, sorted."""
        names = {entry.name for entry in (self.home_dir / "images").glob("*")}
        return sorted(name for name in names - {LOCKS_DIRECTORY} if not name.endswith(".log"))
