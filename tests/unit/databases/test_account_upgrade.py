"""Accounts of an earlier release are brought up to date at a start, which never fails for it."""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest

from grampus.databases.accounts import ACCOUNTS_SQL, render_account_upgrade_sql
from grampus.databases.model import FlavourName

from .fakes import FakeFile
from .world import World

AT_PORT = "'grampus.admin'@'127.0.0.1'"


def _accounts(world: World) -> FakeFile:
    return world.volumes.images["demo"].files[PurePosixPath("data/accounts")]


def _of_an_earlier_release(world: World) -> None:
    """As release 0.1 made them."""
    file = _accounts(world)
    lines = [line for line in file.content.splitlines() if AT_PORT not in line]
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
    lines = render_account_upgrade_sql(flavour, admin_password="a").splitlines()
    assert lines[0] == "SET SESSION sql_log_bin = 0;", "it is in no binary log"
    dropped = lines.index(f"DROP USER IF EXISTS {AT_PORT};")
    made = lines.index(f"CREATE USER {AT_PORT} IDENTIFIED BY 'a';")
    granted = next(n for n, line in enumerate(lines) if line.startswith("GRANT ALL"))
    assert dropped < made < granted


def test_what_is_asked_is_asked_of_the_server() -> None:
    assert "127.0.0.1" in ACCOUNTS_SQL
