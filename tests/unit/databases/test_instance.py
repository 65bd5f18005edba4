from __future__ import annotations

import itertools
import socket
import subprocess
import sys
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from grampus.core.errors import GrampusError
from grampus.databases.credentials import CredentialFiles
from grampus.databases.instance import (
    AWAIT_LISTENING,
    await_server,
    ensure_files,
    ensure_initialised,
    render_listening,
)
from grampus.databases.layout import init_daemon, server_daemon
from grampus.databases.readiness import ensure_serving
from grampus.hosts.port import CommandResult
from tests.fakes.clock import FakeClock
from tests.fakes.hosts import FakeFile
from tests.fakes.interruption import Fuse
from tests.fakes.mysql_host import MysqlDaemon, MysqlHost

from .test_layout import plan


def test_an_initialisation_left_running_is_ended_and_made_anew(tmp_path: Path) -> None:
    host, instance = MysqlHost("h1", Fuse()), plan()
    credentials = CredentialFiles(tmp_path).ensure("demo")
    ensure_files(host, instance, credentials)
    host.daemons[instance.init_daemon] = MysqlDaemon(init_daemon(instance), "running")
    ensure_initialised(host, instance, credentials, FakeClock())
    assert host.read_file(instance.marker) is not None
    assert instance.init_daemon not in host.daemons


def test_the_accounts_file_is_gone_once_they_are_made(tmp_path: Path) -> None:
    host, instance = MysqlHost("h1", Fuse()), plan()
    credentials = CredentialFiles(tmp_path).ensure("demo")
    ensure_files(host, instance, credentials)
    ensure_initialised(host, instance, credentials, FakeClock())
    assert host.read_file(instance.accounts_file) is None
    assert host.read_file(instance.init_script) is None


def test_certificates_half_made_are_made_anew_and_whole_ones_kept(tmp_path: Path) -> None:
    host, instance = MysqlHost("h1", Fuse()), plan()
    credentials = CredentialFiles(tmp_path).ensure("demo")
    host.files[instance.directory / "tls.new" / "ca-key.pem"] = FakeFile("half")
    ensure_files(host, instance, credentials)
    assert not host.below(instance.directory / "tls.new")
    made = host.below(instance.tls_dir)
    ensure_files(host, instance, credentials)
    assert all(host.files[path] is file for path, file in made.items())


def test_the_version_is_the_first_word_of_the_answer(tmp_path: Path) -> None:
    host, instance = MysqlHost("h1", Fuse()), plan()
    credentials = CredentialFiles(tmp_path).ensure("demo")
    ensure_files(host, instance, credentials)
    ensure_initialised(host, instance, credentials, FakeClock())
    host.ensure_address(instance.address)
    assert ensure_serving(host, instance, credentials.admin_password, FakeClock()) == "9.7.4"
    assert host.files[PurePosixPath("/data/databases/demo/client.cnf")].mode == 0o600


@pytest.mark.parametrize(
    ("silent_looks", "listens", "slept_s"),
    [
        (0, True, 0.1),  # it is asked at each look
        (2, True, 0.2),  # from when somebody listens
        (1000, True, 0.4),  # at every third look, should nobody be seen to listen
        (1000, False, 0.4),
    ],
)
def test_a_server_is_asked_from_when_it_listens(
    silent_looks: int, listens: bool, slept_s: float
) -> None:
    host, clock, asked = MysqlHost("h1", Fuse()), FakeClock(), itertools.count(1)
    host.daemons[plan().daemon] = MysqlDaemon(server_daemon(plan()), "running")
    host.silent_looks = silent_looks
    await_server(clock, host, plan(), lambda: next(asked) == 3, listens=listens)
    assert clock.slept_s == pytest.approx(slept_s)


def test_a_look_that_takes_too_long_does_not_end_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine can stand still for ten seconds, and its server starts all the same."""
    host, clock, looks = MysqlHost("h1", Fuse()), FakeClock(), itertools.count(1)
    host.daemons[plan().daemon] = MysqlDaemon(server_daemon(plan()), "running")
    run = host.run

    def slow(argv: list[str], **options: Any) -> CommandResult:
        if AWAIT_LISTENING in argv and next(looks) < 3:
            raise GrampusError("`python3` did not end within 11 s.", code="timeout")
        return run(argv, **options)

    monkeypatch.setattr(host, "run", slow)
    await_server(clock, host, plan(), lambda: True)
    assert next(looks) > 3


def test_a_server_that_ended_is_not_waited_for() -> None:
    host, clock = MysqlHost("h1", Fuse()), FakeClock()
    host.daemons[plan().daemon] = MysqlDaemon(server_daemon(plan()), "stopped", "[ERROR] full")
    host.silent_looks = 1000
    with pytest.raises(GrampusError) as raised:
        await_server(clock, host, plan(), lambda: False)
    assert (raised.value.code, clock.slept_s < 1.0) == ("server-stopped", True)


def test_a_listening_socket_is_told_from_others() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as client:
            seen = Path("/proc/net/tcp").read_text()
            assert render_listening("127.0.0.1", port) in seen
            assert render_listening("127.0.0.2", port) not in seen
            assert render_listening("127.0.0.1", client.getsockname()[1]) not in seen


def test_a_look_ends_once_somebody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        there = render_listening("127.0.0.1", server.getsockname()[1])
        for place, patience_s, code in ((there, "60", 0), ("nowhere", "0.1", 1)):
            argv = [sys.executable, "-c", AWAIT_LISTENING, place, patience_s]
            assert subprocess.run(argv, timeout=50, check=False).returncode == code
