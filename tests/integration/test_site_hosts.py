"""A site: the cluster of a lab with a key of few rights, and hosts that Grampus did not create.

The hosts are machines of their own with systemd, reached by SSH alone (`system/systemd_hosts.py`).
Their directories are looked at by tests only: Grampus knows nothing of them.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from grampus.hosts.remote.units import UnitPlace, cpu_waits_argv, parse_cpu_waits
from tests.system.command_line import KILLED, CommandLine
from tests.system.machine import wait_for
from tests.system.next_release import VERSION, NextRelease
from tests.system.serving import serving
from tests.system.site_machines import NAME, LabCluster, Site, joined_machine, own_site

SITE = "site-prod"
SERVES_AGAIN_S = 90.0
# After which a machine that holds a lock counts as dead (`state/shared_locks.py`).
SILENT_S = 30.0
SMALL = ("--size", "1G", "--memory", "320M", "--cpus", "0.5")

pytestmark = pytest.mark.logs("controller.event")


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NextRelease]:
    """The next release; its image stays until no host has it."""
    with NextRelease(tmp_path_factory.mktemp("release"), CommandLine(SITE)) as made:
        yield made


@pytest.fixture(scope="module")
def site(
    lab: CommandLine, release: NextRelease, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    """The site with two hosts and one database with a table."""
    del release  # it ends after the site
    line = CommandLine(SITE)
    directory = tmp_path_factory.mktemp("site")
    with own_site(line, LabCluster(lab), directory, line.home / "machines", ("s1", "s2")) as site:
        line.ok("db", "create", NAME, *SMALL, "--host", "s1", timeout_s=600)
        line.ok("db", "connect", NAME, "-e", "CREATE DATABASE d")
        line.ok("db", "connect", NAME, "-e", "CREATE TABLE d.t (id SERIAL PRIMARY KEY)")
        yield site


def test_a_server_is_a_service_with_limits_and_a_user_of_its_own(site: Site) -> None:
    assert {f"mysqld-{NAME}", f"volumed-{NAME}"} <= site.services("s1")
    shown = site.show("s1", f"mysqld-{NAME}", "MemoryMax", "CPUQuotaPerSecUSec", "MainPID")
    assert shown["MemoryMax"] == str(320 * 2**20)
    assert shown["CPUQuotaPerSecUSec"] == "500ms"
    status = site.hosts.run("s1", "cat", f"/proc/{shown['MainPID']}/status")
    assert int(status.split("Uid:")[1].split()[0]) > 65535, "no user of the host"
    site.line.ok("db", "set", NAME, "--memory", "384M", "--cpus", "0.7")
    shown = site.show("s1", f"mysqld-{NAME}", "MemoryMax", "CPUQuotaPerSecUSec")
    assert shown == {"MemoryMax": str(384 * 2**20), "CPUQuotaPerSecUSec": "700ms"}


def test_a_host_shows_its_daemons(site: Site) -> None:
    shown = site.line.json("host", "show", "s1")
    assert shown["databases"] == [NAME]
    memory = {one["name"]: one["memory_bytes"] for one in shown["daemons"]}
    assert memory[f"mysqld-{NAME}"] > 50 * 2**20
    assert site.line.json("host", "show", "s2")["labels"] == {"rack": "b"}


def test_a_host_counts_how_long_a_daemon_waits_for_a_cpu(site: Site) -> None:
    place = UnitPlace(site.tag, f"/var/lib/grampus/{site.tag}", "")
    argv = cpu_waits_argv(place, [f"mysqld-{NAME}", "mysqld-absent"])
    (name, first), *others = parse_cpu_waits(site.hosts.run("s1", *argv)).items()
    assert (name, others) == (f"mysqld-{NAME}", [])
    # Half a core for a second: the server is held back, and its threads wait.
    site.line.sql(NAME, "SELECT BENCHMARK(30000000, MD5('grampus'))")
    last = parse_cpu_waits(site.hosts.run("s1", *argv))[name]
    assert last.throttled_us > first.throttled_us
    # It is less when a thread has ended.
    assert min(first.waited_us, last.waited_us) > 0


def test_no_host_has_the_key_of_grampus(site: Site) -> None:
    keys = site.hosts.run("s1", "sh", "-c", "ls /var/lib/grampus/*/data/etc-ceph")
    assert set(keys.split()) >= {"ceph.conf", f"ceph.client.grampus.{SITE}.{NAME}.keyring"}
    assert "ceph.client.grampus.keyring" not in keys.split()


def test_a_database_grows_is_cloned_and_moves(site: Site) -> None:
    site.insert()
    before = site.rows()
    site.line.ok("db", "resize", NAME, "--size", "2G")
    site.line.ok("db", "snapshot", "create", NAME, "first")
    site.line.ok("db", "clone", NAME, "copy", "--snapshot", "first", "--host", "s2")
    assert int(site.line.sql("copy", "SELECT COUNT(*) FROM d.t")[0][0]) == before
    site.line.ok("db", "delete", "copy", "--now", "--yes")
    site.line.ok("db", "move", NAME, "--host", "s2")
    assert site.rows() == before
    assert f"mysqld-{NAME}" not in site.services("s1")
    site.line.ok("db", "move", NAME, "--host", "s1")


def test_an_address_of_another_machine_is_not_taken(site: Site) -> None:
    """Somebody gave it to a machine of theirs, which keeps it."""
    taken = site.line.json("db", "show", NAME)["address"].rpartition(".")
    foreign = f"{taken[0]}.{int(taken[2]) + 1}"
    ours = ("ip", "address", "add", f"{foreign}/24", "dev", "eth0")
    site.hosts.run("s2", *ours)
    try:
        site.line.ok("db", "create", "beside", *SMALL, "--host", "s1")
        assert site.line.json("db", "show", "beside")["address"] != foreign
    finally:
        site.hosts.run("s2", "ip", "address", "delete", f"{foreign}/24", "dev", "eth0")
    site.line.ok("db", "delete", "beside", "--now", "--yes")


@pytest.mark.logs("operation.undone")
def test_a_creation_that_was_killed_leaves_nothing(site: Site) -> None:
    """Its command ends with it on the host, and the next one undoes what was done."""
    killed = site.line.run("db", "create", "cut", *SMALL, failpoints="db.create/start/after=kill")
    assert killed.code == KILLED
    names = [one["name"] for one in site.line.json("db", "list")["databases"]]
    assert names == [NAME]
    for host in ("s1", "s2"):
        assert "mysqld-cut" not in site.services(host)
        assert "/cut" not in site.left_on(host)


def test_a_wrong_host_key_and_a_changed_image_are_found(site: Site) -> None:
    known = site.line.home / "secrets" / SITE / "known_hosts"
    pinned = known.read_text()
    others = site.hosts.host_key("s2")
    known.write_text(
        "".join(
            f"s1 {others}\n" if line.startswith("s1 ") else f"{line}\n"
            for line in pinned.splitlines()
        )
    )
    try:
        # A connection that is open was made to the right host.
        site.hosts.run("s1", "sh", "-c", "pkill -f '^sshd: root' || true")
        refused = site.line.run("host", "check", "s1")
        assert refused.code == 4
        assert "not the one that was pinned" in refused.stderr
    finally:
        known.write_text(pinned)
    assert site.line.run("host", "check", "s1").code == 0
    image = "/var/lib/grampus/*/images/*/root/usr/bin/mysql"
    site.hosts.run("s2", "sh", "-c", f"cp {image} /tmp/mysql; echo >> $(echo {image})")
    changed = site.line.run("host", "check", "s2")
    assert changed.code == 1
    assert "was changed" in changed.stdout
    site.add("s2")
    assert site.line.run("host", "check", "s2").code == 0


def test_a_host_whose_sshd_is_stopped_keeps_serving(site: Site) -> None:
    """The controller is cut off, nobody else: the server answers clients all the same."""
    before = site.rows()
    address = site.line.json("db", "show", NAME)["address"]
    site.hosts.run("s1", "systemctl", "stop", "ssh.socket", "ssh.service")
    site.hosts.run("s1", "sh", "-c", "pkill sshd || true")
    try:
        refused = site.line.run("db", "restart", NAME)
        assert refused.code != 0
        assert "s1 cannot be reached" in refused.stderr
        greeting = site.hosts.run(
            "s2", "bash", "-c", f"head -c 4 < /dev/tcp/{address}/3306 | wc -c"
        )
        assert int(greeting) == 4
    finally:
        site.hosts.run("s1", "systemctl", "start", "ssh.service")
    assert site.rows() == before


@pytest.mark.logs("operation.failed", "operation.undone")
def test_sshd_that_stops_in_the_middle_of_an_operation_loses_nothing(site: Site) -> None:
    """It is undone once the host answers again. What it had stopped, its user starts."""
    before = site.rows()
    stops = {"GRAMPUS_FAILPOINTS": "db.restart/server/after=stop"}
    with site.line.start("db", "restart", NAME, environment=stops) as cut:
        wait_for(lambda: state_of(cut.pid) == "T", "the command to stop")
        site.hosts.run("s1", "systemctl", "stop", "ssh.socket", "ssh.service")
        site.hosts.run("s1", "sh", "-c", "pkill sshd || true")
        try:
            cut.send_signal(signal.SIGCONT)
            _, said = cut.communicate(timeout=120)
            assert cut.returncode != 0
            assert "s1 cannot be reached" in said
        finally:
            site.hosts.run("s1", "systemctl", "start", "ssh.service")
    site.line.ok("db", "start", NAME)
    shown = site.line.json("operation", "list", "--last", "1")["operations"]
    assert [one["state"] for one in shown] == ["done"], "none is left unfinished"
    assert site.rows() == before


@pytest.fixture
def second(site: Site) -> Iterator[Site]:
    """The site on a second machine, which has joined it with a file from the first one."""
    with joined_machine(site) as made:
        yield made


def test_two_machines_see_and_do_the_same(site: Site, second: Site) -> None:
    site.insert()
    before = site.rows()
    assert second.rows() == before, "it has the password"
    site.line.ok("db", "label", NAME, "team=shop")
    assert second.line.json("db", "show", NAME)["labels"] == {"team": "shop"}
    second.line.ok("db", "label", NAME, "team-")
    assert site.line.json("db", "show", NAME)["labels"] == {}
    second.line.ok("db", "user", "add", NAME, "reader")
    assert "reader" in str(site.line.json("db", "user", "list", NAME))
    site.line.ok("db", "user", "remove", NAME, "reader", "--yes")
    assert [one["kind"] for one in second.line.json("operation", "list")["operations"]] == [
        one["kind"] for one in site.line.json("operation", "list")["operations"]
    ]
    with serving(site.line) as first:
        refused = second.line.run("serve", "--once")
        assert refused.code == 4
        assert "already runs" in refused.stderr
        with serving(second.line) as standby:
            assert [event["kind"] for event in standby.events()] == ["standby"]
            standby.end()
            assert [event["kind"] for event in standby.events()] == ["standby", "stopped"]
        with serving(second.line) as standby:
            first.end()
            wait_for(
                lambda: standby.events()[-1]["kind"] == "started",
                "the second controller to begin",
                SERVES_AGAIN_S,
            )


def test_what_one_machine_encrypts_another_one_can_open(
    site: Site, second: Site, tmp_path: Path
) -> None:
    key, backups = ("volume", "key"), ("db", "backup")
    site.line.ok("db", "create", "safe", *SMALL, "--encrypt", "--host", "s1")
    site.line.ok(
        "db", "connect", "safe", "-e", "CREATE DATABASE d; CREATE TABLE d.t AS SELECT 5 AS n"
    )
    site.line.ok(*backups, "create", "safe", "--to", str(tmp_path / "backups"), timeout_s=300)
    second.line.ok("db", "move", "safe", "--host", "s2", timeout_s=180)
    rotated = second.line.json(*key, "rotate")
    assert site.line.json(*key, "show")["keys"] == second.line.json(*key, "show")["keys"]
    site.line.ok("db", "stop", "safe")
    site.line.ok("db", "start", "safe")
    assert site.line.json("volume", "show", "safe")["master_key"]["id"] == rotated["key"]
    restore = ("db", "restore", "again", "--from", str(tmp_path / "backups"), "--latest")
    second.line.ok(*restore, timeout_s=300)
    assert "5" in second.line.ok("db", "connect", "again", "-e", "SELECT n FROM d.t").stdout
    for name in ("again", "safe"):
        site.line.ok("db", "delete", name, "--now", "--yes")


@pytest.mark.logs("operation.failed", "operation.undone")
def test_an_operation_that_was_killed_is_undone_by_another_machine(
    site: Site, second: Site
) -> None:
    """The first machine never returns. Until it counts as dead, the second one waits."""
    killed = site.line.run("db", "create", "cut", *SMALL, failpoints="db.create/start/after=kill")
    assert killed.code == KILLED
    begun = time.monotonic()
    second.line.ok("db", "create", "cut", *SMALL, timeout_s=180)
    assert time.monotonic() - begun > SILENT_S
    states = {one["state"] for one in second.line.json("operation", "list")["operations"]}
    assert states == {"done", "undone"}
    site.line.ok("db", "delete", "cut", "--now", "--yes")


@pytest.mark.logs("operation.failed", "operation.undone", "lock.kept")
def test_a_silent_machine_is_fenced_and_changes_nothing_any_more(site: Site, second: Site) -> None:
    """It was cut off, and its commands come to life again when nobody needs them any more."""
    site.insert()
    before = site.rows()
    stops = {"GRAMPUS_FAILPOINTS": "db.restart/flush/after=stop"}
    with (
        serving(site.line) as serve,
        site.line.start("db", "restart", NAME, environment=stops) as cut,
    ):
        wait_for(lambda: state_of(cut.pid) == "T", "the command to stop")
        shown = second.line.json("operation", "list", "--last", "1")["operations"]
        assert [one["state"] for one in shown] == ["running"]
        restarted = second.line.ok("db", "restart", NAME, timeout_s=120)
        assert "sends no heartbeat" in restarted.stderr
        wait_for(serve.has_ended, "the first controller to end")
        told = serve.events()[-1]
        assert (told["kind"], told["details"]["code"]) == ("failed", "superseded")
        running = second.show("s1", f"mysqld-{NAME}", "MainPID")
        cut.send_signal(signal.SIGCONT)
        _, said = cut.communicate(timeout=60)
        assert (cut.returncode, "is superseded" in said) == (4, True)
    assert second.show("s1", f"mysqld-{NAME}", "MainPID") == running
    assert site.rows() == before
    # From its next command on, the first machine works in the new epoch.
    site.line.ok("db", "restart", NAME)
    site.insert()


def state_of(pid: int) -> str:
    """The state of a process (proc_pid_stat(5)), such as T: stopped."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_a_host_without_power_loses_its_databases_and_no_row(site: Site) -> None:
    """The host returns, starts nothing by itself, and what it had there is removed."""
    assert site.host_of(NAME) == "s1"
    with serving(site.line) as serve:
        site.insert()
        before = site.rows()
        site.hosts.end("s1")
        try:
            done = serve.wait_for(NAME, "failed-over", SERVES_AGAIN_S)
            assert done["details"]["former_host"] == "s1"
            wait_for(lambda: site.host_of(NAME) == "s2", "the database on s2", SERVES_AGAIN_S)
            assert site.rows() == before
            site.insert()
        finally:
            site.hosts.boot("s1")
        assert f"mysqld-{NAME}" not in site.services("s1")
        wait_for(lambda: "databases/shop" not in files_on(site, "s1"), "the remains to go", 60)
    assert site.rows() == before + 1


