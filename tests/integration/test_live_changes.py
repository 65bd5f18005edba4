"""Databases changed and moved while clients write: on a real cluster, cut off or not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.system.command_line import KILLED
from tests.system.ledger import Ledger
from tests.system.places import Place

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
def database(place: Place, request: pytest.FixtureRequest) -> Iterator[str]:
    place.line.ok("db", "create", NAME, *SIZES, "--write-path", request.param)
    try:
        yield NAME
    finally:
        place.line.ok("db", "delete", NAME, "--yes", "--now")


def pool_bytes(place: Place) -> int:
    return int(place.line.sql(NAME, "select @@innodb_buffer_pool_size")[0][0])


def other_host(place: Place) -> str:
    here = place.host_of(NAME)
    return next(host for host in place.hosts if host != here)


def files_on(place: Place, host: str) -> list[str]:
    found = place.data_of(host).glob("databases/*")
    return sorted(path.name for path in found if path.name == NAME)


@pytest.mark.alone
def test_memory_and_cpus_change_under_writers(place: Place, database: str) -> None:
    small = pool_bytes(place)
    with Ledger(place.line, database) as ledger:
        for memory, cpus in (("1G", "1"), ("512M", "0.5")):
            changed = place.line.json("db", "set", database, "--memory", memory, "--cpus", cpus)
            assert changed["cpus"] == float(cpus)
            assert changed["buffer_pool_bytes"] == pool_bytes(place)
            assert (pool_bytes(place) > 2 * small) is (memory == "1G")
            ledger.wait_for_more()
    assert ledger.missing() == []
    assert ledger.longest_wait_s < 5


@pytest.mark.exhaustive
def test_limits_killed_at_each_step_are_finished(place: Place, database: str) -> None:
    for step, memory in (("limits", "640M"), ("pool", "768M"), ("record", "512M")):
        killed = place.line.run(
            "db",
            "set",
            database,
            "--memory",
            memory,
            failpoints=f"db.limits/{step}/after=kill",
        )
        assert killed.code == KILLED, killed.stderr
        assert "finished" in place.line.ok("db", "list").stderr
        shown = place.line.json("db", "show", database)
        assert shown["memory_bytes"] == int(memory[:-1]) * 2**20
        assert shown["buffer_pool_bytes"] == pool_bytes(place)


def test_parameters_take_effect_at_once_or_at_the_next_start(place: Place, database: str) -> None:
    now = place.line.json("db", "parameter", "set", database, "innodb_io_capacity", "900")
    assert now["waiting"] == []
    assert place.line.sql(database, "select @@innodb_io_capacity") == [["900"]]
    later = place.line.json("db", "parameter", "set", database, "innodb_ft_max_token_size", "20")
    assert later["waiting"] == ["innodb_ft_max_token_size"]
    assert place.line.json("db", "show", database)["pending_restart"] == [
        "innodb_ft_max_token_size"
    ]
    place.line.ok("db", "restart", database)
    assert place.line.json("db", "show", database)["pending_restart"] == []
    states = {
        view["name"]: (view["running"], view["state"])
        for view in place.line.json("db", "parameter", "list", database)["parameters"]
    }
    assert states == {
        "innodb_io_capacity": ("900", "in effect"),
        "innodb_ft_max_token_size": ("20", "in effect"),
    }
    place.line.ok("db", "parameter", "reset", database, "innodb_io_capacity")
    assert place.line.sql(database, "select @@innodb_io_capacity") == [["500"]]
    place.line.ok("db", "parameter", "reset", database, "innodb_ft_max_token_size")


def test_statements_of_ordinary_applications_work(place: Place, database: str) -> None:
    """INV-76: triggers, functions, zones by name and MD5(), and none of it in the binary log."""
    place.line.sql(database, "create database apps; create table apps.t (x char(40))")
    place.line.sql(database, "create function apps.f() returns char(40) no sql return md5('a')")
    place.line.sql(
        database, "create trigger apps.r before insert on apps.t for each row set new.x = sha('a')"
    )
    place.line.sql(database, "insert into apps.t values ('')")
    asked = "select apps.f(), (select x from apps.t), convert_tz('2026-01-01', 'UTC', 'Asia/Tokyo')"
    answer = [
        "0cc175b9c0f1b6a831c399e269772661",
        "86f7e437faa5a7fce15d1ddcb9eaeaea377667b8",
        "2026-01-01 09:00:00",
    ]
    assert place.line.sql(database, asked) == [answer]
    before = place.line.sql(database, "select @@gtid_executed")
    assert place.line.json("db", "time-zones", database)["time_zones"] > 300
    place.line.ok("db", "set", database, "--parameter", "time_zone=asia/tokyo")
    assert place.line.sql(database, "select @@gtid_executed") == before
    place.line.ok("db", "restart", database)
    zone = "select @@global.time_zone, timestampdiff(hour, utc_timestamp(), now())"
    assert place.line.sql(database, zone) == [["Asia/Tokyo", "9"]]
    assert place.line.sql(database, asked) == [answer]
    place.line.ok("db", "parameter", "reset", database, "time_zone")
    assert place.line.sql(database, "select @@global.time_zone") == [["SYSTEM"]]
    place.line.sql(database, "drop database apps")


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
    place: Place, database: str, name: str, value: str, code: int, said: str
) -> None:
    before = place.line.json("db", "parameter", "list", database)
    refused = place.line.run("db", "parameter", "set", database, name, value)
    assert (refused.code, said in refused.stderr) == (code, True), refused.stderr
    assert place.line.json("db", "parameter", "list", database) == before


def test_move_there_and_back_keeps_every_row(place: Place, database: str) -> None:
    """Also of a server whose commits do not wait for InnoDB's log."""
    setting = "innodb_flush_log_at_trx_commit"
    place.line.ok("db", "set", database, "--parameter", f"{setting}=0")
    address = place.line.json("db", "show", database)["address"]
    for _ in range(2):
        former, target = place.line.json("db", "show", database)["host"], other_host(place)
        with Ledger(place.line, database) as ledger:
            ledger.wait_for_more()
            moved = place.line.json("db", "move", database, "--host", target)
        assert (moved["host"], moved["status"], moved["address"]) == (target, "running", address)
        # What is aimed at is 5 s on a machine that does nothing else.
        assert moved["pause_ms"] < 20_000
        assert ledger.missing() == []
        assert (files_on(place, former), files_on(place, target)) == ([], [NAME])
    place.line.ok("db", "parameter", "reset", database, setting)


