"""Sites are adopted, checked and forgotten; the cluster is a table of answers."""

from __future__ import annotations

import stat
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from grampus.ceph.cluster import CephCluster
from grampus.core.errors import GrampusError, NotFoundError, RefusedError, UsageError
from grampus.core.progress import Progress, SilentProgress
from grampus.hosts.command_server.client import CommandServers
from grampus.sites.adoption import AdoptOrder, SiteRefusedError
from grampus.sites.model import (
    SITE_HOST_RECORD,
    SITE_RECORD,
    SiteHostSpec,
    SiteSpec,
    connection_directory,
    parse_port_range,
    site_directory,
)
from grampus.sites.required_caps import required_caps
from grampus.sites.shared_state import state_file
from grampus.sites.site_pools import SitePools
from grampus.sites.sites import SiteService
from grampus.state.home import Home
from grampus.state.replicated import ReplicatedStore
from grampus.state.secret_files import write_secret
from grampus.state.store import Store
from grampus.volumes.volume_keys import MasterKey, master_keys
from tests.fakes.clock import FakeClock
from tests.fakes.commands import FakeRunner, Output, Reply
from tests.fakes.progress import RecordedProgress
from tests.fakes.state_log import FakeStateLog

from .test_adoption_checks import HOSTS, POOL, rule_of, versions_of

HOST = SiteHostSpec(name="h1", address="10.0.0.5", ssh_user="root", ssh_address="10.0.0.5")
FSID = "0a1b2c3d-0000-4000-8000-000000000001"
CAPS = required_caps("prod", "grampus", ["databases"])
CONF = "[global]\nmon_host = 10.0.0.1\nkeyring = /etc/ceph/elsewhere"
KEYRING = (
    '[client.admin]\n\tkey = ADMIN==\n\tcaps mon = "allow *"\n[client.grampus]\n\tkey = OURS==\n'
)
HEALTHY = {"health": {"status": "HEALTH_OK", "checks": {}}, "fsid": FSID}


class Cluster(FakeRunner):
    """A cluster on which every check is fine; tests change its answers."""

    def __init__(self) -> None:
        super().__init__(
            {
                "ceph fsid --format json": {"fsid": FSID},
                "ceph auth get client.grampus --format json": [{"caps": CAPS}],
                "ceph status --format json": HEALTHY,
                "ceph osd pool ls detail --format json": [{**POOL, "crush_rule": 2}],
                "ceph versions --format json": versions_of("20.2.4"),
                "ceph time-sync-status --format json": {},
                "ceph df detail --format json": {
                    "stats": {"total_bytes": 100, "total_used_raw_bytes": 1}
                },
                "ceph osd dump --format json": {"full_ratio": 0.95, "nearfull_ratio": 0.85},
                "ceph osd crush rule dump --format json": [rule_of(HOSTS)],
                "rbd ls --format json databases": [],
                "rbd namespace ls --format json databases": [{"name": "shop.0a1b2c3d"}],
                "ceph config-key rm grampus/prod/generation": "",
            }
        )
        self.open_runners = 0
        self.log = FakeStateLog()

    def answering(self, program: Sequence[str]) -> CommandServers:
        raise AssertionError(program)

    def answer(self, line: str, reply: Reply | Callable[[], Reply]) -> None:
        assert line in self.table
        self.table[line] = reply

    def close(self) -> None:
        self.open_runners -= 1


@dataclass(frozen=True)
class Image:
    id: str
    root: Path


class Images:
    """One image, which is there."""

    present = "sid-1"
    root = Path()

    def __init__(self) -> None:
        self.asked: list[str] = []  # to be built, if need be

    def find(self, name: str) -> Image | None:
        return Image(self.present, self.root) if name == "sid" else None

    def ensure(self, name: str, progress: Progress) -> Image:
        del progress
        self.asked.append(name)
        return Image(self.present, self.root)


