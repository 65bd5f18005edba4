"""Golden volumes, clones and flattening on a real cluster, with a real server."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from subprocess import Popen
from typing import Any

import pytest

from tests.system.command_line import KILLED, CommandLine
from tests.system.lab_machine import LabMachine
from tests.system.machine import wait_for

SMALL = ("--size", "1G", "--memory", "512M", "--cpus", "1")
NAMES = ("origin", "copy", "copy-of-copy")
# 190 MB: some seconds of copying.
FILL = (
    "CREATE TABLE app.b (id INT AUTO_INCREMENT PRIMARY KEY, x LONGTEXT); "
    + "INSERT INTO app.b (x) VALUES (REPEAT(SHA2(RAND(), 256), 125000)); " * 24
)


@pytest.fixture
def shop(lab: CommandLine) -> Iterator[CommandLine]:
    """A lab with a database `origin` that holds rows, a view, and a user of its own."""
    lab.ok("db", "create", NAMES[0], *SMALL)
    try:
        ask(
            lab,
            "origin",
            "CREATE DATABASE app; USE app; CREATE TABLE t (a INT PRIMARY KEY); "
            "INSERT INTO t VALUES (1), (2); CREATE VIEW v AS SELECT a FROM t; "
            "CREATE USER dba@'%' IDENTIFIED BY 'Dbas-own-1'; GRANT SELECT ON app.* TO dba@'%'",
        )
        yield lab
    finally:
        for name in reversed(NAMES):
            lab.run("db", "delete", name, "--yes", "--now")


def ask(lab: CommandLine, database: str, sql: str) -> list[str]:
    """Lines of the answer, without the column's name."""
    answer = lab.ok("db", "connect", database, "-e", sql)
    return answer.stdout.splitlines()[1:]


def show(lab: CommandLine, database: str) -> Any:
    return lab.json("db", "show", database)


def test_a_clone_is_a_database_of_its_own_with_the_same_data(shop: CommandLine) -> None:
    began_s = time.monotonic()
    made = shop.ok("db", "clone", "origin", "copy", "--format", "json").document
    took_s = time.monotonic() - began_s
    origin = show(shop, "origin")
    assert made["clone_depth"] == 2  # below it are the origin and the golden volume
    assert made["user"] == origin["user"]
    assert made["address"] != origin["address"]
    assert ask(shop, "copy", "SELECT a FROM app.v ORDER BY a") == ["1", "2"]
    identity = "SELECT CONCAT(@@server_uuid, '/', @@server_id)"
    assert ask(shop, "copy", identity) != ask(shop, "origin", identity)
    secrets = shop.home / "secrets" / shop.lab
    passwords = {
        line
        for name in ("origin", "copy")
        for line in (secrets / f"{name}.cnf").read_text().splitlines()
        if line.startswith("password=")
    }
    assert len(passwords) == 2
    ask(shop, "copy", "INSERT INTO app.t VALUES (3)")
    assert ask(shop, "origin", "SELECT COUNT(*) FROM app.t") == ["2"]
    assert shop.json("db", "snapshot", "list", "origin")["snapshots"] == []
    assert took_s < 60, "the copying of data would show"
    require_apart(shop, "copy", "origin")


def test_a_copy_has_an_external_log_where_its_source_has_none(lab: CommandLine) -> None:
    """As a database of an earlier release gets one: here its write path is another one, too."""
    lab.ok("db", "create", "origin", *SMALL, "--write-path", "direct")
    try:
        ask(lab, "origin", "CREATE DATABASE app; CREATE TABLE app.t (a INT PRIMARY KEY)")
        ask(lab, "origin", "INSERT INTO app.t VALUES (1), (2)")
        refused = lab.run("db", "clone", "origin", "copy", "--external-log")
        assert (refused.code, "the write path direct" in refused.stderr) == (4, True)
        asked = ("--write-path", "journal", "--external-log")
        made = lab.ok("db", "clone", "origin", "copy", *asked, "--format", "json").document
        assert (made["cloned_from"], made["clone_depth"]) == (None, 0)
        logs = {
            name: lab.json("volume", "show", name)["external_log_bytes"]
            for name in ("origin", "copy")
        }
        assert logs == {"origin": None, "copy": 64 * 1024**2}
        assert ask(lab, "copy", "SELECT a FROM app.t ORDER BY a") == ["1", "2"]
        ask(lab, "copy", "INSERT INTO app.t VALUES (3)")
        assert ask(lab, "origin", "SELECT COUNT(*) FROM app.t") == ["2"]
        volumes = {volume["name"] for volume in lab.json("volume", "list")["volumes"]}
        assert not [name for name in volumes if name.endswith("-files")]
        lab.ok("db", "delete", "origin", "--yes", "--now")  # nothing of it is needed any more
        assert ask(lab, "copy", "SELECT COUNT(*) FROM app.t") == ["3"]
    finally:
        for name in ("copy", "origin"):
            lab.run("db", "delete", name, "--yes", "--now")


