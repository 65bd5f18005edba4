from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Network
from pathlib import Path
from typing import cast

import pytest

from grampus.core.errors import GrampusError, NotFoundError, RefusedError, UsageError
from grampus.core.progress import SilentProgress
from grampus.core.units import GIB, MIB
from grampus.hosts.lab_host import LabFleet
from grampus.hosts.port import DaemonSpec
from grampus.lab.images.cache import HostImage, HostImages
from grampus.lab.images.definition import ImageDefinition, load_definitions
from grampus.lab.labs import (
    DEFAULT_OSD_SIZE_BYTES,
    MIN_OSD_SIZE_BYTES,
    HostView,
    LabRequest,
    LabService,
    LabView,
    decide_osd_size_bytes,
    find_library_dir,
    require_same,
)
from grampus.lab.model import LAB_RECORD, LabSpec
from grampus.lab.network import NETWORKS_LOCK, NetworkLock
from grampus.lab.osd_set import OSD_SET_RECORD
from grampus.state.home import Home
from grampus.state.operations import OperationJournal
from grampus.state.store import Store
from tests.fakes.clock import FakeClock
from tests.fakes.hosts import FakeDaemon
from tests.fakes.interruption import Fuse
from tests.fakes.lab_host import FakeCeph, FakeLabFleet, FakeLabHost
from tests.unit.operation_runner import make_runner, planned

from .test_model import make_spec
from .test_osd_plans import make_set

REPOSITORY_IMAGES = Path(__file__).resolve().parents[3] / "images"
MONS = ("mon-h1", "mon-h2", "mon-h3")


class FakeHostImages:
    """As much of `HostImages` as planning a lab needs."""

    def definition(self, name: str) -> ImageDefinition:
        return load_definitions(REPOSITORY_IMAGES)[name]

    def ensure_first_available(self, names: tuple[str, ...], progress: object) -> HostImage:
        return HostImage(
            id=f"{names[0]}-0123456789ab",
            definition=names[0],
            flavours=("mysql",),
            root=Path("/nowhere"),
            versions={},
            size_bytes=1,
            built_at=FakeClock().now(),
        )


class ServiceOnFakes(LabService):
    """The service, with hosts in memory."""

    hosts: FakeLabFleet

    def fleet(self, spec: LabSpec) -> LabFleet:
        return cast(LabFleet, self.hosts)


class Lab:
    def __init__(self, root: Path) -> None:
        self.home = Home(root)
        self.store = Store(None)
        self.clock = FakeClock()
        self.journal = OperationJournal(self.store, self.clock)
        self.runner = make_runner("t", self.store, self.journal, self.clock)
        self.uid = 0
        self.machine_locks = root.parent / f"{root.name}-locks"
        self.networks: list[IPv4Network] = []
        self.ceph = FakeCeph()
        spec = make_spec()
        self.hosts = {
            name: FakeLabHost(name, spec.host_address(name), self.ceph, Fuse())
            for name in spec.host_names
        }
        self.ceph.hosts = list(self.hosts.values())

    def service(self, name: str = "t") -> LabService:
        service = ServiceOnFakes(
            name,
            self.home,
            self.store,
            self.runner if name == "t" else make_runner(name, self.store, self.journal, self.clock),
            cast(HostImages, FakeHostImages()),
            self.clock,
            SilentProgress(),
            effective_uid=lambda: self.uid,
            used_networks=lambda: self.networks,
            network_lock=NetworkLock(self.clock, self.machine_locks),
        )
        service.hosts = FakeLabFleet(self.ceph.hosts)
        return service

    def record(self, spec: LabSpec) -> None:
        self.store.put(LAB_RECORD, spec.name, spec.name, spec)

    def run_daemons(self) -> None:
        for number, host in enumerate(self.hosts.values()):
            for daemon in (MONS[number], f"osd-{number}"):
                host.daemons[daemon] = FakeDaemon(DaemonSpec(daemon, ()))


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    made = Lab(tmp_path / "home")
    yield made
    made.store.close()


