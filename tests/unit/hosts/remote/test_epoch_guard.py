"""A host obeys no earlier controller: the guard's real shell, with real processes."""

from __future__ import annotations

import secrets
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from grampus.core.errors import RefusedError
from grampus.hosts.port import HostUnreachableError
from grampus.hosts.remote.epoch_guard import GUARD, UNDECIDED, HostEpoch
from grampus.hosts.remote.host_root import inside_argv
from grampus.hosts.remote.remote_host import RemoteHost, RemoteHostPlace
from grampus.hosts.remote.ssh import SshPlace
from tests.unit.hosts.test_process import is_alive, wait_until_gone

SCRIPT = f'set -eu; dir=$1 tag=$2 number=$3 id=$4 force=$5; shift 5\n{GUARD}exec "$@"'


class GuardedHost:
    """A directory of a site on a host; its tag is that of no other test."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        (directory / "data").mkdir()
        self.file = directory / "data" / "controller-epoch"
        self.tag = secrets.token_hex(4)
        self.started: list[subprocess.Popen[str]] = []

    def start(self, number: int, holder: str, *argv: str, force: str = "") -> subprocess.Popen[str]:
        epoch = HostEpoch(self.tag, number, holder)
        command = ["env", epoch.variable(), "sh", "-c", SCRIPT, "guard", str(self.directory)]
        child = subprocess.Popen(
            [*command, *epoch.words(), force, *argv],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.started.append(child)
        return child

    def run(self, number: int, holder: str, *, force: str = "") -> tuple[int, str]:
        child = self.start(number, holder, "echo", "obeyed", force=force)
        said = "".join(child.communicate())
        return child.returncode, said

    def long_command(self, number: int, holder: str) -> tuple[subprocess.Popen[str], int]:
        """A command that runs on, and what it has started in a session of its own."""
        child = self.start(
            number, holder, "sh", "-c", "setsid sleep 60 >/dev/null 2>&1 & echo $!; exec sleep 60"
        )
        assert child.stdout is not None
        return child, int(child.stdout.readline())


@pytest.fixture
def host(tmp_path: Path) -> Iterator[GuardedHost]:
    made = GuardedHost(tmp_path)
    yield made
    for child in made.started:
        child.kill()
        child.communicate()


def test_the_last_epoch_is_obeyed_and_kept(host: GuardedHost) -> None:
    assert host.run(1, "a") == (0, "obeyed\n")
    assert host.run(1, "a") == (0, "obeyed\n")
    assert host.run(3, "b") == (0, "obeyed\n")
    assert host.file.read_text() == "3 b\n"


@pytest.mark.parametrize(("number", "holder"), [(1, "a"), (2, "a"), (0, "none"), (3, "other")])
def test_an_earlier_epoch_and_another_holder_are_refused(
    host: GuardedHost, number: int, holder: str
) -> None:
    host.run(3, "b")
    code, said = host.run(number, holder)
    assert code == 68
    assert said == f"epoch {number} is superseded by the controller epoch 3\n"
    assert host.file.read_text() == "3 b\n"


def test_who_has_no_epoch_is_obeyed_until_somebody_has_one(host: GuardedHost) -> None:
    assert host.run(0, "none") == (0, "obeyed\n")
    assert not host.file.exists()


def test_commands_of_an_earlier_epoch_end_before_a_later_one_begins(host: GuardedHost) -> None:
    older, its_child = host.long_command(1, "a")
    assert host.run(2, "b") == (0, "obeyed\n")
    assert older.wait(5) == -9
    assert wait_until_gone(its_child)


def test_commands_of_the_same_epoch_go_on(host: GuardedHost) -> None:
    host.run(2, "b")
    running, its_child = host.long_command(2, "b")
    assert host.run(2, "b") == (0, "obeyed\n")
    assert running.poll() is None
    assert is_alive(its_child)
    # Ended by what ends them in the end.
    assert host.run(3, "c") == (0, "obeyed\n")
    assert wait_until_gone(its_child)


def test_other_sites_on_the_host_are_left_alone(host: GuardedHost, tmp_path: Path) -> None:
    (tmp_path / "second").mkdir()
    other = GuardedHost(tmp_path / "second")
    running, its_child = other.long_command(1, "a")
    assert host.run(9, "b") == (0, "obeyed\n")
    assert running.poll() is None
    assert other.run(2, "b") == (0, "obeyed\n")
    assert wait_until_gone(its_child)
    for child in other.started:
        child.communicate()


def test_a_host_that_is_added_obeys_whoever_adds_it(host: GuardedHost) -> None:
    host.run(7, "former site")
    running, its_child = host.long_command(7, "former site")
    assert host.run(1, "a", force="force") == (0, "obeyed\n")
    assert host.file.read_text() == "1 a\n"
    assert running.wait(5) == -9
    assert wait_until_gone(its_child)


@pytest.mark.parametrize("content", ["x b\n", "-1 b\n", "1.5\n"])
def test_a_damaged_file_is_no_permission(host: GuardedHost, content: str) -> None:
    host.file.write_text(content)
    code, said = host.run(2, "b")
    assert (code, said) == (69, f"{UNDECIDED} {host.file} is damaged\n")
    assert host.run(2, "b", force="force") == (0, "obeyed\n")


def test_without_an_epoch_the_command_is_the_former_one() -> None:
    plain = inside_argv("/d", "sid-1", ["true"])
    assert plain[0] == "sh"
    assert "controller-epoch" not in plain[2]
    guarded = inside_argv("/d", "sid-1", ["true"], HostEpoch("1a2b3", 4, "x"))
    assert guarded[:3] == ["env", "GRAMPUS_CONTROLLER=1a2b3:4:x", "sh"]
    assert guarded[-5:] == ["1a2b3", "4", "x", "", "true"]


@pytest.mark.parametrize(
    ("said", "error", "code"),
    [
        ("epoch 1 is superseded by the controller epoch 3\n", RefusedError, "superseded"),
        (f"{UNDECIDED} /d/data/controller-epoch is damaged\n", RefusedError, "host-epoch"),
        ("ssh: connect to host 10.0.5.11 port 22: No route to host", HostUnreachableError, None),
    ],
)
def test_what_ended_a_connection_is_told(
    said: str, error: type[Exception], code: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    ssh = SshPlace("db1", "root", "10.0.5.11", 22, None, Path("/known_hosts"), Path("/control"))
    epoch = HostEpoch("1a2b3", 1, "a")
    place = RemoteHostPlace("db1", "10.0.5.11", ssh, "/d", "1a2b3", "sid-1", "", lambda: epoch)
    monkeypatch.setattr(
        "grampus.hosts.remote.remote_host.ssh_argv",
        lambda _ssh, _argv: ["sh", "-c", 'echo "$1" >&2', "end", said],
    )
    with pytest.raises(error) as raised:
        RemoteHost(place).run(["true"])
    if code is not None:
        assert getattr(raised.value, "code", None) == code


def test_after_a_fence_commands_are_of_the_new_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    """What this process has started on the host before would be ended there with the others."""
    ssh = SshPlace("db1", "root", "10.0.5.11", 22, None, Path("/known_hosts"), Path("/control"))
    now = [HostEpoch("1a2b3", 1, "a")]
    place = RemoteHostPlace("db1", "10.0.5.11", ssh, "/d", "1a2b3", "sid-1", "", lambda: now[0])
    server = "import os, sys; os.execvp(sys.argv[1], sys.argv[1:])"
    started: list[str] = []

    def ssh_argv(_: SshPlace, argv: list[str]) -> list[str]:
        started.append(argv[argv.index("1a2b3") + 1])
        return [sys.executable, "-c", server, *argv[argv.index("python3") :]]

    monkeypatch.setattr("grampus.hosts.remote.remote_host.ssh_argv", ssh_argv)
    host = RemoteHost(place)
    try:
        for _ in range(2):
            host.run(["true"])
        now[0] = HostEpoch("1a2b3", 2, "b")
        for _ in range(2):
            host.run(["true"])
    finally:
        host.close()
    assert started == ["1", "2"]
