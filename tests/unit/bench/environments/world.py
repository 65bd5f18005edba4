"""A world for environments: databases, volumes, pools and a cluster in dicts, behind one fuse."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any

from grampus.bench.environments.environment_ports import EnvironmentPorts
from grampus.bench.environments.environment_records import BenchEnvironment
from grampus.bench.environments.monitors import Seen, Watch
from grampus.bench.environments.place import EnvironmentsPlace
from grampus.bench.matrix.capabilities import Capabilities
from grampus.bench.matrix.cells import Cell
from grampus.bench.matrix.dimensions import Point, canonical_point
from grampus.bench.measured_ports import IoDevice
from grampus.core.errors import GrampusError, RefusedError
from grampus.core.units import GIB, MIB
from grampus.databases.growth.decide_growth import FileSystem
from grampus.databases.model import DatabaseRecord, Endpoint
from grampus.state.matrix_layers import SeriesPoint
from grampus.state.runs import Setting
from grampus.state.store import Store
from grampus.volumes.model import Attachment, DriverName, VolumeRecord, VolumeSpec
from tests.fakes.clock import FakeClock
from tests.fakes.hosts import FakeFleet
from tests.fakes.interruption import Fuse
from tests.fakes.progress import RecordedProgress
from tests.fakes.specs import database_spec
from tests.fakes.sysbench_host import FakeCommand, FakeDevices, FakeServer, make_endpoint
from tests.unit.bench.drivers.recordings import recorded
from tests.unit.bench.environments.counting_host import CountingHost
from tests.unit.bench.environments.fake_guests import FakeEnvironmentGuests
from tests.unit.bench.environments.fake_hosts import QUOTAS, FakeLayout, FakeTuning
from tests.unit.bench.environments.osd_sets import FakeEnvironmentOsdSets

LAB = "dev"
TIMES = "0m0.001s 0m0.002s\n0m1.500s 0m0.500s\n"


def make_cell(
    *,
    dataset_bytes: int = 64 * MIB,
    tables: int = 2,
    block_bytes: int = 4 * MIB,
    **point: Any,
) -> Cell:
    """A cell of two seconds of warm-up and six of measuring."""
    asked = canonical_point(Point(**point))
    of_database = not asked.workload.startswith(("rados", "fio", "rbd"))
    return Cell(
        point=asked,
        warmup_s=2,
        measure_s=6,
        dataset_bytes=dataset_bytes,
        tables=tables if of_database else None,
        distribution="uniform" if of_database else None,
        block_bytes=None if of_database else block_bytes,
        versions=(),
    )


OSD_DEVICE = IoDevice("daemon", "osd-0", "h1", "/dev/loop3")


class EnvironmentHost(CountingHost):
    """Besides what a host of bench does: clients under their mark, files on volumes."""

    def __init__(self, name: str, fuse: Fuse, clock: FakeClock) -> None:
        super().__init__(name, clock=clock, fuse=fuse)
        self.sizes: dict[str, int] = {}  # files on volumes
        # What a client prints; by the program's name.
        self.plays: dict[str, Callable[[list[str]], FakeCommand]] = {
            "sysbench": self._play_sysbench,
            "rados": self._play_rados,
            "fio": self._play_fio,
            "rbd": self._play_rbd,
        }
        self.wrote: Callable[[str, int], None] = lambda _pool, _data_bytes: None
        self.clients: list[list[str]] = []
        self.asked_daemons: set[str | None] = set()  # in which commands were run
        self.ended_clients = 0
        self.dropped = 0  # how often its page cache was

    def play(self, argv: list[str], stdin: str | None, daemon: str | None) -> tuple[int, str]:
        with self.changing():
            self.asked_daemons.add(daemon)
            return self._play_here(argv) or super().play(argv, stdin, daemon)

    def _play_here(self, argv: list[str]) -> tuple[int, str] | None:
        done = (0, "")
        if argv[0] == "getconf":
            return 0, "2\n"
        if argv[:2] == ["sh", "-c"] and "drop_caches" in argv[2]:
            self.dropped += 1
            return done
        if argv[0] == "bash" and "end-clients" in argv:
            self.ended_clients += 1
            return done
        if argv[0] == "stat":
            size = self.sizes.get(argv[-1])
            return 0 if size else 1, f"{size}\n"
        if argv[0] == "dd":
            target = next(word[3:] for word in argv if word.startswith("of="))
            blocks = next(word[6:] for word in argv if word.startswith("count="))
            self.sizes[target] = int(blocks) * MIB
            return done
        if argv[0] == "mv":
            self.sizes[argv[-1]] = self.sizes.pop(argv[-2])
            return done
        return done if "rados" in argv else None

    def spawn(self, argv: Sequence[str], *, stdin: str | None = None) -> FakeCommand:
        self.fuse.burn()
        if "bench-client" not in argv:
            spawned = super().spawn(argv, stdin=stdin)
        else:
            command = list(argv)[list(argv).index("bench-client") + 1 :]
            self.clients.append(command)
            if self.clock is not None:
                self.clock.sleep(0.01)
            program = next(word for word in command if word in self.plays)
            spawned = self.plays[program](command)
        self.fuse.burn()
        return spawned

    def _play_sysbench(self, argv: list[str]) -> FakeCommand:
        lines = recorded("sysbench-1.0.20-oltp.txt").splitlines()
        return FakeCommand(argv, lines, stderr=TIMES)

    def _play_rados(self, argv: list[str]) -> FakeCommand:
        head, _, tail = recorded("rados-bench-20.txt").partition("    1 ")
        rows = [
            f"{n:5} 15 {900 * n + 15} {900 * n} 3599.1 3600 0.0165 0.0171" for n in range(1, 10)
        ]
        _, _, figures = tail.partition("Total time run:       3.01245\n")
        text = "\n".join([head.rstrip("\n"), *rows, "Total time run:       9.01245", figures])
        text = text.replace("2700", "8100")
        if "write" in argv:
            objects = [word for word in argv if word.startswith("--max-objects=")]
            if objects:
                self.wrote(option(argv, "pool"), int(objects[0].partition("=")[2]) * 4 * MIB)
            text = text.replace("Total reads made", "Total writes made").replace(
                "Read size", "Write size"
            )
            text = text.replace("hints = 1\n", "hints = 1\nObject prefix: benchmark_data_h1_42\n")
        return FakeCommand(argv, text.splitlines(), stderr=TIMES)

    def _play_rbd(self, argv: list[str]) -> FakeCommand:
        """1000 operations of 4 KiB a second, or 100 of 4 MiB."""
        io_bytes, total_bytes = int(option(argv, "io-size")), int(option(argv, "io-total"))
        rate = 1000 if io_bytes <= 4096 else 100
        operations = total_bytes // io_bytes
        lines = [
            f"bench  type read io_size {io_bytes} io_threads 8 bytes {total_bytes} pattern random",
            "  SEC       OPS   OPS/SEC   BYTES/SEC",
        ]
        for second in range(1, operations // rate + 1):
            lines.append(f"{second:5} {rate * second:9} {rate}.00    4 MiB/s")
        elapsed_s = round(operations / rate)
        lines.append(f"elapsed: {elapsed_s}   ops: {operations}   ops/sec: {rate}   bytes/sec: 4")
        return FakeCommand(argv, lines, stderr=TIMES)

    def _play_fio(self, argv: list[str]) -> FakeCommand:
        document = json.loads(recorded("fio-3.41.json")[recorded("fio-3.41.json").find("{") :])
        document["jobs"] = [{**document["jobs"][0], "jobname": "load"}]
        directory = PurePosixPath(argv[-1]).parent
        began_ms = int(document["jobs"][0]["job_start"])
        log = "".join(f"{began_ms + 1000 * second}, 100, 0, 0, 0, 0\n" for second in range(1, 8))
        self.put(directory / "log_iops.1.log", log)
        return FakeCommand(argv, json.dumps(document).splitlines(), stderr=TIMES)


class EnvironmentWorld:
    """All ports of a place, and what they stand for. State is kept over a killed process."""

    def __init__(self, directory: Path) -> None:
        self.fuse = Fuse()
        self.clock = FakeClock()
        self.store = Store(None)
        self.hosts = [EnvironmentHost(name, self.fuse, self.clock) for name in ("h1", "h2")]
        for host in self.hosts:
            host.wrote = lambda pool, data_bytes: self.osd_sets.written(pool, data_bytes)
        self.databases = FakeEnvironmentDatabases(self)
        self.guests = FakeEnvironmentGuests(self.fuse, self.hosts[0], self.databases.stopped)
        self.volumes = FakeEnvironmentVolumes(self)
        self.pools = FakeEnvironmentPools(self)
        self.osd_sets = FakeEnvironmentOsdSets(self)
        self.cluster = FakeEnvironmentCluster(self)
        self.devices = FakeDevices()
        self.tuning = FakeTuning(self.fuse)
        self.layout = FakeLayout(self.fuse)
        self.monitors = FakeMonitors()
        self.controllers: list[str] = []  # what was seen of those beside loads
        self.free_bytes = 100 * GIB
        self._directory = directory

    def close(self) -> None:
        self.store.close()

    @contextmanager
    def controller(self) -> Iterator[None]:
        """One that runs beside a load."""
        self.controllers.append("begun")
        yield
        self.controllers.append("ended")

    def place(self) -> EnvironmentsPlace:
        """That of a new process."""
        return EnvironmentsPlace(
            EnvironmentPorts(
                lab=LAB,
                place=f"lab {LAB}",
                store=self.store,
                fleet=FakeFleet(self.hosts),
                databases=self.databases,
                guests=self.guests,
                volumes=self.volumes,
                pools=self.pools,
                osd_sets=self.osd_sets,
                cluster=self.cluster,
                devices=self.devices,
                monitors=self.monitors,
                capabilities=lambda: Capabilities(place=f"lab {LAB}"),
                facts=lambda _: [Setting(group="versions", name="ceph", value="20.2.4")],
                disk_room=lambda: (250 * GIB, self.free_bytes),
                clock=self.clock,
                progress=RecordedProgress(),
                raw_dir=self._directory,
                tuning=self.tuning,
                layout=self.layout,
                controller=self.controller,
            ),
            shape_only=True,
        )

    @property
    def holds_nothing(self) -> bool:
        """Whether nothing is left for cells to stand on, in the state or anywhere."""
        kinds = ("bench-stand", "bench-pool", "bench-osd-set")
        return not (
            any(self.store.all(kind, LAB, BenchEnvironment) for kind in kinds)
            or self.databases.records
            or self.volumes.records
            or self.pools.pools != {"databases": 3}
            or self.osd_sets.sets
            or self.pools.codes
        )

    @property
    def is_empty(self) -> bool:
        """Whether nothing of a benchmark's is left, in the state or anywhere."""
        kinds = ("bench-quiet", "bench-profile", "bench-budget")
        return self.holds_nothing and not (
            any(self.store.all(kind, LAB, BenchEnvironment) for kind in kinds)
            or any(host.files or host.daemons for host in self.hosts)
            or not self.tuning.is_as_made
            or self.layout.quotas != QUOTAS
        )

    def add_device(self, device: IoDevice = OSD_DEVICE, *, reads: int = 0) -> None:
        """A block device of h1, read from so often between two looks at it."""
        self.devices.devices.append(device)
        for path in device.devices:
            self.hosts[0].busy[f"/sys/class/block/{PurePosixPath(path).name}/stat"] = reads