@dataclass
class World:
    """A home, the user's files and a cluster."""

    root: Path
    cluster: Cluster = field(default_factory=Cluster)
    seen: list[dict[str, Any]] = field(default_factory=list)
    labs: tuple[str, ...] = ()
    images: Images = field(default_factory=Images)

    def __post_init__(self) -> None:
        self.home = Home(self.root / "home")
        self.store = Store(self.home.store_file)
        self.images.root = self.root / "image"
        self.images.root.mkdir()
        (self.root / "ceph.conf").write_text(CONF)
        (self.root / "keyring").write_text(KEYRING)

    @property
    def service(self) -> SiteService:
        return self.service_with(SilentProgress())

    def service_with(self, progress: Progress) -> SiteService:
        return SiteService(
            self.home,
            self.store,
            self.images,
            FakeClock(),
            progress,
            in_use={"database": "database"},
            is_lab=lambda name: name in self.labs,
            connect=self.connect,
            open_log=lambda _site, _pool, _runner: self.cluster.log,
        )

    def record(self, host: SiteHostSpec) -> None:
        """A host of the site `prod`."""
        with closing(self.state()) as state:
            state.put(SITE_HOST_RECORD, "prod", host.name, host)

    def state(self) -> ReplicatedStore:
        """This machine's copy of the state of the site `prod`."""
        return ReplicatedStore(state_file(self.home, "prod"), "prod", self.cluster.log)

    def connect(self, root: Path, directory: Path, user: str) -> Cluster:
        modes = {stat.S_IMODE(file.stat().st_mode) for file in directory.iterdir()}
        files = {file.name: file.read_text() for file in directory.glob("ceph.*")}
        self.seen.append({"root": root, "files": files, "modes": modes, "user": user})
        self.cluster.open_runners += 1
        return self.cluster

    def order(self, name: str = "prod", **changes: Any) -> AdoptOrder:
        chosen: dict[str, Any] = {"user": "grampus", "pools": ("databases",), "image": "sid"}
        conf, keyring = self.root / "ceph.conf", self.root / "keyring"
        return AdoptOrder(name, conf, keyring, **{**chosen, **changes})


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr("grampus.sites.model.RUN_DIRECTORY", tmp_path / "run")
    return World(tmp_path)


def test_adopt(world: World) -> None:
    adopted = world.service.adopt(world.order(user="client.grampus", addresses="10.0.5.100-199"))
    assert {one.verdict for one in adopted.checks} == {"ok"}
    spec = world.service.get("prod")
    assert (spec.fsid, spec.user, spec.image_id) == (FSID, "grampus", "sid-1")
    directory = site_directory(world.home, "prod")
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    names = {file.name for file in directory.iterdir() if not file.name.startswith("state.db")}
    assert names == {"ceph.conf", "ceph.client.grampus.keyring", "site.key"}
    assert stat.S_IMODE((directory / "site.key").stat().st_mode) == 0o600
    files = {name: (directory / name).read_text() for name in world.seen[0]["files"]}
    assert files == world.seen[0]["files"]
    assert files["ceph.conf"].startswith(CONF)
    assert files["ceph.conf"].endswith(
        "[client.grampus]\nkeyring = /etc/ceph/ceph.client.grampus.keyring\n"
    )
    # The key of nobody else.
    assert files["ceph.client.grampus.keyring"] == "[client.grampus]\n\tkey = OURS==\n"
    assert world.seen[0]["modes"] == {0o600}
    assert world.cluster.open_runners == 0


def test_again_and_changed(world: World) -> None:
    world.service.adopt(world.order())
    world.service.adopt(world.order(addresses="10.0.5.1-9"))
    assert world.service.get("prod").addresses == "10.0.5.1-9"
    assert [one.name for one in world.service.all()] == ["prod"]


def test_ports_in_place_of_addresses(world: World) -> None:
    world.service.adopt(world.order(addresses="10.0.5.1-9"))
    world.service.adopt(world.order(ports="13300-13302", address_hook="/bin/true"))
    spec = world.service.get("prod")
    assert (spec.database_addresses(), spec.database_ports()) == ([], [13300, 13301, 13302])
    assert spec.address_hook == "/bin/true"


def test_a_site_of_an_earlier_release_has_no_ports(world: World) -> None:
    stored = world.service.adopt(world.order(addresses="10.0.5.1-9")).spec.model_dump(mode="json")
    del stored["ports"], stored["address_hook"]
    spec = SiteSpec.model_validate(stored)
    assert (spec.database_ports(), spec.address_hook) == ([], "")
    assert len(spec.database_addresses()) == 9


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("13300-13399", 100),
        ("1024-1024", 1),
        ("21768-22767", 1000),
        ("13300", None),
        ("13300-13299", None),
        ("1023-1100", None),
        ("22767-22768", None),  # its second port would be one of outgoing connections
        ("13300-14300", None),  # more than 1000
        ("13300-99999", None),
        ("a-b", None),
        ("", None),
    ],
)
def test_a_range_of_ports(text: str, count: int | None) -> None:
    if count is not None:
        ports = parse_port_range(text)
        assert (len(ports), f"{ports[0]}-{ports[-1]}") == (count, text)
        return
    with pytest.raises(UsageError) as error:
        parse_port_range(text)
    assert error.value.code == "bad-ports"


