"""What a run of `paths` adds to the environment: programs, sizes, times."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath

from grampus.bench.paths.blocks import CLASSIC_THREADS
from grampus.bench.paths.plan import PathsPlan
from grampus.bench.paths.stage import LIBRBD_SETTINGS
from grampus.bench.paths.suite import PathsSuite
from grampus.core.units import format_bytes
from grampus.hosts.port import Host
from grampus.state.runs import Setting
from grampus.volumes.drivers.volumed import VolumedProgram

_URING_SWITCH = PurePosixPath("/sys/module/fuse/parameters/enable_uring")


def observe_programs(host: Host, program: VolumedProgram) -> list[Setting]:
    """Versions of what the ways are made of, and whether the kernel lends FUSE its rings."""
    argvs = {
        "fio": ["fio", "--version"],
        "qemu-storage-daemon": ["qemu-storage-daemon", "--version"],
    }
    if program.is_built():
        argvs["volumed"] = [str(program.ensure_on(host)), "--version"]
    found = [
        Setting(group="versions", name=name, value=_first_line(host, argv))
        for name, argv in argvs.items()
    ]
    uring = (host.read_file(_URING_SWITCH) or "no such switch").strip()
    return [*found, Setting(group="machine", name="fuse.enable_uring", value=uring)]


def describe_load(
    suite: PathsSuite, plan: PathsPlan, runtimes_ms: Sequence[int], server_version: str
) -> list[Setting]:
    """Sizes, times and settings of the loads."""
    scale = plan.scale
    chosen = {measure.name for block in plan.blocks for measure in (*block.raw, *block.xfs)}
    left_out = [measure.name for measure in suite.measures if measure.name not in chosen]
    pairs = {
        "scale": plan.scale_name,
        "seed": str(plan.seed),
        "running time of a job by round": ", ".join(f"{runtime} ms" for runtime in runtimes_ms)
        or "no such jobs",
        "not counted before it": f"{scale.ramp_ms} ms",
        "running time of a sustained job": f"{scale.sustained_ms / 1000:g} s",
        "rounds with the write paths": str(plan.write_path_rounds),
        "region": format_bytes(scale.region_bytes),
        "file system": f"{format_bytes(scale.filesystem_bytes)} of XFS",
        "engine": "rbd for the arm rbd, else libaio with direct I/O",
        "librbd settings": ", ".join(LIBRBD_SETTINGS),
        "threads of the classic memory device": str(CLASSIC_THREADS),
        "measures left out": ", ".join(left_out) or "none",
    }
    if plan.database:
        database = suite.database
        pairs |= {
            "MySQL data set": f"{database.tables} tables x {scale.rows_per_table:,} rows",
            "MySQL memory": format_bytes(scale.memory_bytes),
            "sysbench threads": str(database.threads),
            "sysbench warm-up and measuring": f"{scale.warmup_s} s and {scale.measure_s} s",
        }
    settings = [Setting(group="load", name=name, value=value) for name, value in pairs.items()]
    if server_version:
        settings.append(Setting(group="versions", name="mysql", value=server_version))
    return settings


def _first_line(host: Host, argv: list[str]) -> str:
    result = host.run(argv, check=False)
    lines = result.stdout.strip().splitlines()
    return lines[0] if result.returncode == 0 and lines else "not there"
