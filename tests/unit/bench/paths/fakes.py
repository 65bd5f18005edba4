"""A host on which fio and volumed are played, and volumes that remember what was asked of them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from grampus.bench.paths.paths_ports import PathsPorts
from grampus.core.errors import GrampusError, RefusedError
from grampus.databases.instance import AWAIT_LISTENING
from grampus.hosts.loop_scripts import DETACH_LOOPS, LIST_LOOPS
from grampus.hosts.port import DaemonSpec, Usage
from grampus.state.home import Home
from grampus.state.runs import Setting
from grampus.state.store import Store
from grampus.volumes.drivers.volumed import VolumedProgram
from grampus.volumes.live import JournalStatus, LiveVolume
from grampus.volumes.model import (
    Attachment,
    DriverName,
    TransportName,
    VolumeRecord,
    VolumeSpec,
    WritePath,
)
from tests.fakes.clock import FakeClock
from tests.fakes.hosts import FakeDaemon, FakeFleet
from tests.fakes.progress import RecordedProgress
from tests.fakes.sysbench_host import MIB, SysbenchHost

# Latency in microseconds of one I/O, by what stands in the file name or the engine.
LATENCY_US = {
    "rbd": 300.0,
    "volumed-uring": 320.0,
    "volumed-classic": 360.0,
    "qsd": 1200.0,
    "direct": 400.0,
    "journal": 200.0,
    "cache": 50.0,
    "local": 40.0,
    "memory-uring": 5.0,
    "memory-classic": 15.0,
}


class PathsHost(SysbenchHost):
    """fio takes the time that it is asked to; its latency depends on what is attached."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock=clock)
        self.way = "rbd"
        self.started: list[DaemonSpec] = []
        self.mounted: set[str] = set()
        self.loops: dict[str, tuple[str, str]] = {}  # device and reference by backing file
        self.disk_is_full = False
        self.removed: list[str] = []
        self.fio_jobs: list[tuple[str, str, str]] = []  # way, file name, text
        self.failing: Callable[[str, str], str | None] = lambda way, name: None
        self.interrupt_at: str | None = None
        self.put("/proc/stat", "cpu  10 0 10 1000 0 0 0 0\ncpu0 10 0 10 1000 0 0 0 0\n")

    def play(self, argv: list[str], stdin: str | None, daemon: str | None) -> tuple[int, str]:
        program = PurePosixPath(argv[0]).name
        if argv[-1] == "--version":
            return 0, f"{program} 1.0\n"
        if "fio" in argv:
            assert daemon == "bench-load"
            assert daemon in self.daemons
            return self._fio(argv[-1])
        if argv[:1] == ["cat"]:
            return 0, "[global]\nfsid = 1\n"
        if program == "findmnt":
            return (0, "/dev/loop9\n") if argv[-1] in self.mounted else (1, "")
        if program == "stat":
            return 0, str(256 * MIB)
        if argv[-1].endswith("/queue/write_cache"):
            return 0, "write back\n"
        if program == "losetup":
            return 0, self._losetup(argv)
        if DETACH_LOOPS in argv:
            devices = argv[3::2]
            self.loops = {file: dev for file, dev in self.loops.items() if dev[0] not in devices}
            return 0, ""
        if LIST_LOOPS in argv:
            return 0, self._list_loops(argv[-1])
        if program == "mount":
            self.mounted.add(argv[-1])
            self.way = "local"
            return 0, ""
        if program == "umount" and argv[-1].endswith("/local/mounted"):
            self.mounted.remove(argv[-1])
            self.way = "rbd"
            return 0, ""
        if program == "fallocate" and self.disk_is_full:
            return 1, "fallocate: No space left on device"
        if program == "rm":
            self.removed.append(argv[-1])
            return 0, ""
        if program in ("mkdir", "touch", "umount", "sync", "fallocate", "mkfs.xfs"):
            return 0, ""
        if program == "volumed" and argv[1] == "ctl":
            transport = {"name": self.way.removeprefix("memory-"), "reason": "asked for"}
            return 0, json.dumps({"state": "running", "transport": transport})
        if AWAIT_LISTENING in argv:
            return 0, ""  # a server listens as soon as it runs
        raise AssertionError(f"unexpected command {argv}")

    def _list_loops(self, where: str) -> str:
        devices = [
            {"name": device, "ref": reference, "back-file": file}
            for file, (device, reference) in self.loops.items()
            if file == where
        ]
        return json.dumps({"loopdevices": devices})

    def _losetup(self, argv: list[str]) -> str:
        (reference,) = (word.partition("=")[2] for word in argv if word.startswith("--loop-ref="))
        device = f"/dev/loop{9 + len(self.loops)}"
        self.loops[argv[-1]] = (device, reference)
        return f"{device}\n"

    def _fio(self, job_file: str) -> tuple[int, str]:
        text, name = self.text(job_file), PurePosixPath(job_file).stem
        self.fio_jobs.append((self.way, name, text))
        if self.interrupt_at == name:
            raise KeyboardInterrupt
        failure = self.failing(self.way, name)
        if failure is not None:
            return 1, failure
        jobs = []
        for section in re.split(r"^\[", text, flags=re.MULTILINE)[2:]:
            job = section.partition("]")[0]
            found = re.search(r"runtime=(\d+)ms", section)
            runtime_s = float(found[1]) / 1000 if found else 1.0
            jobs.append(self._job(job, runtime_s, "rw=rand" in section))
            assert self.clock is not None
            self.clock.sleep(runtime_s + 0.4)
        return 0, json.dumps({"jobs": jobs})

    def _job(self, name: str, runtime_s: float, random: bool) -> dict[str, object]:
        assert self.clock is not None
        latency_us = LATENCY_US[self.way]
        operations = int(runtime_s * 1e6 / latency_us)
        latency = {
            "N": operations,
            "min": int(latency_us * 1000),
            "max": int(latency_us * 1000),
            "mean": latency_us * 1000,
            "bins": {str(int(latency_us * 1000)): operations},
        }
        side = {
            "total_ios": operations,
            "runtime": runtime_s * 1000,
            "io_bytes": operations * 16384,
            "lat_ns": latency,
        }
        other = {"total_ios": 0, "runtime": 0}
        return {
            "jobname": name,
            "error": 0,
            "job_start": self.clock.now().timestamp() * 1000,
            "read": side if random else other,
            "write": other if random else side,
            "sync": {"lat_ns": latency},
        }

    def start(self, spec: DaemonSpec) -> FakeDaemon:
        self.started.append(spec)
        if spec.name == "bench-memory":
            self.way = f"memory-{spec.argv[spec.argv.index('--transport') + 1]}"
            self.mounted.add(spec.argv[spec.argv.index("--mountpoint") + 1])
        return FakeDaemon(spec)

    def stop(self, name: str, *, kill: bool) -> None:
        if name == "bench-memory":
            self.mounted = {path for path in self.mounted if "/bench/" not in path}
            self.way = "rbd"

    def observe_usage(self) -> dict[str, Usage]:
        assert self.clock is not None
        used = Usage(int(self.clock.monotonic_s() * 1e6), 0, 0, 0, 0, 0)
        of_volumes = ("volumed-bench-paths", "volumed-bench-paths-log", "qsd-bench-paths")
        names = [*self.daemons, *of_volumes, "osd-0"]
        return dict.fromkeys(names, used)


