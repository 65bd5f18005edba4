"""One address to read at, on a real cluster: whatever becomes of the replicas behind it."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from tests.system.command_line import KILLED, CommandLine
from tests.system.lab_machine import LabMachine
from tests.system.machine import wait_for
from tests.system.places import Place

SMALL = ("--size", "1G", "--memory", "512M", "--cpus", "0.5")
PRIMARY, FIRST, SECOND = "source", "source-r1", "source-r2"
WHO = "SELECT @@server_id"


@pytest.fixture(
    scope="module", params=["mysql", pytest.param("mariadb", marks=pytest.mark.exhaustive)]
)
def source(place: Place, request: pytest.FixtureRequest) -> Iterator[CommandLine]:
    """A lab or site with a database that has rows, a reader of its own, and two replicas."""
    lab, (first, *others) = place.line, place.hosts
    lab.ok("db", "create", PRIMARY, *SMALL, "--host", first, "--flavour", request.param)
    try:
        lab.ok("db", "connect", PRIMARY, "-e", "CREATE DATABASE s; CREATE TABLE s.t (id INT KEY)")
        lab.ok("db", "connect", PRIMARY, "-e", "INSERT INTO s.t VALUES (1), (2)")
        lab.ok("db", "user", "add", PRIMARY, "reader", "--role", "write")
        for host in others:
            lab.ok("db", "replica", "add", PRIMARY, "--host", host)
        yield lab
    finally:
        for name in (FIRST, SECOND, PRIMARY):
            lab.run("db", "delete", name, "--now", "--yes", "--with-replicas")
            lab.run("db", "replica", "remove", name, "--yes")
        lab.run("db", "delete", PRIMARY, "--now", "--yes")


class Reader:
    """A client of the read-only endpoint, that verifies whom it talks to; on the lab's host h1."""

    def __init__(self, place: Place) -> None:
        lab = place.line
        shown = lab.json("db", "replica", "list", PRIMARY)["read_endpoint"]
        self.address: str = shown["address"]
        self.machine = LabMachine(place.cluster, "h1")
        secrets = lab.home / "secrets" / lab.lab
        here = self.machine.scratch()
        authorities = here / "replicas.ca.pem"
        authorities.write_bytes((secrets / f"{PRIMARY}.replicas.ca.pem").read_bytes())
        options = (secrets / f"{PRIMARY}.users" / "reader.cnf").read_text()
        options = re.sub(r"^host=.*$", f"host={self.address}", options, flags=re.MULTILINE)
        options = re.sub(r"^ssl-ca=.*$", f"ssl-ca={authorities}", options, flags=re.MULTILINE)
        self.options = here / "reader.cnf"
        self.options.write_text(options)
        self.options.chmod(0o600)

    def argv(self, *more: str) -> list[str]:
        # Every host has MySQL's client, whatever the flavour of the server.
        verified = ("--ssl-mode=VERIFY_IDENTITY", "--connect-timeout=10", "-N", "-B")
        return ["mysql", f"--defaults-file={self.options}", *verified, *more]

    def ask(self, sql: str) -> str:
        """The answer of a new session."""
        return self.machine.ok(*self.argv("-e", sql)).strip()

    def met(self, times: int = 8) -> set[str]:
        """Server ids that so many new sessions meet, side by side so that each gets one of its
        own."""
        argv = self.machine.argv(*self.argv("-e", f"{WHO}; DO SLEEP(1)"))
        sessions = [
            subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for _ in range(times)
        ]
        found = set()
        for session in sessions:
            out, said = session.communicate(timeout=60)
            assert session.returncode == 0, said
            found.add(out.split()[0])
        return found

    @contextmanager
    def session(self) -> Iterator[subprocess.Popen[str]]:
        """One that stays open."""
        argv = self.machine.argv(*self.argv("--unbuffered"))
        pipe = subprocess.PIPE
        with subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as opened:
            try:
                yield opened
            finally:
                opened.kill()


def server_id(lab: CommandLine, name: str) -> str:
    return str(lab.sql(name, WHO)[0][0])


def endpoint(lab: CommandLine) -> Any:
    return lab.json("db", "replica", "list", PRIMARY)["read_endpoint"]


def test_one_address_leads_to_whoever_can_be_read(place: Place, source: CommandLine) -> None:
    reader = Reader(place)
    first, second = server_id(source, FIRST), server_id(source, SECOND)
    shown = source.json("db", "show", PRIMARY)["endpoints"]["read_only"]
    assert (shown["address"], shown["members"]) == (reader.address, [FIRST, SECOND])
    assert reader.met() == {first, second}
    assert reader.ask("SELECT COUNT(*) FROM s.t") == "2"
    refused = reader.machine.run(*reader.argv("-e", "INSERT INTO s.t VALUES (3)"))
    assert "read-only" in refused.stderr
    # A server that is stopped: nobody is refused meanwhile.
    source.ok("db", "stop", SECOND)
    assert reader.met() == {first}
    source.ok("db", "start", SECOND)
    wait_for(lambda: reader.met() == {first, second}, "the second one to be met again", 30)
    # One that hangs is found by its missing greeting.
    place.signal(f"mysqld-{FIRST}", "STOP")
    try:
        wait_for(lambda: is_passed_over(reader), "it to be found", 30)
        assert reader.met() == {second}
    finally:
        place.signal(f"mysqld-{FIRST}", "CONT")


