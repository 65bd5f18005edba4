"""New certificates for a running server on a real lab: who is let in, by what it trusts."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.command_line import CHECKOUT, KILLED, CommandLine
from tests.system.lab_machine import LabMachine
from tests.system.ledger import Ledger
from tests.system.machine import wait_for

NAME, REPLICA = "certain", "certain-r1"
SIZES = ("--size", "1G", "--memory", "512M", "--cpus", "0.5")
RELAY = CHECKOUT / "tests" / "system" / "mysql_relay.py"
SESSIONS = "select id from information_schema.processlist where id <> connection_id() and user = "


class Clients:
    """Clients on another host than the database's, which trust what they are given.

    They ask nothing of Grampus: its commands would finish what was cut off.
    """

    def __init__(self, lab: CommandLine, flavour: str) -> None:
        self.flavour = flavour
        shown = lab.json("db", "show", NAME)
        self._address, self._port = shown["address"], shown["port"]
        self._machine = LabMachine(lab, other_host(lab))
        self.option_file = lab.home / "secrets" / lab.lab / f"{NAME}.cnf"
        self.ca_file = lab.home / "secrets" / lab.lab / f"{NAME}.ca.pem"

    def given_now(self) -> str:
        """What a client trusts that is given its file now."""
        return self.ca_file.read_text()

    def are_let_in(self, authorities: str) -> bool:
        """Whether the server proves itself to who trusts these alone, and lets the owner in."""
        file = self._machine.scratch() / "authorities.pem"
        file.write_text(authorities)
        client = f"openssl s_client -starttls mysql -connect {self._address}:{self._port}"
        proof = f"{client} -verify_return_error -verify_ip {self._address}"
        proof = f"{proof} -CAfile {shlex.quote(str(file))}"
        proves_itself = self._machine.run("sh", "-c", f"{proof} < /dev/null").code == 0
        if self.flavour == "mysql":  # of which the lab's hosts have the client
            assert self._logs_in(file) is proves_itself
        return proves_itself

    def said_behind_relay(self, mode: str) -> str:
        """What a client with the option file prints behind a relay that passes or strips TLS."""
        relay = subprocess.Popen(
            [
                *("ip", "netns", "exec", f"grampus-{self._machine.tag}-{self._machine.host}"),
                *(sys.executable, str(RELAY), self._address, str(self._port), mode),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert relay.stdout is not None
            port = relay.stdout.readline().strip()
            file = self._machine.scratch() / "authorities.pem"
            file.write_text(self.given_now())
            kept = self.option_file.read_text()
            options = re.sub(r"^ssl-ca=.*$", f"ssl-ca={file}", kept, flags=re.MULTILINE)
            finished = subprocess.run(
                self._machine.argv(
                    *("mysql", "--defaults-file=/dev/stdin", "--host=127.0.0.1", f"--port={port}"),
                    *("-BN", "-e", "select 'let in'"),
                ),
                input=options,
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
        finally:
            relay.communicate(timeout=30)
        return finished.stdout + finished.stderr

    def _logs_in(self, file: Path) -> bool:
        kept = self.option_file.read_text().splitlines()
        options = [f"ssl-ca={file}" if line.startswith("ssl-ca=") else line for line in kept]
        client = ("mysql", "--defaults-file=/dev/stdin", "--ssl-mode=VERIFY_IDENTITY", "-BN")
        finished = subprocess.run(
            self._machine.argv(*client, "-e", "select 1"),
            input="\n".join([*options, ""]),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert finished.returncode == 0 or "ERROR 2026" in finished.stderr, finished.stderr
        return finished.returncode == 0


@pytest.fixture(params=["mysql", pytest.param("mariadb", marks=pytest.mark.exhaustive)])
def clients(lab: CommandLine, request: pytest.FixtureRequest) -> Iterator[Clients]:
    lab.ok("db", "create", NAME, *SIZES, "--flavour", request.param)
    try:
        yield Clients(lab, request.param)
    finally:
        lab.run("db", "replica", "remove", REPLICA, "--yes")
        lab.run("db", "delete", NAME, "--now", "--yes")


def other_host(lab: CommandLine) -> str:
    here = lab.json("db", "show", NAME)["host"]
    hosts: list[str] = [host["name"] for host in lab.json("lab", "status")["hosts"]]
    return next(host for host in hosts if host != here)


def server_process(lab: CommandLine) -> int:
    host = lab.json("db", "show", NAME)["host"]
    return LabMachine(lab, host).daemons()[f"mysqld-{NAME}"]


def sessions(lab: CommandLine) -> list[list[str]]:
    """Those of the database's own user, but for the one that asks."""
    return lab.sql(NAME, f"{SESSIONS}'{NAME}'")


