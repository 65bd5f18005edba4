"""Users, rotation, the trash, a new name: on a real lab, with logins as a client makes them."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.system.administrator import as_administrator
from tests.system.command_line import KILLED, CommandLine
from tests.system.images import pool_contents
from tests.system.machine import lab_container, wait_for

_CLIENTS = {
    "mysql": ("mysql", "--ssl-mode=REQUIRED"),
    "mariadb": ("mariadb", "--ssl", "--skip-ssl-verify-server-cert"),
}


def login(lab: CommandLine, name: str, option_file: Path, sql: str) -> tuple[int, str]:
    """What a client on the database's host is told, logged in over the network with TLS."""
    tag, shown = lab.tag, lab.json("db", "show", name)
    # Its certificate authority is a file that the host does not see.
    lines = [line for line in option_file.read_text().splitlines() if not line.startswith("ssl-ca")]
    program, *tls = _CLIENTS[shown["flavour"]]
    client = (program, "--defaults-file=/dev/stdin", *tls, "-BN", "-e", sql)
    # A host need not have the client of MariaDB; its server's container does.
    container = f"{shown['host']}.{'host' if program == 'mysql' else f'mysqld-{name}'}"
    finished = subprocess.run(
        ["runc", "--root", f"/run/grampus/{tag}/runc", "exec", container, *client],
        input="\n".join([*lines, ""]),
        capture_output=True,
        text=True,
        check=False,
    )
    return finished.returncode, finished.stdout.strip() or finished.stderr


ROWS = "select count(*) from app.t"


@pytest.fixture(scope="module")
def shop(lab: CommandLine) -> Iterator[CommandLine]:
    """A lab with a database of three rows and a user `reports` who may read them."""
    lab.ok("db", "create", "names", "--size", "1G", "--memory", "512M", "--cpus", "0.5")
    lab.sql("names", "create database app; create table app.t (a int primary key)")
    lab.sql("names", "insert into app.t values (1), (2), (3)")
    lab.ok("db", "user", "add", "names", "reports", "--role", "read")
    try:
        yield lab
    finally:
        for name in ("names", "renamed"):
            lab.run("db", "delete", name, "--now", "--yes")
            lab.run("db", "trash", "empty", name, "--yes")


def option_file_of(shop: CommandLine, user: str) -> Path:
    """What a user of the database logs in with."""
    return shop.home / "secrets" / shop.lab / "names.users" / f"{user}.cnf"


# What a master user of a managed service may, and what would give the server away (INV-79).
ALLOWED = (
    "CREATE USER other IDENTIFIED BY 'Other1'; GRANT SELECT ON *.* TO other",
    "CREATE ROLE made; GRANT made TO other; DROP ROLE made",
    "GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO other",
    "CREATE DEFINER = 'nobody'@'%' VIEW app.v AS SELECT 1",
    "CREATE DEFINER = 'other'@'%' PROCEDURE app.p() SELECT 1; SHOW CREATE PROCEDURE app.p",
    "XA RECOVER",
    "FLUSH TABLES; FLUSH STATUS; FLUSH USER_RESOURCES; FLUSH OPTIMIZER_COSTS; FLUSH PRIVILEGES",
    "SHOW BINARY LOGS; SHOW BINARY LOG STATUS",
    "SELECT COUNT(*) FROM mysql.slow_log",
)
ADMINS = ("'grampus.admin'@'localhost'", "'grampus.admin'@'127.0.0.1'", "'root'@'localhost'")
FORBIDDEN = (
    *(f"CREATE DEFINER = {admin} PROCEDURE app.q() SELECT 1" for admin in ADMINS),
    *(f"CREATE DEFINER = {admin} VIEW app.w AS SELECT 1" for admin in ADMINS),
    *(f"GRANT {admin} TO other" for admin in ADMINS),
    *(f"ALTER USER {admin} IDENTIFIED BY 'x'" for admin in ADMINS),
    *(f"DROP USER {admin}" for admin in ADMINS),
    *(f"SHOW CREATE USER {admin}" for admin in ADMINS),
    "SELECT * FROM mysql.user",
    "GRANT SELECT ON mysql.* TO other",
    "CREATE VIEW app.u AS SELECT * FROM mysql.user",
    "UPDATE mysql.user SET user = 'x'",
    "DROP PROCEDURE mysql.grampus_kill",
    "CALL mysql.grampus_kill_checked(1)",
    "SET SESSION sql_log_bin = 0",
    "SET GLOBAL max_connections = 5",
    "RESET BINARY LOGS AND GTIDS",
    "FLUSH BINARY LOGS",
    "PURGE BINARY LOGS BEFORE NOW()",
    "SELECT 1 INTO OUTFILE '/var/lib/mysql/data/x'",
    "SHUTDOWN",
)


