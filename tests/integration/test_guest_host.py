"""A host of a site that is a virtual machine, with a kernel and a page cache of its own.

The other hosts of the tests share the kernel of this machine. The first run builds the host image
with QEMU; where the CPU is emulated, it takes long.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.system.command_line import CHECKOUT, CommandLine
from tests.system.guest_host import PATIENCE, GuestHost
from tests.system.machine import wait_for
from tests.system.serving import serving
from tests.system.site_machines import FIRST_HOST, NAME, LabCluster, Site, own_site

SITE = "site-guest"
GUEST = "v1"
SMALL = ("--size", "1G", "--memory", "320M", "--cpus", "0.5")
SERVES_AGAIN_S = 60.0 * PATIENCE

pytestmark = [
    pytest.mark.exhaustive,
    pytest.mark.timeout(3600),
    pytest.mark.logs("controller.event"),
]


@pytest.fixture(scope="module")
def machines(
    lab: CommandLine, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Site, GuestHost]]:
    """A site with one host as in the other tests, and the virtual machine as the second."""
    line, cluster = CommandLine(SITE), LabCluster(lab)
    files = tmp_path_factory.mktemp("site")
    with ExitStack() as stack:
        site = stack.enter_context(own_site(line, cluster, files, line.home / "machines", ("s1",)))
        guest = stack.enter_context(
            GuestHost(
                line.home / "guest",
                GUEST,
                identity=site.hosts.identity,
                root_cache=CHECKOUT / "build" / "systemd-hosts",
                bridge=cluster.bridge,
                address=f"{cluster.network}.{FIRST_HOST + 5}",
                link=site.hosts.link(GUEST),
            )
        )
        place, identity = f"root@{guest.address}", str(site.hosts.identity)
        line.ok("host", "add", GUEST, "--ssh", place, "--identity", identity, timeout_s=1800)
        line.ok("db", "create", NAME, *SMALL, "--host", GUEST, timeout_s=1800)
        line.ok("db", "connect", NAME, "-e", "CREATE DATABASE d")
        line.ok("db", "connect", NAME, "-e", "CREATE TABLE d.t (id SERIAL PRIMARY KEY)")
        yield site, guest
        for name in [one["name"] for one in line.json("db", "list")["databases"]]:
            line.ok("db", "delete", name, "--now", "--yes")
        line.ok("host", "remove", GUEST, "--yes", timeout_s=600)
        assert guest.run(*site.look_for_rest) == ""


def services(guest: GuestHost) -> list[str]:
    """The services of Grampus that run."""
    listed = guest.run("systemctl", "list-units", "--plain", "--no-legend", "grampus-*.service")
    return [line.split()[0] for line in listed.splitlines()]


def test_a_machine_with_another_kernel_has_all_that_a_host_needs(
    machines: tuple[Site, GuestHost],
) -> None:
    site, guest = machines
    assert guest.run("uname", "-r").strip() != os.uname().release
    checks = site.line.json("host", "check", GUEST)["checks"]
    assert {one["verdict"] for one in checks} <= {"ok", "info", "warning"}
    site.insert()
    assert site.rows() == 1
    assert len(services(guest)) == 2, "the driver of the volume, and the server"


def test_databases_move_between_kernels(machines: tuple[Site, GuestHost]) -> None:
    site, _ = machines
    before = site.rows()
    for host in ("s1", GUEST):
        site.line.ok("db", "move", NAME, "--host", host, timeout_s=600)
        site.insert()
        before += 1
        assert site.rows() == before


@pytest.mark.logs("volume.fenced", "operation.failed", "host.silent")
def test_without_power_it_loses_its_database_and_no_row(machines: tuple[Site, GuestHost]) -> None:
    """What it had in its page cache is gone; after the boot nothing runs that moved."""
    site, guest = machines
    assert site.host_of(NAME) == GUEST
    before = site.rows()
    with serving(site.line) as serve:
        for _ in range(20):
            site.insert()
        guest.end()
        wait_for(lambda: site.host_of(NAME) == "s1", "the failover", SERVES_AGAIN_S)
        wait_for(lambda: "failed-over" in serve.kinds(NAME), "its event", SERVES_AGAIN_S)
        assert site.rows() == before + 20
        guest.boot()
        wait_for(lambda: services(guest) == [], "the host to be without databases", SERVES_AGAIN_S)
        site.insert()
        assert site.rows() == before + 21
    site.line.ok("host", "check", GUEST)
    site.line.ok("db", "move", NAME, "--host", GUEST, timeout_s=600)


def test_a_reboot_is_survived_and_nothing_starts_by_itself(
    machines: tuple[Site, GuestHost],
) -> None:
    """Without `grampus serve` a host that boots starts no database: it may have moved."""
    site, guest = machines
    assert site.host_of(NAME) == GUEST
    before, booted = site.rows(), guest.run("cat", "/proc/sys/kernel/random/boot_id")
    guest.run("systemctl", "--no-block", "reboot")

    def is_another_boot() -> bool:
        guest.wait_until_up()
        return guest.run("cat", "/proc/sys/kernel/random/boot_id") != booted

    wait_for(is_another_boot, "the reboot", SERVES_AGAIN_S)
    assert services(guest) == []
    with serving(site.line):
        wait_for(lambda: len(services(guest)) == 2, "the database to run again", SERVES_AGAIN_S)
        select = ("db", "connect", NAME, "-e", "SELECT 1")
        wait_for(lambda: site.line.run(*select).code == 0, "its server", SERVES_AGAIN_S)
    assert site.rows() == before
