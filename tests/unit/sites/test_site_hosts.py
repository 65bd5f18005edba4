"""Hosts of a site: what is asked for, refused, recorded and removed."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from grampus.core.clock import SystemClock
from grampus.core.errors import GrampusError, NotFoundError, RefusedError, UsageError
from grampus.core.progress import SilentProgress
from grampus.hosts.port import HostUnreachableError
from grampus.hosts.remote.epoch_guard import HostEpoch
from grampus.hosts.remote.remote_host import RemoteHost, RemoteHostPlace
from grampus.hosts.remote.ssh import SshPlace
from grampus.sites.host_images import HostImageCopies
from grampus.sites.model import SITE_HOST_RECORD, SiteHostSpec
from grampus.sites.site_hosts import HostRequest, SiteHosts, parse_labels, parse_ssh
from grampus.state.home import Home
from grampus.state.store import Store
from tests.fakes.specs import site_spec
from tests.fakes.ssh import FakeSsh
from tests.unit.hosts.remote.test_host_checks import GOOD

SITE = site_spec()
REQUEST = HostRequest("db1", "root@10.0.5.11", labels=("rack=a",))
MONS = ("10.0.5.1",)


class Place:
    """The hosts of one site, with an `ssh` that answers as a good machine does."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "programs").mkdir()
        self.ssh = FakeSsh(tmp_path / "programs", monkeypatch)
        image = tmp_path / "images" / "sid-1" / "root"
        image.mkdir(parents=True)
        (image / "file").write_text("content")
        self.home, self.store = Home(tmp_path / "home"), Store(None)
        copies = HostImageCopies(SITE.host_directory, tmp_path / "images", SilentProgress())
        self.ssh.answer("grampus-free", str(2**40))
        self.hosts = SiteHosts(
            *(self.home, self.store, SITE, copies, self._connect, SystemClock(), SilentProgress()),
            epoch=HostEpoch(SITE.tag, 1, "holder"),
            version="0.2.0",
            at_address_of=lambda name: self.servers.get(name, []),
        )
        self.servers: dict[str, list[str]] = {}  # that have the address of a host
        machine = {**GOOD, "clock": str(SystemClock().now().timestamp())}
        self.ssh.answer("grampus-check", "".join(f"{k} {v}\n" for k, v in machine.items()))
        self.ssh.answer("other", "10.0.5.1 via 10.0.5.9 dev eth0 src 10.0.5.11 uid 0\n")

    def _connect(self, host: SiteHostSpec) -> tuple[SshPlace, RemoteHost]:
        place = SshPlace(
            host=host.name,
            user=host.ssh_user,
            address=host.ssh_address,
            port=host.ssh_port,
            identity=host.identity,
            known_hosts=self.home.root / "sites" / "prod" / "known_hosts",
            control_path=self.home.root / "control",
        )
        at = RemoteHostPlace(host.name, host.address, place, "/d", SITE.tag, SITE.image_id, "")
        return place, RemoteHost(at)

    def recorded(self) -> dict[str, SiteHostSpec]:
        """The records of hosts, by name."""
        return self.store.all(SITE_HOST_RECORD, "prod", SiteHostSpec)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    return Place(tmp_path, monkeypatch)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("10.0.5.11", ("root", "10.0.5.11")), ("op@db1.example", ("op", "db1.example"))],
)
def test_ssh_names_a_user_and_an_address(text: str, expected: tuple[str, str]) -> None:
    assert parse_ssh(text) == expected


@pytest.mark.parametrize("text", ["", "a@b@c", "-oProxyCommand=x", "root@-oX", "root@a b"])
def test_what_is_no_address_never_reaches_ssh(text: str) -> None:
    with pytest.raises(UsageError):
        parse_ssh(text)


def test_labels() -> None:
    assert parse_labels(["rack=a", "room=1=2", "empty="]) == {
        "rack": "a",
        "room": "1=2",
        "empty": "",
    }
    with pytest.raises(UsageError):
        parse_labels(["rack"])


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"name": "Db 1"}, UsageError),
        ({"identity": "/nowhere/id"}, UsageError),
        ({"ssh": "-x"}, UsageError),
    ],
)
def test_a_wrong_request_connects_to_nobody(
    place: Place, changed: dict[str, Any], error: type[GrampusError]
) -> None:
    with pytest.raises(error):
        place.hosts.add(replace(REQUEST, **changed), MONS)
    assert place.ssh.calls() == []
    assert place.recorded() == {}


def test_a_machine_that_lacks_something_is_refused_and_left_as_it_was(place: Place) -> None:
    place.ssh.answer("grampus-check", "systemd 252\nfuse no\n")
    with pytest.raises(RefusedError, match="/dev/fuse") as refused:
        place.hosts.add(REQUEST, MONS)
    assert refused.value.code == "host-unfit"
    assert "grampus-unpack" not in place.ssh.calls()
    assert place.recorded() == {}


def test_a_machine_without_a_way_to_the_cluster_is_refused(place: Place) -> None:
    place.ssh.answer("other", "", code=0)
    with pytest.raises(RefusedError, match=r"10\.0\.5\.1"):
        place.hosts.add(REQUEST, MONS)
    assert place.recorded() == {}


def test_a_copy_that_differs_is_not_used_and_can_be_removed(place: Place) -> None:
    """The record is there before the copy, so `remove` finds what an interrupted `add` left."""
    place.ssh.answer("grampus-digest", "0" * 64)
    with pytest.raises(GrampusError) as failed:
        place.hosts.add(REQUEST, MONS)
    assert failed.value.code == "host-image"
    assert "grampus-keep" not in place.ssh.calls()
    assert not place.recorded()["db1"].is_ready
    assert place.recorded()["db1"].address == "10.0.5.11"
    place.hosts.remove("db1")
    assert "grampus-remove" in place.ssh.calls()
    assert place.recorded() == {}


