"""The address hook: told of each place once, after the database is there, and until it succeeds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from grampus.cli.composition.address_hook import AddressHookProgram
from grampus.core.errors import GrampusError
from grampus.databases.address_hook import AddressAnnouncing
from grampus.databases.decide_announcing import (
    announcement_document,
    announcements_of,
    decide_owed,
)
from grampus.databases.model import Announced, AnnouncedRole, Announcement, ReadEndpoint
from grampus.databases.records import RunningPlace
from grampus.state.locks import hold_lock

from .port_worlds import PortWorld
from .stopped_case import names
from .world import LAB

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)


def at(address: str, role: AnnouncedRole = "primary", database: str = "shop") -> Announcement:
    return Announcement(database=database, role=role, host="h1", address=address, port=13300)


# -- decisions -----------------------------------------------------------------------------------


def test_servers_and_endpoints_that_are_served_are_told_of() -> None:
    servers = {
        "shop": RunningPlace("h1", "10.0.0.1:13300"),
        "shop-r1": RunningPlace("h2", "10.0.0.2:13301"),
    }
    endpoints = {
        "shop": ReadEndpoint(address="10.0.0.2", port=13302, host="h2"),
        "shop-r1": ReadEndpoint(address="10.0.0.3", port=13303),  # served nowhere
        "gone": ReadEndpoint(address="10.0.0.3", port=13304, host="h3"),
    }
    found = announcements_of(servers, {"shop": None, "shop-r1": "shop"}, endpoints)
    told = [(one.database, one.role, one.host, one.address, one.port) for one in found]
    assert told == [
        ("shop", "primary", "h1", "10.0.0.1", 13300),
        ("shop", "read-only", "h2", "10.0.0.2", 13302),
        ("shop-r1", "replica", "h2", "10.0.0.2", 13301),
    ]


@pytest.mark.parametrize(
    ("known", "is_owed"),
    [
        (Announced(), True),
        (Announced(server=at("10.0.0.1")), False),
        (Announced(server=at("10.0.0.9")), True),
        (Announced(server=at("10.0.0.1", "replica")), True),  # it was promoted
        (Announced(server=at("10.0.0.1", database="before")), True),  # it was renamed
        (Announced(endpoint=at("10.0.0.1")), True),  # that was told of the endpoint alone
        (Announced(problem="no", failed_at=NOW - timedelta(seconds=61)), True),
        (Announced(problem="no", failed_at=NOW - timedelta(seconds=59)), False),
    ],
)
def test_what_was_not_told_is_owed_but_for_a_while_after_a_failure(
    known: Announced, is_owed: bool
) -> None:
    owed = decide_owed([at("10.0.0.1")], {"shop": known}, NOW, rests_s=60)
    assert bool(owed) == is_owed


def test_a_command_does_not_wait_after_a_failure() -> None:
    assert decide_owed([at("10.0.0.1")], {"shop": Announced(problem="no", failed_at=NOW)}, NOW)


@pytest.mark.parametrize(
    ("former", "address", "port"), [(None, None, None), (at("10.0.0.9"), "10.0.0.9", 13300)]
)
def test_the_document_has_both_places(
    former: Announcement | None, address: str | None, port: int | None
) -> None:
    assert announcement_document("prod", at("10.0.0.1"), former) == {
        "site": "prod",
        "database": "shop",
        "role": "primary",
        "host": "h1",
        "address": "10.0.0.1",
        "port": 13300,
        "former_address": address,
        "former_port": port,
    }


# -- the hook ------------------------------------------------------------------------------------


class FakeHook:
    """A program that remembers what it was told."""

    program = "/usr/local/sbin/update-dns"

    def __init__(self) -> None:
        self.told: list[dict[str, Any]] = []
        self.failure = ""

    def tell(self, document: str) -> None:
        if self.failure:
            raise GrampusError(self.failure, code="command-failed")
        self.told.append(json.loads(document))


@pytest.fixture
def world(tmp_path: Path) -> Iterator[PortWorld]:
    made = PortWorld(tmp_path)
    made.create(host="h1")
    yield made
    made.close()


@pytest.fixture
def hook() -> FakeHook:
    return FakeHook()


def announcing(world: PortWorld, hook: FakeHook) -> AddressAnnouncing:
    return AddressAnnouncing(world.service().operations, "prod", hook)


def test_each_place_is_told_once(world: PortWorld, hook: FakeHook) -> None:
    for _ in range(2):
        assert announcing(world, hook).tell() == []
    world.moves().move("demo", "h2")
    for _ in range(2):
        assert announcing(world, hook).tell() == []
    places = [(one["former_address"], one["address"]) for one in hook.told]
    assert places == [(None, "10.0.0.1"), ("10.0.0.1", "10.0.0.2")]
    secrets = world.service().operations.credentials.load("demo")
    said = json.dumps(hook.told)
    assert secrets.password.get_secret_value() not in said
    assert secrets.admin_password.get_secret_value() not in said


def test_a_failure_is_said_and_owed_until_it_succeeds(world: PortWorld, hook: FakeHook) -> None:
    hook.failure = "`update-dns` failed with code 2: no route."
    ((name, error),) = announcing(world, hook).tell()
    assert (name, error.code) == ("demo", "address-hook-failed")
    assert "update-dns" in error.problem
    assert "10.0.0.1:13300" in error.problem
    assert world.service().operations.records.announced("demo").problem == hook.failure
    assert world.service().show("demo").status == "running", "nothing is undone"
    hook.failure = ""
    assert announcing(world, hook).tell() == []
    assert [one["database"] for one in hook.told] == ["demo"]
    assert world.service().operations.records.announced("demo").problem == ""


def test_one_failure_ends_the_round(world: PortWorld, hook: FakeHook) -> None:
    """A program that hangs takes its time once a command, not once a database."""
    world.create("other", host="h1")
    hook.failure = "it did not end within 30 s"
    assert len(announcing(world, hook).tell()) == 1


def test_a_renamed_database_is_told_of_with_its_new_name(world: PortWorld, hook: FakeHook) -> None:
    announcing(world, hook).tell()
    names(world).rename("demo", "shop")
    announcing(world, hook).tell()
    assert [one["database"] for one in hook.told] == ["demo", "shop"]


def test_a_stopped_database_is_told_of_when_it_runs(world: PortWorld, hook: FakeHook) -> None:
    world.service().stop("demo")
    assert announcing(world, hook).tell() == []
    assert hook.told == []
    world.service().start("demo")
    announcing(world, hook).tell()
    assert len(hook.told) == 1


def test_a_database_that_an_operation_is_on_waits(world: PortWorld, hook: FakeHook) -> None:
    """Until its server answers, and until the operation cannot be undone any more."""
    world.hosts["h2"].serve_failure = "[ERROR] no such luck"
    world.journal.fails_after = ("db.move", "record")
    world.journal.undo_calls = 0
    with pytest.raises(BaseException):  # noqa: B017, PT011
        world.moves().move("demo", "h2")
    assert world.journal.unfinished(LAB)
    announcing(world, hook).tell()
    assert hook.told == []


def test_two_processes_do_not_tell_of_one_database_at_once(
    world: PortWorld, hook: FakeHook
) -> None:
    with hold_lock(world.home, f"db-announce.{LAB}.demo", world.clock):
        assert announcing(world, hook).tell() == []
    assert hook.told == []


# -- the program ---------------------------------------------------------------------------------


def write_program(path: Path, body: str) -> str:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return str(path)


def test_the_program_reads_the_document(tmp_path: Path) -> None:
    program = write_program(tmp_path / "hook", f"cat > {tmp_path}/told")
    AddressHookProgram(program).tell('{"site": "prod"}')
    assert (tmp_path / "told").read_text() == '{"site": "prod"}\n'


@pytest.mark.parametrize(
    ("body", "code"), [("echo no route >&2; exit 2", "command-failed"), ("sleep 60", "timeout")]
)
def test_a_program_that_fails_or_hangs_is_an_error(tmp_path: Path, body: str, code: str) -> None:
    program = write_program(tmp_path / "hook", body)
    with pytest.raises(GrampusError) as caught:
        AddressHookProgram(program, timeout_s=0.5).tell("{}")
    assert caught.value.code == code


def test_a_program_that_is_gone_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(GrampusError):
        AddressHookProgram(str(tmp_path / "hook")).tell("{}")
