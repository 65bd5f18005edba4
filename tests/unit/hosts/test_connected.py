"""Scripts that connect to a cluster keep the connection: real processes, and a `rados` of ours."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from grampus.ceph import connecting
from grampus.ceph.connecting import CONNECT, CONNECT_SOON
from grampus.hosts.command_server import program
from grampus.hosts.command_server.client import CommandServers
from grampus.hosts.port import CommandResult
from grampus.hosts.process import GrampusError

from .test_process import is_alive, wait_until_gone

LONG_S = 30.0
# Notes each connection. A MON answers while there is no file `silent`.
RADOS = """
import os, time
HERE = os.path.dirname(__file__)
class Rados:
    def __init__(self, conffile, name, conf):
        self.said = name + " " + repr(conf)
    def connect(self):
        with open(HERE + "/connections", "a") as file:
            file.write(self.said + "\\n")
    def __enter__(self):
        self.connect()
        return self
    def __exit__(self, *_):
        pass
    def mon_command(self, command, given):
        if os.path.exists(HERE + "/silent"):
            time.sleep(60)
        return 0, b"", ""
"""
TELL = (
    CONNECT
    + """
import json, sys
with connect(SETTINGS) as cluster:
    print(json.dumps([os.getpid(), sys.argv[1:], sys.stdin.read()]))
"""
)


class Host:
    """A server whose scripts find our `rados`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.started: list[int] = []
        (directory / "rados.py").write_text(RADOS)
        (directory / "rbd.py").write_text("")
        self.servers = CommandServers(self._exec_argv, where="h1")

    def _exec_argv(self, argv: Sequence[str]) -> list[str]:
        return ["env", f"PYTHONPATH={self.directory}", sys.executable, *argv[1:]]

    def run(
        self, script: str, *words: str, stdin: str | None = None, timeout_s: float = LONG_S
    ) -> CommandResult:
        argv = ("python3", "-c", script, *words)
        return self.servers.run(argv, stdin=stdin, timeout_s=timeout_s, check=False)

    def told(self, settings: str = "", *words: str, stdin: str | None = None) -> list[object]:
        """The process of a script, its arguments and its input."""
        found: list[object] = json.loads(
            self.run(TELL.replace("SETTINGS", settings), *words, stdin=stdin).stdout
        )
        return found

    @property
    def connections(self) -> list[str]:
        return (self.directory / "connections").read_text().splitlines()


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    made = Host(tmp_path)
    yield made
    made.servers.close()


def test_both_sides_have_the_same_name() -> None:
    assert connecting.KEEP == program.KEEP
    assert connecting.KEEP in CONNECT


def test_scripts_share_a_connection(host: Host) -> None:
    process, words, given = host.told("", "a", "b", stdin="ü")
    assert (words, given) == (["a", "b"], "ü")
    assert host.told("", "c") == [process, ["c"], ""]
    assert host.told('client_mount_timeout="10"') == [process, [], ""]
    assert host.connections == ["client.admin {'rbd_default_clone_format': '2'}"]
    assert host.told('rados_osd_op_timeout="5"')[0] == process
    assert len(host.connections) == 2
    assert "'rados_osd_op_timeout': '5'" in host.connections[1]


def test_what_connects_to_nothing_stays_as_it_was(host: Host) -> None:
    assert host.run("import os; print(os.getpid() == os.getsid(0))").stdout == "True\n"
    assert not (host.directory / "connections").exists()


@pytest.mark.parametrize(
    ("script", "code", "said", "complained"),
    [
        ("sys.exit(4)", 4, "", ""),
        ("sys.exit('no')", 1, "", "no\n"),
        ("print('ü' * 300_000)", 0, "ü" * 300_000 + "\n", ""),
        ("os.write(1, b'of a '); os.write(2, b'library')", 0, "of a ", "library"),
    ],
)
def test_a_script_that_ends_by_itself_leaves_the_connection(
    host: Host, script: str, code: int, said: str, complained: str
) -> None:
    process = host.told()[0]
    result = host.run(f"{CONNECT}\nimport sys\nwith {CONNECT_SOON}: {script}")
    assert (result.returncode, result.stdout, result.stderr) == (code, said, complained)
    assert host.told()[0] == process
    assert len(host.connections) == 1


@pytest.mark.parametrize(
    ("script", "code", "complained"),
    [
        ("undefined", 1, "NameError"),
        ("raise OSError('shut out')", 1, "shut out"),
        ("os.kill(os.getpid(), 9)", 137, "has ended"),
        ("os._exit(3)", 3, "has ended"),
    ],
)
def test_after_any_other_end_the_next_script_connects_anew(
    host: Host, script: str, code: int, complained: str
) -> None:
    process = host.told()[0]
    result = host.run(f"{CONNECT}\nwith connect() as cluster: {script}")
    assert result.returncode == code
    assert complained in result.stderr
    assert host.told()[0] != process
    assert len(host.connections) == 2


def test_a_script_leaves_nothing_to_the_next(host: Host) -> None:
    process = host.told()[0]
    assert host.run(f"{CONNECT}\nleft = 1").returncode == 0
    assert host.run(f"{CONNECT}\nprint('left' in globals())").stdout == "False\n"
    assert host.told()[0] == process


def test_a_fork_that_was_killed_is_replaced(host: Host) -> None:
    process = host.told()[0]
    assert isinstance(process, int)
    os.kill(process, signal.SIGKILL)
    assert wait_until_gone(process)
    assert host.told("", "a")[1] == ["a"], "it runs alone"
    assert host.told()[0] == host.told()[0] != process


def test_a_silent_cluster_is_asked_over_a_connection_of_its_own(host: Host) -> None:
    """It may answer there; if not, the script waits as long as it would for its first one."""
    process = host.told()[0]
    (host.directory / "silent").touch()
    begun_s = time.monotonic()
    assert host.told("", "a")[1:] == [["a"], ""]
    assert time.monotonic() - begun_s < LONG_S
    assert len(host.connections) == 2
    (host.directory / "silent").unlink()
    following = host.told()[0]
    assert following != process
    assert host.told()[0] == following
    assert len(host.connections) == 3


def test_what_takes_too_long_is_ended(host: Host) -> None:
    process = host.told()[0]
    assert isinstance(process, int)
    with pytest.raises(GrampusError, match="did not end"):
        host.run(f"{CONNECT}\nimport time\nwith connect(): time.sleep(60)", timeout_s=0.5)
    assert wait_until_gone(process)
    assert host.told()[0] != process


def test_it_leaves_with_its_server(host: Host) -> None:
    process = host.told()[0]
    assert isinstance(process, int)
    assert is_alive(process)
    host.servers.close()
    assert wait_until_gone(process)
