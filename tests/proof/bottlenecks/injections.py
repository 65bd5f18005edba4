"""Layers of a lab that are made slow while a load generator runs."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from grampus.hosts.cgroups import Cgroups, is_cgroup_v2
from tests.system.administrator import administrator_client
from tests.system.command_line import CommandLine

HOSTS = ("h1", "h2", "h3")
OSDS = ("osd-0", "osd-1", "osd-2")
POLL_S = 0.1
# Cores of each control group. The OSDs have one each, the others one for the whole load.
OSD_CORES, SERVER_CORES, DRIVER_CORES, CLIENT_CORES = 0.1, 0.1, 0.04, 0.03
DISK_IOPS, FAST_IOPS = 80, 90_000
LINK_RATE = "12mbit"
# What other programs take of each core, in turns of so long. With the usual priority they took a
# fifth of what their weight was worth: the scheduler favours daemons that sleep often.
BURNT_SHARE, TURN_S = 0.7, 0.01
# They end by themselves, too, should nobody end them.
_BURN = f"""
import os, sys, time
os.sched_setaffinity(0, {{int(sys.argv[1])}})
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
end = time.monotonic() + 120
while (began := time.monotonic()) < end:
    while time.monotonic() < began + {BURNT_SHARE * TURN_S}: pass
    time.sleep({(1 - BURNT_SHARE) * TURN_S})
"""
# A fifth of the rows of each table, over and over, for longer than a trial. Each thread makes a few
# operations between two locks.
_TABLES = range(1, 5)
_HOLD_LOCKS = (
    "".join(
        f"set @last{number} = (select max(id) / 5 from sbtest.sbtest{number});\n"
        for number in _TABLES
    )
    + (
        "begin; "
        + "".join(
            f"select count(*) from sbtest.sbtest{number} where id <= @last{number} for update; "
            for number in _TABLES
        )
        + "do sleep(0.5); rollback;\n"
    )
    * 150
)


@dataclass(frozen=True)
class Injection:
    """What makes a layer slow, and what ends that; both may be called again and again."""

    layer: str
    says: str
    begin: Callable[[], None]
    end: Callable[[], None]


@contextmanager
def while_loaded(injection: Injection) -> Iterator[None]:
    """The layer is slow while sysbench or fio runs on this machine, in the block."""
    stopping = threading.Event()

    def follow() -> None:
        is_slow = False
        try:
            while not stopping.is_set():
                if is_load_running() != is_slow:
                    is_slow = not is_slow
                    (injection.begin if is_slow else injection.end)()
                stopping.wait(POLL_S)
        finally:
            injection.end()

    with ThreadPoolExecutor(1, thread_name_prefix=f"inject-{injection.layer}") as pool:
        following = pool.submit(follow)
        try:
            yield
        finally:
            stopping.set()
        following.result()


def is_load_running() -> bool:
    """Whether a load generator is at its work on this machine; filling tables is none."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            words = path.read_bytes().split(b"\0")
            name = words[0].rpartition(b"/")[2]
            if (name == b"sysbench" and b"run" in words) or (name == b"fio" and len(words) > 2):
                return True
    return False


def injections(lab: CommandLine) -> list[Injection]:
    """One for each layer. All act on that lab alone, but for the burners."""
    return [
        _quota(lab, "osd-cpu", "osd-*", OSD_CORES, "each OSD"),
        Injection(
            "osd-device",
            f"`lab fault slow-disk` with {DISK_IOPS} reads and {DISK_IOPS} writes a second on all "
            "OSDs",
            lambda: _slow_disks(lab, DISK_IOPS),
            lambda: _slow_disks(lab, FAST_IOPS),
        ),
        _quota(lab, "volume", "volumed-*", DRIVER_CORES, "each volumed"),
        _quota(lab, "server-cpu", "mysqld-*", SERVER_CORES, "each mysqld"),
        _quota(lab, "client", "host", CLIENT_CORES, "the load generators of each host"),
        Injection(
            "network",
            f"a token bucket of {LINK_RATE} on the link to each host",
            lambda: _limit_links(lab, "replace"),
            lambda: _limit_links(lab, "del"),
        ),
        _burners(),
        _locks(lab),
    ]


def _quota(lab: CommandLine, layer: str, daemons: str, cores: float, whose: str) -> Injection:
    groups = Cgroups(f"/grampus/{lab.tag}")

    def limit(cores: float | None) -> None:
        root = Path("/sys/fs/cgroup", *([] if is_cgroup_v2() else ["cpu"]), "grampus", lab.tag)
        for path in sorted(root.glob(f"*/{daemons}")):
            groups.set_cpu_quota(str(path.relative_to(root)), cores)

    says = f"a CPU limit of {cores:g} cores for {whose}"
    return Injection(layer, says, lambda: limit(cores), lambda: limit(None))


def _slow_disks(lab: CommandLine, iops: int) -> None:
    for osd in OSDS:
        lab.ok("lab", "fault", "slow-disk", osd, "--iops", str(iops))


def _limit_links(lab: CommandLine, action: str) -> None:
    listed = subprocess.run(["ip", "-br", "link"], capture_output=True, text=True, check=True)
    names = [line.split("@")[0] for line in listed.stdout.splitlines() if "@" in line.split()[0]]
    for link in [name for name in names if name.startswith(f"gr-{lab.tag}-")]:
        rule = ["tbf", "rate", LINK_RATE, "burst", "16kb", "latency", "400ms"]
        argv = ["tc", "qdisc", action, "dev", link, "root", *(rule if action != "del" else [])]
        # Without a limit there is none to remove.
        subprocess.run(argv, capture_output=True, check=action != "del")


def _burners() -> Injection:
    running: list[subprocess.Popen[bytes]] = []
    cores = sorted(os.sched_getaffinity(0))

    def begin() -> None:
        running.extend(subprocess.Popen([sys.executable, "-c", _BURN, str(one)]) for one in cores)

    def end() -> None:
        while running:
            process = running.pop()
            process.kill()
            process.wait()

    says = f"a program on each core that takes {BURNT_SHARE:.0%} of it, before all others"
    return Injection("machine", says, begin, end)


def _locks(lab: CommandLine) -> Injection:
    running: list[subprocess.Popen[str]] = []

    def begin() -> None:
        for database in lab.json("db", "list")["databases"]:
            argv, options = administrator_client(lab, database["name"], _HOLD_LOCKS)
            # A suite has as many tables as its data need.
            process = subprocess.Popen(
                [*argv, "--force"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
            )
            assert process.stdin is not None
            process.stdin.write(options)
            process.stdin.close()
            running.append(process)

    def end() -> None:
        while running:
            process = running.pop()
            # Which runc passes on to the client.
            process.terminate()
            process.wait()

    return Injection(
        "innodb", "a session that locks a fifth of the rows, over and over", begin, end
    )