def files_on(site: Site, host: str) -> str:
    """The directories of databases on a host."""
    return site.hosts.run(host, "sh", "-c", "ls -d /var/lib/grampus/*/data/databases/* || true")


def images_on(site: Site, host: str) -> set[str]:
    """The host images on a host, also one that is not whole."""
    return set(site.hosts.run(host, "sh", "-c", "ls -A /var/lib/grampus/*/images").split())


@contextmanager
def full_disk(site: Site, host: str, image: str, size: str) -> Iterator[str]:
    """Images of the host are on a disk of that size. The one that it has stays where it is."""
    places = site.hosts.run(host, "sh", "-c", "echo /var/lib/grampus/*/images").split()
    (images,) = places
    script = """
        mkdir -p /root/kept
        mount --bind "$1" /root/kept
        mount -t tmpfs -o "size=$3" tmpfs "$1"
        mkdir "$1/$2"
        mount --bind "/root/kept/$2" "$1/$2"
    """
    site.hosts.run(host, "sh", "-euc", script, "full-disk", images, image, size)
    try:
        yield images
    finally:
        site.hosts.run(host, "umount", f"{images}/{image}", images, "/root/kept")


@pytest.mark.logs("operation.failed", "operation.undone")
def test_a_full_disk_leaves_a_host_as_it_was(site: Site, release: NextRelease) -> None:
    site.leave_s1()
    before = images_on(site, "s1")
    # Space for the image, until somebody else takes it.
    with full_disk(site, "s1", release.former_image, f"{release.image_mib() + 300}m") as images:
        with release.line.start("host", "upgrade", "s1") as upgrade:
            new = f"{images}/.new-{release.image}/root/usr"
            wait_for(lambda: new in site.hosts.run("s1", "sh", "-c", f"ls -d {new} || true"), "it")
            site.hosts.run("s1", "sh", "-c", f"cat /dev/zero >{images}/other || true")
            _, said = upgrade.communicate(timeout=120)
        assert (upgrade.returncode, "It became full while" in said) == (1, True), said
        assert images_on(site, "s1") == {release.former_image, "other"}
    assert images_on(site, "s1") == before
    hosts = {one["name"]: one for one in site.line.json("host", "list")["hosts"]}
    assert (hosts["s1"]["parts"], hosts["s1"]["image"]) == ("current", release.former_image)


