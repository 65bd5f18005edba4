"""A database at a glance, for people and for programs."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from grampus.cli.backup_documents import pairs_of_state, state_document
from grampus.cli.db import database_document, describe_address
from grampus.cli.db_replica import endpoint_row
from grampus.cli.endpoint_documents import describe_endpoint, read_endpoint_document
from grampus.cli.overview import (
    endpoint_document,
    overview_document,
    pairs_of_condition,
    pairs_of_copies,
    pairs_of_history,
    pairs_of_reading,
    pairs_of_server,
    pairs_of_snapshots,
)
from grampus.databases.backup.decide_schedule import BackupSchedule, BackupState
from grampus.databases.backup.places import TargetPlace
from grampus.databases.live.server_now import ServerNow
from grampus.databases.model import DatabaseRecord, ReadEndpoint
from grampus.databases.names.events import DatabaseEvent
from grampus.databases.overview import Overview
from grampus.databases.replicas.decide_replicas import ReplicaStanding
from grampus.databases.replicas.replica_looks import ReplicaView
from grampus.databases.snapshots.decide_retention import SnapshotSchedule
from grampus.databases.view import DatabaseView
from grampus.volumes.model import Lineage, MeasuredSnapshots, SnapshotInfo
from tests.fakes.specs import database_spec

NOW = datetime(2026, 11, 24, 12, 30, tzinfo=UTC)
MIB = 1 << 20
NOTHING = Overview(
    server=None,
    server_problem=None,
    waiting=[],
    lineage=Lineage(parent=None, depth=0),
    snapshots=MeasuredSnapshots(snapshots=()),
    cluster_problem=None,
    next_snapshot_at=None,
    replicas=[],
    reader=None,
    read_endpoint=None,
    primary=None,
    standing=None,
    warnings=[],
    last_event=None,
)


def record(name: str, *, number: int = 10, replica_of: str | None = None) -> DatabaseRecord:
    spec = database_spec(
        name=name,
        size_bytes=1 << 30,
        memory_bytes=1 << 29,
        address=f"10.9.0.{number}",
        server_id=number,
        replica_of=replica_of,
    )
    return DatabaseRecord(
        spec=spec, user=name, server_version="9.7", buffer_pool_bytes=1, created_at=NOW
    )


SHOP = DatabaseView(record=record("shop"), status="running", volume=None)
REPLICA = DatabaseView(
    record=record("shop-r1", number=11, replica_of="shop"), status="running", volume=None
)
HEALTHY = ReplicaView(REPLICA.record, ReplicaStanding("replicating", 0, 300))
BROKEN = ReplicaView(
    record("shop-r2", number=12, replica_of="shop"),
    ReplicaStanding("broken", problem="Duplicate entry."),
)


def test_a_database_with_nothing_more_to_tell() -> None:
    """What it has none of is left out, but for snapshots and backups: there absence matters."""
    assert pairs_of_condition(SHOP, NOTHING) == {}
    assert pairs_of_reading(SHOP, NOTHING) == {}
    assert pairs_of_copies(SHOP, NOTHING) == {}
    assert pairs_of_snapshots(SHOP, NOTHING, NOW) == {"snapshots": "none"}
    assert pairs_of_state(SHOP.record, None, NOW) == {"backups": "none"}
    assert pairs_of_history(NOTHING) == {}
    state = BackupState(created_at=NOW, place="/srv", last_id="shop/1", last_taken_at=NOW)
    assert pairs_of_state(SHOP.record, state, NOW)["backups"] == "manual only"


@pytest.mark.parametrize(
    ("checked_s", "lag_s"),
    [
        (None, 60.0),  # `grampus serve` has not looked
        (-2.0, 2.0),  # nothing was written since, and the archive is told once a minute
        (-90.0, 60.0),
        (-7200.0, 60.0),  # a former database of that name
    ],
)
def test_archive_is_as_late_as_what_was_seen_last(checked_s: float | None, lag_s: float) -> None:
    schedule = BackupSchedule(place=TargetPlace(url="/srv"), every_s=3600, archives=True)
    made = {"backup_schedule": schedule, "created_at": NOW - timedelta(hours=1)}
    record = SHOP.record.model_copy(update=made)
    copied_until = NOW - timedelta(seconds=60)
    state = BackupState(created_at=NOW, place="/srv", copied_until=copied_until)
    checked = None if checked_s is None else NOW + timedelta(seconds=checked_s)
    assert state_document(record, state, NOW, checked_until=checked)["archive_lag_s"] == lag_s


def test_a_replica_has_no_snapshots_and_backups_of_its_own() -> None:
    assert pairs_of_snapshots(REPLICA, NOTHING, NOW) == {}
    assert pairs_of_state(REPLICA.record, None, NOW) == {}


def test_how_the_server_does_and_where_to_read() -> None:
    seen = replace(
        NOTHING,
        server=ServerNow(uptime_s=7500, connections=12, max_connections=151),
        waiting=["innodb_page_cleaners"],
        replicas=[HEALTHY, BROKEN],
        reader=HEALTHY,
    )
    assert pairs_of_condition(SHOP, seen) == {
        "up": "2 h 5 min, 12 of 151 connections",
        "pending": "innodb_page_cleaners: `grampus db restart shop` applies it",
    }
    assert pairs_of_reading(SHOP, seen) == {
        "read-only": "10.9.0.11:3306 (shop-r1), or `grampus db connect shop --read-only`"
    }
    endpoint = ReadEndpoint(address="10.9.0.50", host="h2", members=("shop-r1",))
    assert pairs_of_reading(SHOP, replace(seen, read_endpoint=endpoint)) == {
        "read-only": "10.9.0.50:3306 (shop-r1), or `grampus db connect shop --read-only`"
    }
    led_to_nobody = replace(seen, read_endpoint=ReadEndpoint(address="10.9.0.50"))
    assert "10.9.0.11" in pairs_of_reading(SHOP, led_to_nobody)["read-only"]
    nobody = replace(NOTHING, replicas=[BROKEN], server_problem="No answer.")
    assert pairs_of_condition(SHOP, nobody) == {"up": "not known: No answer."}
    assert pairs_of_reading(SHOP, nobody) == {"read-only": "none: no replica is healthy"}


def test_what_the_controller_warns_of_comes_first() -> None:
    late = DatabaseEvent(
        NOW,
        "shop",
        "serve.archive-late",
        "warning: archive-late",
        "grampus serve",
        "lasts",
        "Binary logs are late.",
        9.0,
    )
    seen = replace(NOTHING, warnings=[late, replace(late, reason="It is full.")])
    assert pairs_of_condition(SHOP, seen) == {
        "warnings": "Binary logs are late. (since 2026-11-24 12:30:00 UTC, from `grampus serve`)\n"
        "It is full. (since 2026-11-24 12:30:00 UTC, from `grampus serve`)"
    }
    document = overview_document(SHOP, seen, NOW)
    assert [one["kind"] for one in document["warnings"]] == 2 * ["serve.archive-late"]


def test_what_follows_it_and_what_was_cloned_from_it() -> None:
    lineage = Lineage(parent=None, depth=0, children=("shop-r1", "shop-r2", "shop-test"))
    seen = replace(NOTHING, replicas=[HEALTHY, BROKEN], lineage=lineage)
    assert pairs_of_copies(SHOP, seen) == {
        "replicas": "shop-r1 at 10.9.0.11:3306 on h1, replicating, 300 ms behind\n"
        "shop-r2 at 10.9.0.12:3306 on h1, broken: Duplicate entry.",
        "clones": "shop-test",
    }
    document = overview_document(SHOP, seen, NOW)
    assert document["clones"] == ["shop-r1", "shop-r2", "shop-test"]
    assert [one["state"] for one in document["replica_states"]] == ["replicating", "broken"]
    assert document["endpoints"] == {
        "read_write": {
            "name": "shop",
            "address": "10.9.0.10",
            "port": 3306,
            "address_kind": "floating",
        },
        "read_only": None,
    }


def test_what_a_replica_follows() -> None:
    seen = replace(NOTHING, primary=SHOP.record, standing=HEALTHY.standing)
    assert pairs_of_copies(REPLICA, seen) == {
        "replica of": "shop (10.9.0.10:3306), replicating, 300 ms behind"
    }
    document = overview_document(REPLICA, seen, NOW)
    assert document["replication"] == {
        "source": {
            "name": "shop",
            "address": "10.9.0.10",
            "port": 3306,
            "address_kind": "floating",
        },
        "state": "replicating",
        "lag_s": 0.3,
        "transactions_behind": 0,
        "transactions_ahead": None,
        "ahead": None,
        "problem": None,
    }
    assert document["endpoints"] == {
        "read_write": None,
        "read_only": {
            "name": "shop-r1",
            "address": "10.9.0.11",
            "port": 3306,
            "address_kind": "floating",
        },
    }
    gone = replace(NOTHING, standing=ReplicaStanding("stopped"))
    assert pairs_of_copies(REPLICA, gone) == {"replica of": "shop, stopped"}


def snapshot(name: str, minutes_ago: int) -> SnapshotInfo:
    return SnapshotInfo(
        name=name,
        size_bytes=1 << 30,
        created_at=NOW - timedelta(minutes=minutes_ago),
        used_bytes=40 * MIB,
    )


def test_its_snapshots_and_the_next_one() -> None:
    taken = (snapshot("before", 90), snapshot("auto-20261124-120000", 30))
    measured = MeasuredSnapshots(snapshots=taken, since_last_bytes=8 * MIB)
    next_at = NOW + timedelta(minutes=30)
    seen = replace(NOTHING, snapshots=measured, next_snapshot_at=next_at)
    hourly = SHOP.record.model_copy(
        update={"snapshot_schedule": SnapshotSchedule(every_s=3600, keep=24)}
    )
    view = replace(SHOP, record=hourly)
    assert pairs_of_snapshots(view, seen, NOW) == {
        "snapshots": "2, with 80 MiB; the newest is auto-20261124-120000, 30 min old, 8 MiB "
        "written since",
        "next snapshot": "2026-11-24 13:00:00 UTC (every 1h)",
    }
    due = replace(seen, next_snapshot_at=NOW)
    said = pairs_of_snapshots(view, due, NOW)["next snapshot"]
    assert said.startswith("due (every 1h): ")
    document = overview_document(view, seen, NOW)["snapshots"]
    assert json.loads(json.dumps(document)) == {
        "count": 2,
        "newest": {
            "name": "auto-20261124-120000",
            "created_at": "2026-11-24T12:00:00+00:00",
            "age_s": 1800.0,
        },
        "used_bytes": 80 * MIB,
        "since_last_bytes": 8 * MIB,
        "schedule": {"every_s": 3600, "keep": 24, "keep_daily": 0},
        "next_at": "2026-11-24T13:00:00+00:00",
        "problem": None,
    }
    unknown = replace(NOTHING, snapshots=None, lineage=None, cluster_problem="It timed out.")
    assert pairs_of_snapshots(view, unknown, NOW) == {"snapshots": "not known: It timed out."}
    assert overview_document(view, unknown, NOW)["snapshots"]["count"] is None


def test_what_was_done_last() -> None:
    event = DatabaseEvent(
        NOW, "shop", "db.resize", "resize: 2 GiB", "anna", "undone", "The pool is full.", 1.0
    )
    seen = replace(NOTHING, last_event=event)
    assert pairs_of_history(seen) == {
        "last event": "2026-11-24 12:30:00 UTC, resize: 2 GiB by anna, undone: The pool is full."
    }
    assert overview_document(SHOP, seen, NOW)["last_event"]["by"] == "anna"


@pytest.mark.parametrize(
    ("kind", "column", "explained"),
    [
        ("floating", "10.9.0.10:3306", "floating"),
        ("host", "10.9.0.10:3306 (host)", "host (changes when the database moves)"),
    ],
)
def test_the_kind_of_an_address_is_shown(kind: str, column: str, explained: str) -> None:
    spec = SHOP.record.spec.model_copy(update={"address_kind": kind})
    view = replace(SHOP, record=SHOP.record.model_copy(update={"spec": spec}))
    assert pairs_of_server(view, {}, {})["address kind"] == explained
    assert describe_address(spec) == column
    assert database_document(view)["address_kind"] == kind
    assert endpoint_document(spec)["address_kind"] == kind


def test_an_endpoint_at_the_address_of_its_host_has_its_own_port() -> None:
    endpoint = ReadEndpoint(address="10.0.0.2", port=13302, host="h2", members=("shop-r1",))
    document = read_endpoint_document("shop", 13300, endpoint)
    assert (document["port"], document["address_kind"]) == (13302, "host")
    assert describe_endpoint(13300, endpoint) == "10.0.0.2:13302 (shop-r1)"
    assert "10.0.0.2:13302" in endpoint_row("shop", 13300, endpoint)
    floating = endpoint.model_copy(update={"port": None})
    assert read_endpoint_document("shop", 3306, floating)["address_kind"] == "floating"
