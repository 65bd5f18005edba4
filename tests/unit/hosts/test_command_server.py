"""Commands run by a server: real processes; the server starts here instead of on a host."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import resources
from pathlib import Path

import pytest

from grampus.core.errors import GrampusError
from grampus.hosts.command_server import client, program
from grampus.hosts.command_server.client import KEPT_SERVERS, CommandServers, render_request
from grampus.hosts.port import CommandFailedError, CommandResult
from grampus.hosts.process import ask_to_end, commands_at_work

from .test_process import is_alive, wait_until_gone

LONG_S = 30.0


class Host:
    """Servers of this machine, and how many were started."""

    def __init__(self) -> None:
        self.started = 0
        self.servers = CommandServers(self._exec_argv, where="h1")

    def _exec_argv(self, argv: Sequence[str]) -> list[str]:
        self.started += 1
        assert argv[0] == "python3"
        return [sys.executable, *argv[1:]]

    def run(
        self, *argv: str, stdin: str | None = None, timeout_s: float = LONG_S, check: bool = False
    ) -> CommandResult:
        return self.servers.run(argv, stdin=stdin, timeout_s=timeout_s, check=check)


@pytest.fixture
def host() -> Iterator[Host]:
    made = Host()
    yield made
    made.servers.close()


@pytest.mark.parametrize(
    ("argv", "stdin", "said", "complained", "code"),
    [
        (("sh", "-c", "cat; echo bad >&2; exit 3"), "in\n", "in\n", "bad\n", 3),
        (("cat",), None, "", "", 0),
        (("cat",), "", "", "", 0),
        (("printf", r"a\377b"), None, "a�b", "", 0),
        (("true",), "not read", "", "", 0),
        (("sh", "-c", "kill -9 $$"), None, "", "", 137),
        (("no-such-program",), None, "", 'exec failed: "no-such-program": No such', 255),
        (("python3", "-c", "import sys; print(sys.argv[1:], sys.stdin.read())", "a", "b"), "in",
         "['a', 'b'] in\n", "", 0),
        (("python3", "-c", "import sys; sys.exit(4)"), None, "", "", 4),
        (("python3", "-c", "import sys; sys.exit()"), None, "", "", 0),
        (("python3", "-c", "import sys; print(1); sys.exit('no')"), None, "1\n", "no\n", 1),
        (("python3", "-c", "print(1)\ndef f(): return x\nf()"), None, "1\n", "NameError", 1),
        (("python3", "-c", "("), None, "", "SyntaxError", 1),
        (("python3", "-c", "import rados_that_is_not_there"), None, "", "No module named", 1),
        (("python3", "-c", "import os; os.kill(os.getpid(), 15)"), None, "", "", 143),
        (("python3", "-c", "import os; print(os.getpid() == os.getsid(0))"), None, "True\n", "", 0),
        (("sh", "-c", "test $(ps -o sid= $$) = $$ && yes | head -n 1"), None, "y\n", "", 0),
        (("python3", "-c", "import json, re; print(json.dumps([1]))"), None, "[1]\n", "", 0),
        (("printf", "%s", "ü \udcff\n"), None, "ü \ufffd\n", "", 0),
        (("python3", "-c", "import sys; print(ascii(sys.argv[1]))", "ü\udcff"), None,
         "'\\xfc\\udcff'\n", "", 0),
        (("printf", ""), None, "", "", 0),
        (("cat",), "ü\n" * 3, "ü\n" * 3, "", 0),
    ],
)  # fmt: skip
def test_a_command_ends_as_if_it_had_been_started_alone(
    host: Host, argv: tuple[str, ...], stdin: str | None, said: str, complained: str, code: int
) -> None:
    for _ in range(2):
        result = host.run(*argv, stdin=stdin)
        assert (result.argv, result.stdout, result.returncode) == (argv, said, code)
        assert complained in result.stderr
        assert bool(complained) == bool(result.stderr)
    assert host.started == 1


def test_both_sides_have_the_same_forms() -> None:
    for name in ("LENGTH", "REQUEST", "ANSWER"):
        assert getattr(client, name).format == getattr(program, name).format


def test_a_failure_names_the_host_and_the_last_words(host: Host) -> None:
    with pytest.raises(CommandFailedError, match=r"on h1: no room \(it ended with code 7\)"):
        host.run("sh", "-c", "echo no room >&2; exit 7", check=True)
    assert host.run("echo", "on").stdout == "on\n"
    assert host.started == 1


def test_much_goes_in_and_out(host: Host) -> None:
    much = "x" * 3_000_000
    result = host.run("sh", "-c", "tee /dev/stderr", stdin=much)
    assert (result.stdout, result.stderr) == (much, much)


def test_a_script_leaves_nothing_to_the_next(host: Host) -> None:
    host.run("python3", "-c", "import os, sys; os.chdir('/tmp'); os.environ['LEFT'] = '1'; x = 1")
    after = "import os; print(os.getcwd() == '/tmp', os.environ.get('LEFT'), 'x' in globals())"
    assert host.run("python3", "-c", after).stdout == "False None False\n"


def test_what_takes_too_long_is_ended_with_all_it_started(host: Host, tmp_path: Path) -> None:
    note = tmp_path / "pid"
    with pytest.raises(GrampusError, match=r"did not end within 500 ms on h1") as caught:
        host.run("sh", "-c", f"sleep 60 & echo $! > {note}; wait", timeout_s=0.5)
    assert caught.value.code == "timeout"
    assert wait_until_gone(int(note.read_text()))
    assert host.run("echo", "on").stdout == "on\n"


def test_a_server_that_was_ended_is_replaced(host: Host) -> None:
    server = int(host.run("sh", "-c", "echo $PPID").stdout)
    os.kill(server, signal.SIGKILL)
    assert wait_until_gone(server)
    assert host.run("echo", "on").stdout == "on\n"
    assert host.started == 2


def test_a_command_whose_server_is_ended_has_failed(host: Host) -> None:
    # Nobody can say how far the command came.
    result = host.run("sh", "-c", "kill -9 $PPID; sleep 1")
    assert result.returncode not in (0, None)
    assert host.run("echo", "on").stdout == "on\n"


def test_commands_at_once_have_servers_of_their_own_and_some_are_kept(host: Host) -> None:
    together = threading.Barrier(4)

    def run(number: int) -> str:
        together.wait(LONG_S)
        return host.run("sh", "-c", f"sleep 0.3; echo {number}").stdout

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(run, range(4))) == [f"{number}\n" for number in range(4)]
    assert host.started == 4
    # The threads that started them are gone; what they started is not.
    started = {host.run("sh", "-c", "echo $PPID").stdout for _ in range(3)}
    assert len(started) == 1
    assert host.started == 4
    assert KEPT_SERVERS < 4


def test_closing_ends_the_servers_and_they_come_back(host: Host) -> None:
    server = int(host.run("sh", "-c", "echo $PPID").stdout)
    host.servers.close()
    assert not is_alive(server)
    assert host.run("echo", "on").stdout == "on\n"


LONG_COMMAND = """
import sys
from grampus.hosts.command_server.client import CommandServers
servers = CommandServers(lambda argv: [sys.executable, *argv[1:]], where="h1")
script = "echo $$ > {note}; exec sleep 60"
servers.run(["sh", "-c", script], stdin=None, timeout_s=60, check=True)
"""


def test_a_server_that_was_prepared_runs_the_next_command(host: Host) -> None:
    for _ in range(2):
        host.servers.prepare()
        assert host.started == 1
        assert host.run("echo", "hello").stdout == "hello\n"
    host.servers.close()
    host.servers.prepare()
    assert (host.started, host.run("true").returncode) == (2, 0)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_command_goes_with_whoever_asked(tmp_path: Path, number: signal.Signals) -> None:
    note = tmp_path / "pid"
    asker = subprocess.Popen(
        [sys.executable, "-c", LONG_COMMAND.format(note=note)],
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    deadline = time.monotonic() + LONG_S
    while not (note.exists() and note.read_text().strip()) and time.monotonic() < deadline:
        os.sched_yield()
    command = int(note.read_text())
    assert is_alive(command)
    asker.send_signal(number)
    asker.wait(LONG_S)
    assert wait_until_gone(command)


def test_who_is_told_to_end_has_servers_left_to_undo_with(host: Host, tmp_path: Path) -> None:
    marks = [tmp_path / "first", tmp_path / "second"]
    with ThreadPoolExecutor() as threads:
        short, long = (
            threads.submit(host.run, "sh", "-c", f"touch {mark}; exec sleep {seconds}")
            for mark, seconds in zip(marks, (0.1, 60), strict=True)
        )
        assert short.result(LONG_S).returncode == 0
        deadline = time.monotonic() + LONG_S
        while not all(mark.exists() for mark in marks):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert host.started == 2
        ask_to_end(commands_at_work())
        assert long.result(LONG_S).returncode != 0
    assert host.run("true").returncode == 0
    assert host.started == 2, "the server that had nothing to do lives"


# -- of whom nothing is heard ----------------------------------------------------------------------

PROGRAM = resources.files("grampus.hosts.command_server").joinpath("program.py")


class Asker:
    """A server, asked by hand."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM.read_text()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def ask(self, *argv: str, silence_s: float) -> None:
        self.send(render_request(argv, None, silence_s))

    def send(self, content: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(content)
        self.process.stdin.flush()

    def answer(self) -> bytes:
        """What the command said."""
        assert self.process.stdout is not None
        _, *sizes = program.ANSWER.unpack(self.process.stdout.read(program.ANSWER.size))
        return self.process.stdout.read(sum(sizes))


@pytest.fixture
def asker() -> Iterator[Asker]:
    made = Asker()
    yield made
    made.process.communicate(timeout=LONG_S)


def test_a_command_whose_asker_is_silent_is_ended(asker: Asker, tmp_path: Path) -> None:
    note = tmp_path / "pid"
    asker.ask("sh", "-c", f"echo $$ > {note}; exec sleep 60", silence_s=0.5)
    # The connection stays open, as that of a machine without power does.
    assert asker.process.wait(LONG_S) == 0
    assert asker.process.stderr is not None
    assert b"silent" in asker.process.stderr.read()
    assert wait_until_gone(int(note.read_text()))


def test_a_command_goes_on_while_its_asker_says_something(asker: Asker, tmp_path: Path) -> None:
    go = tmp_path / "go"
    os.mkfifo(go)
    asker.ask("sh", "-c", f"cat {go}; echo done", silence_s=1.0)
    until_s = time.monotonic() + 2.0
    while time.monotonic() < until_s:
        # A part of an empty document, too: a network may deliver it so.
        asker.send(bytes(3))
        asker.send(bytes(1))
        assert asker.process.poll() is None
        time.sleep(0.1)
    asker.send(bytes(2))
    go.write_text("")
    asker.send(bytes(2))
    assert asker.answer() == b"done\n"
    # What comes late is not taken for a part of the next request.
    asker.send(bytes(4))
    asker.ask("echo", "next", silence_s=30.0)
    assert asker.answer() == b"next\n"


def test_who_waits_long_says_so(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("grampus.hosts.command_server.client.ALIVE_EVERY_S", 0.1)
    monkeypatch.setattr("grampus.hosts.command_server.client.SILENCE_S", 1.0)
    assert host.run("sh", "-c", "sleep 2; echo done").stdout == "done\n"
    assert host.run("echo", "next").stdout == "next\n"
    assert host.started == 1
