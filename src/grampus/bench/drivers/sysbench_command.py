"""sysbench's command lines, for sysbench 1.0.20."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath

from grampus.bench.drivers.command import bounded_argv

SCRIPTS_DIR = "/usr/share/sysbench"
# sysbench's own limit for what still runs at the end; coreutils' timeout comes after it.
FORCED_SHUTDOWN_S = 20
TIMEOUT_EXTRA_S = 60
LOAD_TIMEOUT_S = 6 * 3600


@dataclass(frozen=True)
class SysbenchLoad:
    """One run. Without `rate_per_s` it is a closed loop; with it, requests come at that rate.

    `directory` on the host holds sysbench's TLS files, which it looks for in its working
    directory and nowhere else; `config_file` the connection and the password. `options` are the
    script's own.
    """

    directory: PurePosixPath
    config_file: PurePosixPath
    script: str  # of SCRIPTS_DIR, without ".lua"
    tables: int
    rows_per_table: int
    threads: int
    duration_s: int
    distribution: str = "uniform"
    rate_per_s: int | None = None
    seed: int | None = None
    options: tuple[str, ...] = ()


def sysbench_argv(load: SysbenchLoad) -> list[str]:
    """The command of a run that prints each second's figures and the whole latency histogram.

    No secret is on it. Raises ValueError for a rate below 1: to sysbench 0 is no rate at all.
    """
    if load.rate_per_s is not None and load.rate_per_s < 1:
        raise ValueError("an open loop needs a rate of at least 1 a second")
    options = [
        f"--time={load.duration_s}",
        "--events=0",
        "--report-interval=1",
        "--percentile=99",
        "--histogram=on",
        f"--forced-shutdown={FORCED_SHUTDOWN_S}",
    ]
    if load.rate_per_s is not None:
        options.append(f"--rate={load.rate_per_s}")
    if load.seed is not None:
        options.append(f"--rand-seed={load.seed}")
    options += load.options
    timeout_s = load.duration_s + FORCED_SHUTDOWN_S + TIMEOUT_EXTRA_S
    return _argv(load, "run", load.threads, options, timeout_s=timeout_s)


def sysbench_prepare_argv(load: SysbenchLoad) -> list[str]:
    """The command that makes and fills the tables, one thread a table. No secret is on it."""
    threads = min(load.tables, load.threads)
    return _argv(load, "prepare", threads, [*load.options], timeout_s=LOAD_TIMEOUT_S)


def _argv(
    load: SysbenchLoad, command: str, threads: int, options: list[str], *, timeout_s: int
) -> list[str]:
    argv = [
        "sysbench",
        f"--config-file={load.config_file}",
        f"--tables={load.tables}",
        f"--table-size={load.rows_per_table}",
        f"--threads={threads}",
        f"--rand-type={load.distribution}",
        *options,
        f"{SCRIPTS_DIR}/{load.script}.lua",
        command,
    ]
    bounded = bounded_argv(argv, timeout_s=timeout_s)
    return [bounded[0], "-C", str(load.directory), *bounded[1:]]
