"""A host on which virtual machines run, in memory, with volumes that can be lent, and one fuse."""

from __future__ import annotations

from pathlib import PurePosixPath

from grampus.bench.guests.machines import Guests
from grampus.core.errors import RefusedError
from grampus.core.units import GIB, MIB
from grampus.databases.model import DatabaseSpec
from grampus.hosts.port import DaemonSpec
from grampus.volumes.model import VolumeRecord, VolumeSpec
from tests.fakes.clock import FakeClock
from tests.fakes.hosts import FakeDaemon, FakeFleet
from tests.fakes.interruption import Fuse
from tests.fakes.progress import RecordedProgress
from tests.fakes.specs import database_spec
from tests.fakes.sysbench_host import SysbenchHost

NAME = "bench-1a2b3c4d-1"
IMAGE = "sid-guest-0123456789ab"
KEYRING = "/data/etc-ceph/ceph.client.grampus.t.keyring"


def make_spec(**changed: object) -> DatabaseSpec:
    spec = database_spec(
        name=NAME,
        size_bytes=2 * GIB,
        memory_bytes=512 * MIB,
        cpus=2.0,
        pool="databases-2-copies",
        address="10.0.1.7",
        write_path="direct",
        parameters={"max_connections": "30"},
    )
    return spec.model_copy(update=changed)


class GuestHost(SysbenchHost):
    """Its daemons serve a client once they have been asked a few times."""

    def __init__(self, name: str, fuse: Fuse, clock: FakeClock) -> None:
        super().__init__(name, clock=clock, fuse=fuse)
        self.starts = 0
        self.asked = 0
        self.dies = False  # its servers end as soon as they are started
        self.looks = "x86_64\ntun\n"

    def play(self, argv: list[str], stdin: str | None, daemon: str | None) -> tuple[int, str]:
        self.fuse.burn()
        match argv[0]:
            case "sh":
                return 0, self.looks
            case "rm":
                done = super().play(argv, stdin, daemon)
                self.fuse.burn()
                return done
            case "mysql":
                assert daemon == f"vm-{NAME}"
                self.asked += 1
                return (0, "9.7.4\n") if self.asked > 3 else (1, "cannot connect")
        raise AssertionError(f"unexpected command {argv}")

    def start(self, spec: DaemonSpec) -> FakeDaemon:
        assert PurePosixPath(KEYRING) in self.files, "its image cannot be opened"
        assert PurePosixPath(spec.argv[1]) in self.files
        self.starts += 1
        self.asked = 0
        log = "the server ended with code 1\n"
        return FakeDaemon(spec, "stopped" if self.dies else "running", log)

    def stop(self, name: str, *, kill: bool) -> None:
        assert not kill, "its server would have no time to write out what it holds"


class GuestWorld:
    """All that virtual machines work with. State is kept over a killed process."""

    def __init__(self) -> None:
        self.fuse = Fuse()
        self.clock = FakeClock()
        self.h1 = GuestHost("h1", self.fuse, self.clock)
        self.h2 = GuestHost("h2", self.fuse, self.clock)
        self.record = VolumeRecord(
            spec=VolumeSpec(
                name=NAME, pool="databases-2-copies", image=f"{NAME}.1/{NAME}", size_bytes=2 * GIB
            ),
            ceph_user="grampus.t",
            is_formatted=True,
        )
        self.attached = False

    def close(self) -> None:
        pass

    def guests(self) -> Guests:
        """Those of a new process."""
        return Guests(FakeFleet([self.h1, self.h2]), self, self, self.clock, RecordedProgress())

    # Host images.

    def qemu_image(self) -> str:
        return IMAGE

    def server_root(self, image_id: str | None) -> str:
        return f"/images/{image_id or 'sid'}/root"

    # Volumes.

    def get(self, name: str) -> VolumeRecord:
        assert name == NAME
        return self.record

    def lend(self, name: str, host: str) -> VolumeRecord:
        assert (name, host) == (NAME, "h1")
        assert not self.h1.daemons, "somebody has it open"
        if self.attached:
            raise RefusedError(f"The volume '{name}' is attached to h1.", code="attached-elsewhere")
        self.fuse.burn()
        self.record = self.record.model_copy(update={"host": host})
        self.fuse.burn()
        self.h1.put(KEYRING, "[client.grampus.t]")
        self.fuse.burn()
        return self.record

    def ensure_detached(self, name: str) -> None:
        assert name == NAME
        assert not self.h1.daemons, "somebody has it open"
        self.fuse.burn()
        self.h1.files.pop(PurePosixPath(KEYRING), None)
        self.record = self.record.model_copy(update={"host": None})
        self.fuse.burn()
