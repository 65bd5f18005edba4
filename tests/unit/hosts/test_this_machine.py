"""This machine as a host."""

from __future__ import annotations

import socket
from pathlib import Path, PurePosixPath

import pytest

from grampus.core.errors import GrampusError, NotFoundError, RefusedError
from grampus.hosts.port import CommandFailedError, DaemonSpec, Fleet, Host, Limits
from grampus.hosts.process import require_program
from grampus.hosts.this_machine import ThisMachine, ThisMachineAlone


def test_commands_run_here(tmp_path: Path) -> None:
    host: Host = ThisMachine(tmp_path)
    assert host.name == socket.gethostname().partition(".")[0]
    assert host.run(["cat"], stdin="said\n").stdout == "said\n"
    with pytest.raises(CommandFailedError, match="on this machine"):
        host.run(["false"])
    spawned = host.spawn(["echo", "a line"])
    assert list(spawned.lines()) == ["a line"]
    assert spawned.wait().returncode == 0
    with host.reading(["echo", "bytes"]) as output:
        assert output.read(100) == b"bytes\n"
    with host.writing(["cat"]) as taken:
        taken.write(b"x")


def test_files_are_written_in_its_own_directory_alone(tmp_path: Path) -> None:
    host = ThisMachine(tmp_path / "own")
    path = PurePosixPath(tmp_path / "own" / "a" / "file")
    host.write_file(path, "text", mode=0o600)
    assert host.read_file(path) == "text"
    assert Path(path).stat().st_mode & 0o777 == 0o600
    host.ensure_copy(Path(path), path.with_name("copy"))
    assert host.read_file(path.with_name("copy")) == "text"
    assert host.read_file(path.with_name("none")) is None
    for outside in (PurePosixPath(tmp_path / "file"), path.parent / ".." / ".." / ".." / "file"):
        with pytest.raises(GrampusError, match="outside"):
            host.write_file(outside, "text")


def test_it_keeps_no_daemons(tmp_path: Path) -> None:
    host = ThisMachine(tmp_path)
    for act in (
        lambda: host.ensure_daemon(DaemonSpec("d", ("sleep", "1"))),
        lambda: host.set_limits("d", Limits()),
        lambda: host.run(["true"], daemon="d"),
        lambda: host.ensure_address("10.0.0.9"),
    ):
        with pytest.raises(RefusedError, match="and no daemons"):
            act()
    host.ensure_daemon_absent("d")
    host.ensure_address_absent("10.0.0.9")
    assert (host.observe_daemons(), host.observe_usage(), host.daemon_log("d")) == ([], {}, "")
    assert host.observe_cpu_waits(["d"]) == {}


def test_a_fleet_of_it_has_no_other_host(tmp_path: Path) -> None:
    host = ThisMachine(tmp_path)
    fleet: Fleet = ThisMachineAlone(host)
    assert fleet.hosts() == [host]
    assert fleet.host(host.name) is host
    assert fleet.is_reachable(host.name)
    assert not fleet.database_addresses()
    with pytest.raises(NotFoundError):
        fleet.host("another-one")


def test_a_program_that_is_missing_is_told_with_its_package(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    require_program("cat")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(GrampusError, match="rados is missing") as caught:
        require_program("rados")
    assert "apt-get install ceph-common" in caught.value.remedy
    assert caught.value.code == "program-missing"