def test_hosts_are_upgraded_one_at_a_time(site: Site, release: NextRelease) -> None:
    """Last: from here on the hosts are those of the next release.

    The database is on s2; s1 has nothing to restart.
    """
    site.leave_s1()
    line = release.line
    hosts = line.json("host", "list")["hosts"]
    assert [one["parts"] for one in hosts] == ["older", "older"]
    killed = line.run("host", "upgrade", "s1", failpoints="host.upgrade/copy/after=kill")
    assert killed.code == KILLED
    assert images_on(site, "s1") == {release.former_image, release.image}
    # A killed upgrade changes nothing that others see: both releases work with both hosts.
    site.insert()
    before, running = site.rows(), site.show("s2", f"mysqld-{NAME}", "MainPID")
    with serving(line):
        upgraded = line.json("host", "upgrade", "--all")["hosts"]
    assert [(one["image"], one["version"]) for one in upgraded] == [(release.image, VERSION)] * 2
    assert [one["databases"] for one in upgraded] == [[], [NAME]]
    assert images_on(site, "s1") == {release.image}
    assert upgraded[1]["kept_images"] == [release.former_image]
    assert site.show("s2", f"mysqld-{NAME}", "MainPID") == running
    daemons = {one["name"]: one for one in line.json("host", "show", "s2")["daemons"]}
    assert daemons[f"mysqld-{NAME}"]["outdated"]
    assert daemons[f"volumed-{NAME}"]["outdated"]
    # An older Grampus works with newer hosts, and does not put older parts there.
    assert site.rows() == before
    refused = site.line.run("host", "upgrade", "s2")
    assert (refused.code, "Upgrade Grampus on this machine" in refused.stderr) == (4, True)
    (done,) = line.json("host", "upgrade", "s2", "--restart")["hosts"]
    assert (done["changed"], done["databases"], done["kept_images"]) == (False, [], [])
    assert images_on(site, "s2") == {release.image}
    assert site.rows() == before
    site.insert()
    # An image that somebody changed is not replaced under a server that runs from it.
    site.hosts.run(
        "s2", "sh", "-c", "echo >> $(echo /var/lib/grampus/*/images/*/root/usr/bin/mysql)"
    )
    refused = line.run("host", "upgrade", "s2")
    assert refused.code == 4
    assert f"while services run from it: mysqld-{NAME}" in refused.stderr