def journal_status(*, busy: bool, **changed: object) -> JournalStatus:
    values: dict[str, object] = {
        "state": "running",
        "epoch": 1,
        "fill_ratio": 0.5,
        "held_bytes": 64 * MIB if busy else 0,
        "used_bytes": 0,
        "capacity_bytes": 256 * MIB,
        "lag_bytes": 0,
        "lag_ms": 0.0,
        "freed_bytes_per_s": 0.0,
        "sealed": 9,
        "replicated": 9,
        "applied": 5 if busy else 9,
        "trimmed": 5,
    }
    return JournalStatus.model_validate(values | changed)


class FakePathsVolumes:
    """Volumes, one of which may be attached, as asked unless that way is `broken`."""

    def __init__(self, host: PathsHost) -> None:
        self._host = host
        self.records: dict[str, VolumeRecord] = {}
        self.made: list[VolumeSpec] = []
        self.deleted: list[str] = []
        self.broken: dict[str, GrampusError] = {}
        self.attached_by: list[str] = []
        self.busy_answers = 0  # as often as that a journal still holds something

    def find(self, name: str) -> VolumeRecord | None:
        return self.records.get(name)

    def plan_create(self, name: str, pool: str, size_bytes: int) -> VolumeSpec:
        if name in self.records:
            raise RefusedError("There is one already.", code="exists")
        return VolumeSpec(name=name, pool=pool, image=name, size_bytes=size_bytes)

    def create(self, spec: VolumeSpec) -> VolumeRecord:
        self.made.append(spec)
        made = VolumeRecord(spec=spec, ceph_user=f"grampus.dev.{spec.name}")
        self.records[spec.name] = made
        return made

    def delete(self, name: str) -> None:
        self.ensure_detached(name)
        self.deleted.append(name)
        del self.records[name]

    def ensure_attached(
        self,
        name: str,
        host: str,
        *,
        driver: DriverName | None = None,
        transport: TransportName | None = None,
    ) -> Attachment:
        record = self.records[name]
        attached = [one for one in self.records.values() if one.attachment is not None]
        assert not attached, "two measured at the same time"
        way = f"{driver}-{transport}" if transport else (driver or "qsd")
        if way == "volumed":
            way = record.spec.write_path
        if way in self.broken:
            raise self.broken[way]
        self.attached_by.append(way)
        self._host.way = way
        attachment = Attachment(
            host=host,
            driver=driver or "qsd",
            driver_reason="asked for",
            device="/dev/loop1",
            mount_path=f"/data/volumes/{name}",
            client_address=None,
            export_path=f"/data/exports/{name}/image",
            transport=transport,
        )
        changed = {"attachment": attachment, "host": host}
        self.records[name] = record.model_copy(update=changed)
        return attachment

    def ensure_detached(self, name: str) -> None:
        self._host.way = "rbd"
        if name in self.records:
            changed = {"attachment": None, "host": None}
            self.records[name] = self.records[name].model_copy(update=changed)

    def ensure_write_path(self, name: str, write_path: WritePath) -> VolumeRecord:
        record = self.records[name]
        assert record.attachment is None, "settled when it is attached"
        spec = record.spec.model_copy(update={"write_path": write_path})
        self.records[name] = record.model_copy(update={"spec": spec})
        return self.records[name]

    def observe_live(self, name: str) -> LiveVolume | None:
        record = self.records[name]
        assert record.attachment is not None
        if record.spec.write_path == "direct":
            return LiveVolume(state="running")
        self.busy_answers -= 1
        return LiveVolume(state="running", journal=journal_status(busy=self.busy_answers >= 0))

    def driver_daemon(self, record: VolumeRecord) -> str | None:
        return f"{record.attachment.driver}-{record.spec.name}" if record.attachment else None


