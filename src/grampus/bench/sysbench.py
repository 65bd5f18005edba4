"""Driving sysbench: its command lines, and a run read second by second."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from grampus.bench.client import ArmClient
from grampus.bench.plan import SysbenchTables
from grampus.bench.sysbench_output import (
    STARTED_LINE,
    Interval,
    Summary,
    describe_failure,
    parse_interval,
    parse_summary,
)
from grampus.core.clock import Clock
from grampus.hosts.port import RunningCommand

SCRIPTS_DIR = "/usr/share/sysbench"
# A transaction that still hangs this long after the end is cut off by sysbench itself; a
# process that even then remains (an instance that answers nothing) by coreutils' timeout.
FORCED_SHUTDOWN_S = 20
TIMEOUT_EXTRA_S = 60
LOAD_TIMEOUT_S = 6 * 3600


@dataclass(frozen=True)
class TimedRun:
    """One `sysbench run`: its own figures and when its threads ran (Unix time)."""

    summary: Summary
    intervals: tuple[Interval, ...]
    started_at_s: float
    ended_at_s: float


def prepare_argv(client: ArmClient, plan: SysbenchTables) -> list[str]:
    """The command that makes and fills the tables, one thread a table."""
    return _argv(
        client,
        plan,
        script="oltp_read_write",
        command="prepare",
        threads=min(plan.tables, plan.threads),
        timeout_s=LOAD_TIMEOUT_S,
        options=[],
    )


def run_argv(
    client: ArmClient, plan: SysbenchTables, *, script: str, duration_s: int, histogram: bool
) -> list[str]:
    """The command of one run of `duration_s` seconds, reporting every second."""
    return _argv(
        client,
        plan,
        script=script,
        command="run",
        threads=plan.threads,
        timeout_s=duration_s + FORCED_SHUTDOWN_S + TIMEOUT_EXTRA_S,
        options=[
            f"--time={duration_s}",
            "--events=0",
            "--report-interval=1",
            "--percentile=99",
            f"--histogram={'on' if histogram else 'off'}",
            f"--forced-shutdown={FORCED_SHUTDOWN_S}",
        ],
    )


def run_timed(
    client: ArmClient,
    argv: list[str],
    *,
    what: str,
    raw_file: Path,
    clock: Clock,
    on_interval: Callable[[float, Interval], None],
) -> TimedRun:
    """Run sysbench to its end; `on_interval` gets each second's figures and their Unix time.

    `what` names the run in errors. What sysbench prints is written to `raw_file` as it comes.
    On any way out no sysbench is left running.

    Raises SysbenchError with sysbench's own words.
    """
    lines: list[str] = []
    intervals: list[Interval] = []
    started_at_s = clock.now().timestamp()
    with started(client, argv) as running, raw_writer(raw_file) as raw:
        for line in running.lines():
            arrived_at_s = clock.now().timestamp()
            raw.write(f"{line}\n")
            lines.append(line)
            if line.strip() == STARTED_LINE:
                started_at_s = arrived_at_s
            interval = parse_interval(line)
            if interval is not None:
                intervals.append(interval)
                on_interval(arrived_at_s, interval)
        result = running.wait()
        raw.write(result.stderr)
    output = "\n".join(lines)
    failure = describe_failure(what, result.returncode, (output, result.stderr))
    if failure is not None:
        raise failure
    summary = parse_summary(output)
    return TimedRun(
        summary=summary,
        intervals=tuple(intervals),
        started_at_s=started_at_s,
        ended_at_s=started_at_s + summary.total_time_s,
    )


@contextmanager
def started(client: ArmClient, argv: list[str]) -> Iterator[RunningCommand]:
    """The command, running on the arm's host; ended at the end of the block."""
    running = client.host.spawn(argv)
    try:
        yield running
    finally:
        running.terminate()


@contextmanager
def raw_writer(file: Path) -> Iterator[TextIO]:
    """`file` opened for what a driver prints; each line is on disk when the next one comes."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w", encoding="utf-8", buffering=1) as stream:
        yield stream


def _argv(
    client: ArmClient,
    plan: SysbenchTables,
    *,
    script: str,
    command: str,
    threads: int,
    timeout_s: int,
    options: list[str],
) -> list[str]:
    return [
        # sysbench looks for its TLS files in the working directory and nowhere else.
        "env",
        "-C",
        str(client.directory),
        "timeout",
        "--foreground",
        "--kill-after=5",
        str(timeout_s),
        "sysbench",
        f"--config-file={client.sysbench_config}",
        f"--tables={plan.tables}",
        f"--table-size={plan.rows_per_table}",
        f"--threads={threads}",
        f"--rand-type={plan.distribution}",
        *options,
        f"{SCRIPTS_DIR}/{script}.lua",
        command,
    ]
