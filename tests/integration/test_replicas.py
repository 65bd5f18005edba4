"""A replica on a real cluster: what a writer writes arrives, nothing else does, and it lets go."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.system.command_line import KILLED, CommandLine

SMALL = ("--size", "1G", "--memory", "512M", "--cpus", "0.5")
PRIMARY, REPLICA = "leader", "leader-r1"


@pytest.fixture(
    params=["mysql", pytest.param("mariadb", marks=pytest.mark.exhaustive)],
)
def leader(lab: CommandLine, request: pytest.FixtureRequest) -> Iterator[CommandLine]:
    """A lab with a database that holds an empty table."""
    lab.ok("db", "create", PRIMARY, *SMALL, "--flavour", request.param)
    lab.ok("db", "connect", PRIMARY, "-e", "CREATE DATABASE s; CREATE TABLE s.t (id INT KEY)")
    try:
        yield lab
    finally:
        lab.run("db", "replica", "remove", REPLICA, "--yes")
        for name in (REPLICA, PRIMARY):
            lab.run("db", "delete", name, "--now", "--yes")


class Writer:
    """Inserts one row after the other until it is told to stop."""

    def __init__(self, lab: CommandLine) -> None:
        self._lab = lab
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._write)
        self.rows = 0

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _write(self) -> None:
        while not self._is_over.is_set():
            self._lab.ok("db", "connect", PRIMARY, "-e", f"INSERT INTO s.t VALUES ({self.rows})")
            self.rows += 1


def _count(lab: CommandLine, database: str) -> int:
    return int(lab.sql(database, "SELECT COUNT(*) FROM s.t")[0][0])


def _replicas(lab: CommandLine) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = lab.json("db", "replica", "list", PRIMARY)["replicas"]
    return found


def _await_rows(lab: CommandLine, rows: int) -> None:
    deadline_s = time.monotonic() + 20
    while _count(lab, REPLICA) < rows:
        assert time.monotonic() < deadline_s, "the replica does not get what its primary has"


def test_a_replica_follows_a_writer_refuses_others_and_is_promoted(leader: CommandLine) -> None:
    with Writer(leader) as writer:
        made = leader.json("db", "replica", "add", PRIMARY)
    assert (made["name"], made["state"]) == (REPLICA, "replicating")
    for name, how in (("runs", ""), ("rests", "DISABLE ")):
        event = (
            f"CREATE EVENT s.{name} ON SCHEDULE EVERY 1 DAY {how}DO DELETE FROM s.t WHERE id = -9"
        )
        leader.ok("db", "connect", PRIMARY, "-e", event)
    leader.ok("db", "connect", PRIMARY, "-e", "INSERT INTO s.t VALUES (-1)")
    _await_rows(leader, writer.rows + 1)
    errant = leader.json("db", "replica", "errant", REPLICA)
    assert (errant["transactions_ahead"], errant["unknown"]) == (0, None)
    (replica,) = _replicas(leader)
    assert (replica["transactions_behind"], replica["lag_s"]) == (0, 0)
    shown = leader.json("db", "show", PRIMARY)
    assert replica["host"] != shown["host"]
    assert [one["name"] for one in shown["replica_states"]] == [REPLICA]
    assert shown["endpoints"]["read_only"]["members"] == [REPLICA]
    assert shown["endpoints"]["read_only"]["address"] not in (replica["address"], shown["address"])
    assert shown["connections"] >= 1, "the replica is connected"
    assert shown["max_connections"] == int(leader.sql(PRIMARY, "SELECT @@max_connections")[0][0])
    assert shown["uptime_s"] >= 1
    follows = leader.json("db", "show", REPLICA)["replication"]
    assert (follows["source"]["name"], follows["state"]) == (PRIMARY, "replicating")
    refused = leader.run("db", "connect", REPLICA, "-e", "INSERT INTO s.t VALUES (-2)")
    assert "read-only" in refused.stderr
    read = leader.ok("db", "connect", PRIMARY, "--read-only", "-e", "SELECT @@GLOBAL.read_only")
    assert read.stdout.split() == ["@@GLOBAL.read_only", "1"]
    kept = leader.run("db", "delete", PRIMARY, "--now", "--yes")
    assert kept.code == 4
    assert REPLICA in kept.stderr
    events = leader.json("db", "replica", "promote", REPLICA, "--wait")["events"]
    assert events == {"enabled": ["s.runs"], "disabled": ["s.rests"], "unknown": []}
    found = "SELECT EVENT_NAME, STATUS, SUBSTRING_INDEX(DEFINER, '@', 1) "
    found += "FROM information_schema.EVENTS ORDER BY 1"
    rows = [tuple(row) for row in leader.sql(REPLICA, found)]
    assert rows == [("rests", "DISABLED", PRIMARY), ("runs", "ENABLED", PRIMARY)]
    leader.ok("db", "connect", REPLICA, "-e", "INSERT INTO s.t VALUES (-2)")
    assert _count(leader, REPLICA) == _count(leader, PRIMARY) + 1
    assert _replicas(leader) == []


def _process_of(lab: CommandLine, database: str) -> int:
    """The process of the database's server on this machine."""
    place = f"{lab.home}/labs/{lab.lab}/hosts/", f"/data/databases/{database}/my.cnf"
    found = []
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            is_server = (directory / "comm").read_text().startswith(("mysqld", "mariadbd"))
            words = (directory / "cmdline").read_text().split("\0")
        except OSError:
            continue  # it has ended
        if is_server and any(place[0] in word and word.endswith(place[1]) for word in words):
            found.append(int(directory.name))
    (process,) = found
    return process