def is_passed_over(reader: Reader) -> bool:
    """Whether new sessions are answered soon, all of them."""
    argv = reader.machine.argv(*reader.argv("-e", WHO))
    sessions = [
        subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(4)
    ]
    codes = []
    for session in sessions:
        try:
            codes.append(session.wait(timeout=8))
        except subprocess.TimeoutExpired:
            session.kill()
            codes.append(session.wait())
    return set(codes) == {0}


@pytest.mark.logs("controller.event")
def test_when_its_host_is_gone_another_one_serves_it(place: Place, source: CommandLine) -> None:
    reader = Reader(place)
    host = endpoint(source)["host"]
    left = dict(zip(place.hosts[1:], (SECOND, FIRST), strict=True))[host]
    place.end(host)
    try:
        source.run("serve", "--once")  # another job may have something to say against it
        now = endpoint(source)
        assert (now["members"], now["host"] != host) == ([left], True)
        assert reader.met() == {server_id(source, left)}
    finally:
        place.heal()

    def is_back() -> bool:
        source.run("serve", "--once")
        return bool(endpoint(source)["members"] == [FIRST, SECOND])

    wait_for(is_back, "the replica to follow its primary again", 120)
    wait_for(lambda: len(reader.met()) == 2, "both to be met", 30)


def test_primary_fails_over_when_its_host_is_lost(place: Place, source: CommandLine) -> None:
    """INV-74, INV-75: also when the command is killed once the host is fenced."""
    count = "SELECT COUNT(*) FROM s.t"
    address = source.json("db", "show", PRIMARY)["address"]
    lost, other = place.hosts[:2]
    place.end(lost)
    try:
        failover = ("db", "failover", PRIMARY, "--to", other)
        cut = source.run(*failover, failpoints="db.failover/fence/after=kill")
        assert cut.code == KILLED, cut.stderr
        shown = source.json("db", "show", PRIMARY)  # which finishes it
        assert [shown[key] for key in ("host", "status", "address")] == [other, "running", address]
        source.ok("db", "connect", PRIMARY, "-e", "INSERT INTO s.t VALUES (3)")
        assert source.sql(PRIMARY, count) == [["3"]]
    finally:
        place.heal()
    assert place.daemons()[f"mysqld-{PRIMARY}"] == other
    assert address not in place.run(lost, "ip", "-brief", "address", "show")
    assert source.sql(PRIMARY, count) == [["3"]]

    def follow() -> bool:
        return all(source.sql(name, count) == [["3"]] for name in (FIRST, SECOND))

    wait_for(follow, "its replicas to follow it again, at the same address", 90)
    source.ok("db", "connect", PRIMARY, "-e", "DELETE FROM s.t WHERE id = 3")


def test_who_is_promoted_is_led_to_no_more_and_its_sessions_end(
    place: Place, source: CommandLine
) -> None:
    reader = Reader(place)
    first, second = server_id(source, FIRST), server_id(source, SECOND)
    with ExitStack() as stack:
        met = {}
        for _ in range(2):
            session = stack.enter_context(reader.session())
            assert session.stdin is not None
            assert session.stdout is not None
            session.stdin.write(f"{WHO};\n")
            session.stdin.flush()
            met[session.stdout.readline().strip()] = session
        assert set(met) == {first, second}, "the one with the fewest sessions"
        promoted = source.ok("db", "replica", "promote", FIRST, "--wait").stdout
        assert f"still shares data with the volume of '{PRIMARY}'" in promoted
        stays, ends = met[second], met[first]
        assert ends.stdin is not None
        # Its client connects anew by itself, and is refused by the other one.
        ends.stdin.write("INSERT INTO s.t VALUES (99);\n")
        ends.stdin.close()
        assert ends.wait(timeout=60) != 0
        assert stays.stdin is not None
        assert stays.stdout is not None
        stays.stdin.write("SELECT COUNT(*) FROM s.t;\n")
        stays.stdin.flush()
        assert stays.stdout.readline().strip() == "2", "the sessions of others go on"
    assert lacks_row(source, FIRST), "nobody writes through the endpoint"
    assert reader.met() == {second}
    assert endpoint(source)["members"] == [SECOND]
    # With the last replica it is served nowhere any more.
    source.ok("db", "delete", FIRST, "--now", "--yes")
    source.ok("db", "delete", PRIMARY, "--now", "--yes", "--with-replicas")
    assert not [daemon for daemon in place.daemons() if daemon.startswith("read-only-")]
    for host in place.hosts:
        assert reader.address not in place.run(host, "ip", "-brief", "address", "show")


def lacks_row(lab: CommandLine, name: str) -> bool:
    return int(lab.sql(name, "SELECT COUNT(*) FROM s.t WHERE id = 99")[0][0]) == 0