def test_another_cluster_of_the_same_name(world: World) -> None:
    world.service.adopt(world.order())
    world.cluster.answer("ceph fsid --format json", {"fsid": "another"})
    with pytest.raises(RefusedError) as refused:
        world.service.adopt(world.order())
    assert refused.value.code == "site-exists"


def other_home(world: World) -> World:
    """Another machine that reaches the same cluster."""
    (world.root / "other").mkdir()
    return World(world.root / "other", cluster=world.cluster)


def test_a_second_machine_joins(world: World) -> None:
    world.service.adopt(world.order())
    other = other_home(world)
    with pytest.raises(RefusedError) as refused:
        other.service.adopt(other.order())
    assert refused.value.code == "site-joined-elsewhere"
    assert other.service.all() == []
    spec = other.service.join(world.service.join_file("prod"))
    assert spec == world.service.get("prod") == other.service.get("prod")
    assert {one.verdict for one in other.service.check("prod")} == {"ok"}
    homes = {one.home for one in other.service.machines("prod")}
    assert homes == {str(world.home.root), str(other.home.root)}
    directory = site_directory(other.home, "prod")
    assert (directory / "ceph.client.grampus.keyring").read_text() == (
        "[client.grampus]\n\tkey = OURS==\n"
    )
    assert other.service.join(world.service.join_file("prod")) == spec, "it may be repeated"
    assert world.cluster.open_runners == 0


def test_a_machine_leaves_and_the_last_one_removes_the_state(world: World) -> None:
    world.service.adopt(world.order())
    other = other_home(world)
    other.service.join(world.service.join_file("prod"))
    world.record(HOST)
    progress = RecordedProgress()
    other.service_with(progress).forget("prod")
    assert progress.notes == ["Other machines work on the site: its state in the cluster stays."]
    assert not (other.home.root / "sites").exists()
    assert "ceph config-key rm grampus/prod/generation" not in world.cluster.asked
    assert {one.verdict for one in world.service.check("prod")} == {"ok"}
    assert len(world.service.machines("prod")) == 1
    with pytest.raises(RefusedError, match="h1"):
        world.service.forget("prod")
    with closing(world.state()) as state:
        state.remove(SITE_HOST_RECORD, "prod", "h1")
    key = MasterKey.make()
    file, secrets = Path("volume.keys") / f"{key.id}.key", world.home.secrets_dir("prod")
    write_secret(secrets, secrets / file, key.render())
    progress = RecordedProgress()
    world.service_with(progress).forget("prod")
    assert world.cluster.log.log is None
    assert progress.notes == [
        f"Keys of backups and encrypted volumes stay here: {world.home.root / 'secrets' / file}"
    ]
    assert master_keys(world.home).get(key.id) == key
    assert not secrets.exists()


def test_what_another_machine_changed_of_a_site_is_shown(world: World) -> None:
    world.service.adopt(world.order())
    with closing(world.state()) as state:
        upgraded = world.service.get("prod").model_copy(update={"image_id": "sid-2"})
        state.put(SITE_RECORD, "prod", "prod", upgraded)
    assert world.service.get("prod") == upgraded
    assert world.service.all() == [upgraded]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"fsid": "another"}, "site-exists"),
        ({"site": "stage"}, "site-not-adopted"),
        ({"site": "lab"}, "name-taken"),
    ],
)
def test_what_cannot_be_joined(world: World, change: dict[str, str], code: str) -> None:
    world.service.adopt(world.order())
    other = other_home(world)
    other.labs = ("lab",)
    if change.get("site") == "stage":
        world.cluster.log.remove()
    file = world.service.join_file("prod").model_copy(update=change)
    with pytest.raises(RefusedError) as refused:
        other.service.join(file)
    assert refused.value.code == code
    assert other.service.all() == []


def test_a_state_that_cannot_be_used_is_a_check(world: World) -> None:
    world.service.adopt(world.order())
    world.cluster.log.remove()
    (check,) = (one for one in world.service.check("prod") if one.verdict == "refused")
    assert check.name == "controller"
    assert "has no state of the site any more" in check.sentence


def test_a_site_in_use_keeps_its_image_and_pool(world: World) -> None:
    world.service.adopt(world.order())
    world.record(HOST)
    world.images.present = "sid-2"
    assert world.service.adopt(world.order(addresses="10.0.5.1-9")).spec.image_id == "sid-1"
    with pytest.raises(RefusedError, match="in use"):
        world.service.adopt(world.order(image="trixie"))
    with closing(world.state()) as state:
        state.remove(SITE_HOST_RECORD, "prod", "h1")
    assert world.service.adopt(world.order()).spec.image_id == "sid-2"