def require_apart(lab: CommandLine, database: str, other: str) -> None:
    """Outside of its container, the server of `database` has no way to the other one (INV-86).

    All hosts of a lab are one machine, so it does not matter on which of them the servers run.
    """
    uid, shown = show(lab, database)["server_uid"], show(lab, other)
    assert uid != shown["server_uid"]
    machine = LabMachine(lab, shown["host"])
    pid, server = machine.daemons()[f"mysqld-{other}"], machine.data / "databases" / other
    assert f"Uid:\t{shown['server_uid']}\t" in Path(f"/proc/{pid}/status").read_text()
    attempts = [
        ["cat", f"{server}/tls/server-key.pem"],
        ["cat", f"{server}/client.cnf"],
        ["ls", str(machine.data / "volumes" / other)],
        ["sh", "-c", f"kill -0 {pid}"],
        ["cat", f"/proc/{pid}/environ"],
        ["ls", f"/proc/{pid}/root/"],
    ]
    for attempt in attempts:
        assert run_as(0, attempt) == 0, "root is not kept away, so the attempt is a real one"
        assert run_as(uid, attempt) != 0, attempt


def run_as(uid: int, argv: list[str]) -> int:
    """The code with which a command of a user ends that has nothing but this number."""
    to_user = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"]
    return subprocess.run([*to_user, *argv], capture_output=True, check=False).returncode


def test_the_passwords_of_the_source_open_no_clone(shop: CommandLine) -> None:
    shop.ok("db", "clone", "origin", "copy")
    made = show(shop, "copy")
    secrets = shop.home / "secrets" / shop.lab
    old, new = (
        next(
            line
            for line in (secrets / f"{name}.cnf").read_text().splitlines()
            if line.startswith("password=")
        )
        for name in ("origin", "copy")
    )
    data = shop.home / "labs" / shop.lab / "hosts" / made["host"] / "data"
    option_file = data / "databases" / "copy" / "client.cnf"
    whole = option_file.read_text()
    option_file.write_text(whole.replace(new, old))
    try:
        refused = shop.run("db", "connect", "copy", "-e", "SELECT 1")
        assert "Access denied" in refused.stderr
    finally:
        option_file.write_text(whole)
    assert ask(shop, "copy", "SELECT 1") == ["1"]
    for log in (shop.home / "labs" / shop.lab).glob("hosts/*/daemons/*copy*/log"):
        assert new.partition("=")[2] not in log.read_text(errors="replace")


def test_the_source_stays_while_clones_stand_on_it(shop: CommandLine) -> None:
    shop.ok("db", "clone", "origin", "copy")
    refused = shop.run("db", "delete", "origin", "--now", "--yes")
    assert refused.code == 4
    assert "clones" in refused.stderr
    assert show(shop, "origin")["status"] == "running"
    assert show(shop, "origin")["clones"] == ["copy"]
    shop.ok("db", "flatten", "copy")
    assert show(shop, "copy")["clone_depth"] == 0
    assert show(shop, "origin")["clones"] == []
    shop.ok("db", "delete", "origin", "--now", "--yes")
    assert ask(shop, "copy", "SELECT COUNT(*) FROM app.t") == ["2"]


