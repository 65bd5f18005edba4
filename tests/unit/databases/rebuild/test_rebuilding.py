from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pydantic import BaseModel

from grampus.ceph.cluster import CephCluster
from grampus.ceph.image_notes import RECORDS_KEY
from grampus.ceph.migrations import RbdMigrations
from grampus.core.errors import GrampusError
from grampus.core.units import GIB, MIB
from grampus.databases.credentials import CredentialFiles
from grampus.databases.model import (
    DatabaseRecord,
    LeftInstance,
    TrashedDatabase,
)
from grampus.databases.rebuild.noting import RecordsNoting
from grampus.databases.rebuild.rebuilding import Rebuilt, StateRebuild
from grampus.databases.records import DatabaseRecords
from grampus.databases.snapshots.decide_retention import SnapshotSchedule
from grampus.state.generation import StateGeneration
from grampus.state.home import Home
from grampus.state.operations import OperationJournal
from grampus.state.store import Store
from grampus.state.stored import records_of_lab
from grampus.volumes.migrating import MigrateOrder
from grampus.volumes.model import Attachment, Migration, VolumeRecord, VolumeSpec
from grampus.volumes.records import VolumeRecords
from grampus.volumes.trash import TrashedVolume
from tests.fakes.clock import FakeClock
from tests.fakes.specs import database_spec
from tests.unit.operation_runner import make_runner

from .cluster import NotedCluster, NotedImage

LAB = "t"
NOW = datetime(2026, 11, 22, 5, 0, tzinfo=UTC)


def volume(name: str, *, image: str | None = None) -> VolumeRecord:
    spec = VolumeSpec(
        name=name, pool="databases", image=image or f"db-{name}", size_bytes=GIB, write_path="cache"
    )
    attachment = Attachment(
        host="h1",
        driver="volumed",
        driver_reason="It is the best.",
        device="/dev/loop3",
        mount_path=f"/data/volumes/{name}",
        client_address="10.9.0.1:0/1",
    )
    return VolumeRecord(
        spec=spec,
        ceph_user=f"grampus.{LAB}.{name}",
        host="h1",
        is_formatted=True,
        attachment=attachment,
    )


def database(name: str) -> DatabaseRecord:
    spec = database_spec(
        name=name,
        size_bytes=GIB,
        memory_bytes=GIB // 2,
        cpus=0.5,
        labels={"team": "web"},
        parameters={"max_connections": "99"},
    )
    return DatabaseRecord(
        spec=spec,
        user=name,
        server_version="9.7.4",
        buffer_pool_bytes=1 << 28,
        created_at=NOW,
        snapshot_schedule=SnapshotSchedule(every_s=3600, keep=24),
    )


class Grampus:
    """A state, and the cluster that it is noted on."""

    def __init__(self, home: Path) -> None:
        self.home = Home(home)
        self.cluster = NotedCluster()
        self.credentials = CredentialFiles(home / "secrets")
        self.store = Store(None)

    @property
    def generation(self) -> StateGeneration:
        return StateGeneration(self.store, self.home.root)

    @property
    def databases(self) -> DatabaseRecords:
        return DatabaseRecords(self.store, LAB)

    @property
    def volumes(self) -> VolumeRecords:
        return VolumeRecords(self.store, LAB)

    @property
    def journal(self) -> OperationJournal:
        return OperationJournal(self.store, FakeClock())

    def add(self, name: str, *, image_id: str = "aa", **facts: bool) -> None:
        self.cluster.images.append(NotedImage(f"db-{name}", image_id, **facts))  # type: ignore[arg-type]
        self.volumes.put(volume(name))
        self.databases.put(database(name))
        self.credentials.ensure(name)

    def trash(self, name: str) -> None:
        trashed = TrashedDatabase(
            key=f"{name}.20261122T050000",
            record=database(name),
            volume=TrashedVolume(record=volume(name), image_id="aa"),
            deleted_at=NOW,
            expires_at=NOW + timedelta(days=7),
        )
        self.databases.put_trashed(trashed)
        self.databases.remove(name)
        self.volumes.remove(name)
        self.credentials.ensure_moved(name, trashed.key)
        self.cluster.images[0].in_trash = True

    def note(self) -> int:
        return RecordsNoting(
            self.store, LAB, CephCluster(self.cluster), self.generation
        ).ensure_noted()

    def lose_state(self) -> None:
        self.store.close()
        self.store = Store(None)

    def rebuild(self) -> Rebuilt:
        clock = FakeClock()
        rebuild = StateRebuild(
            *(self.store, LAB, CephCluster(self.cluster), self.credentials),
            *(
                make_runner(LAB, self.store, self.journal, clock),
                RbdMigrations(CephCluster(self.cluster), clock),
            ),
        )
        rebuilt = rebuild.plan()
        rebuild.apply(rebuilt)
        return rebuilt

    def remembered(self) -> list[BaseModel]:
        return [one for one in records_of_lab(self.store, LAB) if one.kind != "noted-records"]


