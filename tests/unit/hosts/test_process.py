"""Commands on this machine: real processes, no patches."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from grampus.core.errors import GrampusError
from grampus.hosts.port import CommandFailedError
from grampus.hosts.process import (
    STDERR_KEPT_BYTES,
    ask_to_end,
    commands_at_work,
    run_command,
    spawn_command,
)

LONG_S = 30.0


def is_alive(pid: int) -> bool:
    """Whether `pid` is a process that has not ended (a zombie has)."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def wait_until_gone(pid: int) -> bool:
    deadline = time.monotonic() + 10
    while is_alive(pid) and time.monotonic() < deadline:
        os.sched_yield()
    return not is_alive(pid)


def test_result_holds_both_streams_and_the_code() -> None:
    result = run_command(
        ["sh", "-c", "cat; echo bad >&2; exit 3"], stdin="in\n", timeout_s=LONG_S, check=False
    )
    assert (result.stdout, result.stderr, result.returncode) == ("in\n", "bad\n", 3)


def test_failure_names_the_host_and_the_last_words() -> None:
    with pytest.raises(
        CommandFailedError, match=r"on host-2: no room \(it ended with code 7\)"
    ) as caught:
        run_command(["sh", "-c", "echo no room >&2; exit 7"], timeout_s=LONG_S, where="host-2")
    assert caught.value.result.returncode == 7


@pytest.mark.parametrize(
    ("program", "code", "hint"),
    [
        ("no-such-program", "program-missing", "Install the package no-such-program"),
        ("/no/such/program", "program-missing", "Check the path"),
        ("/etc/hostname", "program-unusable", "executable"),
    ],
)
def test_program_that_cannot_start(program: str, code: str, hint: str) -> None:
    with pytest.raises(GrampusError, match=hint) as caught:
        run_command([program], timeout_s=LONG_S)
    assert caught.value.code == code
    assert program in caught.value.problem


def test_package_of_a_program_with_another_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(GrampusError, match="apt-get install xfsprogs"):
        run_command(["mkfs.xfs"], timeout_s=LONG_S)


def test_bytes_that_are_no_utf8_are_replaced() -> None:
    assert run_command(["printf", r"a\377b"], timeout_s=LONG_S).stdout == "a\ufffdb"


def test_environment_is_added_and_speaks_english(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEPT", "kept")
    script = 'echo "$KEPT $ADDED $LC_ALL"'
    result = run_command(["sh", "-c", script], timeout_s=LONG_S, env={"ADDED": "added"})
    assert result.stdout == "kept added C.UTF-8\n"


def test_input_that_is_not_read_is_no_error() -> None:
    assert run_command(["true"], stdin="x" * 1_000_000, timeout_s=LONG_S).returncode == 0


def test_timeout_ends_the_whole_group(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    script = f"sleep 100 & echo $! > {pid_file}; wait"
    with pytest.raises(GrampusError, match=r"did not end within 300 ms on host-1") as caught:
        run_command(["sh", "-c", script], timeout_s=0.3, where="host-1")
    assert caught.value.code == "timeout"
    assert wait_until_gone(int(pid_file.read_text()))


def test_lines_come_while_the_command_runs() -> None:
    command = spawn_command(["sh", "-c", "echo one; read x; echo $x"], stdin=None)
    lines = command.lines()
    assert next(lines) == "one"
    assert list(lines) == [""]  # stdin is empty, so `read` meets its end
    assert command.wait().returncode == 0


def test_stdin_of_a_spawned_command_is_fed() -> None:
    text = "".join(f"line {number}\n" for number in range(100_000))
    command = spawn_command(["cat"], stdin=text)
    assert sum(1 for _ in command.lines()) == 100_000
    assert command.wait().stdout == ""


def test_much_stderr_does_not_block_and_its_end_is_kept() -> None:
    script = "head -c 2000000 /dev/zero | tr '\\0' x >&2; echo end >&2; echo out"
    command = spawn_command(["sh", "-c", script])
    assert list(command.lines()) == ["out"]
    result = command.wait()
    assert len(result.stderr) == STDERR_KEPT_BYTES
    assert result.stderr.endswith("xend\n")


def test_wait_reads_what_lines_did_not() -> None:
    result = spawn_command(["sh", "-c", "echo a; echo b; exit 4"]).wait()
    assert (result.stdout, result.returncode) == ("a\nb\n", 4)


def test_merged_stderr_is_among_the_lines() -> None:
    command = spawn_command(["sh", "-c", "echo out; echo err >&2"], merge_stderr=True)
    assert list(command.lines()) == ["out", "err"]
    assert command.wait().stderr == ""


def test_terminate_ends_what_ignores_term_and_what_it_started() -> None:
    script = "trap '' TERM; sh -c 'echo $$; exec sleep 100' & echo $$; wait; sleep 100"
    command = spawn_command(["sh", "-c", script])
    lines = command.lines()
    pids = [int(next(lines)), int(next(lines))]
    command.terminate()
    assert [wait_until_gone(pid) for pid in pids] == [True, True]
    assert command.wait().returncode in {-signal.SIGTERM, -signal.SIGKILL}


def test_terminate_ends_what_outlives_its_leader() -> None:
    command = spawn_command(["sh", "-c", "sleep 100 & echo $!"])
    lines = command.lines()
    orphan = int(next(lines))
    os.waitid(os.P_PID, command.pid, os.WEXITED | os.WNOWAIT)
    command.terminate()
    assert wait_until_gone(orphan)


def test_terminate_after_the_end_does_nothing() -> None:
    command = spawn_command(["true"])
    assert command.wait().returncode == 0
    command.terminate()
    assert command.wait().returncode == 0


def test_terminate_from_another_thread_ends_the_lines() -> None:
    command = spawn_command(["sh", "-c", "echo ready; exec sleep 100"])
    lines = command.lines()
    assert next(lines) == "ready"
    ender = threading.Thread(target=command.terminate)
    ender.start()
    assert list(lines) == []
    ender.join()
    assert command.wait().returncode == -signal.SIGTERM


@pytest.mark.parametrize(
    "body",
    [
        "run_command(argv, timeout_s=60)",
        "list(spawn_command(argv).lines())",
        "spawn_command(argv).wait()",
        "command = spawn_command(argv); time.sleep(60)",
    ],
)
def test_ctrl_c_ends_the_command_too(tmp_path: Path, body: str) -> None:
    pid_file = tmp_path / "pid"
    os.mkfifo(pid_file)
    program = (
        "import time\n"
        "from grampus.hosts.process import run_command, spawn_command\n"
        f"argv = ['sh', '-c', 'echo $$ > {pid_file}; exec sleep 100']\n"
        f"{body}\n"
    )
    python = subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.DEVNULL)
    pid = int(pid_file.read_text())
    python.send_signal(signal.SIGINT)
    python.wait(timeout=LONG_S)
    assert wait_until_gone(pid)


def test_who_waits_for_a_command_goes_on_when_all_are_asked_to_end() -> None:
    """What a Ctrl-C does for threads that it does not reach."""
    ended: list[int] = []
    command = spawn_command(["sh", "-c", "echo begun; exec sleep 60"])
    assert next(command.lines()) == "begun"
    waiting = threading.Thread(target=lambda: ended.append(command.wait().returncode))
    waiting.start()
    ask_to_end(commands_at_work())
    waiting.join(20)
    assert ended == [-signal.SIGTERM]
