"""Bit rot found and repaired under readers, and a lost state rebuilt, on a real cluster."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.command_line import CommandLine
from tests.system.lab_machine import LabMachine
from tests.system.machine import wait_for

SMALL = ("--size", "1G", "--memory", "512M", "--cpus", "1")
CHECKSUM = "CHECKSUM TABLE app.t"


@pytest.fixture
def shop(lab: CommandLine) -> Iterator[CommandLine]:
    """A lab with a database `verified` that holds some megabytes."""
    lab.ok("db", "create", "verified", *SMALL, "--host", "h1")
    try:
        fill = "INSERT INTO t (filler) SELECT REPEAT(CHAR(97 + RAND() * 20), 500) FROM t; "
        lab.ok(
            *("db", "connect", "verified", "-e"),
            "CREATE DATABASE app; USE app; CREATE TABLE t "
            "(id INT PRIMARY KEY AUTO_INCREMENT, filler VARCHAR(500)); "
            f"INSERT INTO t (filler) VALUES ('x'); {fill * 13}",
        )
        yield lab
    finally:
        lab.run("db", "delete", "verified", "--yes", "--now")


class Reader:
    """Checksums a table again and again, until it is told to stop."""

    def __init__(self, lab: CommandLine) -> None:
        self._lab = lab
        self._stop = threading.Event()
        self.seen: list[str] = []
        self.failures: list[str] = []
        self._thread = threading.Thread(target=self._read)

    def __enter__(self) -> Reader:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _read(self) -> None:
        while not self._stop.is_set():
            answer = self._lab.run("db", "connect", "verified", "-e", CHECKSUM)
            if answer.code == 0:
                self.seen.append(answer.stdout.splitlines()[-1])
            else:
                self.failures.append(answer.stderr)


def test_tables_and_copies_are_sound(shop: CommandLine) -> None:
    verified = shop.json("db", "verify", "verified", "--tables")
    assert verified["sound"]
    assert "app.t" in [check["table"] for check in verified["tables"]]
    assert {check["outcome"] for check in verified["tables"]} == {"sound"}
    # They were checked on a clone, of which nothing is left.
    assert [one["name"] for one in shop.json("db", "list")["databases"]] == ["verified"]
    assert shop.json("db", "snapshot", "list", "verified")["snapshots"] == []
    in_place = shop.json("db", "verify", "verified", "--tables", "--in-place")
    assert in_place["summary"] == verified["summary"]
    volume = shop.json("volume", "verify", "verified")
    assert (volume["sound"], volume["damaged"]) == (True, [])
    assert volume["objects"] > 1


def test_a_snapshot_that_is_read_wrongly_is_found_and_read_rightly_then(lab: CommandLine) -> None:
    """Its object map lacks an object that is there, as Ceph itself leaves some: see ADR 34."""
    machine = LabMachine(lab, "h1")
    made = lab.json("volume", "create", "mapped", "--size", "320M")
    try:
        image = f"{made['pool']}/{made['image']}"
        namespace = made["image"].rpartition("/")[0]
        prefix = json.loads(machine.ok("rbd", "info", "--format", "json", image))[
            "block_name_prefix"
        ]
        here = ("rados", "--pool", made["pool"], "--namespace", namespace)
        # Past librbd, which would note it in the map.
        source = machine.scratch() / "object"
        source.write_bytes(b"there" * 1000)
        machine.ok(*here, "put", f"{prefix}.0000000000000007", str(source))
        machine.ok("rbd", "snap", "create", "--no-progress", f"{image}@before")
        read = f"rbd export --no-progress {image}@before - | tr -d '\\0' | wc --bytes"
        assert int(machine.ok("sh", "-c", read)) == 0, "Ceph goes by the map"
        found = lab.run("volume", "verify", "mapped", "--format", "json")
        assert found.code == 1, found.stderr
        assert found.document["wrong_maps"] == [{"snapshot": "before", "objects": 1}]
        assert int(machine.ok("sh", "-c", read)) == 5000
        assert lab.json("volume", "verify", "mapped")["wrong_maps"] == []
    finally:
        lab.run("volume", "delete", "mapped", "--yes")


def test_a_server_with_two_cpus_checks_tables_side_by_side(shop: CommandLine) -> None:
    shop.ok("db", "set", "verified", "--cpus", "2")
    verified = shop.json("db", "verify", "verified", "--tables")
    assert {check["outcome"] for check in verified["tables"]} == {"sound"}
    assert "app.t" in [check["table"] for check in verified["tables"]]
    assert [one["name"] for one in shop.json("db", "list")["databases"]] == ["verified"]


def test_the_controller_clears_away_what_a_killed_verification_left(shop: CommandLine) -> None:
    checking = shop.start("db", "verify", "verified", "--tables")

    def left() -> list[str]:
        listed = shop.json("db", "list")["databases"]
        return [
            one["name"]
            for one in listed
            if one["name"].startswith("verify-")
            and one["status"] == "running"
            and one["server_version"]
        ]

    wait_for(lambda: bool(left()) or checking.poll() is not None, "the clone", timeout_s=120)
    checking.kill()
    checking.communicate()
    (clone,) = left()
    served = shop.ok("serve", "--once", "--format", "json")
    assert '"scratch-cleared"' in served.stdout, served.stdout
    assert clone in served.stdout
    assert [one["name"] for one in shop.json("db", "list")["databases"]] == ["verified"]
    assert shop.json("db", "snapshot", "list", "verified")["snapshots"] == []


def test_the_newest_backup_is_restored_and_compared(shop: CommandLine, tmp_path: Path) -> None:
    assert shop.run("db", "verify", "verified", "--restore").code == 3
    taken = shop.json("db", "backup", "create", "verified", "--to", str(tmp_path / "shelf"))
    said = shop.ok("db", "verify", "verified").stdout
    assert "--restore does that" in said
    before = shop.json("db", "list")
    verified = shop.json("db", "verify", "verified", "--tables", "--restore")
    assert verified["sound"]
    assert verified["deep_scrub"] is None
    restored = verified["restore"]
    assert (restored["backup"], restored["outcome"]) == (taken["id"], "good")
    assert restored["compared"]
    assert restored["tables"] == len(verified["tables"])
    assert shop.json("db", "list") == before
    events = shop.json("db", "events", "verified")["events"]
    kept = [event["what"] for event in events if event["kind"] == "db.verify"]
    assert taken["id"] in kept[-1]


@pytest.mark.exhaustive
def test_a_backup_that_is_damaged_is_found(shop: CommandLine, tmp_path: Path) -> None:
    shelf = tmp_path / "shelf"
    shop.ok("db", "backup", "create", "verified", "--to", str(shelf))
    (data,) = shelf.rglob("image.sealed")
    content = bytearray(data.read_bytes())
    content[len(content) // 2] ^= 1
    data.write_bytes(content)
    found = shop.run("db", "verify", "verified", "--restore", "--format", "json")
    assert (found.code, found.document["restore"]["outcome"]) == (1, "broken")


@pytest.mark.exhaustive
@pytest.mark.parametrize("osd", [None, 0, 1, 2])
def test_a_flipped_bit_is_found_and_repaired_while_clients_read_right_data(
    shop: CommandLine, osd: int | None
) -> None:
    asked = () if osd is None else ("--osd", str(osd))
    right = shop.ok("db", "connect", "verified", "-e", CHECKSUM).stdout.splitlines()[-1]
    with Reader(shop) as reader:
        flipped = shop.json("lab", "fault", "bit-rot", "verified", *asked)["flipped"]
        found = shop.run("db", "verify", "verified", "--deep-scrub", "--format", "json")
        repaired = shop.run("db", "verify", "verified", "--deep-scrub", "--repair")
        again = shop.json("db", "verify", "verified", "--deep-scrub")
    damaged = [one["name"] for one in found.document["deep_scrub"]["damaged"]]
    if osd is None:
        # No client reads that copy, so nothing but a scrub can have found it.
        assert (found.code, damaged) == (1, [flipped[0]["object"]])
    else:
        # A primary that a client has asked meanwhile has put itself right.
        assert set(damaged) <= {flipped[0]["object"]}
    assert repaired.code == 0
    assert again["sound"]
    assert again["deep_scrub"]["damaged"] == []
    assert reader.failures == []
    assert reader.seen
    assert set(reader.seen) == {right}


def test_a_lost_state_is_rebuilt_while_the_database_runs(shop: CommandLine) -> None:
    shop.ok("db", "label", "verified", "team=web")
    before = [shop.json("db", "list"), shop.json("volume", "list")]
    serving = LabMachine(shop, "h1").daemons()["mysqld-verified"]
    # Other labs are in the same state file: all that it knows of this one goes.
    with sqlite3.connect(shop.home / "state.db", timeout=30) as state:
        state.execute("DELETE FROM records WHERE lab = ?", (shop.lab,))
        state.execute("DELETE FROM operations WHERE lab = ?", (shop.lab,))
    state.close()
    assert shop.run("db", "list").code == 3
    planned = shop.json("state", "rebuild", "--dry-run")
    assert shop.run("db", "list").code == 3
    rebuilt = shop.json("state", "rebuild")
    assert rebuilt["records"] == planned["records"]
    assert (rebuilt["conflicts"], rebuilt["without_passwords"]) == ([], [])
    assert [shop.json("db", "list"), shop.json("volume", "list")] == before
    assert LabMachine(shop, "h1").daemons()["mysqld-verified"] == serving
    assert shop.json("state", "rebuild")["records"] == []
    shop.ok("db", "stop", "verified")
    shop.ok("db", "start", "verified")
    assert shop.sql("verified", "SELECT COUNT(*) FROM app.t") == [["8192"]]