# -- the size of OSDs --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("requested", "osds", "free_bytes", "expected"),
    [
        (None, 3, 1000 * GIB, DEFAULT_OSD_SIZE_BYTES),
        (None, 3, 75 * GIB, 20 * GIB),
        (None, 3, 30 * GIB, 8 * GIB),
        (None, 3, 15 * GIB, 4 * GIB),
        (None, 3, 30 * GIB + 12345, 8 * GIB),
        (6 * GIB + 17, 3, 1000 * GIB, 6 * GIB),
        (MIN_OSD_SIZE_BYTES, 3, 15 * GIB, MIN_OSD_SIZE_BYTES),
        (200 * GIB, 3, 750 * GIB, 200 * GIB),
    ],
)
def test_osds_get_what_was_asked_for_or_what_the_disk_can_bear(
    requested: int | None, osds: int, free_bytes: int, expected: int
) -> None:
    found = decide_osd_size_bytes(requested, osds, free_bytes)
    assert found == expected
    assert found % MIB == 0
    assert found * osds <= free_bytes * 0.8


@pytest.mark.parametrize(
    ("requested", "osds", "free_bytes", "error"),
    [
        (None, 3, 15 * GIB - 3 * MIB, "do not fit"),
        (None, 72, 100 * GIB, "do not fit"),
        (20 * GIB, 3, 60 * GIB, "do not fit"),
        (MIN_OSD_SIZE_BYTES - 1, 3, 1000 * GIB, "too small"),
        (None, 3, 0, "do not fit"),
    ],
)
def test_osds_that_do_not_fit_are_refused(
    requested: int | None, osds: int, free_bytes: int, error: str
) -> None:
    with pytest.raises(GrampusError, match=error):
        decide_osd_size_bytes(requested, osds, free_bytes)


# -- the same lab again ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "request_",
    [
        LabRequest("t"),
        LabRequest("t", 3, 2, "nvme", 20 * GIB, "sid"),
        LabRequest("t", hosts=3),
        LabRequest("t", is_secure=False),
        LabRequest("t", osd_hosts=3),
    ],
)
def test_asking_for_the_lab_as_it_is(request_: LabRequest) -> None:
    require_same(request_, make_spec())


