"""Control groups of daemons: reading their counters and removing what is left of them.

Both layouts are handled: version 2 (one tree) and version 1 or hybrid (one tree a controller).
Sources: kernel documentation, admin-guide/cgroup-v2.rst and cgroup-v1/.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

from grampus.core.clock import Clock, wait_until
from grampus.hosts.port import BlockLimit, CpuWait, Usage

CGROUP_ROOT = Path("/sys/fs/cgroup")
PROC = Path("/proc")
CPU_PERIOD_US = 100_000


def parse_v1_blkio(text: str) -> tuple[int, int]:
    """(reads, writes) summed over devices from `blkio.throttle.io_serviced` or `_service_bytes`."""
    reads = writes = 0
    for line in text.splitlines():
        match line.split():
            case [_, "Read", count]:
                reads += int(count)
            case [_, "Write", count]:
                writes += int(count)
            case _:
                continue
    return reads, writes


def parse_v2_io_stat(text: str) -> dict[str, int]:
    """Sums over devices of `rbytes`, `wbytes`, `rios` and `wios` from `io.stat`."""
    totals = dict.fromkeys(("rbytes", "wbytes", "rios", "wios"), 0)
    for line in text.splitlines():
        for field in line.split()[1:]:
            key, _, value = field.partition("=")
            if key in totals:
                totals[key] += int(value)
    return totals


def parse_key_values(text: str) -> dict[str, int]:
    """`key value` lines, as in `cpu.stat`."""
    pairs = (line.split() for line in text.splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}


def is_cgroup_v2(root: Path = CGROUP_ROOT) -> bool:
    """Whether this machine has the unified control groups; otherwise the older ones."""
    return (root / "cgroup.controllers").exists()


class Cgroups:
    """The control groups below one path, such as `/grampus/3f2a`."""

    def __init__(
        self,
        path: str,
        *,
        root: Path = CGROUP_ROOT,
        proc: Path = PROC,
        kill: Callable[[int, int], None] = os.kill,
    ) -> None:
        self._path = path.strip("/")
        self._root = root
        self._proc = proc
        self._kill = kill
        self._is_v2 = is_cgroup_v2(root)

    def observe_usage(self, relative: str) -> Usage | None:
        """Counters of the group `relative` to our path, or None when it does not exist."""
        try:
            return self._read_v2(relative) if self._is_v2 else self._read_v1(relative)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            # A group that is removed while it is read answers ENODEV.
            if error.errno == errno.ENODEV:
                return None
            raise

    def observe_cpu_wait(self, relative: str) -> CpuWait | None:
        """Of the group's present threads, but none of groups below; None without the group, or when
        the kernel does not count what a thread waits.

        Source: kernel documentation, scheduler/sched-stats.rst (`/proc/PID/schedstat`, in ns) and
        scheduler/sched-bwc.rst (`throttled_time` in ns, `throttled_usec`). A thread that waits for
        its group's quota is counted as waiting, too.
        """
        group = self._cpu_group(relative)
        try:
            threads = (group / ("cgroup.threads" if self._is_v2 else "tasks")).read_text().split()
            counts = parse_key_values((group / "cpu.stat").read_text())
        except OSError:  # no such group, or one that is being removed (ENODEV)
            return None
        waited_ns = [wait for one in threads if (wait := _waited_ns(self._proc, one)) is not None]
        if threads and not waited_ns:
            return None
        throttled_us = counts.get("throttled_usec", counts.get("throttled_time", 0) // 1000)
        return CpuWait(sum(waited_ns) // 1000, throttled_us)

    def observe_out_of_memory(self, relative: str) -> int:
        """Processes of the group that the kernel ended for its memory limit; 0 without the group.

        Counted while the group is there, which is longer than its processes are.
        """
        group = self._root if self._is_v2 else self._root / "memory"
        file = "memory.events" if self._is_v2 else "memory.oom_control"
        try:
            counts = parse_key_values((group / self._path / relative / file).read_text())
        except OSError:  # no such group, or one that is being removed (ENODEV)
            return 0
        return counts.get("oom_kill", 0)

    def observe_cpu_quota(self, relative: str) -> float | None:
        """Cores that the group `relative` to our path may use; None: no limit, or no such group."""
        quota_us, period_us = self._read_cpu_quota(self._cpu_group(relative))
        return None if quota_us < 0 or period_us <= 0 else quota_us / period_us

    def set_cpu_quota(self, relative: str, cores: float | None) -> None:
        """Limit the group, with all below it; None: no limit. Nothing happens without it.

        Raises OSError (EINVAL) in version 1 for more than the group above may use, or less than
        one below it.
        """
        group = self._cpu_group(relative)
        quota_us = None if cores is None else max(1000, int(cores * CPU_PERIOD_US))
        with contextlib.suppress(FileNotFoundError):
            if self._is_v2:
                limit = "max" if quota_us is None else str(quota_us)
                _overwrite(group / "cpu.max", f"{limit} {CPU_PERIOD_US}")
                return
            if quota_us is not None:
                _overwrite(group / "cpu.cfs_period_us", str(CPU_PERIOD_US))
            _overwrite(group / "cpu.cfs_quota_us", str(-1 if quota_us is None else quota_us))

    def set_block_limit(self, relative: str, number: str, limit: BlockLimit) -> None:
        """Limit what the group does on a block device (`MAJOR:MINOR`); None: no limit.

        Nothing happens without the group.
        """
        with contextlib.suppress(FileNotFoundError):
            if self._is_v2:
                rates = {
                    "riops": limit.read_iops,
                    "wiops": limit.write_iops,
                    "rbps": limit.read_bytes_per_s,
                    "wbps": limit.write_bytes_per_s,
                }
                words = (f"{key}={'max' if rate is None else rate}" for key, rate in rates.items())
                file = self._root / self._path / relative / "io.max"
                _overwrite(file, " ".join((number, *words)))
                return
            for name, rate in (
                ("read_iops", limit.read_iops),
                ("write_iops", limit.write_iops),
                ("read_bps", limit.read_bytes_per_s),
                ("write_bps", limit.write_bytes_per_s),
            ):
                file = self._root / "blkio" / self._path / relative
                # 0 takes the rule away.
                _overwrite(file / f"blkio.throttle.{name}_device", f"{number} {rate or 0}")

    def _cpu_group(self, relative: str) -> Path:
        top = self._root / self._path if self._is_v2 else self._root / "cpu" / self._path
        return top / relative if relative else top

    def _read_cpu_quota(self, group: Path) -> tuple[int, int]:
        """(quota, period) in microseconds; a quota of -1 is no limit."""
        try:
            if self._is_v2:
                limit, period = (group / "cpu.max").read_text().split()
                return -1 if limit == "max" else int(limit), int(period)
            quota = int((group / "cpu.cfs_quota_us").read_text())
            return quota, int((group / "cpu.cfs_period_us").read_text())
        except (FileNotFoundError, NotADirectoryError):
            return -1, 0

    def pids(self) -> set[int]:
        """Processes in any group below our path."""
        found: set[int] = set()
        for directory in self._directories():
            try:
                found.update(map(int, (directory / "cgroup.procs").read_text().split()))
            except OSError:
                continue  # removed meanwhile
        return found

    def ensure_ended(self, clock: Clock, *, timeout_s: float = 30.0) -> None:
        """Kill what is left in our groups and remove these, the parent excepted.

        Raises GrampusError with code `timeout` when a process does not end.
        """
        wait_until(
            clock,
            self._kill_and_remove,
            what=f"the processes in the control group {self._path} to end",
            remedy="A process that does not end waits in the kernel. `ps` shows it in state D.",
            timeout_s=timeout_s,
            interval_s=0.05,
        )

    def _kill_and_remove(self) -> bool:
        for pid in self.pids():
            with contextlib.suppress(ProcessLookupError):
                self._kill(pid, signal.SIGKILL)
        is_removed = True
        for directory in self._directories():
            try:
                directory.rmdir()
            except FileNotFoundError:
                continue
            except OSError as error:
                if error.errno != errno.EBUSY:
                    raise
                is_removed = False  # a process has not quite ended yet
        return is_removed

    def ensure_absent(self, clock: Clock) -> None:
        """As `ensure_ended`, and remove the parent too when nobody else is in it."""
        self.ensure_ended(clock)
        parent = self._path.rpartition("/")[0]
        if parent:
            for tree in self._trees():
                try:
                    (tree / parent).rmdir()
                except OSError:
                    continue  # other labs still use it

    def _trees(self) -> list[Path]:
        if self._is_v2:
            return [self._root]
        return sorted(path for path in self._root.iterdir() if path.is_dir())

    def _directories(self) -> Iterator[Path]:
        """Every group, deepest first."""
        for tree in self._trees():
            top = tree / self._path
            if top.is_dir() and not tree.is_symlink():
                below = [path for path in top.rglob("*") if path.is_dir()]
                yield from sorted(below, key=lambda path: len(path.parts), reverse=True)
                yield top

    def _read_v2(self, relative: str) -> Usage:
        group = self._root / self._path / relative
        io_file = group / "io.stat"
        io = parse_v2_io_stat(io_file.read_text() if io_file.exists() else "")
        return Usage(
            cpu_us=parse_key_values((group / "cpu.stat").read_text())["usage_usec"],
            memory_bytes=int((group / "memory.current").read_text()),
            read_ops=io["rios"],
            write_ops=io["wios"],
            read_bytes=io["rbytes"],
            write_bytes=io["wbytes"],
        )

    def _read_v1(self, relative: str) -> Usage:
        below = f"{self._path}/{relative}"
        blkio = self._root / "blkio" / below
        read_ops, write_ops = parse_v1_blkio(_text(blkio / "blkio.throttle.io_serviced"))
        read_bytes, write_bytes = parse_v1_blkio(_text(blkio / "blkio.throttle.io_service_bytes"))
        cpu = self._root / "cpuacct" / below / "cpuacct.usage"
        memory = self._root / "memory" / below / "memory.usage_in_bytes"
        return Usage(
            cpu_us=int(cpu.read_text()) // 1000,
            memory_bytes=int(memory.read_text()),
            read_ops=read_ops,
            write_ops=write_ops,
            read_bytes=read_bytes,
            write_bytes=write_bytes,
        )


def _waited_ns(proc: Path, thread: str) -> int | None:
    """How long a thread was ready to run and did not; None: it has ended, or nobody counts it."""
    try:
        # Of hundreds of threads each second: a Path takes longer than the file.
        with open(f"{proc}/{thread}/schedstat", "rb") as file:  # noqa: PTH123
            return int(file.read().split()[1])
    except (OSError, ValueError, IndexError):
        return None


def _text(file: Path) -> str:
    return file.read_text() if file.exists() else ""


def _overwrite(file: Path, text: str) -> None:
    """Write to a file that the kernel made; none is made where there is none."""
    with file.open("r+") as stream:
        stream.write(text)
        stream.truncate()
