"""A host on which virtual machines run, in memory, with volumes that can be lent, and one fuse."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath

from grampus.bench.guests.machines import Guests
from grampus.core.errors import RefusedError
from grampus.core.units import GIB, MIB
from grampus.databases.model import DatabaseSpec
from grampus.hosts.port import CommandResult, DaemonSpec, DaemonState, DaemonStatus
from grampus.volumes.model import VolumeRecord, VolumeSpec
from tests.fakes.clock import FakeClock
from tests.fakes.interruption import Fuse
from tests.fakes.progress import RecordedProgress
from tests.unit.bench.fakes import FakeFleet, FakeHost

NAME = "bench-1a2b3c4d-1"
IMAGE = "sid-guest-0123456789ab"
KEYRING = "/data/etc-ceph/ceph.client.grampus.t.keyring"


def make_spec(**changed: object) -> DatabaseSpec:
    spec = DatabaseSpec(
        name=NAME,
        flavour="mysql",
        size_bytes=2 * GIB,
        memory_bytes=512 * MIB,
        cpus=2.0,
        pool="databases-2-copies",
        host="h1",
        address="10.0.1.7",
        server_id=7,
        write_path="direct",
        parameters={"max_connections": "30"},
    )
    return spec.model_copy(update=changed)


class GuestHost(FakeHost):
    """Its daemons serve a client once they have been asked a few times."""

    def __init__(self, name: str, fuse: Fuse, clock: FakeClock) -> None:
        super().__init__(name, clock=clock)
        self.fuse = fuse
        self.daemons: dict[str, tuple[DaemonSpec, DaemonState]] = {}
        self.starts = 0
        self.asked = 0
        self.dies = False  # its servers end as soon as they are started
        self.looks = "x86_64\ntun\n"

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: str | None = None,
        timeout_s: float = 60.0,
        check: bool = True,
        daemon: str | None = None,
    ) -> CommandResult:
        del stdin, timeout_s, check
        self.fuse.burn()
        done = CommandResult(tuple(argv), 0, "", "")
        match argv[0]:
            case "sh":
                return CommandResult(tuple(argv), 0, self.looks, "")
            case "rm":
                for file in [file for file in self.files if file.startswith(f"{argv[-1]}/")]:
                    del self.files[file]
                self.fuse.burn()
                return done
            case "mysql":
                assert daemon == f"vm-{NAME}"
                self.asked += 1
                said = "9.7.4\n" if self.asked > 3 else ""
                return CommandResult(tuple(argv), 0 if said else 1, said, "cannot connect")
        raise AssertionError(f"unexpected command {argv}")

    def write_file(
        self, path: PurePosixPath, content: str, *, mode: int = 0o644, uid: int = 0, gid: int = 0
    ) -> None:
        self.fuse.burn()
        super().write_file(path, content, mode=mode, uid=uid, gid=gid)
        self.fuse.burn()

    def ensure_daemon(self, spec: DaemonSpec) -> None:
        self.fuse.burn()
        if self.daemons.get(spec.name, (spec, "absent"))[1] != "running":
            assert KEYRING in self.files, "its image cannot be opened"
            assert spec.argv[1] in self.files
            self.daemons[spec.name] = (spec, "stopped" if self.dies else "running")
            self.starts += 1
            self.asked = 0
        self.fuse.burn()

    def ensure_daemon_absent(self, name: str, *, kill: bool = False) -> None:
        assert not kill, "its server would have no time to write out what it holds"
        self.fuse.burn()
        self.daemons.pop(name, None)
        self.fuse.burn()

    def observe_daemons(self) -> list[DaemonStatus]:
        return [DaemonStatus(name, state) for name, (_, state) in sorted(self.daemons.items())]

    def observe_daemon(self, name: str) -> DaemonStatus | None:
        return next((one for one in self.observe_daemons() if one.name == name), None)

    def daemon_log(self, name: str, *, last_lines: int = 20) -> str:
        return "the server ended with code 1\n"


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
        return Guests(FakeFleet(self.h1, self.h2), self, self, self.clock, RecordedProgress())

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
        self.h1.files[KEYRING] = "[client.grampus.t]"
        self.fuse.burn()
        return self.record

    def ensure_detached(self, name: str) -> None:
        assert name == NAME
        assert not self.h1.daemons, "somebody has it open"
        self.fuse.burn()
        self.h1.files.pop(KEYRING, None)
        self.record = self.record.model_copy(update={"host": None})
        self.fuse.burn()
