"""The object gateway of a lab, on hosts in memory: whole, or brought up to its end by the next."""

from __future__ import annotations

import json
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import cast

import pytest

from grampus.core.errors import GrampusError, NotFoundError, UsageError
from grampus.core.progress import SilentProgress
from grampus.hosts.lab_host import LabFleet
from grampus.hosts.port import DaemonSpec
from grampus.lab.gateway import CA_FILE, POOLS, LabGateway, credentials_file
from grampus.lab.gateway_service import GatewayService, find_gateway
from grampus.lab.images.cache import HostImages
from grampus.state.home import Home
from grampus.state.operations import OperationJournal
from grampus.state.store import Store
from tests.fakes.clock import FakeClock
from tests.fakes.hosts import FakeFile
from tests.fakes.interruption import Fuse, Killed, burn_points
from tests.fakes.lab_host import FakeCeph, FakeLabFleet, FakeLabHost
from tests.unit.operation_runner import make_runner

from .test_bootstrap import SPEC

SECRET = "secret-of-the-gateway"
REPOSITORY = Path(__file__).resolve().parents[3]


@dataclass
class GatewayCeph(FakeCeph):
    """A cluster whose MONs are elsewhere, and whose pools can go."""

    def running(self, kind: str) -> list[str]:
        return ["h1"] if kind == "mon" else super().running(kind)

    def answer(self, argv: Sequence[str], stdin: str | None) -> tuple[int, str]:
        match list(argv):
            case ["osd", "pool", "create", pool, groups, *rest]:
                if pool.startswith(".") and "--yes-i-really-mean-it" not in rest:
                    return 0, "pool names beginning with . are not allowed"
                self.pools[pool] = {"pg_num": groups}
                return 0, ""
            case ["osd", "pool", "application", "enable", pool, name]:
                if pool not in self.pools:
                    return 2, f"Error ENOENT: unrecognized pool '{pool}'"
                self.pools[pool]["application"] = name
                return 0, ""
            case ["osd", "pool", "rm", pool, again, "--yes-i-really-really-mean-it"]:
                assert pool == again
                del self.pools[pool]
                return 0, ""
            case ["auth", "rm", entity]:
                self.users.pop(entity, None)
                return 0, ""
        return super().answer(argv, stdin)


class GatewayHost(FakeLabHost):
    """A host that can run the gateway, when it has a key and a certificate."""

    def __init__(self, name: str, address: str, ceph: FakeCeph, fuse: Fuse) -> None:
        super().__init__(name, address, ceph, fuse)
        self.users: set[str] = set()

    def has_mon(self) -> bool:
        return False

    def _can_start(self, spec: DaemonSpec) -> bool:
        etc = self.data_dir / "etc-ceph"
        needed = ("gateway.crt", "gateway.key", f"ceph.client.rgw.{self.name}.keyring")
        return all(etc / name in self.files for name in needed)

    def _file_command(self, argv: list[str]) -> tuple[int, str]:
        match argv:
            case ["install", "-m", "0600", "/dev/null", path]:
                self.files[PurePosixPath(path)] = FakeFile("", 0o600)
            case ["openssl", "req", "-x509", *rest]:
                key = PurePosixPath(rest[rest.index("-keyout") + 1])
                assert self.files[key].mode == 0o600, "the key was open to others for a moment"
                self.files[key].content = "key"
                self.put(rest[-1], "certificate")
            case ["mv", source, target]:
                self.files[PurePosixPath(target)] = self.files.pop(PurePosixPath(source))
            case ["rm", "-f", *paths]:
                for path in paths:
                    self.files.pop(PurePosixPath(path), None)
            case ["bash", "-c", script] if "/dev/tcp/" in script:
                return (0 if self.runs(f"rgw-{self.name}") else 1), ""
            case ["radosgw-admin", "user", verb, "--uid", user, *_]:
                return self._user(verb, user)
            case _:
                return super()._file_command(argv)
        return 0, ""

    def _user(self, verb: str, user: str) -> tuple[int, str]:
        if verb == "create":
            self.users.add(user)
        if user not in self.users:
            return 22, "could not fetch user info: no user info saved"
        return 0, json.dumps({"keys": [{"access_key": "A", "secret_key": SECRET}]})


