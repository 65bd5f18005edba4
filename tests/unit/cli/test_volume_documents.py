"""What `grampus volume show` says, to people and to programs."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from grampus.cli.composition import BUILT_VOLUMED, VOLUMED_VARIABLE, volumed_program
from grampus.cli.db import database_document, pairs_of_database
from grampus.cli.volume import (
    details_of_journal,
    details_of_live,
    details_of_losses,
    details_of_record,
    volume_document,
)
from grampus.core.units import GIB, MIB
from grampus.databases.model import DatabaseRecord, DatabaseSpec
from grampus.databases.view import DatabaseView
from grampus.volumes.live import JournalStatus, KindStatistics, LiveVolume
from grampus.volumes.model import Attachment, FencedAttachment, VolumeRecord, VolumeSpec

NOW = datetime(2026, 11, 21, tzinfo=UTC)
SPEC = VolumeSpec(name="demo", pool="databases", image="demo", size_bytes=4 * GIB)
ATTACHMENT = Attachment(
    host="h1",
    driver="volumed",
    driver_reason="the kernel has no rbd driver; volumed runs there",
    device="/dev/loop3",
    mount_path="/data/volumes/demo",
    client_address="10.9.0.11:0/7",
    export_path="/data/exports/demo/image",
    transport="uring",
)
LEFT = FencedAttachment(
    host="h2",
    driver="volumed",
    client_addresses=("10.9.0.12:0/8",),
    fenced_at=NOW,
    expires_at=NOW + timedelta(days=1),
)
DETACHED = VolumeRecord(spec=SPEC, ceph_user="grampus.t.demo")
ATTACHED = DETACHED.model_copy(update={"host": "h1", "attachment": ATTACHMENT})
KEYS = {
    *("name", "pool", "image", "size_bytes", "filesystem", "filesystem_bytes", "ceph_user"),
    *("host", "driver", "driver_reason", "transport", "device", "export_path", "mount_path"),
    *("client_address", "fenced", "write_path"),
}


@pytest.mark.parametrize("record", [DETACHED, ATTACHED])
def test_document_has_the_same_keys_attached_or_not(record: VolumeRecord) -> None:
    assert set(volume_document(record)) == KEYS


def test_a_fence_that_is_not_cleared_away_is_shown() -> None:
    record = DETACHED.model_copy(update={"fenced": (LEFT,)})
    (left,) = volume_document(record)["fenced"]
    assert (left["host"], left["client_addresses"]) == ("h2", ["10.9.0.12:0/8"])
    assert details_of_record(record)["fenced"] == "10.9.0.12:0/8 on h2, not cleared away yet"
    assert "fenced" not in details_of_record(ATTACHED)


def test_people_see_sizes_and_the_part_that_a_file_system_covers() -> None:
    assert details_of_record(DETACHED)["size"] == "4 GiB"
    part = SPEC.model_copy(update={"filesystem_bytes": 512 * MIB})
    shown = details_of_record(DETACHED.model_copy(update={"spec": part}))
    assert shown["filesystem"] == "xfs, on the first 512 MiB"


def test_live_state_for_people() -> None:
    live = LiveVolume(
        state="stalled",
        state_reason="the cluster does not answer",
        transport_reason="the kernel offers it",
        in_flight=3,
        oldest_in_flight_ms=7012.4,
        kinds={
            "write": KindStatistics(
                operations=10, bytes=40960, errors=2, in_flight=3, p50_us=900.2, p99_us=4100.7
            ),
            "write_zeroes": KindStatistics(
                operations=0, bytes=0, errors=0, in_flight=0, p50_us=None, p99_us=None
            ),
        },
    )
    assert details_of_live(live) == {
        "state": "stalled (the cluster does not answer)",
        "in flight": "3, oldest 7012 ms",
        "transport reason": "the kernel offers it",
        "write": "10 of 40 KiB in all, p50 900 us, p99 4101 us, 2 errors",
    }
    assert details_of_live(None) == {}
    assert json.loads(live.model_dump_json())["kinds"]["write"]["p99_us"] == 4100.7


@pytest.mark.parametrize(
    ("setting", "path"),
    [(None, BUILT_VOLUMED), ("", BUILT_VOLUMED), ("/opt/volumed", Path("/opt/volumed"))],
)
def test_program_is_that_of_the_checkout_unless_told(
    monkeypatch: pytest.MonkeyPatch, setting: str | None, path: Path
) -> None:
    monkeypatch.delenv(VOLUMED_VARIABLE, raising=False)
    if setting is not None:
        monkeypatch.setenv(VOLUMED_VARIABLE, setting)
    assert volumed_program() == path


JOURNAL = JournalStatus(
    state="running",
    epoch=3,
    fill_ratio=0.126,
    held_bytes=8 * MIB,
    used_bytes=32 * MIB,
    capacity_bytes=256 * MIB,
    lag_bytes=40960,
    lag_ms=12.4,
    freed_bytes_per_s=1.5,
    sealed=9,
    replicated=9,
    applied=7,
    trimmed=6,
)


def test_a_journal_for_people() -> None:
    assert details_of_journal(None) == {}
    assert details_of_journal(JOURNAL) == {
        "journal": "running, 13% full",
        "journal holds": "32 MiB of 256 MiB in the cluster, 8 MiB in memory",
        "journal lag": "40 KiB, oldest 12 ms",
    }
    failing = JOURNAL.model_copy(update={"state": "failed", "retrying": "no space"})
    assert details_of_journal(failing)["journal"] == "failed, 13% full, trying again: no space"
    shown = details_of_live(LiveVolume(state="running", journal=JOURNAL))
    assert shown["journal"] == "running, 13% full"


def test_the_write_path_is_shown_with_what_it_may_lose() -> None:
    assert details_of_record(DETACHED)["write path"] == "direct"
    journaled = DETACHED.model_copy(
        update={"spec": SPEC.model_copy(update={"write_path": "journal"})}
    )
    assert volume_document(journaled)["write_path"] == "journal"
    direct, journal = details_of_losses(DETACHED), details_of_losses(journaled)
    assert list(direct) == list(journal) == ["lost if host fails", "lost if copies fail"]
    assert all(
        text.startswith("nothing that was") for text in (*direct.values(), *journal.values())
    )
    assert direct["lost if host fails"] != journal["lost if host fails"]


def test_a_database_shows_its_volumes_write_path() -> None:
    spec = DatabaseSpec(
        name="demo",
        flavour="mysql",
        size_bytes=GIB,
        memory_bytes=GIB,
        cpus=1,
        pool="databases",
        host="h1",
        address="10.9.0.10",
        server_id=1,
        write_path="journal",
    )
    record = DatabaseRecord(
        spec=spec, user="demo", server_version="9.7", buffer_pool_bytes=1, created_at=NOW
    )
    journaled = ATTACHED.model_copy(
        update={"spec": SPEC.model_copy(update={"write_path": "journal"})}
    )
    view = DatabaseView(record=record, status="running", volume=journaled)
    assert database_document(view)["write_path"] == "journal"
    shown = pairs_of_database(view, JOURNAL)
    assert (shown["write path"], shown["journal"]) == ("journal", "running, 13% full")
    assert "after the last flush" in shown["lost if host fails"]
    without = pairs_of_database(DatabaseView(record=record, status="creating", volume=None), None)
    assert "lost if host fails" not in without