@pytest.fixture
def grampus(tmp_path: Path) -> Grampus:
    return Grampus(tmp_path)


def test_a_lost_state_is_the_same_again(grampus: Grampus) -> None:
    grampus.add("shop")
    grampus.add("store", image_id="bb")
    grampus.note()
    before = grampus.remembered()
    grampus.lose_state()
    rebuilt = grampus.rebuild()
    assert grampus.remembered() == before
    assert rebuilt.plan.names("database") == ["shop", "store"]
    assert (rebuilt.plan.conflicts, rebuilt.without_passwords, rebuilt.unfinished) == ([], [], [])
    assert grampus.rebuild().plan.records == []


@pytest.mark.parametrize(
    ("mark", "noted", "found"),
    [
        (None, None, None),
        (None, "flash", "flash"),  # it has not begun
        ("grampus_journal.other", "flash", "flash"),  # that of the image it was cloned from
        ("grampus_journal.aa", "flash", None),
        ("flash/grampus_journal.aa", None, "flash"),
        ("flash/grampus_journal.aa", "disks", "flash"),
    ],
)
def test_a_journal_is_where_its_image_says(
    grampus: Grampus, mark: str | None, noted: str | None, found: str | None
) -> None:
    """A command was cut off before it could note where the journal is."""
    grampus.add("shop")
    record = grampus.volumes.get("shop")
    there = {"spec": record.spec.model_copy(update={"journal_pool": noted})}
    grampus.volumes.put(record.model_copy(update=there))
    if mark is not None:
        grampus.cluster.images[0].metadata["grampus.journal.objects"] = mark
    grampus.note()
    grampus.lose_state()
    assert grampus.rebuild().plan.conflicts == []
    assert grampus.volumes.get("shop").spec.journal_pool == found
    assert grampus.databases.get("shop").spec.journal_pool is None, "it has no journal"


def left(name: str, host: str) -> LeftInstance:
    spec = database(name).spec.model_copy(update={"host": host})
    return LeftInstance(spec=spec, left_at=NOW)


def test_what_a_database_left_on_lost_hosts_is_the_same_again(grampus: Grampus) -> None:
    grampus.add("shop")
    grampus.add("store", image_id="bb")
    grampus.note()
    grampus.databases.put_left(left("shop", "h2"))
    grampus.databases.put_left(left("shop", "h3"))
    assert grampus.note() == 1, "it is noted on the image of its database"
    assert grampus.note() == 0
    before = grampus.remembered()
    grampus.lose_state()
    assert grampus.rebuild().plan.conflicts == []
    assert grampus.remembered() == before
    assert [one.key for one in grampus.databases.all_left()] == ["h2/shop", "h3/shop"]
    grampus.note()
    assert grampus.note() == 0


def test_what_was_cleared_away_on_a_host_is_not_found_again(grampus: Grampus) -> None:
    grampus.add("shop")
    for host in ("h2", "h3"):
        grampus.databases.put_left(left("shop", host))
    grampus.note()
    grampus.databases.remove_left(left("shop", "h2"))
    assert grampus.note() == 1
    grampus.lose_state()
    grampus.rebuild()
    assert [one.key for one in grampus.databases.all_left()] == ["h3/shop"]


def test_another_change_keeps_what_was_left_in_the_note(grampus: Grampus) -> None:
    grampus.add("shop")
    grampus.databases.put_left(left("shop", "h2"))
    grampus.note()
    grampus.databases.change("shop", last_rollback="x")
    assert grampus.note() == 1
    grampus.lose_state()
    grampus.rebuild()
    assert [one.key for one in grampus.databases.all_left()] == ["h2/shop"]


def test_what_a_deleted_database_left_has_no_image(grampus: Grampus) -> None:
    grampus.databases.put_left(left("gone", "h2"))
    assert grampus.note() == 0
    assert grampus.note() == 0


def test_the_trash_is_the_same_again(grampus: Grampus) -> None:
    grampus.add("shop")
    grampus.note()
    grampus.trash("shop")
    grampus.note()
    before = grampus.remembered()
    grampus.lose_state()
    rebuilt = grampus.rebuild()
    assert rebuilt.plan.conflicts == []
    assert grampus.remembered() == before
    assert list(grampus.databases.all_trashed()) == ["shop.20261122T050000"]
    assert grampus.databases.all() == {}