def test_the_owner_does_what_a_master_user_may_and_nothing_to_grampus(shop: CommandLine) -> None:
    owner = shop.home / "secrets" / shop.lab / "names.cnf"
    try:
        for statement in ALLOWED:
            code, said = login(shop, "names", owner, statement)
            assert code == 0, f"{statement}: {said}"
        for statement in FORBIDDEN:
            code, said = login(shop, "names", owner, statement)
            assert (code, "denied" in said) == (1, True), f"{statement}: {said}"
        as_other = owner.read_text().replace("user=names\n", "user=other\n")
        file = shop.home / "other.cnf"
        file.write_text(re.sub(r"password=.*", "password=Other1", as_other))
        assert "denied" in login(shop, "names", file, "SELECT * FROM mysql.user")[1]
    finally:
        tidy = (
            "DROP VIEW IF EXISTS app.v; DROP PROCEDURE IF EXISTS app.p; DROP USER IF EXISTS other"
        )
        login(shop, "names", owner, tidy)


def session_that_runs(shop: CommandLine, sql: str) -> str:
    """The number of the session that runs `sql`, once one does."""
    asks = f"select id from information_schema.processlist where info = '{sql}'"
    wait_for(lambda: as_administrator(shop, "names", asks) != "", f"a session that runs {sql}")
    return as_administrator(shop, "names", asks).strip()


def test_a_session_of_an_application_is_ended_and_one_of_grampus_is_not(shop: CommandLine) -> None:
    owner = shop.home / "secrets" / shop.lab / "names.cnf"
    reports = option_file_of(shop, "reports")
    with ThreadPoolExecutor() as pool:
        long = pool.submit(login, shop, "names", reports, "do sleep(60)")
        number = session_that_runs(shop, "do sleep(60)")
        assert login(shop, "names", owner, f"kill {number}")[0] == 1
        assert login(shop, "names", owner, f"call mysql.grampus_kill({number})")[0] == 0
        assert "Lost connection" in long.result()[1]
        own = pool.submit(as_administrator, shop, "names", "do sleep(5)")
        number = session_that_runs(shop, "do sleep(5)")
        code, said = login(shop, "names", owner, f"call mysql.grampus_kill({number})")
        assert (code, "Unknown thread id" in said) == (1, True)
        own.result()


def test_a_reader_reads_and_does_not_write(shop: CommandLine) -> None:
    option_file = option_file_of(shop, "reports")
    assert login(shop, "names", option_file, ROWS) == (0, "3")
    code, said = login(shop, "names", option_file, "insert into app.t values (4)")
    assert (code, "denied" in said) == (1, True)


