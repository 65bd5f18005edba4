"""Users, rotation, the trash, a new name: on a real lab, with logins as a client makes them."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.command_line import KILLED, CommandLine
from tests.system.images import pool_contents
from tests.system.machine import lab_container


def login(lab: CommandLine, name: str, option_file: Path, sql: str) -> tuple[int, str]:
    """What a client on the database's host is told, logged in over the network with TLS."""
    tag, host = lab.json("lab", "status")["spec"]["tag"], lab.json("db", "show", name)["host"]
    # Its certificate authority is a file that the host does not see.
    lines = [line for line in option_file.read_text().splitlines() if not line.startswith("ssl-ca")]
    client = ("mysql", "--defaults-file=/dev/stdin", "--ssl-mode=REQUIRED", "-BN", "-e", sql)
    finished = subprocess.run(
        ["runc", "--root", f"/run/grampus/{tag}/runc", "exec", f"{host}.host", *client],
        input="\n".join([*lines, ""]),
        capture_output=True,
        text=True,
        check=False,
    )
    return finished.returncode, finished.stdout.strip() or finished.stderr


@pytest.fixture(scope="module")
def shop(lab: CommandLine) -> Iterator[CommandLine]:
    lab.ok("db", "create", "names", "--size", "1G", "--memory", "512M", "--cpus", "0.5")
    lab.sql("names", "create database app; create table app.t (a int primary key)")
    lab.sql("names", "insert into app.t values (1), (2), (3)")
    try:
        yield lab
    finally:
        for name in ("names", "renamed"):
            lab.run("db", "delete", name, "--now", "--yes")
            lab.run("db", "trash", "empty", name, "--yes")


def test_a_reader_reads_and_does_not_write(shop: CommandLine) -> None:
    made = shop.json("db", "user", "add", "names", "reports", "--role", "read")
    option_file = Path(made["option_file"])
    assert login(shop, "names", option_file, "select count(*) from app.t") == (0, "3")
    code, said = login(shop, "names", option_file, "insert into app.t values (4)")
    assert (code, "denied" in said) == (1, True)


@pytest.mark.exhaustive
def test_a_user_cut_off_at_each_step_is_undone(shop: CommandLine) -> None:
    before = shop.json("db", "user", "list", "names")["users"]
    for point in ("begun", "password/after", "account/after", "file/after"):
        cut = shop.run(
            *("db", "user", "add", "names", "cut"), failpoints=f"db.user-add/{point}=kill"
        )
        assert cut.code == KILLED, cut.stderr
        assert shop.json("db", "user", "list", "names")["users"] == before
        assert not list((shop.home / "secrets" / shop.lab).glob("names.users/cut*"))


def test_a_rotation_cut_off_at_each_step_ends_with_passwords_that_work(shop: CommandLine) -> None:
    for step in ("password", "accounts", "secrets", "files", "discard"):
        cut = shop.run("db", "rotate", "names", failpoints=f"db.rotate/{step}/after=kill")
        assert cut.code == KILLED, cut.stderr
        assert shop.sql("names", "select count(*) from app.t") == [["3"]]
    owner = next(
        user
        for user in shop.json("db", "user", "list", "names")["users"]
        if user["role"] == "owner"
    )
    assert not owner["former_password_works"]


def test_the_trash_gives_back_what_was_committed(shop: CommandLine) -> None:
    shop.sql("names", "insert into app.t values (10)")
    shop.ok("db", "delete", "names", "--yes")
    assert shop.run("db", "show", "names").code == 3
    assert "names" in [entry["name"] for entry in shop.json("db", "trash", "list")["trash"]]
    back = shop.json("db", "undelete", "names")
    assert back["status"] == "running"
    assert shop.sql("names", "select count(*) from app.t") == [["4"]]
    option_file = shop.home / "secrets" / shop.lab / "names.users" / "reports.cnf"
    assert login(shop, "names", option_file, "select count(*) from app.t") == (0, "4")


@pytest.mark.exhaustive
def test_a_deletion_cut_off_at_each_step_can_be_taken_back(shop: CommandLine) -> None:
    for step in ("mark", "server", "drain", "volume", "secrets", "record"):
        cut = shop.run("db", "delete", "names", "--yes", failpoints=f"db.trash/{step}/after=kill")
        assert cut.code == KILLED, cut.stderr
        assert "names" not in [found["name"] for found in shop.json("db", "list")["databases"]]
        shop.ok("db", "undelete", "names")
        assert shop.sql("names", "select count(*) from app.t") == [["4"]]


def test_a_new_name_keeps_everything_else(shop: CommandLine) -> None:
    shop.ok("db", "label", "names", "team=web")
    before = shop.json("db", "show", "names")
    cut = shop.run("db", "rename", "names", "renamed", failpoints="db.rename/volume/after=kill")
    assert cut.code == KILLED, cut.stderr
    listed = shop.json("db", "list", "--label", "team=web")["databases"]
    assert [database["name"] for database in listed] == ["renamed"]
    after = shop.json("db", "show", "renamed")
    assert (after["address"], after["user"]) == (before["address"], before["user"])
    assert shop.sql("renamed", "select count(*) from app.t") == [["4"]]
    kinds = [event["kind"] for event in shop.json("db", "events", "renamed")["events"]]
    assert (kinds[0], kinds[-1]) == ("db.create", "db.rename")


def test_an_emptied_trash_leaves_nothing_in_the_cluster(shop: CommandLine) -> None:
    shop.ok("db", "delete", "renamed", "--yes")
    shop.ok("db", "trash", "empty", "renamed", "--yes")
    tag = shop.json("lab", "status")["spec"]["tag"]
    left = pool_contents(tag)
    # Its namespace is called as the database was when it was made.
    for name in (*left.namespaces, *left.images, *left.trash):
        assert not {"names", "db-names", "renamed", "db-renamed"} & set(re.split("[./]", name))
    assert "renamed" not in lab_container(tag, "h1", "ceph", "auth", "ls")
    secrets = shop.home / "secrets" / shop.lab
    assert not [path.name for path in secrets.glob("*") if path.name.startswith(("ren", "names"))]
