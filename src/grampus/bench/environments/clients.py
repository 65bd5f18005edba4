"""Load generators that start together: their commands, when their load began, what CPU they took.

Each bears a mark in its environment, which all that it starts inherits: whoever comes after a
killed run finds them by it, wherever they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from grampus.bench.drivers.outcome import DriverOutput
from grampus.core.clock import Clock
from grampus.hosts.port import CommandResult, Host, RunningCommand

MARK = "GRAMPUS_BENCH_CLIENT"
# Runs the command, and says at the end what CPU time it took with all that it started.
_TIMED = '"$@"; code=$?; times >&2; exit "$code"'
_TIMES = re.compile(r"^(\d+)m([\d.]+)s (\d+)m([\d.]+)s$")
_END_MARKED = """
for process in /proc/[0-9]*; do
  if grep -qzxF -- "$1" "$process/environ" 2>/dev/null; then
    kill -KILL "${process#/proc/}" 2>/dev/null
  fi
done
exit 0
"""

# When the load began (Unix time), judging by one line and when it came; None: it does not say.
BeganAt = Callable[[str, float], float | None]


@dataclass(frozen=True)
class ClientLoad:
    """One client to be run: `argv` on `host`, bounded in time by itself."""

    name: str
    host: Host
    argv: Sequence[str]
    began_at: BeganAt


@dataclass(frozen=True)
class ClientEnd:
    """What a client left. Times are Unix time; `cpu_s` is None when it was killed."""

    name: str
    output: DriverOutput
    launched_at_s: float
    began_at_s: float
    ended_at_s: float
    cpu_s: float | None


def run_together(loads: Sequence[ClientLoad], clock: Clock) -> list[ClientEnd]:
    """Start all, and wait for all; in any other end none is left running.

    Raises what the hosts raise. A client that fails does not: its output says so.
    """
    with ExitStack() as stack:
        # Entered first, so left last: the readers end once their commands have been ended.
        pool = stack.enter_context(ThreadPoolExecutor(max_workers=max(len(loads), 1)))
        launched: list[tuple[ClientLoad, float, RunningCommand]] = []
        for load in loads:
            at_s = clock.now().timestamp()
            running = stack.enter_context(_started(load.host, marked_argv(load)))
            launched.append((load, at_s, running))
        readers: list[Future[ClientEnd]] = [
            pool.submit(_read, load, at_s, running, clock) for load, at_s, running in launched
        ]
        return [reader.result() for reader in readers]


def end_clients(host: Host) -> None:
    """End the clients that a killed run left on the host."""
    host.run(["bash", "-c", _END_MARKED, "end-clients", mark_of(host)])


def marked_argv(load: ClientLoad) -> list[str]:
    """The client's command, marked and timed."""
    return ["env", mark_of(load.host), "bash", "-c", _TIMED, "bench-client", *load.argv]


def parse_cpu_s(stderr: str) -> tuple[str, float | None]:
    """What the client itself wrote to stderr, and the CPU time that the shell wrote after it."""
    lines = stderr.splitlines()
    # The shell's own time, then that of what it waited for.
    times = [_TIMES.match(line) for line in lines[-2:]]
    if len(times) < 2 or times[0] is None or times[1] is None:
        return stderr, None
    minutes, seconds, system_minutes, system_seconds = times[1].groups()
    cpu_s = 60 * (int(minutes) + int(system_minutes)) + float(seconds) + float(system_seconds)
    return "\n".join(lines[:-2]), cpu_s


def mark_of(host: Host) -> str:
    """Of one lab's one host: processes of other labs may be seen on the same machine."""
    return f"{MARK}={host.data_dir}"


def _read(
    load: ClientLoad, launched_at_s: float, running: RunningCommand, clock: Clock
) -> ClientEnd:
    lines: list[str] = []
    began: list[float] = []
    for line in running.lines():
        began_at_s = load.began_at(line, clock.now().timestamp())
        if began_at_s is not None:
            began.append(began_at_s)
        lines.append(line)
    result: CommandResult = running.wait()
    ended_at_s = clock.now().timestamp()
    stderr, cpu_s = parse_cpu_s(result.stderr)
    # Lines come late, never early.
    began_at_s = min(began, default=launched_at_s)
    output = DriverOutput("".join(f"{line}\n" for line in lines), stderr, result.returncode)
    return ClientEnd(load.name, output, launched_at_s, began_at_s, ended_at_s, cpu_s)


@contextmanager
def _started(host: Host, argv: Sequence[str]) -> Iterator[RunningCommand]:
    running = host.spawn(argv)
    try:
        yield running
    finally:
        running.terminate()