class FakeMonitors:
    """Sees what it is told to, and remembers what it was asked to watch."""

    def __init__(self) -> None:
        self.watches: list[Watch] = []
        self.points: list[SeriesPoint] = []
        self.gaps: list[str] = []

    @contextmanager
    def watching(self, watch: Watch) -> Iterator[Seen]:
        self.watches.append(watch)
        seen = Seen()
        yield seen
        seen.points.extend(self.points)
        seen.gaps.extend(self.gaps)


class FakeEnvironmentDatabases:
    """Databases by name, each with a server on h1 that keeps what it is told."""

    def __init__(self, world: EnvironmentWorld) -> None:
        self._world = world
        self.records: dict[str, DatabaseRecord] = {}
        self.cut_off: set[str] = set()  # made half
        self.variables: dict[str, dict[str, str]] = {}
        self.restarts: list[str] = []
        self.stopped: set[str] = set()
        self.failing: str | None = None
        self.drivers: dict[str, str] = {}  # of their volumes; the best where there is none
        # Free bytes of a volume at one look after the other; the last one stays.
        self.free_bytes: list[int] = [GIB]

    def settle(self, name: str) -> None:
        self.cut_off.discard(name)

    def find(self, name: str) -> DatabaseRecord | None:
        return self.records.get(name)

    def create(
        self,
        name: str,
        environment: BenchEnvironment,
        parameters: Mapping[str, str],
        *,
        host: str | None,
    ) -> None:
        if name in self.records:
            raise RefusedError(f"There is already a database named '{name}'.", code="name-taken")
        if name == self.failing:
            raise GrampusError(f"The server of {name} does not start.")
        assert name not in self.cut_off, "it is not settled"
        self.cut_off.add(name)
        self._world.fuse.burn()
        self.cut_off.discard(name)
        address = f"10.0.1.{len(self.records) + 1}"
        plan = environment.plan
        self.records[name] = DatabaseRecord(
            spec=database_spec(
                name=name,
                size_bytes=plan.size_bytes,
                memory_bytes=plan.memory_bytes,
                cpus=2.0,
                pool=environment.pool,
                host=host or "h1",
                address=address,
                server_id=1,
                write_path=plan.write_path,
                parameters=dict(parameters),
                runtime="bare" if plan.runtime == "bare" else "container",
            ),
            user="demo",
            server_version="9.7.4",
            buffer_pool_bytes=32 * MIB,
            created_at=datetime(2026, 1, 1, tzinfo=UTC),
            started_parameters=dict(parameters),
        )
        self._world.hosts[0].servers[address] = FakeServer(require_tls=False)
        self.variables[name] = {
            "innodb_buffer_pool_size": str(32 * MIB),
            "innodb_flush_log_at_trx_commit": "1",
            "sync_binlog": "1",
        }
        self._world.fuse.burn()

    def ensure_running(self, name: str) -> None:
        assert name not in self._world.guests.running, "two servers would have its image open"
        self._world.fuse.burn()
        self.stopped.discard(name)

    def ensure_driver(self, name: str, driver: DriverName) -> None:
        if self.drivers.get(name) == driver:
            return
        self.stopped.add(name)
        self._world.fuse.burn()
        self.drivers[name] = driver
        self._world.fuse.burn()
        self.stopped.discard(name)

    def ensure_stopped(self, name: str) -> None:
        self._world.fuse.burn()
        self.stopped.add(name)
        self._world.fuse.burn()

    def endpoint(self, name: str) -> Endpoint:
        return make_endpoint(self.records[name].spec.address, f"mysqld-{name}")

    def observe_variables(self, name: str, names: tuple[str, ...]) -> dict[str, str]:
        if name in self.stopped:
            raise GrampusError(f"The server of {name} does not answer.")
        return {variable: self.variables[name][variable] for variable in names}

    def record_parameters(self, name: str, parameters: Mapping[str, str]) -> None:
        record = self.records[name]
        spec = record.spec.model_copy(update={"parameters": dict(parameters)})
        self.records[name] = record.model_copy(update={"spec": spec})

    def set_live(self, name: str, values: Mapping[str, str]) -> None:
        self.variables[name] |= values

    def restart(self, name: str) -> None:
        self.restarts.append(name)
        record = self.records[name]
        started = {"started_parameters": record.spec.parameters}
        self.records[name] = record.model_copy(update=started)
        self.variables[name] |= {
            key: value
            for key, value in record.spec.parameters.items()
            if key in self.variables[name]
        }

    def observe_rooms(self, names: Sequence[str]) -> Mapping[str, FileSystem]:
        free_bytes = self.free_bytes.pop(0) if len(self.free_bytes) > 1 else self.free_bytes[0]
        return {name: FileSystem(2 * GIB, free_bytes) for name in names if name in self.records}

    def ensure_absent(self, name: str) -> None:
        assert name not in self._world.guests.running, "its image is open"
        self._world.fuse.burn()
        self.cut_off.discard(name)
        self.stopped.discard(name)
        self.records.pop(name, None)
        self._world.fuse.burn()


