from __future__ import annotations

import pytest

from grampus.databases.users.secret_statements import (
    AccessDeniedError,
    SqlError,
    explain_refusal,
    secret_statements,
)
from tests.unit.databases.world import World

SECRET = "Zq8PasswordOfSomebody"


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (
            f"ERROR 1064 (42000) at line 2: You have an error near 'IDENTIFED BY '{SECRET}'' at 1",
            "ERROR 1064 (42000) at line 2.",
        ),
        (
            "ERROR 1396 (HY000) at line 1: Operation CREATE USER failed for 'a'@'%'",
            "ERROR 1396 (HY000) at line 1: Operation CREATE USER failed for 'a'@'%'.",
        ),
        (f"--------------\nALTER USER x IDENTIFIED BY '{SECRET}'\n--------------", "no reason"),
        ("", "no reason"),
    ],
)
def test_no_error_repeats_a_password(said: str, shown: str) -> None:
    error = explain_refusal("mysqld-demo", said)
    assert shown in error.problem
    assert SECRET not in str(error)
    assert not isinstance(error, AccessDeniedError)


def test_a_wrong_password_of_the_administrator_is_told_apart() -> None:
    error = explain_refusal("mysqld-demo", "ERROR 1045 (28000): Access denied for user")
    assert isinstance(error, AccessDeniedError)


def test_passwords_go_through_stdin_alone(world: World) -> None:
    world.create()
    operations = world.service().operations
    spec = operations.ready("demo").spec
    password = operations.credentials.load("demo").admin_password.get_secret_value()
    sql = f"CREATE USER 'app'@'%' IDENTIFIED BY '{SECRET}';"
    secret_statements(operations.ports, spec).run(sql)
    for argv in world.hosts["h1"].commands:
        assert password not in " ".join(argv)
        assert SECRET not in " ".join(argv)


def test_what_is_in_no_binary_log_is_made_durable(world: World) -> None:
    """A commit makes durable what is in it alone, where flushes keep the order (INV-98)."""
    world.create()
    operations = world.service().operations
    world.volumes.made_durable.clear()
    secret_statements(operations.ports, operations.ready("demo").spec).run("DO 0;")
    assert world.volumes.made_durable == ["demo"]


def test_a_server_that_is_gone_is_an_error(world: World) -> None:
    world.create()
    operations = world.service().operations
    statements = secret_statements(operations.ports, operations.ready("demo").spec)
    world.hosts["h1"].crash()
    world.volumes.made_durable.clear()
    with pytest.raises(SqlError):
        statements.run("DO 0;")
    assert world.volumes.made_durable == []
