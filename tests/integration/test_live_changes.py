"""Databases changed and moved while clients write: on a real cluster, cut off or not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.system.command_line import KILLED, CommandLine
from tests.system.ledger import Ledger

NAME = "l-live"
SIZES = ("--size", "1G", "--memory", "512M", "--cpus", "0.5")
MOVE_STEPS = (
    "prepare",
    "flush",
    "server",
    "detach",
    "leave",
    "record",
    "attach",
    "address",
    "serve",
    "metadata",
    "tidy",
)


@pytest.fixture(
    scope="module", params=["journal", pytest.param("direct", marks=pytest.mark.exhaustive)]
)
def database(lab: CommandLine, request: pytest.FixtureRequest) -> Iterator[str]:
    lab.ok("db", "create", NAME, *SIZES, "--write-path", request.param)
    try:
        yield NAME
    finally:
        lab.ok("db", "delete", NAME, "--yes", "--now")


def pool_bytes(lab: CommandLine) -> int:
    return int(lab.sql(NAME, "select @@innodb_buffer_pool_size")[0][0])


def other_host(lab: CommandLine) -> str:
    here = lab.json("db", "show", NAME)["host"]
    return next(h["name"] for h in lab.json("lab", "status")["hosts"] if h["name"] != here)


def files_on(lab: CommandLine, host: str) -> list[str]:
    data = lab.home / "labs" / lab.lab / "hosts" / host / "data"
    return sorted(path.name for path in data.glob("databases/*") if path.name == NAME)


@pytest.mark.alone
def test_memory_and_cpus_change_under_writers(lab: CommandLine, database: str) -> None:
    small = pool_bytes(lab)
    with Ledger(lab, database) as ledger:
        for memory, cpus in (("1G", "1"), ("512M", "0.5")):
            changed = lab.json("db", "set", database, "--memory", memory, "--cpus", cpus)
            assert changed["cpus"] == float(cpus)
            assert changed["buffer_pool_bytes"] == pool_bytes(lab)
            assert (pool_bytes(lab) > 2 * small) is (memory == "1G")
            ledger.wait_for_more()
    assert ledger.missing() == []
    assert ledger.longest_wait_s < 5


@pytest.mark.exhaustive
def test_limits_killed_at_each_step_are_finished(lab: CommandLine, database: str) -> None:
    for step, memory in (("limits", "640M"), ("pool", "768M"), ("record", "512M")):
        killed = lab.run(
            "db",
            "set",
            database,
            "--memory",
            memory,
            failpoints=f"db.limits/{step}/after=kill",
        )
        assert killed.code == KILLED, killed.stderr
        assert "finished" in lab.ok("db", "list").stderr
        shown = lab.json("db", "show", database)
        assert shown["memory_bytes"] == int(memory[:-1]) * 2**20
        assert shown["buffer_pool_bytes"] == pool_bytes(lab)


def test_parameters_take_effect_at_once_or_at_the_next_start(
    lab: CommandLine, database: str
) -> None:
    now = lab.json("db", "parameter", "set", database, "innodb_io_capacity", "900")
    assert now["waiting"] == []
    assert lab.sql(database, "select @@innodb_io_capacity") == [["900"]]
    later = lab.json("db", "parameter", "set", database, "innodb_ft_max_token_size", "20")
    assert later["waiting"] == ["innodb_ft_max_token_size"]
    assert lab.json("db", "show", database)["pending_restart"] == ["innodb_ft_max_token_size"]
    lab.ok("db", "restart", database)
    assert lab.json("db", "show", database)["pending_restart"] == []
    states = {
        view["name"]: (view["running"], view["state"])
        for view in lab.json("db", "parameter", "list", database)["parameters"]
    }
    assert states == {
        "innodb_io_capacity": ("900", "in effect"),
        "innodb_ft_max_token_size": ("20", "in effect"),
    }
    lab.ok("db", "parameter", "reset", database, "innodb_io_capacity")
    assert lab.sql(database, "select @@innodb_io_capacity") == [["500"]]
    lab.ok("db", "parameter", "reset", database, "innodb_ft_max_token_size")


def test_statements_of_ordinary_applications_work(lab: CommandLine, database: str) -> None:
    """INV-76: triggers, functions, zones by name and MD5(), and none of it in the binary log."""
    lab.sql(database, "create database apps; create table apps.t (x char(40))")
    lab.sql(database, "create function apps.f() returns char(40) no sql return md5('a')")
    lab.sql(
        database, "create trigger apps.r before insert on apps.t for each row set new.x = sha('a')"
    )
    lab.sql(database, "insert into apps.t values ('')")
    asked = "select apps.f(), (select x from apps.t), convert_tz('2026-01-01', 'UTC', 'Asia/Tokyo')"
    answer = [
        "0cc175b9c0f1b6a831c399e269772661",
        "86f7e437faa5a7fce15d1ddcb9eaeaea377667b8",
        "2026-01-01 09:00:00",
    ]
    assert lab.sql(database, asked) == [answer]
    before = lab.sql(database, "select @@gtid_executed")
    assert lab.json("db", "time-zones", database)["time_zones"] > 300
    lab.ok("db", "set", database, "--parameter", "time_zone=asia/tokyo")
    assert lab.sql(database, "select @@gtid_executed") == before
    lab.ok("db", "restart", database)
    zone = "select @@global.time_zone, timestampdiff(hour, utc_timestamp(), now())"
    assert lab.sql(database, zone) == [["Asia/Tokyo", "9"]]
    assert lab.sql(database, asked) == [answer]
    lab.ok("db", "parameter", "reset", database, "time_zone")
    assert lab.sql(database, "select @@global.time_zone") == [["SYSTEM"]]
    lab.sql(database, "drop database apps")


@pytest.mark.parametrize(
    ("name", "value", "code", "said"),
    [
        ("innodb_io_capacty", "900", 3, "Did you mean 'innodb_io_capacity'?"),
        ("max_connections", "0", 2, "Choose a number between 1 and 100000."),
        ("binlog_row_image", "NONSENSE", 2, "refuses the parameter"),
        ("datadir", "/x", 4, "cannot be set"),
    ],
)
def test_parameters_that_are_refused(
    lab: CommandLine, database: str, name: str, value: str, code: int, said: str
) -> None:
    before = lab.json("db", "parameter", "list", database)
    refused = lab.run("db", "parameter", "set", database, name, value)
    assert (refused.code, said in refused.stderr) == (code, True), refused.stderr
    assert lab.json("db", "parameter", "list", database) == before


def test_move_there_and_back_keeps_every_row(lab: CommandLine, database: str) -> None:
    with Ledger(lab, database) as ledger:
        ledger.wait_for_more()
    address = lab.json("db", "show", database)["address"]
    for _ in range(2):
        former, target = lab.json("db", "show", database)["host"], other_host(lab)
        moved = lab.json("db", "move", database, "--host", target)
        assert (moved["host"], moved["status"], moved["address"]) == (target, "running", address)
        # What is aimed at is 5 s on a machine that does nothing else.
        assert moved["pause_ms"] < 20_000
        assert ledger.missing() == []
        assert (files_on(lab, former), files_on(lab, target)) == ([], [NAME])


@pytest.mark.parametrize(
    "step",
    [
        step if step == "attach" else pytest.param(step, marks=pytest.mark.exhaustive)
        for step in MOVE_STEPS
    ],
)
def test_move_killed_at_a_step_is_finished(lab: CommandLine, database: str, step: str) -> None:
    former, target = lab.json("db", "show", database)["host"], other_host(lab)
    lab.sql(database, "create schema if not exists m; select 1")
    killed = lab.run(
        "db", "move", database, "--host", target, failpoints=f"db.move/{step}/after=kill"
    )
    assert killed.code == KILLED, killed.stderr
    assert "finished" in lab.ok("db", "list").stderr
    shown = lab.json("db", "show", database)
    assert (shown["host"], shown["status"]) == (target, "running")
    assert ["m"] in lab.sql(database, "show databases")
    assert (files_on(lab, former), files_on(lab, target)) == ([], [NAME])


@pytest.mark.exhaustive
@pytest.mark.parametrize("step", ["prepare", "detach", "serve", "metadata"])
def test_move_that_fails_leaves_it_where_it_was(lab: CommandLine, database: str, step: str) -> None:
    former, target = lab.json("db", "show", database)["host"], other_host(lab)
    failed = lab.run(
        "db", "move", database, "--host", target, failpoints=f"db.move/{step}/before=error"
    )
    assert failed.code == 1
    shown = lab.json("db", "show", database)
    assert (shown["host"], shown["status"]) == (former, "running")
    assert lab.sql(database, "select 1") == [["1"]]
    assert (files_on(lab, former), files_on(lab, target)) == ([NAME], [])


def test_no_parameter_keeps_management_out_and_a_killed_server_is_failed(
    lab: CommandLine, database: str
) -> None:
    settings = ("transaction_read_only=ON", "autocommit=OFF", "max_user_connections=1")
    for setting in settings:
        lab.ok("db", "set", database, "--parameter", setting)
    lab.ok("lab", "fault", "kill-daemon", f"mysqld-{database}")
    shown = lab.json("db", "show", database)
    assert (shown["status"], shown["failure"]["reason"]) == ("failed", "killed")
    lab.ok("db", "start", database)  # with these settings, of a session of its own too
    lab.ok("db", "user", "add", database, "watcher", "--role", "read")
    for setting in settings:
        lab.ok("db", "parameter", "reset", database, setting.partition("=")[0])
    lab.sql(database, "create schema if not exists p; select 1")
