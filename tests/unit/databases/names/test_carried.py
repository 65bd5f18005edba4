"""INV-59: what is kept of a database follows it to another name; no kind of record is forgotten."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import grampus
from grampus.databases.backup.decide_schedule import BackupState
from grampus.databases.model import Announced, PromotedEvents, ReadEndpoint, ReplicaHistory
from grampus.databases.records import CARRIED_KINDS, DATABASE_KIND
from grampus.databases.server_end import ServerEnd, ServerFailure
from grampus.state.stored import records_of_lab
from grampus.state.warnings import Warned, WarningHistory
from tests.unit.databases.stopped_case import names, trash
from tests.unit.databases.world import LAB, World, database_events

# Every kind of record, and what becomes of it when a database gets another name.
AT_RENAME: Mapping[str, str] = {
    "database": "moved, with its spec",
    "backup-state": "moved",
    "read-endpoint": "moved",
    "replica-history": "moved",
    "promoted-events": "moved",
    "server-failure": "moved",
    "announced-address": "moved",
    "entry-port": "moved",
    "entry": "is about no database",
    "scratch-instance": "removed before: its directory and its daemon have the former name",
    "trashed-database": "stays: it has a key of its own, and another database",
    "left-instance": "stays: what a lost host has of the database has the name of its time",
    "opened-replica": "stays: a replica cannot be renamed, and it has the id of the database",
    "host-maintenance": "is about no database",
    "archive-checks": "is about all databases, and written every two seconds",
    "volume": "moved by the volumes, with its image",
    "noted-records": "made anew at the end of the command, from what is there then",
    "lab": "is about no database",
    "lab-osd-set": "is about no database",
    "lab-gateway": "is about no database",
    "lab-monitoring": "is about no database",
    "site": "is about no database",
    "site-host": "is about no database",
    "site-machine": "is about no database",
    "controller-epoch": "is about no database",
    "pool-removal-leave": "is about no database",
    "bench-own-cluster": "is about no database",
    "bench-pool": "is about no database",
    "bench-osd-set": "is about no database",
    "bench-quiet": "is about no database",
    "bench-profile": "is about no database",
    "bench-budget": "is about no database",
    "bench-volume": "is about no database",
    "bench-stand": "stays: a benchmark removes what it recorded, and leaves a renamed one (INV-52)",
}
_KIND = re.compile(r'^[A-Z_]+_(?:KIND|RECORD) = "([a-z-]+)"$', re.MULTILINE)
_NO_RECORDS = {"matrix"}  # a kind of run
ENDPOINT = ReadEndpoint(address="10.9.0.12")


def _kinds_in_code() -> set[str]:
    root = Path(grampus.__file__).parent
    found = {kind for file in root.rglob("*.py") for kind in _KIND.findall(file.read_text())}
    return found - _NO_RECORDS


def _with_everything(world: World) -> BackupState:
    """A database with a record of each kind that is kept beside its own, and a warning."""
    world.create("demo")
    records = world.service().operations.records
    state = BackupState(
        created_at=records.get("demo").created_at,
        place="file:///backups",
        last_id="demo/20261122T050000",
        last_taken_at=datetime(2026, 11, 22, 5, tzinfo=UTC),
        test_problem="a table is missing",
    )
    records.put_backup_state("demo", state)
    records.put_read_endpoint("demo", ENDPOINT)
    records.put_replica_history("demo", ReplicaHistory(filled="2026-11-22T05:00:00+00:00"))
    records.put_promoted_events("demo", PromotedEvents(filled="2026-11-22T05:00:00+00:00"))
    now = datetime(2026, 11, 22, 5, tzinfo=UTC)
    records.put_failure("demo", ServerFailure(end=ServerEnd(kind="killed"), since=now, next_at=now))
    records.put_announced("demo", Announced(problem="no route to the DNS server"))
    records.put_entry_port("demo", 14300)
    warnings = WarningHistory(world.store, LAB, world.clock)
    warnings.change("growth", begun=[Warned("demo", "volume-full", "warning", "It is full.")])
    return state


def _kept_under(world: World, name: str) -> set[str]:
    return {one.kind for one in records_of_lab(world.store, LAB) if one.name == name}


def test_every_kind_of_record_has_its_word() -> None:
    assert _kinds_in_code() == set(AT_RENAME)
    moved = {kind for kind, what in AT_RENAME.items() if what == "moved"}
    assert moved == set(CARRIED_KINDS)


def test_a_rename_carries_all_that_is_kept_and_leaves_nothing(world: World) -> None:
    state = _with_everything(world)
    before = _kept_under(world, "demo")
    assert before == {DATABASE_KIND, *CARRIED_KINDS}, "something that this test does not make"
    names(world).rename("demo", "shop")
    records = world.service().operations.records
    assert _kept_under(world, "demo") == set()
    assert _kept_under(world, "shop") == before
    assert records.backup_state(records.get("shop")) == state
    assert records.find_read_endpoint("shop") == ENDPOINT
    events = database_events(world).of("shop")  # histories keep the name of their time
    assert "It is full." in [event.reason for event in events]


def test_a_rename_back_brings_all_of_it_back(world: World) -> None:
    state = _with_everything(world)
    names(world).rename("demo", "shop")
    names(world).rename("shop", "demo")
    records = world.service().operations.records
    assert records.backup_state(records.get("demo")) == state
    assert _kept_under(world, "shop") == set()


def test_a_rename_that_was_cut_off_in_the_middle_is_carried_on(world: World) -> None:
    state = _with_everything(world)
    records = world.service().operations.records
    record = records.get("demo")
    new = record.spec.model_copy(update={"name": "shop"})
    records.put(record.model_copy(update={"spec": new}))  # and no more of it
    records.rename("demo", new)
    assert records.backup_state(records.get("shop")) == state
    records.rename("demo", new)
    assert _kept_under(world, "demo") == set()


def test_what_was_in_the_trash_has_it_all_again(world: World) -> None:
    state = _with_everything(world)
    trash(world).trash("demo")
    assert _kept_under(world, "demo") == set()
    trash(world).restore("demo", name="again")
    records = world.service().operations.records
    assert records.backup_state(records.get("again")) == state
    assert records.find_read_endpoint("again") == ENDPOINT


def test_an_endpoint_whose_address_is_taken_by_now_is_not_had_back(world: World) -> None:
    _with_everything(world)
    trash(world).trash("demo")
    records = world.service().operations.records
    world.create("other")
    records.put_read_endpoint("other", ENDPOINT)
    trash(world).restore("demo")
    assert records.find_read_endpoint("demo") is None
    assert records.find_read_endpoint("other") == ENDPOINT


def test_passwords_that_are_coming_into_use_are_moved_too(world: World) -> None:
    """All files of a database move: those that are removed with it, too."""
    world.create("demo")
    credentials = world.service().operations.credentials
    coming = credentials.ensure_next("demo")
    names(world).rename("demo", "shop")
    assert credentials.find_next("shop") == coming
    left = [path.name for path in world.home.secrets_dir(LAB).glob("demo.*")]
    assert left == []