class Stored(BaseModel):
    """Of a record what says where its volume is."""

    pool: str = ""
    journal_pool: str | None = None
    spec: Stored | None = None
    record: Stored | None = None


IN_FAST = Stored(spec=Stored(pool="fast"))
JOURNAL_IN_FAST = Stored(spec=Stored(pool="databases", journal_pool="fast"))


@pytest.mark.parametrize(
    "stored",
    [IN_FAST, Stored(record=IN_FAST), JOURNAL_IN_FAST],
    ids=["there", "deleted", "journal"],
)
def test_a_site_has_further_pools_and_keeps_those_with_volumes(
    world: World, stored: Stored
) -> None:
    pools = ("databases", "fast")
    world.cluster.table |= {
        "ceph osd pool ls detail --format json": [
            {**POOL, "pool_name": name, "crush_rule": 2} for name in pools
        ],
        "rbd ls --format json fast": ["of-others"],
        "rbd namespace ls --format json fast": [],
    }
    with pytest.raises(SiteRefusedError, match="osd: profile rbd pool=fast"):
        world.service.adopt(world.order(pools=pools))
    caps = [{"caps": required_caps("prod", "grampus", pools)}]
    world.cluster.answer("ceph auth get client.grampus --format json", caps)
    adopted = world.service.adopt(world.order(pools=pools))
    assert [one.name for one in adopted.checks if one.verdict == "warning"] == ["other users"]
    assert world.service.get("prod").pools == pools
    with closing(world.state()) as state:
        state.put("database", "prod", "shop", stored)
    with pytest.raises(RefusedError, match="are in the pool fast") as refused:
        world.service.adopt(world.order())
    assert "--pool databases --pool fast" in refused.value.remedy
    journals = [one.sentence for one in world.service.check("prod") if one.name == "journals"]
    assert journals == (
        ["The pool 'fast' has journals of volumes in 'databases', and as many copies."]
        if stored is JOURNAL_IN_FAST
        else []
    )
    with closing(world.state()) as state:
        state.put("database", "prod", "shop", Stored(spec=Stored(pool="databases")))
    assert world.service.adopt(world.order()).spec.pools == ("databases",)


@pytest.mark.parametrize(("copies", "pool"), [(3, "databases"), (2, "fast"), (1, None)])
def test_pools_by_their_number_of_copies(copies: int, pool: str | None, world: World) -> None:
    spec = world.service.adopt(world.order()).spec.model_copy(update={"further_pools": ("fast",)})
    stats = {"stored": 1, "max_avail": 9}
    world.cluster.table |= {
        "ceph df detail --format json": {
            "pools": [{"name": name, "stats": stats} for name in spec.pools]
        },
        "ceph osd pool get databases size --format json": {"size": 3},
        "ceph osd pool get fast size --format json": {"size": 2},
    }
    found = SitePools(spec, CephCluster(world.cluster, image_pools=spec.pools))
    if pool is not None:
        assert found.pool_of(copies) == found.ensure(copies) == pool
        return
    with pytest.raises(RefusedError, match="'databases' keeps 3, 'fast' keeps 2"):
        found.pool_of(copies)


def test_a_refused_check_leaves_nothing(world: World) -> None:
    world.cluster.answer("ceph osd pool ls detail --format json", [])
    with pytest.raises(SiteRefusedError) as refused:
        world.service.adopt(world.order())
    assert "ceph osd pool create databases" in refused.value.remedy
    assert world.service.all() == []
    # Neither the directory of the site, nor a copy of the key elsewhere.
    assert not list((world.home.root / "sites").iterdir())
    assert world.cluster.open_runners == 0


def test_a_missing_capability_is_named(world: World) -> None:
    lacking = {**CAPS, "osd": "profile rbd pool=other"}
    world.cluster.answer("ceph auth get client.grampus --format json", [{"caps": lacking}])
    denied = Output(1, "", "rbd: listing images failed: (1) Operation not permitted")
    world.cluster.answer("rbd ls --format json databases", denied)
    with pytest.raises(SiteRefusedError) as refused:
        world.service.adopt(world.order())
    assert "osd: profile rbd pool=databases" in refused.value.problem
    assert "ceph auth caps client.grampus" in refused.value.remedy