def test_clients_that_were_told_in_time_go_on_without_a_restart(
    lab: CommandLine, clients: Clients
) -> None:
    former, process = clients.given_now(), server_process(lab)
    assert clients.are_let_in(former)
    assert lab.json("db", "show", NAME)["certificate"]["rotated"] is False
    with Ledger(lab, NAME) as ledger:
        open_before = sessions(lab)
        assert len(open_before) == 1
        lab.ok("db", "certificate", "rotate", NAME)
        both = clients.given_now()
        assert both.count("BEGIN CERTIFICATE") == 2
        assert lab.json("db", "show", NAME)["certificate"]["rotated"] is True
        assert clients.are_let_in(former)
        assert clients.are_let_in(both)
        ledger.wait_for_more()
        retired = lab.json("db", "certificate", "retire", NAME)
        new = clients.given_now()
        assert retired["ca_file"] == str(clients.ca_file)
        assert both == former + new
        assert clients.are_let_in(both)
        assert clients.are_let_in(new)
        assert not clients.are_let_in(former)
        ledger.wait_for_more()
        assert sessions(lab) == open_before
    assert ledger.missing() == []
    assert server_process(lab) == process
    lab.ok("db", "restart", NAME)
    assert clients.are_let_in(new)
    assert not clients.are_let_in(former)


def test_an_option_file_trusts_nobody_in_between(clients: Clients) -> None:
    """The server's certificate does not name the relay, and no TLS is not accepted either."""
    if clients.flavour == "mysql":  # of which the lab's hosts have the client
        assert "ERROR 2026" in clients.said_behind_relay("pass")
        assert "SSL is required" in clients.said_behind_relay("strip")


def test_one_is_retired_before_there_is_another(lab: CommandLine, clients: Clients) -> None:
    assert lab.run("db", "certificate", "retire", NAME).code == 4
    plan = lab.json("db", "certificate", "rotate", NAME, "--dry-run")
    assert len(plan["plan"]) == 3
    before = clients.given_now()
    lab.ok("db", "certificate", "rotate", NAME)
    assert clients.given_now().startswith(before)
    assert lab.run("db", "certificate", "rotate", NAME).code == 4


def test_a_replica_goes_on_and_connects_anew(lab: CommandLine, clients: Clients) -> None:
    written = 0

    def writes_arrive() -> None:
        nonlocal written
        written += 1
        lab.sql(NAME, f"insert into s.t values ({written}); select 1")
        wait_for(
            lambda: lab.sql(REPLICA, "select count(*) from s.t") == [[str(written)]],
            "the replica to have what its primary has",
            timeout_s=60,
        )

    lab.sql(NAME, "create schema s; create table s.t (id int primary key); select 1")
    lab.ok("db", "replica", "add", NAME)
    writes_arrive()
    lab.ok("db", "certificate", "rotate", NAME)
    writes_arrive()
    lab.ok("db", "certificate", "retire", NAME)
    writes_arrive()
    # Its connection ends with the primary's server: the next one stands on the new certificate.
    lab.ok("db", "restart", NAME)
    writes_arrive()
    # A replica's own server is read-only, and reads its files all the same.
    for verb in ("rotate", "retire"):
        lab.ok("db", "certificate", verb, REPLICA)
    writes_arrive()
    replicas = lab.json("db", "replica", "list", NAME)["replicas"]
    assert [replica["state"] for replica in replicas] == ["replicating"]
    # One that is stopped meanwhile trusts the new authority when it starts.
    lab.ok("db", "stop", REPLICA)
    for verb in ("rotate", "retire"):
        lab.ok("db", "certificate", verb, NAME)
    lab.ok("db", "start", REPLICA)
    writes_arrive()


@pytest.mark.exhaustive
def test_killed_at_each_step_nobody_is_refused_who_was_told(
    lab: CommandLine, clients: Clients
) -> None:
    former = clients.given_now()
    command: tuple[str, ...] = ("db", "certificate", "rotate", NAME)
    for step in ("make", "trust", "replicas"):
        killed = lab.run(*command, failpoints=f"db.certificate-rotate/{step}/after=kill")
        assert killed.code == KILLED, killed.stderr
        assert clients.are_let_in(former)
        assert clients.are_let_in(clients.given_now())
        command = ("db", "list")
    assert "finished" in lab.ok("db", "list").stderr
    both = clients.given_now()
    command = ("db", "certificate", "retire", NAME)
    shows_former = {"replicas": True, "place": True, "reload": False, "trust": False}
    for step, is_let_in in (*shows_former.items(), ("forget", False)):
        killed = lab.run(*command, failpoints=f"db.certificate-retire/{step}/after=kill")
        assert killed.code == KILLED, killed.stderr
        assert clients.are_let_in(both)
        assert clients.are_let_in(clients.given_now())
        assert clients.are_let_in(former) is is_let_in
        command = ("db", "list")
    assert "finished" in lab.ok("db", "list").stderr
    assert both == former + clients.given_now()
    assert clients.are_let_in(clients.given_now())


@pytest.mark.exhaustive
def test_a_move_in_between_takes_both_along(lab: CommandLine, clients: Clients) -> None:
    former = clients.given_now()
    lab.ok("db", "certificate", "rotate", NAME)
    both = clients.given_now()
    lab.ok("db", "move", NAME, "--host", other_host(lab))
    assert clients.are_let_in(former)
    assert clients.are_let_in(both)
    lab.ok("db", "certificate", "retire", NAME)
    assert clients.are_let_in(both)
    assert clients.are_let_in(clients.given_now())
    assert not clients.are_let_in(former)
