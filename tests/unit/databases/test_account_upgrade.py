"""Accounts of an earlier release are brought up to date at a start, which never fails for it."""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest

from grampus.databases.account_upgrade import ensure_accounts
from grampus.databases.accounts import ACCOUNTS_SQL, render_account_upgrade_sql
from grampus.databases.model import FlavourName
from tests.fakes.hosts import FakeFile

from .world import World

AT_PORT = "'grampus.admin'@'127.0.0.1'"


def _accounts(world: World) -> FakeFile:
    return world.volumes.images["demo"].files[PurePosixPath("data/accounts")]


def _of_an_earlier_release(world: World) -> None:
    """As release 0.1 made them."""
    file = _accounts(world)
    new = (AT_PORT, "PROCEDURE")
    lines = [line for line in file.content.splitlines() if not any(word in line for word in new)]
    file.content = "\n".join(lines)


@pytest.mark.parametrize("flavour", ["mysql", "mariadb"])
def test_the_next_start_makes_the_account_for_the_port(world: World, flavour: FlavourName) -> None:
    world.create(flavour=flavour)
    world.service().stop("demo")
    _of_an_earlier_release(world)
    world.service().start("demo")
    password = world.service().operations.credentials.load("demo").admin_password
    made = f"CREATE USER {AT_PORT} IDENTIFIED BY '{password.get_secret_value()}';"
    assert made in _accounts(world).content
    assert not [argv for argv in world.hosts["h1"].commands if password.get_secret_value() in argv]
    before = _accounts(world).content
    world.service().stop("demo")
    world.service().start("demo")
    assert _accounts(world).content == before, "once is enough"


def test_a_server_that_refuses_it_serves_all_the_same(world: World) -> None:
    world.create()
    world.service().stop("demo")
    _of_an_earlier_release(world)
    world.hosts["h1"].refusal = "ERROR 1114 (HY000) at line 1: The table is full"
    world.service().start("demo")
    assert world.service().show("demo").status == "running"
    assert any("next start tries again" in note for note in world.progress.notes)
    world.service().stop("demo")
    world.hosts["h1"].refusal = ""
    world.service().start("demo")
    assert f"CREATE USER {AT_PORT}" in _accounts(world).content


@pytest.mark.parametrize("flavour", ["mysql", "mariadb"])
def test_an_account_that_somebody_else_made_gets_no_rights(flavour: FlavourName) -> None:
    lines = _upgrade(flavour, ("demo", "%"))
    assert lines[0] == "SET SESSION sql_log_bin = 0;", "it is in no binary log"
    dropped = lines.index(f"DROP USER IF EXISTS {AT_PORT};")
    made = lines.index(f"CREATE USER {AT_PORT} IDENTIFIED BY 'a';")
    granted = next(n for n, line in enumerate(lines) if line.startswith("GRANT ALL"))
    assert dropped < made < granted


def _upgrade(flavour: FlavourName, *found: tuple[str, str]) -> list[str]:
    return render_account_upgrade_sql(flavour, admin_password="a", found=found).splitlines()


def test_the_owner_and_the_role_with_its_rights_get_the_new_ones_and_lose_reload() -> None:
    lines = _upgrade("mysql", ("demo", "%"), ("grampus.role.admin", "%"))
    for account in ("'demo'@'%'", "'grampus.role.admin'@'%'"):
        assert f"REVOKE RELOAD ON *.* FROM {account};" in lines
        assert any("XA_RECOVER_ADMIN" in line and f"TO {account} " in line for line in lines)
        kill = "GRANT EXECUTE ON PROCEDURE mysql.grampus_kill TO"
        assert f"{kill} {account} WITH GRANT OPTION;" in lines
    of_mariadb = _upgrade("mariadb", ("demo", "%"), ("grampus.role.admin", ""))
    assert any(" TO `grampus.role.admin` WITH GRANT OPTION;" in line for line in of_mariadb)
    assert not any("RELOAD ON" in line for line in of_mariadb), "MariaDB has nothing narrower"


def test_an_owner_that_was_dropped_keeps_nothing_from_being_brought_up_to_date() -> None:
    assert "TO 'demo'@'%'" not in "\n".join(_upgrade("mysql"))


def test_accounts_of_replicas_are_protected_and_names_that_users_chose_reach_no_sql() -> None:
    odd = "grampus.replica.1'@'%', 'u"
    lines = _upgrade("mysql", ("grampus.replica.7", "%"), (odd, "%"), ("grampus.replica.8", "10.%"))
    assert "GRANT SYSTEM_USER ON *.* TO 'grampus.replica.7'@'%';" in lines
    assert "replica.1'" not in "\n".join(lines)
    assert "SYSTEM_USER" not in "\n".join(_upgrade("mariadb", ("grampus.replica.7", "%")))


@pytest.mark.parametrize("flavour", ["mysql", "mariadb"])
def test_the_last_statement_says_that_all_others_were_carried_out(flavour: FlavourName) -> None:
    lines = _upgrade(flavour, ("demo", "%"))
    version = "Accounts of Grampus, version 2."
    assert version in ACCOUNTS_SQL
    assert [version in line for line in lines].index(True) == len(lines) - 1
    dropped = lines.index("DROP PROCEDURE IF EXISTS mysql.grampus_kill_checked;")
    assert dropped == 1, "a change that is cut off is begun again"


def test_a_replica_is_open_to_its_administrator_alone_meanwhile(world: World) -> None:
    """INV-40: `read_only` stays on, and MySQL's `super_read_only` is set again."""
    world.create()
    _of_an_earlier_release(world)
    host, ports = world.hosts["h1"], world.service().operations.ports
    opened, closed = (f"SET GLOBAL super_read_only = {word}" for word in ("OFF", "ON"))
    host.admin_answers |= {opened: "", closed: ""}
    spec = world.service().get("demo").spec.model_copy(update={"replica_of": "primary"})
    host.commands.clear()
    ensure_accounts(ports, spec)
    said = [argv[3] if argv[0] == "/bin/sh" else argv[-1] for argv in host.commands]
    assert said == [ACCOUNTS_SQL, opened, "secrets", "secrets", closed]
    assert f"CREATE USER {AT_PORT}" in _accounts(world).content