class FakeEnvironmentVolumes:
    def __init__(self, world: EnvironmentWorld) -> None:
        self._world = world
        self.records: dict[str, VolumeRecord] = {}
        self.drivers: dict[str, DriverName | None] = {}
        self.error: OSError | None = None  # when one is made

    def find(self, name: str) -> VolumeRecord | None:
        return self.records.get(name)

    def create(self, name: str, environment: BenchEnvironment) -> None:
        self._world.fuse.burn()
        if self.error is not None:
            raise self.error
        self.records[name] = VolumeRecord(
            spec=VolumeSpec(
                name=name,
                pool=environment.pool,
                image=name if environment.plan.in_default_namespace else f"{name}.1/{name}",
                size_bytes=environment.plan.size_bytes,
                write_path=environment.plan.write_path,
            ),
            ceph_user=f"grampus.{name}",
        )
        self._world.fuse.burn()

    def ensure_attached(self, name: str, host: str, driver: DriverName | None) -> Attachment:
        self._world.fuse.burn()
        assert self.drivers.setdefault(name, driver) == driver, "it is attached through another"
        return Attachment(
            host=host,
            driver=driver or "krbd",
            driver_reason="it is there",
            device="/dev/rbd0",
            mount_path=f"/mnt/{name}",
            client_address=None,
        )

    def ensure_absent(self, name: str) -> None:
        self._world.fuse.burn()
        self.records.pop(name, None)
        for host in self._world.hosts:
            host.sizes = {
                file: size for file, size in host.sizes.items() if f"/{name}/" not in file
            }


