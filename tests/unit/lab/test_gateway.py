"""The object gateway of a lab, on hosts in memory: whole, or brought up to its end by the next."""

from __future__ import annotations

import json
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import pytest

from grampus.core.errors import GrampusError, NotFoundError, UsageError
from grampus.hosts.port import DaemonSpec
from grampus.lab.gateway import CA_FILE, GATEWAY, POOLS, GatewaySpec, credentials_file
from tests.fakes.hosts import FakeFile
from tests.fakes.interruption import Fuse
from tests.fakes.lab_host import FakeCeph
from tests.unit.lab.part_world import PartCeph, PartHost, PartWorld, check_cut_off_anywhere

from .test_bootstrap import SPEC

SECRET = "secret-of-the-gateway"


@dataclass
class GatewayCeph(PartCeph):
    """A cluster whose pools can go."""

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


class GatewayHost(PartHost):
    """A host that can run the gateway, when it has a key and a certificate."""

    def __init__(self, name: str, address: str, ceph: FakeCeph, fuse: Fuse) -> None:
        super().__init__(name, address, ceph, fuse)
        self.users: set[str] = set()

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


def make_world(root: Path) -> PartWorld[GatewaySpec]:
    return PartWorld(root, GATEWAY, GatewayCeph(), GatewayHost)


def test_gateway_comes_up_with_keys_for_its_owner_alone(tmp_path: Path) -> None:
    world = make_world(tmp_path)
    gateway = world.up()
    file = credentials_file(world.home, SPEC.name)
    for path in (file, file.with_name(CA_FILE)):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert SECRET in file.read_text()
    assert gateway.endpoint(SPEC) in file.read_text()
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
    world = make_world(tmp_path)
    empty = world.left()
    world.up()
    world.down()
    assert world.left() == empty
    with pytest.raises(NotFoundError, match="gateway up"):
        world.down()
    world.close()


def test_cut_off_anywhere_the_next_call_ends_it(tmp_path: Path) -> None:
    check_cut_off_anywhere(make_world, tmp_path)


def test_gateway_stays_where_it_is(tmp_path: Path) -> None:
    world = make_world(tmp_path)
    world.up()
    assert world.service().plan_up("h3").host == "h3"
    with pytest.raises(UsageError, match="on h3, not on h1"):
        world.service().plan_up("h1")
    world.close()


def test_lab_of_another_image_has_no_gateway(tmp_path: Path) -> None:
    world = make_world(tmp_path)
    with pytest.raises(UsageError) as caught:
        world.service("trixie").plan_up(None)
    assert caught.value.code == "no-gateway"
    world.close()


def test_gateway_that_ends_says_why(tmp_path: Path) -> None:
    world = make_world(tmp_path)
    service = world.service()
    spec = service.plan_up(None, build_image=False)
    world.hosts[-1]._can_start = lambda _spec: False  # type: ignore[method-assign]
    with pytest.raises(GrampusError, match="rgw-h3 found no store"):
        service.up(spec)
    world.close()
