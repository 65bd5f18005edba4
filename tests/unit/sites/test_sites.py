"""Sites are adopted, checked and forgotten; the cluster is a table of answers."""

from __future__ import annotations

import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from grampus.core.errors import GrampusError, NotFoundError, RefusedError, UsageError
from grampus.core.progress import Progress, SilentProgress
from grampus.sites.adoption import AdoptOrder, SiteRefusedError
from grampus.sites.model import (
    SITE_HOST_RECORD,
    SiteHostSpec,
    connection_directory,
    site_directory,
)
from grampus.sites.required_caps import required_caps
from grampus.sites.sites import SiteService
from grampus.state.home import Home
from grampus.state.store import Store
from tests.fakes.clock import FakeClock
from tests.fakes.commands import FakeRunner, Output, Reply
from tests.fakes.epoch_objects import FakeEpochObjects
from tests.fakes.progress import RecordedProgress

from .test_adoption_checks import HOSTS, POOL, rule_of, versions_of

FSID = "0a1b2c3d-0000-4000-8000-000000000001"
CAPS = required_caps("prod", "grampus", "databases")
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
        self.epochs = FakeEpochObjects()

    def play(self, argv: list[str], stdin: str | None) -> Reply:
        said = self.epochs.play(argv, stdin)
        return super().play(argv, stdin) if said is None else said

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
        )

    def connect(self, root: Path, directory: Path, user: str) -> Cluster:
        files = {file.name: file.read_text() for file in directory.iterdir()}
        modes = {stat.S_IMODE(file.stat().st_mode) for file in directory.iterdir()}
        self.seen.append({"root": root, "files": files, "modes": modes, "user": user})
        self.cluster.open_runners += 1
        return self.cluster

    def order(self, name: str = "prod", **changes: Any) -> AdoptOrder:
        chosen: dict[str, Any] = {"user": "grampus", "pool": "databases", "image": "sid"}
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
    files = {file.name: file.read_text() for file in directory.iterdir()}
    assert files == world.seen[0]["files"]
    assert set(files) == {"ceph.conf", "ceph.client.grampus.keyring"}
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


def test_another_cluster_of_the_same_name(world: World) -> None:
    world.service.adopt(world.order())
    world.cluster.answer("ceph fsid --format json", {"fsid": "another"})
    with pytest.raises(RefusedError) as refused:
        world.service.adopt(world.order())
    assert refused.value.code == "site-exists"


def test_another_home_that_controls_the_site(world: World, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    first = World(tmp_path / "other", cluster=world.cluster)
    first.service.adopt(first.order())
    for checks in (
        world.service.examine(world.order()),
        world.service.adopt(world.order()).checks,
        world.service.check("prod"),
    ):
        (check,) = (one for one in checks if one.verdict == "warning")
        assert "controlled from another GRAMPUS_HOME" in check.sentence
        assert "grampus state rebuild --site prod" in check.remedy
    # What the other one needs stays.
    progress = RecordedProgress()
    world.service_with(progress).forget("prod")
    assert progress.notes == [
        "Another GRAMPUS_HOME controls the site: its notes in the cluster stay."
    ]
    assert world.cluster.epochs.objects
    assert "ceph config-key rm grampus/prod/generation" not in world.cluster.asked
    assert {one.verdict for one in first.service.check("prod")} == {"ok"}


def test_a_site_in_use_keeps_its_image_and_pool(world: World) -> None:
    world.service.adopt(world.order())
    host = SiteHostSpec(name="h1", address="10.0.0.5", ssh_user="root", ssh_address="10.0.0.5")
    world.store.put(SITE_HOST_RECORD, "prod", "h1", host)
    world.images.present = "sid-2"
    assert world.service.adopt(world.order(addresses="10.0.5.1-9")).spec.image_id == "sid-1"
    with pytest.raises(RefusedError, match="in use"):
        world.service.adopt(world.order(image="trixie"))
    world.store.remove(SITE_HOST_RECORD, "prod", "h1")
    assert world.service.adopt(world.order()).spec.image_id == "sid-2"


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
        ({"pool": "a b"}, "bad-pool"),
        ({"addresses": "10.0.5.1"}, "bad-addresses"),
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
    assert world.cluster.epochs.objects == {}
    assert not connections.exists()


def test_forget_without_the_cluster(world: World) -> None:
    world.service.adopt(world.order())
    gone = Output(1, "", "rados.TimedOut: [errno 110] RADOS timed out (error connecting to the")
    world.cluster.answer("ceph config-key rm grampus/prod/generation", gone)
    world.service.forget("prod")
    assert world.service.all() == []


def test_a_site_with_hosts_stays(world: World) -> None:
    world.service.adopt(world.order())
    host = SiteHostSpec(name="h1", address="10.0.0.5", ssh_user="root", ssh_address="10.0.0.5")
    world.store.put(SITE_HOST_RECORD, "prod", "h1", host)
    with pytest.raises(RefusedError, match="h1") as refused:
        world.service.forget("prod")
    assert refused.value.code == "site-in-use"
    assert site_directory(world.home, "prod").exists()