def test_a_role_is_active_at_login_and_reaches_no_further(shop: CommandLine) -> None:
    shop.sql("names", "create database my_desk; create table my_desk.t (a int primary key)")
    shop.sql("names", "create database myxdesk; create table myxdesk.t (a int primary key)")
    shop.ok("db", "role", "add", "names", "desk", "--grant", "write ON my_desk")
    made = Path(shop.json("db", "user", "add", "names", "clerk", "--role", "desk")["option_file"])
    assert login(shop, "names", made, "insert into my_desk.t values (1)")[0] == 0
    assert login(shop, "names", made, "select count(*) from my_desk.t") == (0, "1")
    for elsewhere in ("myxdesk.t", "app.t", "mysql.user"):
        code, said = login(shop, "names", made, f"select count(*) from {elsewhere}")
        assert (code, "denied" in said) == (1, True), elsewhere
    shop.ok("db", "role", "grant", "names", "read", "--to", "clerk")
    assert login(shop, "names", made, ROWS) == (0, "3")
    assert login(shop, "names", made, "insert into my_desk.t values (2)")[0] == 0
    shop.ok("db", "role", "grant", "names", "read", "--to", "clerk", "--on-request")
    assert login(shop, "names", made, ROWS)[0] == 1
    wanted = "set role `grampus.role.read`; select count(*) from app.t"
    assert login(shop, "names", made, wanted) == (0, "3")
    found = {role["name"]: role for role in shop.json("db", "role", "list", "names")["roles"]}
    assert found["desk"]["rights"] == [
        "SELECT, INSERT, UPDATE, DELETE, CREATE TEMPORARY TABLES, LOCK TABLES, EXECUTE, SHOW VIEW "
        "ON my_desk.*"
    ]
    assert [(h["name"], h["at_login"]) for h in found["desk"]["holders"]] == [("clerk", True)]
    assert ("clerk", False) in [(h["name"], h["at_login"]) for h in found["read"]["holders"]]
    more = ("--grant", "SELECT, INSERT ON my_desk", "--grant", "SELECT ON myxdesk.t")
    changed = shop.json("db", "role", "change", "names", "desk", *more)
    assert changed["added"] == ["SELECT ON myxdesk.t"]
    assert [one.endswith("SHOW VIEW ON my_desk.*") for one in changed["taken"]] == [True]
    assert login(shop, "names", made, "insert into my_desk.t values (3)")[0] == 0
    assert login(shop, "names", made, "select count(*) from myxdesk.t") == (0, "0")
    assert login(shop, "names", made, "delete from my_desk.t where a = 3")[0] == 1
    assert shop.json("db", "role", "change", "names", "desk", *more)["added"] == []
    wide = shop.run("db", "role", "change", "names", "desk", "--grant", "read ON *.*")
    assert wide.code == 4, wide.stderr
    shop.ok("db", "role", "revoke", "names", "desk", "--from", "clerk")
    assert login(shop, "names", made, "select count(*) from my_desk.t")[0] == 1
    shop.ok("db", "role", "grant", "names", "desk", "--to", "clerk")
    shop.ok("db", "role", "remove", "names", "desk", "--yes")
    assert login(shop, "names", made, "select count(*) from my_desk.t")[0] == 1
    assert login(shop, "names", made, "select 1") == (0, "1")
    shop.ok("db", "user", "remove", "names", "clerk", "--yes")


def test_roles_that_would_reach_too_far_are_refused(shop: CommandLine) -> None:
    for grant, code in (("SUPER ON *.*", 4), ("read ON mysql", 4), ("read ON nothing", 3)):
        refused = shop.run("db", "role", "add", "names", "far", "--grant", grant)
        assert refused.code == code, refused.stderr
    shop.ok("db", "role", "add", "names", "wide", "--grant", "all, PROCESS ON *.*")
    fewer = shop.json("db", "role", "change", "names", "wide", "--grant", "read ON *.*")
    assert fewer["added"] == []
    assert "PROCESS" in fewer["taken"][0]
    made = Path(
        shop.json("db", "user", "add", "names", "wide_one", "--role", "wide")["option_file"]
    )
    assert login(shop, "names", made, ROWS) == (0, "3")
    assert login(shop, "names", made, "select count(*) from mysql.user")[0] == 1
    shop.ok("db", "user", "remove", "names", "wide_one", "--yes")
    shop.ok("db", "role", "remove", "names", "wide", "--yes")