def test_only_what_changed_is_noted_again(grampus: Grampus) -> None:
    grampus.add("shop")
    grampus.add("store", image_id="bb")
    assert grampus.note() == 2
    assert grampus.note() == 0
    grampus.databases.change("store", last_rollback="x")
    assert grampus.note() == 1
    assert grampus.cluster.told == 3


def test_what_is_noted_late_is_noted_by_the_next_command(grampus: Grampus) -> None:
    grampus.add("shop")
    grampus.cluster.is_down = True
    with pytest.raises(GrampusError):
        grampus.note()
    grampus.cluster.is_down = False
    assert grampus.note() == 1


def test_a_volume_whose_image_is_not_made_yet_is_told_when_it_is(grampus: Grampus) -> None:
    grampus.volumes.put(volume("shop"))
    assert grampus.note() == 0
    grampus.cluster.images.append(NotedImage("db-shop", "aa"))
    assert grampus.note() == 1


def test_images_in_namespaces_are_found_and_noted(grampus: Grampus) -> None:
    """Two of one name and one id in different namespaces are two images."""
    for name in ("shop", "store"):
        grampus.cluster.images.append(NotedImage(f"{name}.1/db", "aa"))
        grampus.volumes.put(volume(name, image=f"{name}.1/db"))
        grampus.databases.put(database(name))
        grampus.credentials.ensure(name)
    grampus.add("old", image_id="bb")
    assert grampus.note() == 3
    grampus.lose_state()
    rebuilt = grampus.rebuild()
    assert rebuilt.plan.names("database") == ["old", "shop", "store"]
    assert rebuilt.plan.conflicts == []
    images = {name: grampus.volumes.get(name).spec.image for name in ("old", "shop", "store")}
    assert images == {"old": "db-old", "shop": "shop.1/db", "store": "store.1/db"}


def test_one_in_the_trash_of_a_namespace_is_noted_there(grampus: Grampus) -> None:
    grampus.cluster.images.append(NotedImage("shop.1/db-shop", "aa"))
    grampus.cluster.images.append(NotedImage("other.1/db-other", "aa"))
    grampus.volumes.put(volume("shop", image="shop.1/db-shop"))
    grampus.databases.put(database("shop"))
    grampus.credentials.ensure("shop")
    trashed = TrashedDatabase(
        key="shop.20261122T050000",
        record=database("shop"),
        volume=TrashedVolume(record=volume("shop", image="shop.1/db-shop"), image_id="aa"),
        deleted_at=NOW,
        expires_at=NOW + timedelta(days=7),
    )
    grampus.databases.put_trashed(trashed)
    grampus.databases.remove("shop")
    grampus.volumes.remove("shop")
    grampus.cluster.images[0].in_trash = True
    assert grampus.note() == 1
    assert grampus.cluster.images[1].metadata == {}
    grampus.lose_state()
    assert grampus.rebuild().plan.names("trashed-database") == [trashed.key]


def test_images_of_others_are_left_alone(grampus: Grampus) -> None:
    grampus.add("shop")
    grampus.note()
    grampus.cluster.images.append(NotedImage("precious", "cc"))
    another = NotedImage(
        "db-other", "dd", metadata={RECORDS_KEY: '{"lab": "another", "records": []}'}
    )
    grampus.cluster.images.append(another)
    grampus.lose_state()
    rebuilt = grampus.rebuild()
    assert rebuilt.plan.foreign == 2
    assert list(grampus.databases.all()) == ["shop"]
    assert grampus.cluster.images[1].metadata == {}


def test_a_record_that_is_there_stays_as_it_is(grampus: Grampus) -> None:
    grampus.add("shop")
    grampus.note()
    grampus.databases.change("shop", server_version="newer")
    rebuilt = grampus.rebuild()
    assert (rebuilt.plan.records, rebuilt.plan.kept) == ([], 2)
    assert grampus.databases.get("shop").server_version == "newer"


def test_an_image_that_says_it_is_one_that_stands_elsewhere_is_a_conflict(
    grampus: Grampus,
) -> None:
    grampus.add("shop")
    grampus.note()
    facts = dict(grampus.cluster.images[0].metadata)
    grampus.cluster.images.append(NotedImage("copied-by-hand", "ee", metadata=facts))
    grampus.lose_state()
    rebuilt = grampus.rebuild()
    assert len(rebuilt.plan.conflicts) == 1
    assert "copied-by-hand" in rebuilt.plan.conflicts[0]
    assert grampus.volumes.get("shop").spec.image == "db-shop"


MOVING = Migration(from_pool="databases", to_pool="archive", source_id="5a")


