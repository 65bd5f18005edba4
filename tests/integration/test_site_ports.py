"""A site without a common network segment: databases at the addresses of their hosts (INV-96)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.command_line import CommandLine
from tests.system.lab_machine import LabMachine
from tests.system.machine import wait_for
from tests.system.site_machines import NAME, LabCluster, Site, own_site

# The rules are held by unit tests; here they meet real servers, hosts and replication.
pytestmark = [pytest.mark.exhaustive]

SITE, REPLICA = "site-ports", f"{NAME}-r1"
SMALL = ("--size", "1G", "--memory", "320M", "--cpus", "0.5")
FOLLOWS_WITHIN_S = 60.0
HOOK = """#!/bin/sh
cat >> "$0.calls"
"""


@pytest.fixture(scope="module")
def hook(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that keeps what it gets, one document a line."""
    program = tmp_path_factory.mktemp("hook") / "update-dns"
    program.write_text(HOOK)
    program.chmod(0o755)
    return program


@pytest.fixture(scope="module")
def site(lab: CommandLine, hook: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The site with two hosts and one database, which has the address of its host."""
    line = CommandLine(SITE)
    directory = tmp_path_factory.mktemp("site")
    with own_site(line, LabCluster(lab), directory, line.home / "machines", ("s1", "s2")) as site:
        line.ok(
            *("site", "adopt", SITE, "--conf", str(site.files / "ceph.conf")),
            *("--keyring", str(site.files / "keyring"), "--ports", "13300-13309"),
            *("--address-hook", str(hook)),
        )
        line.ok("db", "create", NAME, *SMALL, "--host", "s1", timeout_s=600)
        line.ok("db", "connect", NAME, "-e", "CREATE DATABASE d")
        line.ok("db", "connect", NAME, "-e", "CREATE TABLE d.t (id SERIAL PRIMARY KEY)")
        yield site


def calls_of(hook: Path) -> list[tuple[str, str | None, str]]:
    """Role, former address and address of each call for the database."""
    documents = map(json.loads, Path(f"{hook}.calls").read_text().splitlines())
    return [
        (one["role"], one["former_address"], one["address"])
        for one in documents
        if one["database"] == NAME
    ]


def test_a_database_has_the_address_of_its_host_and_a_port(site: Site, hook: Path) -> None:
    shown, address = site.line.json("db", "show", NAME), site.hosts.address("s1")
    assert (shown["address_kind"], shown["address"], shown["port"]) == ("host", address, 13300)
    interface = site.hosts.run("s1", "ip", "-4", "-o", "address", "show", "eth0")
    assert len(interface.splitlines()) == 1, "no interface gets an address"
    assert calls_of(hook) == [("primary", None, address)]


def test_another_database_of_the_host_and_a_port_that_is_in_use(site: Site) -> None:
    site.hosts.run(
        "s1",
        *("systemd-run", "--unit=other-program", "--property=Type=exec"),
        *("systemd-socket-activate", "--listen=13301", "cat"),
    )
    try:
        site.line.ok("db", "create", "other", *SMALL, "--host", "s1", timeout_s=600)
        assert site.line.json("db", "show", "other")["port"] == 13302
    finally:
        site.hosts.run("s1", "systemctl", "stop", "other-program")
        site.line.ok("db", "delete", "other", "--now", "--yes")


def test_replica_endpoint_and_hook_follow_the_database(site: Site, hook: Path) -> None:
    line = site.line
    line.ok("db", "replica", "add", NAME, "--host", "s2", timeout_s=600)
    line.ok("db", "move", NAME, "--host", "s2")
    site.insert()
    former, address = site.hosts.address("s1"), site.hosts.address("s2")
    assert calls_of(hook)[-1] == ("primary", former, address)

    def follows() -> bool:
        (one,) = line.json("db", "replica", "list", NAME)["replicas"]
        return bool(one["state"] == "replicating")

    wait_for(follows, f"{REPLICA} to follow {NAME}", FOLLOWS_WITHIN_S)
    assert int(line.sql(REPLICA, "SELECT COUNT(*) FROM d.t")[0][0]) == site.rows()
    option_file = line.home / "secrets" / SITE / f"{NAME}.cnf"
    assert f"host={address}\nport=13300\n" in option_file.read_text()
    line.ok("db", "replica", "remove", REPLICA, "--yes")


def ask(machine: LabMachine, site: Site, place: str, sql: str) -> str:
    """The answer of the database at that place, which a client elsewhere verifies."""
    secrets = site.line.home / "secrets" / SITE
    here, (address, port) = machine.scratch(), place.split(":")
    authorities = here / "ca.pem"
    authorities.write_bytes((secrets / f"{NAME}.ca.pem").read_bytes())
    options = (secrets / f"{NAME}.users" / "app.cnf").read_text()
    for key, value in (("host", address), ("port", port), ("ssl-ca", str(authorities))):
        options = re.sub(rf"^{key}=.*$", f"{key}={value}", options, flags=re.MULTILINE)
    file = here / "app.cnf"
    file.write_text(options)
    file.chmod(0o600)
    verified = ("--ssl-mode=VERIFY_IDENTITY", "--connect-timeout=10", "-N", "-B")
    return machine.ok("mysql", f"--defaults-file={file}", *verified, "-e", sql).strip()


def test_clients_find_the_database_at_each_entry_host(lab: CommandLine, site: Site) -> None:
    line, machine = site.line, LabMachine(lab, "h1")
    line.ok("host", "entry", "s1", "on", "--ports", "14300-14309")
    line.ok("host", "entry", "s2", "on")
    line.ok("db", "user", "add", NAME, "app", "--role", "write")
    places = line.json("db", "show", NAME)["entry"]
    assert places == [f"{site.hosts.address(host)}:14300" for host in ("s1", "s2")]
    rows = site.rows()
    for place in places:
        assert ask(machine, site, place, "SELECT COUNT(*) FROM d.t") == str(rows)
    former = site.host_of(NAME)
    line.ok("db", "move", NAME, "--host", "s1" if former == "s2" else "s2")
    for place in places:
        sql = "INSERT INTO d.t () VALUES (); SELECT COUNT(*) FROM d.t"
        rows += 1
        assert ask(machine, site, place, sql) == str(rows)
    refused = line.run("host", "remove", "s2", "--yes")
    assert (refused.code, "serves the entry" in refused.stderr) == (4, True)
    for host in ("s1", "s2"):
        assert "entry" in site.services(host)
        line.ok("host", "entry", host, "off")
        assert "entry" not in site.services(host)
    assert line.json("db", "show", NAME)["entry"] == []
    line.ok("db", "move", NAME, "--host", former)


def test_a_failover_changes_the_address_and_tells_the_hook(site: Site, hook: Path) -> None:
    line, former, address = site.line, site.hosts.address("s2"), site.hosts.address("s1")
    before = site.rows()
    site.hosts.end("s2")
    try:
        line.ok("db", "failover", NAME, "--to", "s1", timeout_s=180)
        shown = line.json("db", "show", NAME)
        assert (shown["address"], shown["port"], shown["status"]) == (address, 13300, "running")
        assert site.rows() == before
        assert calls_of(hook)[-1] == ("primary", former, address)
    finally:
        site.hosts.boot("s2")