@pytest.mark.parametrize(
    "step",
    [
        step if step == "attach" else pytest.param(step, marks=pytest.mark.exhaustive)
        for step in MOVE_STEPS
    ],
)
def test_move_killed_at_a_step_is_finished(place: Place, database: str, step: str) -> None:
    former, target = place.line.json("db", "show", database)["host"], other_host(place)
    place.line.sql(database, "create schema if not exists m; select 1")
    killed = place.line.run(
        "db", "move", database, "--host", target, failpoints=f"db.move/{step}/after=kill"
    )
    assert killed.code == KILLED, killed.stderr
    assert "finished" in place.line.ok("db", "list").stderr
    shown = place.line.json("db", "show", database)
    assert (shown["host"], shown["status"]) == (target, "running")
    assert ["m"] in place.line.sql(database, "show databases")
    assert (files_on(place, former), files_on(place, target)) == ([], [NAME])


@pytest.mark.exhaustive
@pytest.mark.parametrize("step", ["prepare", "detach", "serve", "metadata"])
def test_move_that_fails_leaves_it_where_it_was(place: Place, database: str, step: str) -> None:
    former, target = place.line.json("db", "show", database)["host"], other_host(place)
    failed = place.line.run(
        "db", "move", database, "--host", target, failpoints=f"db.move/{step}/before=error"
    )
    assert failed.code == 1
    shown = place.line.json("db", "show", database)
    assert (shown["host"], shown["status"]) == (former, "running")
    assert place.line.sql(database, "select 1") == [["1"]]
    assert (files_on(place, former), files_on(place, target)) == ([NAME], [])


def test_no_parameter_keeps_management_out_and_a_killed_server_is_failed(
    place: Place, database: str
) -> None:
    settings = ("transaction_read_only=ON", "autocommit=OFF", "max_user_connections=1")
    for setting in settings:
        place.line.ok("db", "set", database, "--parameter", setting)
    place.kill(f"mysqld-{database}")
    shown = place.line.json("db", "show", database)
    assert (shown["status"], shown["failure"]["reason"]) == ("failed", "killed")
    place.line.ok("db", "start", database)  # with these settings, of a session of its own too
    place.line.ok("db", "user", "add", database, "watcher", "--role", "read")
    for setting in settings:
        place.line.ok("db", "parameter", "reset", database, setting.partition("=")[0])
    place.line.sql(database, "create schema if not exists p; select 1")