class FakeEnvironmentPools:
    def __init__(self, world: EnvironmentWorld) -> None:
        self._world = world
        self.pools = {"databases": 3}  # copies by name
        self.on: dict[str, str | None] = {}  # OSD set by name
        self.codes: dict[str, str] = {}  # of their data, which are in pools beside them

    def named(self, environment: str) -> str:
        return environment

    def pool_of(self, copies: int, *, osd_set: str | None, erasure_code: str) -> str:
        pool = "databases" if copies == 3 else f"databases-{copies}-copies"
        pool = pool if osd_set is None else f"{osd_set}-{copies}-copies"
        return pool if erasure_code == "none" else f"{pool}-{erasure_code}"

    def is_there(self, pool: str) -> bool:
        return pool in self.pools or pool in self.codes

    def ensure(self, pool: str, copies: int, *, osd_set: str | None, erasure_code: str) -> None:
        assert osd_set is None or osd_set in self._world.osd_sets.sets, "no OSDs to be on"
        if erasure_code != "none":
            self._world.fuse.burn()
            self.codes[pool] = erasure_code
        self._world.fuse.burn()
        self.pools[pool], self.on[pool] = copies, osd_set
        self._world.fuse.burn()

    def ensure_unused_absent(self, pool: str) -> None:
        assert pool != "databases"
        self._world.fuse.burn()
        self.pools.pop(pool, None)
        self._world.fuse.burn()
        self.codes.pop(pool, None)

    def ensure_absent(self, pool: str) -> None:
        self.ensure_unused_absent(pool)