@pytest.mark.parametrize(
    "step",
    [
        "attach",
        *(
            pytest.param(step, marks=pytest.mark.exhaustive)
            for step in ("snapshot", "volume", "release", "start", "serve")
        ),
    ],
)
@pytest.mark.logs("operation.undone")
def test_a_clone_that_is_killed_is_undone_by_the_next_command(shop: CommandLine, step: str) -> None:
    before = shop.json("volume", "list")
    cut = shop.run("db", "clone", "origin", "copy", failpoints=f"db.clone/{step}/after=kill")
    assert cut.code == KILLED, cut.stderr
    listed = shop.ok("db", "list", "--format", "json")
    assert [database["name"] for database in listed.document["databases"]] == ["origin"]
    assert "undone" in listed.stderr
    assert shop.json("volume", "list") == before
    assert shop.json("db", "snapshot", "list", "origin")["snapshots"] == []


def test_a_database_that_is_to_stand_alone_serves_first_and_is_flattened_later(
    lab: CommandLine,
) -> None:
    made = lab.json("db", "create", "origin", *SMALL, "--flatten")
    try:
        assert made["flatten_due"]
        assert show(lab, "origin")["clone_depth"] == 1
        assert "pending" in lab.ok("db", "show", "origin").stdout
        assert ask(lab, "origin", "SELECT 1") == ["1"]
        assert "was flattened" in lab.ok("serve", "--once").stdout
        after = show(lab, "origin")
        assert (after["clone_depth"], after["flatten_due"], after["status"]) == (
            0,
            False,
            "running",
        )
        assert lab.json("db", "flatten", "--due")["databases"] == []
    finally:
        lab.run("db", "delete", "origin", "--yes", "--now")


@pytest.mark.logs("operation.undone")
def test_a_flattening_that_is_killed_leaves_the_database_and_is_done_later(
    shop: CommandLine,
) -> None:
    shop.ok("db", "create", "copy", *SMALL, "--flatten")
    cut = shop.run("db", "flatten", "--due", failpoints="db.flatten/flatten/before=kill")
    assert cut.code == KILLED, cut.stderr
    found = show(shop, "copy")
    assert (found["status"], found["flatten_due"]) == ("running", True)
    shop.ok("db", "flatten", "--due")
    assert (show(shop, "copy")["clone_depth"], show(shop, "copy")["flatten_due"]) == (0, False)


def test_of_a_server_that_ends_under_its_client_the_reason_is_told(shop: CommandLine) -> None:
    waiting = shop.start("db", "connect", "origin", "-e", "SELECT SLEEP(120)")
    try:
        asked = (
            "SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE 'SELECT SLEEP%'"
        )
        deadline_s = time.monotonic() + 60
        while ask(shop, "origin", asked) == ["0"]:
            assert time.monotonic() < deadline_s, "its statement never came"
            time.sleep(0.2)
        server = LabMachine(shop, show(shop, "origin")["host"]).daemons()["mysqld-origin"]
        os.kill(server, signal.SIGKILL)
    finally:
        _, said = waiting.communicate(timeout=60)
    assert waiting.returncode == 1
    if "Lost connection" not in said:  # else its client was faster than the end of the server
        assert "The server of origin ended" in said
        assert "grampus db start origin" in said


def test_a_flattening_that_was_cut_off_leaves_no_image_without_its_map(shop: CommandLine) -> None:
    machine = LabMachine(shop, "h1")

    def features(name: str) -> tuple[str, list[str]]:
        volume = shop.json("volume", "show", name)
        image = f"{volume['pool']}/{volume['image']}"
        return image, json.loads(machine.ok("rbd", "info", "--format", "json", image))["features"]

    # As one leaves it that is killed while it copies.
    image, before = features("origin")
    noted = ("grampus.suspended_features", "object-map,fast-diff")
    machine.ok("rbd", "image-meta", "set", image, *noted)
    machine.ok("rbd", "feature", "disable", image, "object-map", "fast-diff")
    shop.ok("db", "clone", "origin", "copy")
    copied, has = features("copy")
    assert set(has) == set(before), "a clone has what its source is to have again"
    assert "suspended" not in machine.ok("rbd", "image-meta", "list", copied)
    shop.ok("db", "flatten", "origin")
    assert set(features("origin")[1]) == set(before)
    assert "suspended" not in machine.ok("rbd", "image-meta", "list", image)
    assert ask(shop, "copy", "SELECT COUNT(*) FROM app.t") == ["2"]