@pytest.mark.parametrize(
    ("request_", "sentence"),
    [
        (LabRequest("t", hosts=4), "--hosts 3, not 4"),
        (LabRequest("t", hosts=0), "--hosts 3, not 0"),
        (LabRequest("t", osds_per_host=1), "--osds-per-host 2, not 1"),
        (LabRequest("t", media="hdd"), "--media nvme, not hdd"),
        (LabRequest("t", osd_size_bytes=GIB), "--osd-size"),
        (LabRequest("t", image="trixie"), "--image sid, not trixie"),
        (LabRequest("t", is_secure=True), "--secure off, not on"),
        (LabRequest("t", osd_hosts=2), "--osd-hosts 3, not 2"),
        (LabRequest("t", hosts=4, media="ssd"), "--hosts 3, not 4, --media nvme, not ssd"),
    ],
)
def test_asking_for_another_lab_of_the_same_name(request_: LabRequest, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        require_same(request_, make_spec())


# -- planning ----------------------------------------------------------------------------------


def test_hosts_run_no_image_without_a_cluster(lab: Lab) -> None:
    with pytest.raises(UsageError, match="has no Ceph") as caught:
        lab.service().plan_up(LabRequest("t", image="bookworm-mariadb"))
    assert caught.value.remedy == "Choose an image for hosts: sid, trixie or bookworm."


def test_a_lab_of_an_older_ceph(lab: Lab) -> None:
    spec = lab.service().plan_up(
        LabRequest("t", image="bookworm", osd_size_bytes=MIN_OSD_SIZE_BYTES)
    )
    assert spec.image_name == "bookworm"


def test_a_new_lab_with_defaults(lab: Lab) -> None:
    spec = lab.service().plan_up(LabRequest("t", osd_size_bytes=MIN_OSD_SIZE_BYTES))
    assert (spec.host_count, spec.osds_per_host, spec.media, spec.copies) == (3, 1, "nvme", 3)
    assert (spec.image_name, spec.subnet) == ("sid", "10.213.0.0/24")
    assert lab.service().find_spec() is None  # planning changes nothing


def test_a_lab_that_is_there_stays_what_it_is(lab: Lab) -> None:
    lab.record(make_spec())
    lab.networks = [IPv4Network("10.213.0.0/16")]  # its own, among others
    assert lab.service().plan_up(LabRequest("t")) == make_spec()
    with pytest.raises(UsageError):
        lab.service().plan_up(LabRequest("t", hosts=5))


@pytest.mark.parametrize(
    ("hosts", "per_host", "sentence"),
    [
        (2, 1, "3 to 9 hosts, not 2"),
        (10, 1, "3 to 9 hosts, not 10"),
        (0, 1, "3 to 9 hosts, not 0"),
        (-3, 1, "3 to 9 hosts"),
        (3, 0, "1 to 8 OSDs, not 0"),
        (3, 9, "1 to 8 OSDs, not 9"),
    ],
)
def test_bounds(lab: Lab, hosts: int, per_host: int, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        lab.service().plan_up(LabRequest("t", hosts=hosts, osds_per_host=per_host))


def test_some_hosts_may_have_no_osds(lab: Lab) -> None:
    spec = lab.service().plan_up(LabRequest("t", hosts=5, osd_hosts=3))
    assert (spec.osd_hosts, spec.other_hosts) == (["h1", "h2", "h3"], ["h4", "h5"])
    assert spec.osd_count == 3
    every = lab.service().plan_up(LabRequest("t", hosts=4, osd_hosts=4))
    assert (every.osd_host_count, every.other_hosts, every.osd_count) == (None, [], 4)


@pytest.mark.parametrize("osd_hosts", [2, 6])
def test_osds_need_three_hosts_and_hosts_that_are_there(lab: Lab, osd_hosts: int) -> None:
    with pytest.raises(UsageError, match=f"Of 5 hosts 3 to 5 have OSDs, not {osd_hosts}"):
        lab.service().plan_up(LabRequest("t", hosts=5, osd_hosts=osd_hosts))


def test_disk_too_small(lab: Lab) -> None:
    with pytest.raises(GrampusError, match="do not fit") as caught:
        lab.service().plan_up(LabRequest("t", osd_size_bytes=1 << 60))
    assert caught.value.code == "disk-too-small"


def test_who_is_not_root_is_told_before_anything_is_made(lab: Lab) -> None:
    lab.uid = 1000
    spec = make_spec()
    calls = [
        lambda: lab.service().plan_up(LabRequest("t")),
        lambda: lab.service().up(spec),
        lambda: lab.service().down(spec, keep=False),
    ]
    for call in calls:
        with pytest.raises(GrampusError, match="needs root") as caught:
            call()
        assert caught.value.code == "not-root"
    assert not lab.home.root.exists()
    assert lab.journal.unfinished("t") == []


@pytest.mark.parametrize("name", ["a b", "a,b", "a:b"])
def test_a_home_that_mounts_do_not_take_is_refused_before_anything_is_made(
    tmp_path: Path, name: str
) -> None:
    odd = Lab(tmp_path / name)
    with pytest.raises(UsageError, match="is not a valid directory for a lab"):
        odd.service().plan_up(LabRequest("t"))
    assert not odd.home.root.exists()
    odd.store.close()


def test_a_home_behind_a_symbolic_link_is_the_same_home(tmp_path: Path, lab: Lab) -> None:
    """The mount table knows real paths only: else teardown would find no mount of its own."""
    lab.home.root.mkdir()
    (tmp_path / "link").symlink_to(lab.home.root)
    linked = Lab(tmp_path / "link")
    request = LabRequest("t", osd_size_bytes=MIN_OSD_SIZE_BYTES)
    assert linked.service().plan_up(request).tag == lab.service().plan_up(request).tag
    fleet = LabService.fleet(linked.service(), make_spec())
    assert fleet.lab_hosts()[0].data_dir.is_relative_to(lab.home.root)
    linked.store.close()


def test_no_other_home_chooses_a_network_until_the_chosen_one_is_made(
    lab: Lab, tmp_path: Path
) -> None:
    other = Lab(tmp_path / "other")
    other.machine_locks = lab.machine_locks
    request = LabRequest("t", osd_size_bytes=MIN_OSD_SIZE_BYTES)
    first = lab.service()
    spec = first.plan_up(request)
    with pytest.raises(RefusedError, match="the network of another lab") as caught:
        other.service().plan_up(request)
    assert caught.value.code == "busy"
    # A plan alone takes nothing, and waits for nobody.
    assert other.service().plan_up(request, build_image=False).subnet == spec.subnet
    lab.uid = 1
    with pytest.raises(GrampusError, match="needs root"):
        first.up(spec)  # it ends before it has begun
    other.networks = [spec.network]  # as once its bridge is there
    assert other.service().plan_up(request).subnet != spec.subnet
    other.store.close()


def test_the_network_lock_ends_with_the_block_and_is_acquired_once(tmp_path: Path) -> None:
    lock, other = (NetworkLock(FakeClock(), tmp_path) for _ in range(2))
    lock.acquire()
    with lock.held(), pytest.raises(RefusedError):
        other.acquire()
    with other.held(), pytest.raises(RefusedError):
        lock.acquire()
    assert (tmp_path / f"{NETWORKS_LOCK}.lock").exists()


def test_two_labs_get_two_networks_also_when_the_other_is_down(lab: Lab) -> None:
    lab.record(make_spec(name="kept", subnet="10.213.0.0/24"))
    lab.networks = [IPv4Network("10.213.1.0/24")]
    spec = lab.service().plan_up(LabRequest("t", osd_size_bytes=MIN_OSD_SIZE_BYTES))
    assert spec.subnet == "10.213.2.0/24"


def test_a_lab_comes_up_with_its_osd_sets_before_its_pools(lab: Lab) -> None:
    spec = make_spec()
    lab.record(spec)
    assert not any(
        "OSD set" in title for title in planned(lab.runner, lambda: lab.service().up(spec))
    )
    for name in ("fast", "slow"):
        lab.store.put(OSD_SET_RECORD, "t", name, make_set(name=name))
    titles = planned(lab.runner, lambda: lab.service().up(spec))
    at = titles.index("Start 2 OSD sets")
    assert titles[at - 1].endswith("OSDs")
    assert titles[at + 1] == "Create the pool for databases"


@pytest.mark.parametrize("name", ["T", "a b", "../x", "", "all"])
def test_bad_names(lab: Lab, name: str) -> None:
    with pytest.raises(UsageError):
        lab.service(name)


def test_unknown_labs(lab: Lab) -> None:
    with pytest.raises(
        NotFoundError, match=r"There is no lab named 't'\. `grampus lab up --lab t`"
    ):
        lab.service().spec()
    lab.record(make_spec(name="demo"))
    with pytest.raises(NotFoundError, match="Did you mean 'demo'"):
        lab.service("demi").spec()
    assert [spec.name for spec in lab.service().labs()] == ["demo"]


def test_an_interrupted_up_without_a_record_is_found_again(lab: Lab) -> None:
    spec = make_spec()
    assert lab.service().unfinished_spec() is None
    lab.journal.begin("lab.up", "t", "t", {"lab": spec.model_dump(mode="json"), "is_new": True})
    assert lab.service().unfinished_spec() == spec
    assert lab.service("other").unfinished_spec() is None


def test_down_of_all_ends_with_forgetting_and_of_kept_data_does_not(lab: Lab) -> None:
    titles = planned(lab.runner, lambda: lab.service().down(make_spec(), keep=False))
    kept = planned(lab.runner, lambda: lab.service().down(make_spec(), keep=True))
    assert titles[:-2] == kept
    assert titles[-2:] == ["Remove the data", "Delete the record of the lab"]


def test_forgetting_a_lab_ends_what_was_interrupted_in_it(lab: Lab) -> None:
    """Else a later lab of the same name would have its volume deleted."""
    lab.record(make_spec())
    lab.journal.begin("volume.delete", "t", "demo", {})
    lab.journal.begin("volume.delete", "other", "demo", {})
    down = lab.journal.begin("lab.down", "t", "t", {})
    secrets = lab.home.secrets_dir("t")
    secrets.mkdir(parents=True)
    forget = lab.service().down_steps(make_spec(), keep=False)[-1]
    for _ in range(2):
        forget.apply()
        assert not secrets.exists()
        assert lab.service().find_spec() is None
        assert [operation.id for operation in lab.journal.unfinished("t")] == [down.id]
        assert len(lab.journal.unfinished("other")) == 1


# -- the state ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        (["up", "up", "up"], "up"),
        (["up", "up", "down"], "degraded"),
        (["up", "cut-off", "up"], "degraded"),
        (["cut-off", "cut-off", "cut-off"], "degraded"),
        (["down", "cut-off", "down"], "degraded"),
        (["down", "down", "down"], "down"),
    ],
)
def test_state_of_a_lab(states: list[str], expected: str) -> None:
    hosts = tuple(HostView(f"h{n}", "10.0.0.1", state, ()) for n, state in enumerate(states))
    assert LabView(make_spec(), hosts, None, "", ()).state == expected


