"""Made-up runs that look like real ones, with figures that are the same every time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from grampus.state.runs import (
    ArmName,
    OltpResult,
    OltpSample,
    ResourceSample,
    Run,
    RunArchive,
    Setting,
    WorkloadResult,
    append_lines,
)

STARTED_AT_S = 1_772_373_909.25  # 2026-03-01 14:05:09 UTC
LOAD_S = 20
WARMUP_S = 5
PAUSE_S = 3
MIB = 1024**2

OSDS = ("osd-0@h1", "osd-1@h2", "osd-2@h3", "osd-3@h4")
DAEMONS = (
    "mon-a@h1",
    "mon-b@h2",
    "mon-c@h3",
    "mgr-x@h1",
    "mgr-y@h2",
    *OSDS,
    "mysqld-demo@h1",
    "mysqld-demo-local@h1",
    "qsd-demo@h1",
)


@dataclass(frozen=True)
class Shape:
    """What a workload asks of each arm: TPS, queries a transaction, p99 in ms, share of writes."""

    name: str
    title: str
    ceph_tps: float
    local_tps: float
    queries: int
    ceph_p99_ms: float
    local_p99_ms: float
    writes: float


SHAPES = (
    Shape("point-select", "100% read (point selects)", 4711, 23845, 1, 3.4, 0.62, 0.0),
    Shape("read-write", "70% read, 30% write (OLTP mix)", 45, 578, 20, 292, 31, 0.3),
    Shape("update-index", "100% write (index updates)", 194, 5766, 1, 78, 3.1, 1.0),
)


@dataclass(frozen=True)
class MadeRun:
    """A run with the samples that belong to it."""

    run: Run
    samples: dict[str, dict[ArmName, list[OltpSample]]]
    resources: list[ResourceSample]

    def archive_in(self, directory: Path) -> RunArchive:
        """Write it all to an archive under `directory`."""
        archive = RunArchive(directory)
        run_id = self.run.run_id
        for workload, arms in self.samples.items():
            for arm, samples in arms.items():
                append_lines(archive.samples_file(run_id, workload, arm), samples)
        append_lines(archive.resources_file(run_id), self.resources)
        archive.save(self.run)
        return archive


def made_result(**changed: float) -> OltpResult:
    """A result like that of a small run, with fields changed."""
    values: dict[str, float] = {
        "tps": 100.0,
        "qps": 2000.0,
        "latency_avg_ms": 80.0,
        "latency_p99_ms": 120.0,
        "latency_max_ms": 200.0,
        "transactions": 1500,
        "errors": 0,
        "measured_s": 15.0,
        "started_at_s": STARTED_AT_S + 10,
        "ended_at_s": STARTED_AT_S + 25,
        "tps_cov": 0.05,
    }
    return OltpResult.model_validate(values | changed)


def made_workload(
    ceph: OltpResult, local: OltpResult, *, name: str = "read-write", title: str = "Mix"
) -> WorkloadResult:
    """A workload with these two results."""
    return WorkloadResult(name=name, title=title, ceph=ceph, local=local)


def wave(index: int, seed: int) -> float:
    """A repeatable number from -1 to 1 that looks random."""
    return math.sin(index * 12.9898 + seed * 78.233) * 0.6 + math.sin(index * 0.9 + seed) * 0.4


def made_run(
    *,
    run_id: str = "2026-03-01-140509-oltp",
    shapes: Sequence[Shape] = SHAPES,
    measure_s: int = 15,
    daemons: Sequence[str] = DAEMONS,
    warnings: Sequence[str] = (
        "The machine has 2 CPU cores for 12 daemons, so the daemons compete for them.",
        "Each workload was measured for 15 s, too short to see compaction or scrubbing.",
    ),
) -> MadeRun:
    """A run of `shapes` on both arms, one after the other, with samples every second."""
    at_s = STARTED_AT_S + LOAD_S
    samples: dict[str, dict[ArmName, list[OltpSample]]] = {}
    workloads = []
    phases: list[tuple[float, float, Shape, ArmName]] = []
    for seed, shape in enumerate(shapes):
        results = {}
        arms: dict[ArmName, list[OltpSample]] = {}
        for arm in ("ceph", "local"):
            lines = _samples(shape, arm, at_s, measure_s, seed)
            ended_at_s = at_s + WARMUP_S + measure_s
            results[arm] = _result(shape, arm, at_s + WARMUP_S, ended_at_s, measure_s)
            arms[arm] = lines
            phases.append((at_s, ended_at_s, shape, arm))
            at_s = ended_at_s + PAUSE_S
        samples[shape.name] = arms
        workloads.append(
            WorkloadResult(
                name=shape.name, title=shape.title, ceph=results["ceph"], local=results["local"]
            )
        )
    run = Run(
        run_id=run_id,
        suite="oltp-short",
        lab="default",
        database="demo",
        flavour="mysql",
        started_at_s=STARTED_AT_S,
        ended_at_s=at_s,
        threads=8,
        warmup_s=WARMUP_S,
        measure_s=measure_s,
        dataset_bytes=236 * MIB,
        buffer_pool_bytes=48 * MIB,
        environment=made_environment(),
        workloads=tuple(workloads),
        warnings=tuple(warnings),
    )
    return MadeRun(run, samples, _resources(phases, at_s, daemons))


def _samples(
    shape: Shape, arm: ArmName, at_s: float, measure_s: int, seed: int
) -> list[OltpSample]:
    tps = shape.ceph_tps if arm == "ceph" else shape.local_tps
    p99_ms = shape.ceph_p99_ms if arm == "ceph" else shape.local_p99_ms
    spread = 0.12 if arm == "ceph" else 0.05
    lines = []
    for second in range(1, WARMUP_S + measure_s + 1):
        warm = min(1.0, 0.45 + 0.12 * second)
        now_tps = round(tps * warm * (1 + spread * wave(second, seed)), 2)
        lines.append(
            OltpSample(
                at_s=at_s + second,
                tps=now_tps,
                qps=round(now_tps * shape.queries, 2),
                latency_p99_ms=round(p99_ms / warm * (1 + 2 * spread * wave(second, seed + 7)), 2),
                errors_per_s=0.0,
            )
        )
    return lines


def _result(
    shape: Shape, arm: ArmName, started_at_s: float, ended_at_s: float, measure_s: int
) -> OltpResult:
    tps = shape.ceph_tps if arm == "ceph" else shape.local_tps
    p99_ms = shape.ceph_p99_ms if arm == "ceph" else shape.local_p99_ms
    return OltpResult(
        tps=tps,
        qps=tps * shape.queries,
        latency_avg_ms=8000 / tps,
        latency_p99_ms=p99_ms,
        latency_max_ms=p99_ms * 2.2,
        transactions=round(tps * measure_s),
        errors=0,
        measured_s=measure_s,
        started_at_s=started_at_s,
        ended_at_s=ended_at_s,
        tps_cov=0.09 if arm == "ceph" else 0.04,
    )


def _resources(
    phases: Sequence[tuple[float, float, Shape, ArmName]], ended_at_s: float, daemons: Sequence[str]
) -> list[ResourceSample]:
    found = []
    for second in range(1, int(ended_at_s - STARTED_AT_S) + 1):
        at_s = STARTED_AT_S + second + 0.02 * wave(second, 3)
        phase = next((p for p in phases if p[0] < at_s <= p[1]), None)
        total = 0.0
        for seed, name in enumerate(daemons):
            sample = _daemon_sample(name, at_s, phase, 1 + 0.15 * wave(second, seed))
            total += sample.cpu_cores or 0.0
            found.append(sample)
        on_ceph = phase is not None and phase[3] == "ceph"
        writes = 0.0 if phase is None else phase[2].writes
        noise = 1 + 0.1 * wave(second, 40)
        found.append(
            ResourceSample(
                at_s=at_s,
                kind="volume",
                name="demo",
                read_iops=(3100 * (1 - writes) + 150) * noise if on_ceph else 0.0,
                write_iops=1450 * writes * noise if on_ceph else 1.5,
                read_bytes_per_s=(3100 * (1 - writes) + 150) * 16384 * noise if on_ceph else 0.0,
                write_bytes_per_s=1450 * writes * 14000 * noise if on_ceph else 20_000.0,
            )
        )
        found.append(
            ResourceSample(
                at_s=at_s, kind="machine", name="machine", cpu_cores=min(2.0, total + 0.12)
            )
        )
    return found


def _daemon_sample(
    name: str, at_s: float, phase: tuple[float, float, Shape, ArmName] | None, noise: float
) -> ResourceSample:
    arm = None if phase is None else phase[3]
    writes = 0.0 if phase is None else phase[2].writes
    cpu, memory_mib, reads, written = 0.01, 90, 0.0, 0.4
    if name.startswith("osd"):
        busy = arm == "ceph"
        cpu, memory_mib = (0.22 if busy else 0.015), 260
        reads = 800 * (1 - writes) if busy else 0.0
        written = 1100 * writes if busy else 2.0
    elif name.startswith("mysqld"):
        mine = arm is not None and (arm == "local") == ("local" in name)
        cpu, memory_mib = (0.9 if arm == "local" else 0.5) if mine else 0.01, 410
        reads = 4200 * (1 - writes) if mine and arm == "local" else 0.0
        written = 5200 * writes if mine and arm == "local" else 0.0
    elif name.startswith("qsd"):
        cpu, memory_mib = (0.25 if arm == "ceph" else 0.0), 140
    return ResourceSample(
        at_s=at_s,
        kind="daemon",
        name=name,
        cpu_cores=round(cpu * noise, 4),
        memory_bytes=int(memory_mib * MIB * (1 + 0.02 * noise)),
        read_iops=round(reads * noise, 2),
        write_iops=round(written * noise, 2),
        read_bytes_per_s=round(reads * 16384 * noise, 1),
        write_bytes_per_s=round(written * 9000 * noise, 1),
    )


def made_environment() -> tuple[Setting, ...]:
    """Facts as a run records them."""
    groups = {
        "Machine": {
            "CPU": "2 x AMD EPYC 7763 64-Core Processor",
            "Memory": "24 GiB",
            "Kernel": "6.18.0-amd64",
            "Disk of the archive and of the OSDs' files": "ext4 on /dev/vda, 200 GiB",
        },
        "Ceph": {
            "Version": "20.2.4 (tentacle)",
            "Copies": "3 (at least 2 to write)",
            "OSDs": "4 x 10 GiB, BlueStore, nvme media without limits",
            "osd_memory_target": "1 GiB",
            "Placement groups": "32",
        },
        "Database": {
            "Server": "MySQL 9.7.4",
            "innodb_buffer_pool_size": "48 MiB",
            "innodb_flush_log_at_trx_commit": "1",
            "sync_binlog": "1",
            "innodb_doublewrite": "ON",
            "Limits of the daemon": "2 CPUs, 512 MiB",
        },
        "Volume": {
            "Driver": "qsd: this kernel has neither krbd nor nbd",
            "Device": "/dev/loop3, XFS, direct I/O",
            "Size": "4 GiB",
        },
        "Driver": {"sysbench": "1.0.20", "Tables": "4 x 250,000 rows", "Distribution": "uniform"},
    }
    return tuple(
        Setting(group=group, name=name, value=value)
        for group, facts in groups.items()
        for name, value in facts.items()
    )
