"""Facts of a run: what a reader must know to judge or repeat it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.metadata import version
from pathlib import PurePosixPath

from grampus.bench.client import ArmClient
from grampus.bench.counters import CpuTimes, busy_cores, parse_cpu_times, parse_memory
from grampus.bench.quick_plan import QuickPlan
from grampus.core.clock import Clock
from grampus.core.units import format_bytes
from grampus.databases.model import DatabaseRecord
from grampus.hosts.port import Host
from grampus.state.runs import Setting

# Settings that decide what a commit, a read or a flush costs. Names that one flavour or
# version does not have are left out.
SERVER_SETTINGS = (
    "binlog_format",
    "innodb_buffer_pool_size",
    "innodb_doublewrite",
    "innodb_flush_log_at_trx_commit",
    "innodb_flush_method",
    "innodb_flush_neighbors",
    "innodb_io_capacity",
    "innodb_io_capacity_max",
    "innodb_log_buffer_size",
    "innodb_log_file_size",
    "innodb_page_size",
    "innodb_redo_log_capacity",
    "innodb_use_fdatasync",
    "log_bin",
    "max_connections",
    "performance_schema",
    "require_secure_transport",
    "sync_binlog",
    "transaction_isolation",
)
BUSY_WINDOW_S = 0.5
_STAT_FILE = PurePosixPath("/proc/stat")


def observe_machine(host: Host, *, with_sysbench: bool = True) -> list[Setting]:
    """CPU model, cores, memory, kernel, load and sysbench's version, as the host says.

    Without sysbench, which only loads on databases need, its version is left out.
    """
    cpuinfo = host.read_file(PurePosixPath("/proc/cpuinfo")) or ""
    memory = parse_memory(host.read_file(PurePosixPath("/proc/meminfo")) or "")
    times = parse_cpu_times(host.read_file(_STAT_FILE) or "")
    kernel = host.read_file(PurePosixPath("/proc/sys/kernel/osrelease"))
    load = (host.read_file(PurePosixPath("/proc/loadavg")) or "").split()
    sysbench = []
    if with_sysbench:
        said = host.run(["sysbench", "--version"]).stdout.strip()
        value = said.removeprefix("sysbench ")
        sysbench.append(Setting(group="versions", name="sysbench", value=value))
    return [
        Setting(group="machine", name="CPU", value=parse_cpu_model(cpuinfo)),
        Setting(group="machine", name="cores", value=str(times.cores) if times else "unknown"),
        Setting(
            group="machine",
            name="memory",
            value=format_bytes(memory.total_bytes) if memory else "unknown",
        ),
        Setting(
            group="machine",
            name="load average before the run",
            value=" ".join(load[:3]) or "unknown",
        ),
        Setting(group="versions", name="kernel", value=(kernel or "unknown").strip()),
        *sysbench,
        Setting(group="versions", name="grampus", value=version("grampus")),
    ]


def observe_busy_cores(host: Host, clock: Clock) -> tuple[float | None, int]:
    """Cores at work over half a second, and how many cores there are (1 when unknown)."""
    before = _read_cpu_times(host)
    clock.sleep(BUSY_WINDOW_S)
    after = _read_cpu_times(host)
    if before is None or after is None:
        return None, 1
    return busy_cores(before, after), after.cores


def observe_server_settings(client: ArmClient) -> dict[str, str]:
    """The instance's values of SERVER_SETTINGS, as far as it knows them."""
    names = ", ".join(f"'{name}'" for name in SERVER_SETTINGS)
    rows = client.query(f"show global variables where variable_name in ({names});\n")
    return {row[0]: row[1] if len(row) > 1 else "" for row in rows}


def describe_database(record: DatabaseRecord) -> list[Setting]:
    """The database's version, size and limits."""
    spec = record.spec
    return [
        Setting(group="versions", name=spec.flavour, value=record.server_version),
        Setting(group="database", name="name", value=spec.name),
        Setting(group="database", name="size", value=format_bytes(spec.size_bytes)),
        Setting(group="database", name="memory", value=format_bytes(spec.memory_bytes)),
        Setting(group="database", name="CPUs", value=f"{spec.cpus:g}"),
        Setting(group="database", name="buffer pool", value=format_bytes(record.buffer_pool_bytes)),
        Setting(group="database", name="pool", value=spec.pool),
        Setting(group="database", name="host", value=spec.host),
    ]


def describe_plan(plan: QuickPlan) -> list[Setting]:
    """The load: data set, threads and distribution."""
    order = ", ".join(f"{cell.workload.name} on {cell.arm}" for cell in plan.cells)
    return [
        Setting(group="load", name="driver", value="sysbench OLTP, closed loop"),
        Setting(group="load", name="threads", value=str(plan.threads)),
        Setting(
            group="load",
            name="data set",
            value=f"{plan.tables} tables x {plan.rows_per_table:,} rows, "
            f"about {format_bytes(plan.dataset_bytes)}",
        ),
        Setting(group="load", name="distribution", value=plan.distribution),
        Setting(group="load", name="order", value=order),
    ]


def describe_server_settings(settings: Mapping[str, str]) -> list[Setting]:
    """The server's settings, sorted by name."""
    return [
        Setting(group="server settings", name=name, value=value)
        for name, value in sorted(settings.items())
    ]


def decide_facts(*sources: Iterable[Setting]) -> tuple[Setting, ...]:
    """All settings, each (group, name) once: the source named first wins."""
    kept: dict[tuple[str, str], Setting] = {}
    for source in sources:
        for setting in source:
            kept.setdefault((setting.group, setting.name), setting)
    return tuple(kept.values())


def parse_cpu_model(cpuinfo: str) -> str:
    """The CPU's name in the text of /proc/cpuinfo; ARM kernels give none: `unknown`."""
    for line in cpuinfo.splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return "unknown"


def _read_cpu_times(host: Host) -> CpuTimes | None:
    return parse_cpu_times(host.read_file(_STAT_FILE) or "")