def start_flattening(lab: CommandLine) -> Popen[str]:
    """`db flatten copy`, which has begun to copy."""
    running = lab.start("db", "flatten", "copy")
    assert running.stderr is not None
    while "Copy the data that the volume" not in (line := running.stderr.readline()):
        assert line, "it ended before it had begun"
    return running


def test_a_flattening_that_ctrl_c_has_ended_is_gone_on_with_at_once(shop: CommandLine) -> None:
    """The image's own client goes on meanwhile, and for 30 s answers nobody: see ADR 34."""
    machine = LabMachine(shop, "h1")
    ask(shop, "origin", FILL)
    shop.ok("db", "clone", "origin", "copy")
    volume = shop.json("volume", "show", "copy")
    image = f"{volume['pool']}/{volume['image']}"

    def facts() -> Any:
        return json.loads(machine.ok("rbd", "info", "--format", "json", image))

    running = start_flattening(shop)
    wait_for(lambda: "object-map" not in facts()["features"], "it to take the map away", 30.0)
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=60)
    assert running.returncode == 130
    assert "object-map" not in facts()["features"]
    shop.ok("db", "flatten", "copy", timeout_s=100)
    found = facts()
    assert "object-map" in found["features"]
    assert (found["flags"], found.get("parent")) == ([], None)
    assert ask(shop, "copy", "SELECT COUNT(*) FROM app.b") == ["24"]


def require_right_maps(lab: CommandLine, name: str, snapshots: list[str]) -> None:
    """Each snapshot has an object map, and the map has every object that is there."""
    machine = LabMachine(lab, "h1")
    volume = lab.json("volume", "show", name)
    for snapshot in snapshots:
        place = f"{volume['pool']}/{volume['image']}@{snapshot}"
        found = json.loads(machine.ok("rbd", "info", "--format", "json", place))
        assert "object-map" in found["features"]
        checked = machine.run("rbd", "object-map", "check", "--no-progress", place)
        # It ends with 0 all the same, and marks the map as invalid.
        assert "marked as" not in checked.stdout + checked.stderr, checked.stderr
        assert json.loads(machine.ok("rbd", "info", "--format", "json", place))["flags"] == []


def test_a_volume_grows_and_is_snapped_while_it_is_flattened(shop: CommandLine) -> None:
    ask(shop, "origin", FILL)
    digest = "SELECT COUNT(*), SUM(CRC32(x)), SUM(id * CRC32(x)) FROM app.b"
    wanted = ask(shop, "origin", digest)
    shop.ok("db", "clone", "origin", "copy")
    running = start_flattening(shop)
    names = ["meanwhile"]
    try:
        shop.ok("db", "resize", "copy", "--size", "1280M")
        shop.ok("db", "snapshot", "create", "copy", "meanwhile")
        # To its end: one that is taken while the maps are made anew has a map, too.
        while running.poll() is None and len(names) < 60:
            names.append(f"meanwhile-{len(names)}")
            shop.ok("volume", "snapshot", "create", "copy", names[-1])
        ask(shop, "copy", "INSERT INTO app.t VALUES (3)")
    finally:
        _, said = running.communicate(timeout=300)
    assert running.returncode == 0, said
    found = show(shop, "copy")
    assert (found["clone_depth"], found["size_bytes"]) == (0, 1280 * 2**20)
    require_right_maps(shop, "copy", names)
    shop.ok("db", "restart", "copy")
    assert ask(shop, "copy", digest) == wanted
    assert ask(shop, "copy", "SELECT COUNT(*) FROM app.t") == ["3"]
    shop.ok("db", "snapshot", "rollback", "copy", "meanwhile", "--yes", "--no-safety-snapshot")
    assert ask(shop, "copy", digest) == wanted
    assert ask(shop, "copy", "SELECT COUNT(*) FROM app.t") == ["2"]
