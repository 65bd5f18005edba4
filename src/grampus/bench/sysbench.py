"""sysbench on the host of an arm: tables filled, and runs read second by second."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from grampus.bench.client import ArmClient
from grampus.bench.drivers.outcome import DriverOutput, DriverResult, Second, require_result
from grampus.bench.drivers.sysbench_command import SysbenchLoad, sysbench_argv
from grampus.bench.drivers.sysbench_result import (
    STARTED_LINE,
    classify_sysbench_end,
    parse_second,
    parse_sysbench,
)
from grampus.bench.quick_plan import SysbenchTables
from grampus.core.clock import Clock
from grampus.hosts.port import RunningCommand


@dataclass(frozen=True)
class TimedRun:
    """A `sysbench run` that ended well, and when its threads began (Unix time)."""

    result: DriverResult
    started_at_s: float

    @property
    def ended_at_s(self) -> float:
        return self.started_at_s + self.result.elapsed_s


def make_load(
    client: ArmClient,
    tables: SysbenchTables,
    *,
    script: str = "oltp_read_write",
    duration_s: int = 0,
) -> SysbenchLoad:
    """sysbench's `script` on those tables of the arm, or the making of them."""
    return SysbenchLoad(
        directory=client.directory,
        config_file=client.sysbench_config,
        script=script,
        tables=tables.tables,
        rows_per_table=tables.rows_per_table,
        threads=tables.threads,
        duration_s=duration_s,
        distribution=tables.distribution,
    )


def run_timed(
    client: ArmClient,
    load: SysbenchLoad,
    *,
    what: str,
    raw_file: Path,
    clock: Clock,
    on_second: Callable[[float, Second], None] = lambda _at_s, _second: None,
) -> TimedRun:
    """Run sysbench to its end; `on_second` gets each second's figures and their Unix time.

    `what` names the run in errors. What sysbench prints is written to `raw_file` as it comes.
    On any way out no sysbench is left running. Raises DriverError with sysbench's own words.
    """
    started_at_s, after_s = clock.now().timestamp(), 0.0

    def read(line: str) -> None:
        nonlocal started_at_s, after_s
        arrived_at_s = clock.now().timestamp()
        if line.strip() == STARTED_LINE:
            started_at_s = arrived_at_s
        second = parse_second(line, after_s=after_s)
        if second is not None:
            after_s = second.ended_s
            on_second(arrived_at_s, second)

    with started(client, sysbench_argv(load)) as running:
        output = _read_output(running, raw_file, read)
    return TimedRun(require_result(parse_sysbench(output), "sysbench", during=what), started_at_s)


def read_prepare(running: RunningCommand, *, what: str, raw_file: Path) -> None:
    """Follow `sysbench prepare` to its end. Raises DriverError with sysbench's own words."""
    failure = classify_sysbench_end(_read_output(running, raw_file, lambda _line: None))
    if failure is not None:
        require_result(failure, "sysbench", during=what)


@contextmanager
def started(client: ArmClient, argv: list[str]) -> Iterator[RunningCommand]:
    """The command, running on the arm's host; ended at the end of the block."""
    running = client.host.spawn(argv)
    try:
        yield running
    finally:
        running.terminate()


def _read_output(
    running: RunningCommand, raw_file: Path, on_line: Callable[[str], None]
) -> DriverOutput:
    """All that it prints; each line is in `raw_file` when the next one comes."""
    raw_file.parent.mkdir(parents=True, exist_ok=True)
    lines: list[str] = []
    with raw_file.open("w", encoding="utf-8", buffering=1) as raw:
        for line in running.lines():
            raw.write(f"{line}\n")
            lines.append(line)
            on_line(line)
        result = running.wait()
        raw.write(result.stderr)
    return DriverOutput("\n".join(lines), result.stderr, result.returncode)