def test_capabilities_that_cannot_be_read(world: World) -> None:
    denied = Output(13, "", "Error EACCES: access denied")
    world.cluster.answer("ceph auth get client.grampus --format json", denied)
    checks = world.service.examine(world.order())
    assert checks[0].verdict == "refused"
    assert 'allow command "auth get" with entity=client.grampus' in checks[0].sentence


def test_a_key_that_the_cluster_does_not_know(world: World) -> None:
    said = "rados.PermissionDeniedError: [errno 13] RADOS permission denied (error connecting to "
    world.cluster.answer("ceph fsid --format json", Output(1, "", said + "the cluster)"))
    with pytest.raises(GrampusError) as error:
        world.service.adopt(world.order())
    assert error.value.code == "key-refused"


def test_a_dry_run_records_nothing(world: World) -> None:
    checks = world.service.examine(world.order())
    assert {one.verdict for one in checks} == {"ok"}
    assert world.service.all() == []
    assert not site_directory(world.home, "prod").exists()


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"name": "Prod"}, "invalid-name"),
        ({"user": "other"}, "wrong-keyring"),
        ({"user": "a b"}, "bad-user"),
        ({"pools": ("databases", "a b")}, "bad-pool"),
        ({"addresses": "10.0.5.1"}, "bad-addresses"),
        ({"ports": "13300"}, "bad-ports"),
        ({"ports": "13300-13399", "addresses": "10.0.5.1-9"}, "bad-ports"),
        ({"ports": "13300-13399", "interface": "eth1"}, "bad-ports"),
        ({"address_hook": "update-dns"}, "bad-hook"),
        ({"address_hook": "/nonexistent/update-dns"}, "bad-hook"),
        ({"address_hook": "/etc/passwd"}, "bad-hook"),
    ],
)
def test_wrong_orders(world: World, changes: dict[str, Any], code: str) -> None:
    with pytest.raises(UsageError) as error:
        world.service.adopt(world.order(**changes))
    assert error.value.code == code
    assert world.service.all() == []
    assert world.images.asked == []


@pytest.mark.parametrize("file", ["ceph.conf", "keyring"])
def test_absent_files_are_refused_before_an_image_is_built(world: World, file: str) -> None:
    (world.root / file).unlink()
    with pytest.raises(UsageError) as error:
        world.service.adopt(world.order())
    assert error.value.code == "no-such-file"
    assert world.images.asked == []


def test_a_lab_of_the_same_name(world: World) -> None:
    world.labs = ("prod",)
    with pytest.raises(RefusedError) as refused:
        world.service.adopt(world.order())
    assert refused.value.code == "name-taken"


def test_names(world: World) -> None:
    world.service.adopt(world.order())
    with pytest.raises(NotFoundError, match="Did you mean 'prod'"):
        world.service.get("prdo")


def test_check(world: World) -> None:
    world.service.adopt(world.order())
    assert {one.verdict for one in world.service.check("prod")} == {"ok"}
    world.cluster.answer("ceph versions --format json", versions_of("15.2.0"))
    assert "refused" in {one.verdict for one in world.service.check("prod")}
    assert world.cluster.open_runners == 0


def test_a_lost_key(world: World) -> None:
    world.service.adopt(world.order())
    (site_directory(world.home, "prod") / "ceph.conf").unlink()
    with pytest.raises(GrampusError) as error:
        world.service.check("prod")
    assert error.value.code == "site-key-missing"
    # It can be forgotten, and adopted again.
    world.service.adopt(world.order())
    assert {one.verdict for one in world.service.check("prod")} == {"ok"}


def test_forget(world: World) -> None:
    connections = connection_directory(world.service.adopt(world.order()).spec)
    connections.mkdir(parents=True)
    world.service.forget("prod")
    assert world.service.all() == []
    assert not (world.home.root / "sites").exists()
    assert "ceph config-key rm grampus/prod/generation" in world.cluster.asked
    assert world.cluster.log.log is None
    assert not connections.exists()


def test_forget_without_the_cluster(world: World) -> None:
    world.service.adopt(world.order())
    gone = Output(1, "", "rados.TimedOut: [errno 110] RADOS timed out (error connecting to the")
    world.cluster.answer("ceph config-key rm grampus/prod/generation", gone)
    world.service.forget("prod")
    assert world.service.all() == []


def test_a_site_with_hosts_stays(world: World) -> None:
    world.service.adopt(world.order())
    world.record(HOST)
    with pytest.raises(RefusedError, match="h1") as refused:
        world.service.forget("prod")
    assert refused.value.code == "site-in-use"
    assert site_directory(world.home, "prod").exists()