class FakePathsCluster:
    def volume_pool(self) -> str:
        return "databases"

    def client_keyring(self, user: str) -> str:
        return f"[client.{user}]\n\tkey = SECRETKEY\n"

    def facts(self) -> list[Setting]:
        return [Setting(group="Ceph", name="version", value="20.2.4")]

    def observe_writes(self) -> dict[int, int]:
        return {}


class NoServerImage:
    def image_for(self, flavour: str) -> str | None:
        raise GrampusError(f"No host image holds a {flavour} server.", "Add one.")


class PathsWorld:
    """Everything that a run works with."""

    def __init__(self, root: Path) -> None:
        self.clock = FakeClock()
        self.host = PathsHost(self.clock)
        self.volumes = FakePathsVolumes(self.host)
        self.progress = RecordedProgress()
        self.home = Home(root)
        self.store = Store(None)
        self.fleet = FakeFleet([self.host])
        program = root / "volumed"
        program.write_text("program")
        self.program = VolumedProgram(program)

    def ports(self) -> PathsPorts:
        return PathsPorts(
            home=self.home,
            lab="dev",
            tag="tag",
            store=self.store,
            fleet=self.fleet,
            volumes=self.volumes,
            cluster=FakePathsCluster(),
            images=NoServerImage(),
            program=self.program,
            clock=self.clock,
            progress=self.progress,
        )
