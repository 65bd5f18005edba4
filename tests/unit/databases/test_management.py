"""No parameter, account or client of a user keeps Grampus from managing a database (INV-72)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import pytest
from pydantic import SecretStr

from grampus.core.errors import GrampusError
from grampus.databases.accounts import render_accounts_sql
from grampus.databases.admin_client import render_admin_options
from grampus.databases.clones.identity import render_identity_sql
from grampus.databases.credentials import CredentialFiles
from grampus.databases.live.live_changes import SET_PARAMETER
from grampus.databases.model import FlavourName
from grampus.databases.readiness import READY_SQL
from grampus.databases.session_settings import render_session_sql, session_settings
from grampus.databases.users.secret_statements import SecretStatements
from tests.fakes.mysql_host import MysqlHost
from tests.unit.operation_runner import planned

from .live.live_world import LiveWorld
from .world import LAB, World

FLAVOURS: tuple[FlavourName, ...] = ("mysql", "mariadb")
READ_ONLY = "ERROR 1792 (25006) at line 1: Cannot execute statement in a READ ONLY transaction."


@pytest.fixture
def live(tmp_path: Path) -> Iterator[LiveWorld]:
    made = LiveWorld(tmp_path)
    yield made
    made.close()


# What a user may set for every session, and the value that management needs.
DEPENDED_ON = {
    "autocommit": "ON",
    "completion_type": "NO_CHAIN",
    "sql_safe_updates": "OFF",
    "sql_mode": "'STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION'",
    "sql_auto_is_null": "OFF",
    "sql_select_limit": 18446744073709551615,
    "sql_big_selects": "ON",
    "max_join_size": 18446744073709551615,
    "group_concat_max_len": 1048576,
    "lock_wait_timeout": 86400,
    "innodb_lock_wait_timeout": 50,
    "wait_timeout": 28800,
    "time_zone": "'+00:00'",
    "lc_messages": "'en_US'",
    "default_storage_engine": "InnoDB",
}
OF_MYSQL = {
    "transaction_read_only": "OFF",
    "transaction_isolation": "'REPEATABLE-READ'",
    "max_execution_time": 0,
    "sql_require_primary_key": "OFF",
    "sql_generate_invisible_primary_key": "OFF",
    "default_table_encryption": "OFF",
}
OF_MARIADB = {
    "tx_read_only": "OFF",
    "tx_isolation": "'REPEATABLE-READ'",
    "max_statement_time": 0,
    "max_session_mem_used": 9223372036854775807,
    "enforce_storage_engine": "NULL",
    "idle_transaction_timeout": 0,
}


@pytest.mark.parametrize(
    ("flavour", "name", "value"),
    [
        *((flavour, *item) for flavour in FLAVOURS for item in DEPENDED_ON.items()),
        *(("mysql", *item) for item in OF_MYSQL.items()),
        *(("mariadb", *item) for item in OF_MARIADB.items()),
    ],
)
def test_a_session_sets_what_its_statements_depend_on(
    flavour: FlavourName, name: str, value: str | int
) -> None:
    assert session_settings(flavour)[name] == value
    sql = render_session_sql(flavour)
    assert f" {name} = {value}" in sql
    assert "DEFAULT" not in sql, "that is the global value: the user's"


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_every_session_of_grampus_begins_with_them(flavour: FlavourName, tmp_path: Path) -> None:
    sql = render_session_sql(flavour)
    assert not set('";\n') & set(sql), "it stands in quotes, in a line"
    assert f'[mysql]\ninit-command="{sql}"\n' in render_admin_options(SecretStr("x"), flavour)
    credentials = CredentialFiles(tmp_path).ensure("demo")
    init_file = render_identity_sql(flavour, credentials, makes_accounts=False)
    assert init_file.startswith(f"{sql};\n")

    @dataclass
    class Spy:
        stdin: str = ""

        def run(self, argv: list[str], *, stdin: str, **_: object) -> object:
            self.stdin = stdin
            raise GrampusError("enough")

    spy = Spy()
    with pytest.raises(GrampusError, match="enough"):
        SecretStatements(spy, "d", flavour, SecretStr("x")).run("DO 0;")  # type: ignore[arg-type]
    assert f'init-command="{sql}"' in spy.stdin


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_limits_on_all_accounts_do_not_hold_for_the_administrator(
    flavour: FlavourName, tmp_path: Path
) -> None:
    accounts = "'grampus.admin'@'localhost', 'grampus.admin'@'127.0.0.1'"
    guard = f"ALTER USER IF EXISTS {accounts} WITH MAX_USER_CONNECTIONS 2147483647 PASSWORD"
    credentials = CredentialFiles(tmp_path).ensure("demo")
    made = render_accounts_sql(
        flavour, user="demo", password="a", admin_password="b", root_password="c"
    )
    for makes_accounts in (True, False):
        made += render_identity_sql(flavour, credentials, makes_accounts=makes_accounts)
    assert made.count(f"{guard} EXPIRE NEVER;") == 3


@pytest.mark.parametrize("said", ["ERROR 1045 (28000): Access denied", "locked"])
def test_an_owner_that_cannot_log_in_keeps_no_database_from_starting(
    world: World, said: str
) -> None:
    world.create()
    world.service().stop("demo")
    image = world.volumes.images["demo"]
    accounts = image.files[PurePosixPath("data/accounts")]
    accounts.content += f"\nALTER USER 'demo'@'%' IDENTIFIED BY '{said}';"
    waited_s = world.clock.slept_s
    world.service().start("demo")
    assert world.service().show("demo").status == "running"
    assert world.clock.slept_s - waited_s < 5


def _unfinished_parameter(world: LiveWorld) -> None:
    """A change whose undo the server refuses, as after `transaction_read_only = ON`."""
    change = world.parameters().plan_set("demo", "innodb_io_capacity", "900")
    assert change is not None
    for host in world.live_hosts.values():
        host.refusal = READ_ONLY
    with pytest.raises(GrampusError):
        world.service().operations.run(SET_PARAMETER, change)


def test_a_change_is_undone_without_sql_when_the_server_takes_none(live: LiveWorld) -> None:
    live.create()
    before = live.server().values["innodb_io_capacity"]
    _unfinished_parameter(live)
    assert not live.service().operations.unfinished("demo")
    assert live.service().get("demo").spec.parameters == {}
    assert live.server().values["innodb_io_capacity"] == before
    assert live.service().show("demo").status == "running"


def test_a_server_that_takes_no_statement_can_be_stopped_started_and_restarted(
    live: LiveWorld,
) -> None:
    live.create()
    live.live_hosts["h1"].refusal = READ_ONLY
    before = live.inventory()
    assert planned(live.runner, lambda: live.live().restart("demo"))
    assert planned(live.runner, lambda: live.service().stop("demo"))
    assert planned(live.runner, lambda: live.service().start("demo")) == []
    assert live.inventory() == before
    live.live().restart("demo")
    assert live.service().show("demo").status == "running"
    live.service().stop("demo")
    assert live.service().show("demo").status == "stopped"
    live.service().start("demo")
    assert live.service().show("demo").status == "running"


def test_the_plan_of_a_stop_stops_no_server_that_keeps_work_from_its_end(
    live: LiveWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    live.create()
    service, before = live.service(), live.inventory()

    def fail(_name: str) -> None:
        raise GrampusError("The server does not answer.", code="timeout")

    monkeypatch.setattr(service.operations, "settle_or_leave", fail)
    assert "Stop the server" in planned(live.runner, lambda: service.stop("demo"))
    assert live.inventory() == before


def test_a_parameter_is_reset_while_the_server_takes_no_statement(live: LiveWorld) -> None:
    live.create()
    live.parameters().set("demo", "innodb_io_capacity", "900")
    live.live_hosts["h1"].refusal = READ_ONLY
    change = live.parameters().reset("demo", "innodb_io_capacity")
    assert change.waits_for_restart
    live.live().restart("demo")
    assert live.server().values["innodb_io_capacity"] == "500"


def _cut_off(world: World, name: str) -> None:
    """Work on the database that needs its server, whose process is gone."""
    order = {"database": name, "user": "reports", "role": "read"}
    world.journal.begin("db.user-add", LAB, name, order)


def _statements(host: MysqlHost) -> int:
    return sum("SELECT VERSION()" in argv[-1] for argv in host.commands)


def test_work_that_cannot_be_settled_is_told_once_and_holds_up_no_other_database(
    world: World,
) -> None:
    world.create("shop", host="h1")
    world.create("blog", host="h2")
    _cut_off(world, "shop")
    host = world.hosts["h1"]
    host.daemons["mysqld-shop"].state = "stopped"
    host.serve_failure = "[ERROR] corrupted"
    (said,) = world.service().converge()
    assert "could not be recovered" in said
    asked = len(host.commands)
    for _ in range(3):
        assert world.service().converge() == []
    assert len(host.commands) == asked, "commands on other databases tried it again"
    # The controller says it at each look, and tries it again when its time has come.
    assert world.service().converge(retries=True) == [said]
    assert len(host.commands) == asked
    host.serve_failure = ""
    world.clock.sleep(3600)
    world.service().converge(retries=True)
    assert world.service().operations.unfinished("shop") == []


def test_stop_and_start_work_while_work_on_accounts_cannot_be_settled(world: World) -> None:
    world.create()
    _cut_off(world, "demo")
    host = world.hosts["h1"]
    host.daemons["mysqld-demo"].state = "stopped"
    host.serve_failure = "[ERROR] corrupted"
    world.service().stop("demo")
    assert world.service().show("demo").status == "stopped"
    assert world.service().operations.unfinished("demo") != []
    host.serve_failure = ""
    world.service().start("demo")
    assert world.service().show("demo").status == "running"


def test_readiness_asks_for_nothing_that_offline_mode_or_a_transaction_refuses() -> None:
    assert all(sql.startswith("SELECT VERSION()") for sql in READY_SQL.values())