def test_mariadb_has_one_role_at_login(shop: CommandLine) -> None:
    size = ("--size", "1G", "--memory", "512M", "--cpus", "0.5")
    shop.ok("db", "create", "maria", *size, "--flavour", "mariadb")
    try:
        shop.sql("maria", "create database my_desk; create table my_desk.t (a int primary key)")
        shop.sql("maria", "create database myxdesk; create table myxdesk.t (a int primary key)")
        shop.ok("db", "role", "add", "maria", "desk", "--grant", "write ON my_desk")
        shop.ok("db", "role", "add", "maria", "till", "--grant", "SELECT ON myxdesk.t")
        made = shop.json("db", "user", "add", "maria", "clerk", "--role", "desk")
        option_file = Path(made["option_file"])
        assert login(shop, "maria", option_file, "insert into my_desk.t values (1)")[0] == 0
        assert login(shop, "maria", option_file, "select count(*) from myxdesk.t")[0] == 1
        refused = shop.run("db", "role", "grant", "maria", "till", "--to", "clerk")
        assert refused.code == 4, refused.stderr
        shop.ok("db", "role", "grant", "maria", "till", "--to", "clerk", "--on-request")
        wanted = "set role till; select count(*) from myxdesk.t"
        assert login(shop, "maria", option_file, wanted) == (0, "0")
        changed = ("--grant", "SELECT, INSERT ON my_desk", "--grant", "SELECT ON myxdesk.t")
        shop.ok("db", "role", "change", "maria", "desk", *changed)
        assert login(shop, "maria", option_file, "insert into my_desk.t values (2)")[0] == 0
        assert login(shop, "maria", option_file, "select count(*) from myxdesk.t") == (0, "0")
        assert login(shop, "maria", option_file, "delete from my_desk.t where a = 2")[0] == 1
        shop.ok("db", "role", "change", "maria", "desk", "--grant", "write ON my_desk")
        assert login(shop, "maria", option_file, "delete from my_desk.t where a = 2")[0] == 0
        assert login(shop, "maria", option_file, "select count(*) from myxdesk.t")[0] == 1
        found = {role["name"]: role for role in shop.json("db", "role", "list", "maria")["roles"]}
        assert found["till"]["rights"] == ["SELECT ON myxdesk.t"]
        assert [(h["name"], h["at_login"]) for h in found["till"]["holders"]] == [("clerk", False)]
        assert [(h["name"], h["at_login"]) for h in found["desk"]["holders"]] == [("clerk", True)]
        assert found["desk"]["rights"][0].endswith("ON my_desk.*")
        shop.ok("db", "role", "revoke", "maria", "desk", "--from", "clerk")
        shop.ok("db", "role", "grant", "maria", "till", "--to", "clerk")
        assert login(shop, "maria", option_file, "select count(*) from myxdesk.t") == (0, "0")
        shop.ok("db", "role", "remove", "maria", "till", "--yes")
        assert login(shop, "maria", option_file, "select 1") == (0, "1")
    finally:
        shop.run("db", "delete", "maria", "--now", "--yes")