def test_observe_tells_hosts_apart_and_names_what_was_interrupted(lab: Lab) -> None:
    lab.run_daemons()
    lab.hosts["h2"].state, lab.hosts["h3"].state = "cut-off", "down"
    lab.hosts["h1"].partition = "clients"
    lab.journal.begin("lab.up", "t", "t", {"lab": make_spec().model_dump(mode="json")})
    view = lab.service().observe(make_spec())
    assert [host.state for host in view.hosts] == ["up", "cut-off", "down"]
    assert [host.partition for host in view.hosts] == ["clients", None, None]
    assert view.state == "degraded"
    assert view.cluster is not None
    assert view.unfinished == ("lab up was interrupted at step 'start' (2026-01-01T00:00:00 UTC)",)


def test_observe_of_a_lab_that_is_down_asks_no_cluster(lab: Lab) -> None:
    for host in lab.hosts.values():
        host.state = "down"
    view = lab.service().observe(make_spec())
    assert (view.state, view.cluster, view.cluster_problem) == ("down", None, "")
    assert all(host.commands == [] for host in lab.hosts.values())


def test_observe_says_why_the_cluster_does_not_answer(lab: Lab) -> None:
    lab.run_daemons()
    for name in ("h1", "h2"):
        lab.hosts[name].kill_daemon(f"mon-{name}")
    view = lab.service().observe(make_spec())
    assert view.cluster is None
    assert "RADOS timed out" in view.cluster_problem