class World:
    """One GRAMPUS_HOME and hosts; each service is a new process."""

    def __init__(self, root: Path) -> None:
        self.fuse = Fuse()
        self.ceph = GatewayCeph()
        self.hosts = [
            GatewayHost(name, SPEC.host_address(name), self.ceph, self.fuse)
            for name in SPEC.host_names
        ]
        self.home = Home(root)
        self.store = Store(self.home.store_file)
        self.clock = FakeClock()
        self.journal = OperationJournal(self.store, self.clock)

    def service(self, image: str = "sid") -> GatewayService:
        return GatewayService(
            SPEC.model_copy(update={"image_name": image}),
            self.home,
            self.store,
            make_runner(SPEC.name, self.store, self.journal, self.clock),
            HostImages(self.home, REPOSITORY / "images", self.clock),
            cast(LabFleet, FakeLabFleet(list(self.hosts))),
            self.clock,
            SilentProgress(),
        )

    def up(self) -> LabGateway:
        service = self.service()
        spec = service.plan_up(None, build_image=False)
        service.up(spec)
        return service.gateway(spec)

    def left(self) -> dict[str, object]:
        """All that a gateway is made of."""
        secrets = self.home.secrets_dir(SPEC.name)
        return {
            "pools": sorted(self.ceph.pools),
            "users": sorted(self.ceph.users),
            "files": sorted(str(path) for host in self.hosts for path in host.files),
            "daemons": [status for host in self.hosts for status in host.observe_daemons()],
            "secrets": sorted(p.name for p in secrets.glob("*")) if secrets.exists() else [],
            "record": find_gateway(self.store, SPEC.name),
            "unfinished": self.journal.unfinished(SPEC.name),
        }

    def close(self) -> None:
        self.store.close()


def test_gateway_comes_up_with_keys_for_its_owner_alone(tmp_path: Path) -> None:
    world = World(tmp_path)
    gateway = world.up()
    file = credentials_file(world.home, SPEC.name)
    for path in (file, file.with_name(CA_FILE)):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert SECRET in file.read_text()
    assert gateway.endpoint in file.read_text()
    assert {
        pool: found["application"] for pool, found in world.ceph.pools.items()
    } == dict.fromkeys(POOLS, "rgw")
    spoken = [" ".join(command) for host in world.hosts for command in host.commands]
    assert not any(SECRET in command for command in spoken)
    (daemon,) = [one.spec for host in world.hosts for one in host.daemons.values()]
    assert daemon.image is not None
    assert daemon.image.startswith("sid-gateway-")
    assert any("ssl_endpoint" in word for word in daemon.argv)
    world.close()


def test_nothing_is_left_after_down(tmp_path: Path) -> None:
    world = World(tmp_path)
    empty = world.left()
    world.up()
    world.service().down()
    assert world.left() == empty
    with pytest.raises(NotFoundError, match="gateway up"):
        world.service().down()
    world.close()


@pytest.mark.parametrize("goes", ["up", "down"])
def test_cut_off_anywhere_the_next_call_ends_it(tmp_path: Path, goes: str) -> None:
    whole = World(tmp_path / "whole")
    whole.up()
    if goes == "down":
        whole.service().down()
    expected = whole.left()
    whole.close()
    for point in burn_points():
        world = World(tmp_path / str(point))
        if goes == "down":
            world.up()
        world.fuse.left = point
        act = world.up if goes == "up" else world.service().down
        try:
            act()
        except Killed:
            act()
            assert world.left() == expected, f"killed at {point}"
            world.close()
            continue
        world.close()
        assert point > 10
        return


def test_gateway_stays_where_it_is(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.up()
    assert world.service().plan_up("h3").host == "h3"
    with pytest.raises(UsageError, match="on h3, not on h1"):
        world.service().plan_up("h1")
    world.close()


def test_lab_of_another_image_has_no_gateway(tmp_path: Path) -> None:
    world = World(tmp_path)
    with pytest.raises(UsageError) as caught:
        world.service("trixie").plan_up(None)
    assert caught.value.code == "no-gateway"
    world.close()


def test_gateway_that_ends_says_why(tmp_path: Path) -> None:
    world = World(tmp_path)
    service = world.service()
    spec = service.plan_up(None, build_image=False)
    world.hosts[-1]._can_start = lambda _spec: False  # type: ignore[method-assign]
    with pytest.raises(GrampusError, match="rgw-h3 found no store"):
        service.up(spec)
    world.close()