@pytest.mark.exhaustive
def test_a_role_cut_off_at_each_step_is_given_and_taken(shop: CommandLine) -> None:
    def holders() -> list[tuple[str, bool]]:
        (role,) = [r for r in roles() if r["name"] == "cut_role"]
        return [(held["name"], held["at_login"]) for held in role["holders"]]

    def roles() -> list[dict[str, Any]]:
        listed: list[dict[str, Any]] = shop.json("db", "role", "list", "names")["roles"]
        return listed

    before = roles()
    add = ("db", "role", "add", "names", "cut_role", "--grant", "read ON app")
    cut = shop.run(*add, failpoints="db.role-add/role/after=kill")
    assert cut.code == KILLED, cut.stderr
    assert roles() == before
    shop.ok(*add)
    for step in ("grant", "login"):
        give = ("db", "role", "grant", "names", "cut_role", "--to", "reports")
        cut = shop.run(*give, failpoints=f"db.role-grant/{step}/after=kill")
        assert cut.code == KILLED, cut.stderr
        assert holders() == [("reports", True)]
        take = ("db", "role", "revoke", "names", "cut_role", "--from", "reports")
        cut = shop.run(*take, failpoints="db.role-revoke/login/after=kill")
        assert cut.code == KILLED, cut.stderr
        assert holders() == []
    shop.ok("db", "role", "remove", "names", "cut_role", "--yes")
    assert roles() == before


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
    rows = shop.sql("names", ROWS)
    for step in ("password", "accounts", "secrets", "files", "discard"):
        cut = shop.run("db", "rotate", "names", failpoints=f"db.rotate/{step}/after=kill")
        assert cut.code == KILLED, cut.stderr
        assert shop.sql("names", ROWS) == rows
    owner = next(
        user
        for user in shop.json("db", "user", "list", "names")["users"]
        if user["role"] == "owner"
    )
    assert not owner["former_password_works"]


def test_the_trash_gives_back_what_was_committed(shop: CommandLine) -> None:
    shop.sql("names", "insert into app.t values (10)")
    rows = shop.sql("names", ROWS)
    shop.ok("db", "delete", "names", "--yes")
    assert shop.run("db", "show", "names").code == 3
    assert "names" in [entry["name"] for entry in shop.json("db", "trash", "list")["trash"]]
    back = shop.json("db", "undelete", "names")
    assert back["status"] == "running"
    assert shop.sql("names", ROWS) == rows
    assert login(shop, "names", option_file_of(shop, "reports"), ROWS) == (0, rows[0][0])


@pytest.mark.exhaustive
def test_a_deletion_cut_off_at_each_step_can_be_taken_back(shop: CommandLine) -> None:
    rows = shop.sql("names", ROWS)
    for step in ("mark", "server", "drain", "volume", "secrets", "record"):
        cut = shop.run("db", "delete", "names", "--yes", failpoints=f"db.trash/{step}/after=kill")
        assert cut.code == KILLED, cut.stderr
        assert "names" not in [found["name"] for found in shop.json("db", "list")["databases"]]
        shop.ok("db", "undelete", "names")
        assert shop.sql("names", ROWS) == rows


def test_a_new_name_keeps_everything_else(shop: CommandLine) -> None:
    shop.ok("db", "label", "names", "team=web")
    before, rows = shop.json("db", "show", "names"), shop.sql("names", ROWS)
    cut = shop.run("db", "rename", "names", "renamed", failpoints="db.rename/volume/after=kill")
    assert cut.code == KILLED, cut.stderr
    listed = shop.json("db", "list", "--label", "team=web")["databases"]
    assert [database["name"] for database in listed] == ["renamed"]
    after = shop.json("db", "show", "renamed")
    assert (after["address"], after["user"]) == (before["address"], before["user"])
    assert shop.sql("renamed", ROWS) == rows
    kinds = [event["kind"] for event in shop.json("db", "events", "renamed")["events"]]
    assert (kinds[0], kinds[-1]) == ("db.create", "db.rename")


def test_an_emptied_trash_leaves_nothing_in_the_cluster(shop: CommandLine) -> None:
    shop.ok("db", "delete", "renamed", "--yes")
    shop.ok("db", "trash", "empty", "renamed", "--yes")
    left = pool_contents(shop.tag)
    # Its namespace is called as the database was when it was made.
    for name in (*left.namespaces, *left.images, *left.trash):
        assert not {"names", "db-names", "renamed", "db-renamed"} & set(re.split("[./]", name))
    assert "renamed" not in lab_container(shop.tag, "h1", "ceph", "auth", "ls")
    secrets = shop.home / "secrets" / shop.lab
    assert not [path.name for path in secrets.glob("*") if path.name.startswith(("ren", "names"))]