# -- faults ------------------------------------------------------------------------------------


def test_what_is_safe_to_lose(lab: Lab) -> None:
    lab.run_daemons()
    for host, daemon in [("h3", None), (None, "osd-1"), (None, "mon-h2"), (None, "mgr-h1")]:
        lab.service().require_safe_to_lose(make_spec(), host=host, daemon=daemon)


@pytest.mark.parametrize(
    ("dead", "host", "daemon", "code"),
    [
        # Placement groups still report the dead OSD: what counts is that it does not run.
        ("osd-0", "h2", None, "too-few-copies"),
        ("osd-0", None, "osd-1", "too-few-copies"),
        ("mon-h1", "h3", None, "no-quorum"),
        ("mon-h1", None, "mon-h3", "no-quorum"),
    ],
)
def test_what_would_stop_databases_is_refused(
    lab: Lab, dead: str, host: str | None, daemon: str | None, code: str
) -> None:
    lab.run_daemons()
    lab.hosts["h1"].kill_daemon(dead)
    with pytest.raises(RefusedError) as caught:
        lab.service().require_safe_to_lose(make_spec(), host=host, daemon=daemon)
    assert caught.value.code == code
    assert "--force" in caught.value.remedy
    assert "heal" in caught.value.remedy


@pytest.mark.parametrize("daemon", ["osd-", "osd-x", "osd--1", "nothing", ""])
def test_names_of_no_daemon_are_no_traceback(lab: Lab, daemon: str) -> None:
    lab.run_daemons()
    lab.service().require_safe_to_lose(make_spec(), host=None, daemon=daemon)
    with pytest.raises(NotFoundError, match="no running daemon"):
        lab.service().kill_daemon(make_spec(), daemon)


def test_unknown_host(lab: Lab) -> None:
    with pytest.raises(NotFoundError):
        lab.service().require_safe_to_lose(make_spec(), host="h9", daemon=None)


def test_kill_daemon_ends_that_one_and_says_where(lab: Lab) -> None:
    lab.run_daemons()
    assert lab.service().kill_daemon(make_spec(), "osd-1") == "h2"
    assert [(one.name, one.state) for one in lab.hosts["h2"].observe_daemons()] == [
        ("mon-h2", "running"),
        ("osd-1", "stopped"),
    ]
    with pytest.raises(NotFoundError):
        lab.service().kill_daemon(make_spec(), "osd-1")


# -- the host image ----------------------------------------------------------------------------


@pytest.mark.parametrize("triplet", ["x86_64-linux-gnu", "aarch64-linux-gnu"])
def test_library_dir_by_the_machines_triplet(tmp_path: Path, triplet: str) -> None:
    (tmp_path / "usr/lib" / triplet / "rados-classes").mkdir(parents=True)
    (tmp_path / "usr/lib/python3").mkdir()
    assert find_library_dir(tmp_path) == f"/usr/lib/{triplet}"


def test_a_host_image_without_ceph_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(GrampusError, match="has no Ceph object classes"):
        find_library_dir(tmp_path)