@pytest.mark.parametrize(
    ("noted", "stands_in", "comes_from", "expected"),
    [
        # Nobody has noted that it went over, or that it is on its way at all.
        (Migration(from_pool="databases", to_pool="archive"), "archive", "databases", MOVING),
        (None, "archive", "databases", MOVING),
        # It had not gone over.
        (Migration(from_pool="databases", to_pool="archive"), "databases", None, None),
        # It has been committed; what is left of it is tidied away.
        (MOVING, "archive", None, MOVING),
        (None, "archive", None, None),
    ],
)
def test_one_on_its_way_to_another_pool_can_be_gone_on_with(
    grampus: Grampus,
    noted: Migration | None,
    stands_in: str,
    comes_from: str | None,
    expected: Migration | None,
) -> None:
    grampus.add("shop")
    grampus.volumes.put(volume("shop").model_copy(update={"migration": noted}))
    grampus.note()
    image = grampus.cluster.images[0]
    image.pool, image.comes_from = stands_in, comes_from
    grampus.lose_state()
    for _ in range(2):
        assert grampus.rebuild().plan.conflicts == []
        record = grampus.volumes.get("shop")
        assert (record.spec.pool, record.migration) == (stands_in, expected)
        assert grampus.databases.get("shop").spec.pool == stands_in
        begun = [
            MigrateOrder.model_validate(one.spec)
            for one in grampus.journal.unfinished(LAB, kind_prefix="volume.")
        ]
        ordered = MigrateOrder(
            name="shop", image="db-shop", from_pool="databases", to_pool="archive"
        )
        assert begun == ([ordered] if expected else [])


def test_a_copy_in_another_pool_is_not_what_it_was_copied_from(grampus: Grampus) -> None:
    grampus.add("shop")
    grampus.note()
    facts = dict(grampus.cluster.images[0].metadata)
    copied = NotedImage("db-shop", "ee", metadata=facts, pool="archive")
    grampus.cluster.images.insert(0, copied)
    grampus.lose_state()
    rebuilt = grampus.rebuild()
    assert ["renamed or copied" in sentence for sentence in rebuilt.plan.conflicts] == [True]
    assert grampus.volumes.get("shop").spec.pool == "databases"


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"lab": "t", "records": [{"kind": "volume", "name": "shop", "body": []}]}',
        '{"lab": "t", "records": [{"kind": "volume", "name": "shop", "body": {"spec": {}}}]}',
        '{"lab": "t", "records": [{"kind": "database", "name": "shop", "body": {"x": 1}}]}',
        '{"lab": "t", "records": []}',
    ],
)
def test_a_note_that_cannot_be_read_is_a_conflict_of_its_image_alone(
    grampus: Grampus, text: str
) -> None:
    grampus.add("shop")
    grampus.add("store", image_id="bb")
    grampus.note()
    grampus.cluster.images[0].metadata[RECORDS_KEY] = text
    grampus.lose_state()
    rebuilt = grampus.rebuild()
    assert [("db-shop" in sentence) for sentence in rebuilt.plan.conflicts] == [True]
    assert list(grampus.databases.all()) == ["store"]


def test_the_image_knows_its_size_better(grampus: Grampus) -> None:
    grampus.add("shop")
    grampus.note()
    grampus.cluster.images[0].size_bytes = 2 * GIB
    grampus.lose_state()
    grampus.rebuild()
    assert grampus.volumes.get("shop").spec.size_bytes == 2 * GIB


def test_header_of_an_encrypted_image_is_not_taken_for_a_part_of_the_volume(
    grampus: Grampus,
) -> None:
    grampus.add("shop")
    record = grampus.volumes.get("shop")
    spec = record.spec.model_copy(update={"encryption": "luks2"})
    grampus.volumes.put(record.model_copy(update={"spec": spec}))
    grampus.note()
    grampus.cluster.images[0].size_bytes = GIB + 16 * MIB
    grampus.lose_state()
    grampus.rebuild()
    assert grampus.volumes.get("shop").spec == spec


@pytest.mark.parametrize(("has_data", "is_formatted"), [(True, True), (False, False)])
def test_a_volume_that_holds_anything_is_never_formatted(
    grampus: Grampus, has_data: bool, is_formatted: bool
) -> None:
    grampus.add("shop", has_data=has_data)
    fresh = volume("shop").model_copy(update={"is_formatted": False})
    grampus.volumes.put(fresh)
    grampus.note()
    grampus.lose_state()
    grampus.rebuild()
    assert grampus.volumes.get("shop").is_formatted == is_formatted


def test_what_cannot_be_found_again_is_said(grampus: Grampus) -> None:
    grampus.add("shop")
    grampus.databases.change("shop", phase="creating")
    grampus.note()
    grampus.credentials.ensure_absent("shop")
    grampus.lose_state()
    rebuilt = grampus.rebuild()
    assert rebuilt.without_passwords == ["shop"]
    assert rebuilt.unfinished == ["shop"]