class FakeEnvironmentCluster:
    """What `ceph` changes of scrubs, balancer and pools."""

    def __init__(self, world: EnvironmentWorld) -> None:
        self._world = world
        self.flags = {"sortbitwise", "noscrub"}
        self.balancer = True
        self.config: dict[tuple[str, str], str] = {}
        self.scaling = {"databases": "off", ".mgr": "on"}
        self.status: dict[str, Any] = {
            "health": {"status": "HEALTH_OK", "checks": {}},
            "pgmap": {"pgs_by_state": [{"state_name": "active+clean", "count": 33}]},
        }
        self.error: GrampusError | None = None
        self.dropped = 0  # how often the OSDs' caches were
        # Since when each OSD is up, one map after the other; the last one stays.
        self.osd_maps: list[dict[int, int]] = [{0: 5, 1: 9, 2: 12}]

    def ceph(self, *arguments: str) -> object:
        self._world.fuse.burn()
        match arguments:
            case ("osd", "set", flag):
                self.flags.add(flag)
            case ("osd", "unset", flag):
                self.flags.discard(flag)
            case ("balancer", switch):
                self.balancer = switch == "on"
                self.config["mgr", "mgr/balancer/active"] = str(self.balancer).lower()
            case ("config", "rm", section, name):
                self.config.pop((section, name), None)
            case ("osd", "pool", "set", pool, "pg_autoscale_mode", mode):
                assert pool in self.scaling
                self.scaling[pool] = mode
            case ("tell", "osd.*", "cache", "drop"):
                self.dropped += 1
            case _:
                raise AssertionError(f"unexpected: ceph {arguments}")
        self._world.fuse.burn()
        return None

    def query(self, *arguments: str) -> Any:
        if arguments == ("osd", "dump"):
            return {"flags_set": sorted(self.flags)}
        if arguments == ("balancer", "status"):
            return {"active": self.balancer}
        if arguments == ("config", "dump"):
            return [{"section": section, "name": name} for section, name in self.config]
        assert arguments == ("osd", "pool", "ls", "detail")
        return [
            {"pool_name": pool, "pg_autoscale_mode": mode} for pool, mode in self.scaling.items()
        ]

    def observe_osd_map(self) -> Mapping[str, Any]:
        starts = self.osd_maps.pop(0) if len(self.osd_maps) > 1 else self.osd_maps[0]
        return {"osds": [{"osd": osd, "up": 1, "up_from": at} for osd, at in starts.items()]}

    def observe_status(self) -> Mapping[str, Any]:
        if self.error is not None:
            raise self.error
        return self.status

    @property
    def switches(self) -> tuple[object, ...]:
        return (sorted(self.flags), self.balancer, dict(self.scaling), dict(self.config))


def option(argv: Sequence[str], name: str) -> str:
    """The value of `--NAME=VALUE`, or of `NAME=VALUE`."""
    text = "\n".join(argv)
    found = re.search(rf"^-*{name}=(.*)$", text, re.MULTILINE)
    assert found is not None, text
    return found[1]
