"""Commands in a daemon, as its user: the real shell and nsenter, on this process."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from grampus.core.errors import GrampusError
from grampus.hosts.port import CommandResult, DaemonStatus
from grampus.hosts.remote.inside_daemons import InsideDaemons, enter_argv, is_elsewhere

USER = 65534
# The last part of a control group that this process is in; empty in a namespace of its own.
OWN_GROUP = Path("/proc/self/cgroup").read_text().splitlines()[0].rpartition("/")[2]
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")


def run(argv: list[str], given: str = "") -> CommandResult:
    done = subprocess.run(argv, input=given, capture_output=True, text=True, check=False)
    return CommandResult(tuple(argv), done.returncode, done.stdout, done.stderr)


@needs_root
@pytest.mark.parametrize("read", [["cat"], ["cat", "/dev/stdin"], ["cat", "/dev/fd/0"]])
def test_the_user_of_a_daemon_may_open_its_stdin_by_name(read: list[str]) -> None:
    argv = enter_argv(OWN_GROUP, os.getpid(), USER, read, has_stdin=True)
    assert run(argv, "options").stdout == "options"
    without = enter_argv(OWN_GROUP, os.getpid(), USER, ["id", "-u"], has_stdin=False)
    assert run(without).stdout.strip() == str(USER)


@needs_root
@pytest.mark.parametrize(
    ("argv", "code", "said"),
    [
        (["sh", "-c", "echo '$x \"y\"'"], 0, '$x "y"\n'),
        (["sh", "-c", "exit 71"], 71, ""),
        (["/missing-program"], 127, ""),
    ],
)
def test_a_command_runs_as_it_is_given(argv: list[str], code: int, said: str) -> None:
    result = run(enter_argv(OWN_GROUP, os.getpid(), USER, argv, has_stdin=False))
    assert (result.returncode, result.stdout, is_elsewhere(result)) == (code, said, False)


@pytest.mark.parametrize("is_other", [True, False])
def test_a_process_that_is_no_more_of_the_daemon_gets_no_command(
    is_other: bool, tmp_path: Path
) -> None:
    """Another one has its number, or nobody."""
    unit = "grampus-1a2b3-mysqld-other.service" if is_other else OWN_GROUP
    pid = os.getpid() if is_other else 2**22 + 1
    argv = enter_argv(unit, pid, USER, ["touch", str(tmp_path / "done")], has_stdin=True)
    assert is_elsewhere(run(argv))
    assert not (tmp_path / "done").exists()


class Daemons:
    """A host whose only daemon is where it is said to be; counts looks and commands."""

    def __init__(self, status: DaemonStatus | None) -> None:
        self.status = status
        self.looks = 0
        self.commands: list[list[str]] = []
        self.inside = InsideDaemons(self.observe, lambda name: f"unit-{name}.service", "db1")

    def observe(self, name: str) -> DaemonStatus | None:
        self.looks += 1
        found = [one for one in [self.status] if one is not None and one.name == name]
        self.inside.note(found)
        return next(iter(found), None)

    def ask(self, argv: list[str]) -> CommandResult:
        self.commands.append(argv)
        unit, pid = argv[4], int(argv[5])
        is_there = self.status is not None and self.status.pid == pid
        return CommandResult(
            tuple(argv), 0 if is_there else 71, unit, "" if is_there else "grampus: another process"
        )

    def run(self) -> str:
        return self.inside.run("d", ["true"], has_stdin=False, run=self.ask).stdout


def running(pid: int, uid: int | None = USER) -> DaemonStatus:
    return DaemonStatus(name="d", state="running", pid=pid, uid=uid)


def test_a_daemon_is_looked_for_once_and_again_when_it_was_restarted() -> None:
    host = Daemons(running(7))
    assert [host.run(), host.run()] == ["unit-d.service"] * 2
    assert (host.looks, len(host.commands)) == (1, 2)
    host.status = running(8)
    assert host.run() == "unit-d.service"
    assert (host.looks, [argv[5] for argv in host.commands]) == (2, ["7", "7", "7", "8"])


@pytest.mark.parametrize("uid", [0, None])
def test_a_process_that_is_not_its_user_yet_is_looked_at_again(uid: int | None) -> None:
    """A command would be run as root inside the daemon as long as Grampus remembers it."""
    host = Daemons(running(7, uid))
    host.run()
    host.status = running(7)
    host.run()
    assert [argv[6] for argv in host.commands] == ["0", str(USER)]


@pytest.mark.parametrize(
    "status", [None, DaemonStatus(name="d", state="stopped"), running(9, USER)]
)
def test_a_daemon_that_has_ended_is_said_to_be_absent(status: DaemonStatus | None) -> None:
    host = Daemons(running(7))
    host.run()
    host.status = status
    if status is not None and status.pid is not None:
        host.ask = lambda argv: CommandResult(tuple(argv), 71, "", "grampus: another process")  # type: ignore[method-assign]
    with pytest.raises(GrampusError, match="does not run on db1") as raised:
        host.run()
    assert raised.value.code == "daemon-absent"