def test_a_replica_that_hangs_is_told_and_holds_no_look_up(leader: CommandLine) -> None:
    leader.ok("db", "replica", "add", PRIMARY)
    process = _process_of(leader, REPLICA)
    os.kill(process, signal.SIGSTOP)
    try:
        took_s = {}
        for look in (("show", PRIMARY), ("replica", "list", PRIMARY), ("list",)):
            began_s = time.monotonic()
            leader.ok("db", *look)
            took_s[look] = time.monotonic() - began_s
        assert max(took_s.values()) < 15, took_s
        (state,) = leader.json("db", "show", PRIMARY)["replica_states"]
        assert (state["state"], state["lag_s"]) == ("no-answer", None)
        assert state["problem"] == "No answer within 5 s."
        assert leader.json("db", "show", PRIMARY)["endpoints"]["read_only"] is None
        hung = leader.json("db", "show", REPLICA)
        assert hung["server_problem"] == "No answer within 5 s."
    finally:
        os.kill(process, signal.SIGCONT)
    leader.ok("db", "connect", PRIMARY, "-e", "INSERT INTO s.t VALUES (1)")
    _await_rows(leader, 1)
    assert _replicas(leader)[0]["state"] == "replicating"


@pytest.mark.exhaustive
def test_with_one_copy_the_cluster_stays_healthy_and_nothing_is_left(leader: CommandLine) -> None:
    made = leader.json("db", "replica", "add", PRIMARY, "--copies", "1")
    assert (made["copies"], made["state"]) == (1, "replicating")
    assert leader.json("lab", "status")["cluster"]["health"] == "HEALTH_OK"
    leader.ok("db", "restart", REPLICA)
    leader.ok("db", "connect", PRIMARY, "-e", "INSERT INTO s.t VALUES (1)")
    _await_rows(leader, 1)
    leader.ok("db", "replica", "remove", REPLICA, "--yes")
    assert leader.json("lab", "status")["cluster"]["health"] == "HEALTH_OK"
    volumes = leader.json("volume", "list")["volumes"]
    assert REPLICA not in [volume["name"] for volume in volumes]


@pytest.mark.exhaustive
@pytest.mark.parametrize("step", ["old", "volume", "release", "start", "follow"])
def test_a_renewal_that_is_killed_is_finished(leader: CommandLine, step: str) -> None:
    leader.ok("db", "replica", "add", PRIMARY)
    leader.ok("db", "connect", PRIMARY, "-e", "INSERT INTO s.t VALUES (1)")
    failpoint = f"db.replica-renew/{step}/after=kill"
    assert leader.run("db", "replica", "renew", REPLICA, failpoints=failpoint).code == KILLED
    assert "finished" in leader.ok("db", "list").stderr
    assert _replicas(leader)[0]["state"] == "replicating"
    _await_rows(leader, 1)
    assert leader.json("db", "snapshot", "list", PRIMARY)["snapshots"] == []


@pytest.mark.exhaustive
@pytest.mark.parametrize("step", ["volume", "start", "follow"])
def test_an_addition_that_is_killed_is_undone(leader: CommandLine, step: str) -> None:
    before = leader.json("volume", "list")
    failpoint = f"db.replica-add/{step}/after=kill"
    assert leader.run("db", "replica", "add", PRIMARY, failpoints=failpoint).code == KILLED
    assert "undone" in leader.ok("db", "list").stderr
    assert leader.json("volume", "list") == before
    assert _replicas(leader) == []