def test_an_image_that_another_home_built_stays(place: Place) -> None:
    """Servers of the former machine run from it: it could not be replaced."""
    theirs = "2" * 64
    place.ssh.answer("grampus-parts", f"parts 1 0.1.9 sid-1 {theirs}\nimage sid-1\n")
    place.ssh.answer("grampus-digest", theirs)
    # What is run on the host itself is not there to answer: the record says enough.
    with contextlib.suppress(GrampusError, FileNotFoundError):
        place.hosts.add(REQUEST, MONS)
    assert "grampus-unpack" not in place.ssh.calls()
    recorded = place.recorded()["db1"]
    assert (recorded.image_id, recorded.image_digest) == ("sid-1", theirs)


def test_a_host_of_a_later_grampus_is_not_added(place: Place) -> None:
    place.ssh.answer("grampus-parts", f"parts 1 9.9.9 sid-9 {'9' * 64}\nimage sid-9\n")
    with pytest.raises(RefusedError) as refused:
        place.hosts.add(REQUEST, MONS)
    assert refused.value.code == "newer-host"
    assert place.recorded() == {}
    assert "grampus-note" not in place.ssh.calls()


@pytest.mark.parametrize(
    ("free_kib", "err"), [("1000", ""), (str(2**30), "tar: file: No space left on device")]
)
def test_a_full_disk_is_named_and_nothing_stays(place: Place, free_kib: str, err: str) -> None:
    place.ssh.answer("grampus-digest", "0" * 64)
    place.ssh.answer("grampus-free", free_kib)
    place.ssh.answer("grampus-unpack", code=2 if err else 0, err=err)
    with pytest.raises(GrampusError, match="The disk of db1 is full") as failed:
        place.hosts.add(REQUEST, MONS)
    assert failed.value.code == "host-disk-full"
    assert "grampus-keep" not in place.ssh.calls()
    assert ("grampus-discard" in place.ssh.calls()) is bool(err)


def test_a_changed_image_is_not_replaced_under_services(place: Place) -> None:
    place.ssh.answer("grampus-digest", "0" * 64)
    users = "user sid-1 process 12\nuser sid-1 mysqld-shop\n"
    place.ssh.answer("grampus-parts", f"image sid-1\n{users}")
    with pytest.raises(RefusedError, match="run from it: mysqld-shop") as refused:
        place.hosts.add(REQUEST, MONS)
    assert refused.value.code == "host-in-use"
    assert "grampus-unpack" not in place.ssh.calls(), "it was not copied for nothing"


def test_a_host_whose_services_run_stays(place: Place) -> None:
    put(place, "db1")
    place.ssh.answer("grampus-remove", code=65, err="services run: grampus-1a2b3-mysqld-shop\n")
    with pytest.raises(RefusedError, match="mysqld-shop") as refused:
        place.hosts.remove("db1")
    assert refused.value.code == "host-in-use"
    assert "db1" in place.recorded()


def test_a_host_that_cannot_be_reached_stays(place: Place) -> None:
    """What is on it is unknown, which is not the same as nothing."""
    put(place, "db1")
    place.ssh.answer("grampus-remove", code=255, err="ssh: connect to host: No route to host\n")
    with pytest.raises(HostUnreachableError):
        place.hosts.remove("db1")
    assert "db1" in place.recorded()


@pytest.mark.parametrize(
    "request_", [HostRequest("db1", "10.0.5.99"), HostRequest("db2", "root@10.0.5.11")]
)
def test_a_name_and_a_place_belong_to_one_host(place: Place, request_: HostRequest) -> None:
    put(place, "db1")
    with pytest.raises(RefusedError) as refused:
        place.hosts.add(request_, MONS)
    assert refused.value.code == "host-exists"


def test_a_wrong_name_gets_a_suggestion(place: Place) -> None:
    put(place, "db1")
    with pytest.raises(NotFoundError, match="db1"):
        place.hosts.get("db2")


def put(place: Place, name: str) -> None:
    """A host that was added before."""
    spec = SiteHostSpec(
        name=name, address="10.0.5.11", ssh_user="root", ssh_address="10.0.5.11", is_ready=True
    )
    place.store.put(SITE_HOST_RECORD, "prod", name, spec)


@pytest.mark.parametrize(
    ("address", "servers", "code"),
    [
        ("10.0.5.12", ["shop"], "host-in-use"),
        ("10.0.5.12", [], "host-image"),  # what comes next: this machine takes no image
        ("10.0.5.11", ["shop"], "host-image"),
    ],
)
def test_the_address_of_servers_does_not_change_under_them(
    place: Place, address: str, servers: list[str], code: str
) -> None:
    known = SiteHostSpec(
        name="db1", address="10.0.5.11", ssh_user="root", ssh_address="10.0.5.11", is_ready=True
    )
    place.store.put(SITE_HOST_RECORD, "prod", "db1", known)
    place.servers["db1"] = servers
    place.ssh.answer("other", f"10.0.5.1 via 10.0.5.9 dev eth0 src {address} uid 0\n")
    with pytest.raises(GrampusError) as caught:
        place.hosts.add(REQUEST, MONS)
    assert caught.value.code == code
    if code == "host-in-use":
        assert "was 10.0.5.11 and is 10.0.5.12 now" in caught.value.problem
        assert place.recorded() == {"db1": known}
