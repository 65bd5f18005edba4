"""Hosts that are upgraded one at a time: finished, undone, refused, and stopped at each call."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path

import pytest

from grampus.core.checks import Check
from grampus.core.errors import GrampusError, RefusedError
from grampus.hosts.remote.host_parts import HOST_FORMAT, HostParts
from grampus.hosts.remote.ssh import SshPlace
from grampus.sites.host_images import ImageCopy
from grampus.sites.host_upgrades import HostUpgrades, UpgradePorts
from grampus.sites.model import SITE_RECORD, SiteHostSpec
from grampus.sites.site_host_records import SiteHostRecords, parts_of, with_parts
from grampus.state.store import Store
from tests.fakes.clock import FakeClock
from tests.fakes.host_images import FakeHostImages, FakeMachine
from tests.fakes.interruption import Fuse, stopped_runs
from tests.fakes.progress import RecordedProgress
from tests.fakes.specs import site_spec
from tests.fakes.stepped_journal import SteppedJournal
from tests.unit.operation_runner import make_runner, planned

OLD = HostParts(HOST_FORMAT, "0.2.0", "sid-1", "old")
NEW = HostParts(HOST_FORMAT, "0.3.0", "sid-2", "new")
SITE = site_spec(image_id=OLD.image_id, image_digest=OLD.digest)
MYSQLD = ("mysqld-shop",)


class FakeDatabases:
    """A `SiteDatabases`; `images` by database: None is that of its host `where`."""

    def __init__(self, fuse: Fuse) -> None:
        self._fuse = fuse
        self.images: dict[str, str | None] = {"shop": None}
        self.where = {"shop": "db1"}

    def named_images(self) -> set[str]:
        return {image for image in self.images.values() if image is not None}

    def keep_servers(self, images: dict[str, str]) -> None:
        self._fuse.burn()
        for name, image in self.images.items():
            self.images[name] = image or images[self.where[name]]

    def follow_hosts(self, image_id: str) -> None:
        self._fuse.burn()
        for name, image in self.images.items():
            self.images[name] = None if image == image_id else image


class World:
    """A site of two hosts with the older image; each `upgrades()` is that of a new process."""

    def __init__(self) -> None:
        self.fuse, self.store, self.clock = Fuse(), Store(None), FakeClock()
        self.progress = RecordedProgress()
        self.records = SiteHostRecords(self.store, "prod")
        self.store.put(SITE_RECORD, "prod", "prod", SITE)
        self.machines = {}
        for number, name in enumerate(("db1", "db2"), 11):
            address = f"10.0.5.{number}"
            host = SiteHostSpec(
                name=name, address=address, ssh_user="root", ssh_address=address, is_ready=True
            )
            # The second one was added by an earlier release, which noted nothing.
            self.records.put(with_parts(host, OLD) if name == "db1" else host)
            self.machines[name] = FakeMachine({OLD.image_id: OLD.digest})
        self.machines["db1"].parts = " ".join(OLD.words())
        self.databases = FakeDatabases(self.fuse)
        self.images = FakeHostImages(self.machines, self.fuse.burn)
        self.unfit: set[tuple[str, str]] = set()  # host and image that fail the check
        self.other_servers = False
        self.programs: list[str] = []  # hosts that got them
        self.own = NEW

    def upgrades(self) -> HostUpgrades:
        journal = SteppedJournal(self.store, self.clock, self.fuse)
        return HostUpgrades(
            self.records,
            UpgradePorts(
                images=self.images,
                databases=self.databases,
                place=_place,
                look=self._look,
                reach=self._reach,
                put_programs=lambda host: self.programs.append(host.name),
                outdated=self._outdated,
                leave=lambda: None,
            ),
            make_runner("prod", self.store, journal, self.clock, self.progress),
            self.clock,
            self.progress,
            own=replace(self.own, digest=""),
            original=lambda: ImageCopy(self.own.image_id, self.own.digest),
            keeps_servers=lambda _former, _new: self.other_servers,
        )

    def close(self) -> None:
        self.store.close()

    def upgrade(self, *names: str) -> None:
        self.upgrades().upgrade(names or ("db1",))

    def parts(self, host: str) -> HostParts:
        return parts_of(self.records.get(host), self.records.site())

    def require_consistent(self) -> None:
        """The image that each host is recorded with is there, whole, whatever was stopped."""
        for name, machine in self.machines.items():
            parts = self.parts(name)
            assert machine.images.get(parts.image_id) == parts.digest

    def _look(self, _ssh: SshPlace) -> list[Check]:
        self.fuse.burn()
        return [Check("disk", "refused", "Little is free."), Check("fuse", "ok", "It is there.")]

    def _reach(self, host: SiteHostSpec) -> Check:
        self.fuse.burn()
        image = parts_of(host, self.records.site()).image_id
        if (host.name, image) in self.unfit:
            return Check("mons", "refused", "It does not reach the MONs.", "Open the ports.")
        return Check("mons", "ok", "It reaches them.")

    def _outdated(self, host: SiteHostSpec) -> list[str]:
        users = self.machines[host.name].users.get(OLD.image_id, ())
        return [user for user in users if not user.startswith("process ")]


def _place(host: SiteHostSpec) -> SshPlace:
    return SshPlace(host.name, "root", host.ssh_address, 22, None, Path("/k"), Path("/c"))


@pytest.fixture
def world() -> World:
    return World()


def test_a_host_gets_the_image_and_loses_the_older_one(world: World) -> None:
    (done,) = world.upgrades().upgrade(["db1"])
    assert done.is_changed
    assert (done.outdated, done.kept) == ((), ())
    assert world.machines["db1"].images == {NEW.image_id: NEW.digest}
    assert world.machines["db1"].parts == " ".join(NEW.words())
    assert world.parts("db1") == NEW
    # The other host keeps what it has, also after new hosts get the new image.
    assert world.records.site().image_id == NEW.image_id
    assert world.parts("db2") == HostParts(HOST_FORMAT, "", OLD.image_id, OLD.digest)
    world.require_consistent()


def test_what_runs_keeps_the_older_image(world: World) -> None:
    world.machines["db1"].users[OLD.image_id] = MYSQLD
    (done,) = world.upgrades().upgrade(["db1"])
    assert (done.outdated, done.kept) == (MYSQLD, (OLD.image_id,))
    assert set(world.machines["db1"].images) == {OLD.image_id, NEW.image_id}
    assert world.programs == ["db1"]
    # Once it was restarted, the same command removes the image.
    world.machines["db1"].users.clear()
    (done,) = world.upgrades().upgrade(["db1"])
    assert (done.is_changed, done.outdated, done.kept) == (False, (), ())


def test_commands_are_waited_for_a_moment(world: World) -> None:
    """Those of `grampus serve` end when it looks at the host the next time."""
    machine = world.machines["db1"]
    machine.users[OLD.image_id] = ("process 1",)

    def leave() -> None:
        machine.users.clear()

    world.clock.on_sleep = leave
    world.upgrade()
    assert OLD.image_id not in machine.images


def test_databases_are_restarted_before_the_next_host(world: World) -> None:
    for name in ("db1", "db2"):
        world.machines[name].users[OLD.image_id] = (f"mysqld-{name}",)
    seen: list[tuple[str, str]] = []

    def restart(host: str) -> None:
        seen.append((host, world.parts("db2").image_id))
        world.machines[host].users.clear()

    found = world.upgrades().upgrade(["db1", "db2"], restart)
    assert seen == [("db1", OLD.image_id), ("db2", NEW.image_id)]
    assert [(one.outdated, one.kept) for one in found] == [((), ()), ((), ())]


def test_a_host_that_fails_its_check_has_its_image_again_and_is_the_last(world: World) -> None:
    world.unfit.add(("db1", NEW.image_id))
    with pytest.raises(RefusedError, match=r"does not reach.* Not upgraded after that: db2") as no:
        world.upgrade("db1", "db2")
    assert no.value.code == "host-unfit"
    assert world.parts("db1") == OLD
    assert {name: one.images for name, one in world.machines.items()} == {
        "db1": {OLD.image_id: OLD.digest},
        "db2": {OLD.image_id: OLD.digest},
    }
    assert world.records.site() == SITE
    world.unfit.clear()
    world.upgrade("db1", "db2")
    assert (world.parts("db1"), world.parts("db2")) == (NEW, NEW)


def test_a_full_disk_leaves_the_host_as_it_was(world: World) -> None:
    world.machines["db1"].is_full = True
    with pytest.raises(GrampusError) as failed:
        world.upgrade()
    assert failed.value.code == "host-disk-full"
    assert world.machines["db1"].images == {OLD.image_id: OLD.digest}
    assert world.parts("db1") == OLD


@pytest.mark.parametrize("users", [(), MYSQLD])
def test_a_changed_image_is_copied_again_unless_it_is_used(
    world: World, users: tuple[str, ...]
) -> None:
    world.upgrade()
    machine = world.machines["db1"]
    machine.images[NEW.image_id] = "tampered"
    machine.users[NEW.image_id] = users
    if users:
        with pytest.raises(RefusedError) as refused:
            world.upgrade()
        assert refused.value.code == "host-in-use"
        machine.users.clear()
    world.upgrade()
    assert machine.images == {NEW.image_id: NEW.digest}


@pytest.mark.parametrize(
    "noted",
    [HostParts(HOST_FORMAT, "0.4.0", "sid-3", "later"), HostParts(HOST_FORMAT + 1, "", "x", "")],
)
def test_a_host_of_a_later_grampus_is_left_alone(world: World, noted: HostParts) -> None:
    world.machines["db1"].parts = " ".join(noted.words())
    before = world.machines["db1"].images.copy()
    with pytest.raises(RefusedError, match="Upgrade Grampus on this machine") as refused:
        world.upgrade()
    assert refused.value.code == "newer-host"
    assert world.machines["db1"].images == before
    assert world.parts("db1") == OLD


def test_a_later_grampus_with_the_same_image_notes_its_version(world: World) -> None:
    world.upgrade()
    world.own = replace(NEW, version="0.3.1")
    (done,) = world.upgrades().upgrade(["db1"])
    assert (done.is_changed, done.parts.version) == (False, "0.3.1")
    assert world.machines["db1"].parts == " ".join(world.own.words())
    # An earlier one does not say that it put the parts there.
    world.own = NEW
    (done,) = world.upgrades().upgrade(["db1"])
    assert done.parts.version == "0.3.1"


def test_databases_keep_servers_of_another_series(world: World) -> None:
    world.other_servers = True
    world.upgrade("db1", "db2")
    assert world.databases.images == {"shop": OLD.image_id}
    # It may be started on any host: the image stays.
    assert set(world.machines["db1"].images) == {OLD.image_id, NEW.image_id}


def test_databases_follow_their_host_once_all_hosts_have_the_image(world: World) -> None:
    """One was created between both upgrades, and names the image."""
    world.upgrade("db1")
    world.databases.images["between"] = NEW.image_id
    world.upgrade("db2")
    assert world.databases.images == {"shop": None, "between": None}


def test_a_host_that_is_not_ready_stops_all_before_they_begin(world: World) -> None:
    world.records.put(world.records.get("db2").model_copy(update={"is_ready": False}))
    with pytest.raises(RefusedError) as refused:
        world.upgrade("db1", "db2")
    assert refused.value.code == "host-unready"
    assert world.parts("db1") == OLD


def test_a_dry_run_says_what_would_be_done_and_changes_nothing(world: World) -> None:
    upgrades = world.upgrades()
    titles = planned(upgrades._runner, lambda: upgrades.upgrade(["db1", "db2"]))
    assert titles[1] == "Copy the host image sid-2 to db1"
    assert "Use the host image sid-2 on db2" in titles
    assert world.parts("db1") == OLD
    assert world.machines["db1"].images == {OLD.image_id: OLD.digest}


@pytest.mark.parametrize("used", [False, True])
@pytest.mark.parametrize("other_servers", [False, True])
def test_a_process_that_was_killed_is_finished_by_the_next(used: bool, other_servers: bool) -> None:
    def start(_point: int) -> World:
        world = World()
        world.other_servers = other_servers
        if used:
            world.machines["db1"].users[OLD.image_id] = MYSQLD
        return world

    for _, world in stopped_runs(start, World.upgrade, more_than=10):
        world.require_consistent()
        world.upgrade()
        world.require_consistent()
        assert world.parts("db1") == NEW
        kept = {OLD.image_id} if used or other_servers else set()
        assert set(world.machines["db1"].images) == {NEW.image_id, *kept}
        assert world.upgrades()._runner.unfinished("") == []
        assert world.parts("db2").image_id == OLD.image_id


@pytest.mark.parametrize("point", range(24))
def test_a_call_that_fails_leaves_the_host_as_it_was_or_upgraded(world: World, point: int) -> None:
    """Where an older image cannot be removed, the upgrade is done."""
    world.fuse.left = point
    world.fuse.error = GrampusError("db1 cannot be reached.", code="host-unreachable")
    with contextlib.suppress(GrampusError):
        world.upgrade()
    world.fuse.left = None
    world.require_consistent()
    assert world.upgrades()._runner.unfinished("") == []
    assert world.parts("db1") in (OLD, NEW)
    world.upgrade()
    assert world.parts("db1") == NEW
    assert world.machines["db1"].images == {NEW.image_id: NEW.digest}
