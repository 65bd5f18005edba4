from __future__ import annotations

from pathlib import Path

import pytest

from grampus.core.errors import UsageError
from grampus.core.units import GIB
from grampus.lab.model import MAX_HOSTS, LabSpec, lab_tag, require_usable_home
from grampus.state.home import Home


def make_spec(**changes: object) -> LabSpec:
    spec = LabSpec(
        name="t",
        tag="1a2b3",
        image_id="sid-0123",
        image_name="sid",
        host_count=3,
        osds_per_host=2,
        media="nvme",
        osd_size_bytes=20 * GIB,
        subnet="10.213.7.0/24",
        fsid="7d4c1a6e-6bb1-4c43-a5dd-0d8a3c1f2b90",
    )
    return spec.model_copy(update=changes)


def test_names_of_links_fit_the_kernels_15_characters() -> None:
    spec = make_spec(host_count=MAX_HOSTS, tag=lab_tag(Home(Path("/x" * 50)), "y" * 32))
    links = [spec.bridge, *(spec.host_link(host) for host in spec.host_names)]
    assert all(len(link) <= 15 for link in links)
    assert len(set(links)) == MAX_HOSTS + 1
    namespaces = {spec.host_namespace(host) for host in spec.host_names}
    assert len(namespaces) == MAX_HOSTS


def test_addresses_of_this_machine_hosts_and_databases_do_not_meet() -> None:
    spec = make_spec(host_count=MAX_HOSTS)
    hosts = [spec.host_address(host) for host in spec.host_names]
    databases = spec.database_addresses()
    assert (spec.gateway, hosts[0], hosts[-1]) == ("10.213.7.1", "10.213.7.11", "10.213.7.19")
    assert (databases[0], databases[-1]) == ("10.213.7.100", "10.213.7.249")
    everything = [spec.gateway, *hosts, *databases]
    assert len(set(everything)) == len(everything)


@pytest.mark.parametrize(
    ("host_count", "mons", "mgrs"),
    [(3, ["h1", "h2", "h3"], ["h1", "h2"]), (9, ["h1", "h2", "h3"], ["h1", "h2"])],
)
def test_three_mons_and_two_mgrs_on_the_first_hosts(
    host_count: int, mons: list[str], mgrs: list[str]
) -> None:
    spec = make_spec(host_count=host_count)
    assert (spec.mon_hosts, spec.mgr_hosts) == (mons, mgrs)
    assert spec.osd_count == 2 * host_count


def test_an_osds_uuid_is_stable_and_its_own() -> None:
    spec = make_spec()
    uuids = [spec.osd_uuid(host, slot) for host in spec.host_names for slot in range(2)]
    assert len(set(uuids)) == 6
    assert uuids[0] == make_spec(media="hdd").osd_uuid("h1", 0)
    assert uuids[0] != make_spec(fsid="00000000-0000-0000-0000-000000000001").osd_uuid("h1", 0)
    # Written down: a lab made by an earlier version must find its OSDs again.
    assert uuids[0] == "2518b840-b738-5fa9-88a4-458051dec210"


def test_tags_keep_labs_and_homes_apart() -> None:
    homes = [Home(Path("/a")), Home(Path("/b"))]
    tags = {lab_tag(home, name) for home in homes for name in ("default", "other")}
    assert len(tags) == 4
    assert all(len(tag) == 5 for tag in tags)
    assert lab_tag(homes[0], "default") == lab_tag(Home(Path("/a")), "default")


@pytest.mark.parametrize("path", ["/var/lib/grampus", "/", "/home/a.b/x_1+2@3-4", "/A/9"])
def test_usable_homes(path: str) -> None:
    assert require_usable_home(Path(path)) == Path(path)


@pytest.mark.parametrize(
    "path", ["/a b", "/a,b", "/a:b", "/a\\b", "/a\tb", "/a\nb", "/ä", "/a'b", "/a%b", "relative"]
)
def test_homes_that_mounts_do_not_take_are_refused_early(path: str) -> None:
    with pytest.raises(UsageError, match="is not a valid directory for a lab") as caught:
        require_usable_home(Path(path))
    assert "GRAMPUS_HOME" in caught.value.remedy
