"""Scheduled events of a database that was a replica."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from grampus.databases.model import NotedEvent, PromotedEvents
from grampus.databases.replicas.events import (
    Event,
    decide_events,
    parse_events,
    render_enable_sql,
)
from tests.fakes.interruption import Killed

from .replica_world import ReplicaWorld


def event(name: str, status: str, altered: str = "1", **more: str) -> Event:
    values = {"definer": "u1@%", "character_set": "latin1", "collation": "latin1_swedish_ci"}
    return Event(schema="s", name=name, status=status, altered=altered, **{**values, **more})


def test_only_what_the_primary_had_enabled_is_to_run() -> None:
    here = [
        event("on", "REPLICA_SIDE_DISABLED"),
        event("off", "REPLICA_SIDE_DISABLED"),
        event("newer", "SLAVESIDE_DISABLED", "2"),
        event("unseen", "REPLICA_SIDE_DISABLED"),
        event("own", "DISABLED"),
        event("cloned", "ENABLED"),
    ]
    noted = [
        NotedEvent(event=f"s.{name}", altered="1", is_enabled=name != "off")
        for name in ("on", "off", "newer", "own", "cloned")
    ]
    enabled, disabled, unknown = decide_events(here, noted)
    assert [one.title for one in enabled] == ["s.on"]
    assert [one.title for one in disabled] == ["s.off"]
    assert [one.title for one in unknown] == ["s.newer", "s.unseen"]


@pytest.mark.parametrize(
    ("of_event", "enabled", "sql"),
    [
        (
            event("e", "x"),
            True,
            "SET SESSION character_set_client = latin1, collation_connection = latin1_swedish_ci; "
            "ALTER DEFINER = `u1`@`%` EVENT `s`.`e` ENABLE",
        ),
        (
            event("a`b", "x", definer="o@k@localhost"),
            False,
            "SET SESSION character_set_client = latin1, collation_connection = latin1_swedish_ci; "
            "ALTER DEFINER = `o@k`@`localhost` EVENT `s`.`a``b` DISABLE",
        ),
        (
            event("café", "x"),
            True,
            "SET SESSION character_set_client = utf8mb4, collation_connection = latin1_swedish_ci; "
            "ALTER DEFINER = `u1`@`%` EVENT `s`.`café` ENABLE",
        ),
    ],
)
def test_an_event_keeps_its_definer(of_event: Event, enabled: bool, sql: str) -> None:
    assert render_enable_sql(of_event, enabled=enabled) == sql


def test_names_with_any_character_are_read() -> None:
    words = [word.encode().hex() for word in ("s", "a\tb\\n", "u1@%")]
    (found,) = parse_events([(*words, "ENABLED", "2026-11-27 04:21:38", "utf8mb4", "utf8mb4_bin")])
    assert (found.title, found.definer, found.note.is_enabled) == ("s.a\tb\\n", "u1@%", True)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[ReplicaWorld]:
    """A primary whose events were made before and after its replica was."""
    world = ReplicaWorld(tmp_path)
    world.create(host="h1")
    world.event("s.before", "ENABLED")
    world.add(host="h2")
    world.event("s.on", "ENABLED")
    world.event("s.off", "DISABLED")
    assert world.events("demo-r1") == {
        "s.before": "ENABLED",
        "s.on": "REPLICA_SIDE_DISABLED",
        "s.off": "REPLICA_SIDE_DISABLED",
    }
    yield world
    world.close()


def told(world: ReplicaWorld, name: str = "demo-r1") -> PromotedEvents:
    records = world.service().operations.records
    return records.promoted_events(records.get(name)).model_copy(update={"filled": ""})


RIGHT = {"s.before": "ENABLED", "s.on": "ENABLED", "s.off": "DISABLED"}


def test_a_promoted_replica_runs_what_its_primary_ran(world: ReplicaWorld) -> None:
    world.replicas().promote("demo-r1")
    assert world.events("demo-r1") == RIGHT
    assert told(world) == PromotedEvents(enabled=("s.on",), disabled=("s.off",))


def test_also_when_its_primary_is_gone_and_was_seen_before(world: ReplicaWorld) -> None:
    assert world.renewals().carry_out() == []
    world.hosts["h1"].up = False
    world.replicas().promote("demo-r1")
    assert world.events("demo-r1") == RIGHT
    assert told(world).unknown == ()


def test_what_nobody_knows_stays_disabled_and_is_told(world: ReplicaWorld) -> None:
    assert world.renewals().carry_out() == []
    world.event("s.on", "DISABLED")
    world.event("s.new", "ENABLED")
    assert world.events("demo-r1")["s.new"] == "REPLICA_SIDE_DISABLED"
    world.hosts["h1"].up = False
    world.replicas().promote("demo-r1")
    found = world.events("demo-r1")
    assert found["s.on"] == found["s.new"] == "REPLICA_SIDE_DISABLED"
    assert told(world) == PromotedEvents(disabled=("s.off",), unknown=("s.on", "s.new"))


def test_a_promotion_that_was_cut_off_tells_of_all_events(world: ReplicaWorld) -> None:
    world.journal.dies_after = ("db.replica-promote", "events")
    with pytest.raises(Killed):
        world.replicas().promote("demo-r1")
    (said,) = world.service().converge()
    assert "finished" in said
    assert world.events("demo-r1") == RIGHT
    assert told(world) == PromotedEvents(enabled=("s.on",), disabled=("s.off",))


def test_without_events_nothing_is_told(world: ReplicaWorld) -> None:
    world.create(name="quiet")
    world.add("quiet")
    world.replicas().promote("quiet-r1")
    assert told(world, "quiet-r1") == PromotedEvents()
