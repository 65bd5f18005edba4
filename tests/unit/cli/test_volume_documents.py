"""What `grampus volume show` says, to people and to programs."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from grampus.cli.db import database_document
from grampus.cli.journal_details import (
    describe_replayed,
    details_of_counts,
    details_of_journal,
    details_of_read_cache,
)
from grampus.cli.overview import pairs_of_server, pairs_of_volume
from grampus.cli.volume import (
    details_of_asides,
    details_of_live,
    details_of_record,
    losses_document,
    require_something_to_set,
    volume_document,
)
from grampus.core.errors import UsageError
from grampus.core.installation import INSTALLATION, VOLUMED_VARIABLE, find_volumed
from grampus.core.units import GIB, MIB
from grampus.databases.growth.decide_growth import FileSystem
from grampus.databases.layout import MYSQL_UID
from grampus.databases.model import DatabaseRecord
from grampus.databases.view import DatabaseView
from grampus.volumes.journals import Replayed
from grampus.volumes.live import (
    JournalCounts,
    JournalStatus,
    KindStatistics,
    LiveVolume,
    ReadCacheStatus,
)
from grampus.volumes.local_logs import Aside
from grampus.volumes.model import (
    Attachment,
    FencedAttachment,
    LocalLog,
    VolumeRecord,
    VolumeSpec,
)
from grampus.volumes.write_paths import describe_safety, parse_write_options
from tests.fakes.specs import database_spec

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
    *("external_log_bytes", "log_device"),
    *("client_address", "fenced", "write_path", "max_lag_ms", "encryption", "local_logs"),
    *("journal_memory_bytes", "journal_pool"),
}


@pytest.mark.parametrize("record", [DETACHED, ATTACHED])
def test_document_has_the_same_keys_attached_or_not(record: VolumeRecord) -> None:
    assert set(volume_document(record)) == KEYS


def test_a_fence_that_is_not_cleared_away_is_shown() -> None:
    record = DETACHED.model_copy(update={"fenced": (LEFT,)})
    (left,) = volume_document(record)["fenced"]
    assert (left["host"], left["client_addresses"]) == ("h2", ["10.9.0.12:0/8"])
    assert details_of_record(record)["fenced"] == "10.9.0.12:0/8 on h2, not removed yet"
    assert "fenced" not in details_of_record(ATTACHED)


def test_people_see_sizes_and_the_part_that_a_file_system_covers() -> None:
    assert details_of_record(DETACHED)["size"] == "4 GiB"
    part = SPEC.model_copy(update={"filesystem_bytes": 512 * MIB})
    shown = details_of_record(DETACHED.model_copy(update={"spec": part}))
    assert shown["filesystem"] == "xfs, on the first 512 MiB"
    apart = SPEC.model_copy(update={"external_log_bytes": 64 * MIB})
    shown = details_of_record(DETACHED.model_copy(update={"spec": apart}))
    assert shown["filesystem"] == "xfs, with an external log in the first 64 MiB"
    assert "external_log_bytes" not in shown


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
            "read": KindStatistics(
                operations=1000, bytes=4096000, errors=0, in_flight=0, p50_us=900.2, p99_us=4100.7
            ),
            "write_zeroes": KindStatistics(
                operations=0, bytes=0, errors=0, in_flight=0, p50_us=None, p99_us=None
            ),
        },
    )
    assert details_of_live(live) == {
        "state": "stalled (the cluster does not answer)",
        "in flight": "3, oldest 7 s",
        "transport reason": "the kernel offers it",
        "write": "10 of 40 KiB in all, p50 900 us, 2 errors",
        "read": "1000 of 3.9 MiB in all, p50 900 us, p99 4101 us",
    }
    assert details_of_live(None) == {}
    assert json.loads(live.model_dump_json())["kinds"]["write"]["p99_us"] == 4100.7


@pytest.mark.parametrize(
    ("setting", "path"),
    [
        (None, INSTALLATION.volumed),
        ("", INSTALLATION.volumed),
        ("/opt/volumed", Path("/opt/volumed")),
    ],
)
def test_program_is_that_of_the_installation_unless_told(
    monkeypatch: pytest.MonkeyPatch, setting: str | None, path: Path
) -> None:
    monkeypatch.delenv(VOLUMED_VARIABLE, raising=False)
    if setting is not None:
        monkeypatch.setenv(VOLUMED_VARIABLE, setting)
    assert find_volumed() == path


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


def test_a_replay_for_people() -> None:
    for replayed, said in (
        (Replayed(), "The journal was empty. The image is complete."),
        (
            Replayed(replayed_frames=3, replayed_bytes=12288),
            "Applied 3 frames of the journal, 12 KiB. The image is complete.",
        ),
        (
            Replayed(replayed_frames=3, replayed_bytes=12288, given_up="batch 7 is missing"),
            "Applied 3 frames of the journal, 12 KiB. The rest is lost: batch 7 is missing. "
            "Check the file system before you use the volume.",
        ),
    ):
        assert describe_replayed(replayed) == said


def test_a_journal_for_people() -> None:
    assert details_of_journal(None) == {}
    assert details_of_journal(JOURNAL) == {
        "journal": "running, 13% full",
        "journal holds": "32 MiB of 256 MiB in the cluster, 8 MiB in memory",
        "journal lag": "40 KiB, oldest 12 ms",
    }
    silent = JOURNAL.model_copy(update={"silent_ms": 75_300.0})
    said = "running, 13% full, no answer from the cluster for 75 s"
    assert details_of_journal(silent)["journal"] == said
    brief = JOURNAL.model_copy(update={"silent_ms": 900.0})
    assert details_of_journal(brief) == details_of_journal(JOURNAL)
    failing = JOURNAL.model_copy(update={"state": "failed", "retrying": "no space"})
    assert details_of_journal(failing)["journal"] == "failed, 13% full, retrying: no space"
    shown = details_of_live(LiveVolume(state="running", journal=JOURNAL))
    assert shown["journal"] == "running, 13% full"


def test_the_write_path_is_shown_with_what_it_may_lose() -> None:
    assert details_of_record(DETACHED)["write path"] == "direct"
    assert describe_safety(SPEC) == (
        "direct; a lost host loses no completed write (docs/guide/write-paths.md)"
    )
    journaled = DETACHED.model_copy(
        update={"spec": SPEC.model_copy(update={"write_path": "journal"})}
    )
    assert volume_document(journaled)["write_path"] == "journal"
    direct, journal = losses_document("direct", 100), losses_document("journal", 100)
    assert list(direct) == ["lost_if_host_fails", "lost_if_disk_fails", "lost_if_copies_fail"]
    assert list(journal) == list(direct)
    assert direct["lost_if_host_fails"] != journal["lost_if_host_fails"]


def test_a_database_shows_its_volumes_write_path() -> None:
    spec = database_spec(name="demo", size_bytes=GIB, server_id=1, write_path="journal")
    record = DatabaseRecord(
        spec=spec, user="demo", server_version="9.7", buffer_pool_bytes=1, created_at=NOW
    )
    journaled = ATTACHED.model_copy(
        update={"spec": SPEC.model_copy(update={"write_path": "journal"})}
    )
    view = DatabaseView(record=record, status="running", volume=journaled)
    assert database_document(view)["write_path"] == "journal"
    room = FileSystem(size_bytes=2**30, free_bytes=2**28)
    shown = pairs_of_volume(view, LiveVolume(state="running", journal=JOURNAL), room)
    assert shown["write path"] == (
        "journal; a lost host loses no commit (docs/guide/write-paths.md)"
    )
    assert shown["journal"] == "running, 13% full"
    assert shown["space"] == "75% of 1 GiB used, 256 MiB free"
    server = pairs_of_server(view, {"up": "1 min"}, {"read-only": "there"})
    shown_first = ["status", "up", "server", "address", "address kind", "read-only"]
    assert list(server)[1:7] == shown_first
    assert "runs as" not in server
    own = replace(view, server_uid=2027225445)
    assert database_document(own)["server_uid"] == 2027225445
    assert pairs_of_server(own, {}, {})["runs as"] == "user 2027225445, only of this server"
    shared = pairs_of_server(replace(view, server_uid=MYSQL_UID), {}, {})
    assert shared["runs as"].startswith("user 64050, shared with other servers")
    full = pairs_of_volume(view, None, FileSystem(size_bytes=2**30, free_bytes=2**20))
    assert full["space"].endswith("1 MiB free: full, so all writes wait")
    young = DatabaseView(record=record, status="creating", volume=None)
    without = pairs_of_volume(young, None, None)
    assert set(without) == {"write path"}


CACHED = DETACHED.model_copy(
    update={
        "spec": SPEC.model_copy(update={"write_path": "cache", "max_lag_ms": 250}),
        "local_logs": (LocalLog(host="h1", state="fenced"), LocalLog(host="h2")),
    }
)


def test_cache_says_how_far_the_cluster_may_be_behind_and_where_its_logs_are() -> None:
    document = volume_document(CACHED)
    assert (document["write_path"], document["max_lag_ms"]) == ("cache", 250)
    assert document["local_logs"] == [
        {"host": "h1", "state": "fenced"},
        {"host": "h2", "state": "current"},
    ]
    assert volume_document(DETACHED)["max_lag_ms"] is None
    shown = details_of_record(CACHED)
    assert shown["write path"] == "cache, at most 250 ms behind"
    assert "; a lost host can lose the commits of the last 250 ms (" in describe_safety(CACHED.spec)
    assert shown["logs on hosts"].startswith("h1 (from before the fence")
    assert "h2 (can have commits that the cluster lacks)" in shown["logs on hosts"]
    attached = CACHED.model_copy(update={"host": "h2", "attachment": ATTACHMENT})
    assert details_of_record(attached)["logs on hosts"].endswith(", h2")
    assert not {"logs on hosts", "max lag ms", "local logs"} & set(details_of_record(DETACHED))
    assert "last 250 ms" in losses_document("cache", 250)["lost_if_host_fails"]


def test_a_cache_for_people() -> None:
    cache = JOURNAL.model_copy(
        update={
            "mode": "cache",
            "local_used_bytes": 8 * MIB,
            "local_capacity_bytes": 256 * MIB,
            "max_lag_ms": 100.0,
        }
    )
    shown = details_of_journal(cache)
    assert shown["journal lag"] == "40 KiB, oldest 12 ms, of at most 100 ms"
    assert shown["log on host"] == "8 MiB of 256 MiB"
    assert "degraded" not in shown
    assert "left behind" not in shown
    without = cache.model_copy(update={"left_behind": "h1:/data/cache/v/log"})
    assert details_of_journal(without)["left behind"].startswith("the log h1:/data/cache/v/log was")
    failed = cache.model_copy(update={"mode": "journal", "degraded": "Input/output error"})
    assert details_of_journal(failed)["degraded"] == (
        "works as with the write path journal, not cache: Input/output error"
    )


def test_what_a_journal_has_done_for_people() -> None:
    assert details_of_counts(None) == details_of_counts(JournalCounts()) == {}
    counts = JournalCounts(
        changes=100,
        change_bytes=MIB,
        batches=4,
        append_bytes=MIB,
        appends=5,
        applies=20,
        coalesced_settled_bytes=MIB // 4,
        delayed=3,
    )
    assert details_of_counts(counts)["batches"] == (
        "4 of 256 KiB, 25% of all bytes overwritten before the image, "
        "0.25 writes to RADOS for each write, 3 writes had to wait"
    )
    shown = details_of_live(LiveVolume(state="running", journal=JOURNAL, journal_counts=counts))
    assert shown["batches"].startswith("4 of")


@pytest.mark.parametrize(
    ("cache", "shown"),
    [
        (ReadCacheStatus(on=False, off_reason="no room"), "off (no room)"),
        (ReadCacheStatus(on=False), "off (no reason given)"),
        (
            ReadCacheStatus(on=True, capacity_bytes=GIB, used_bytes=MIB),
            "nothing read yet, 1 MiB of 1 GiB",
        ),
        (
            ReadCacheStatus(on=True, capacity_bytes=GIB, used_bytes=GIB, hits=3, misses=1),
            "75% of reads hit, 1 GiB of 1 GiB",
        ),
        (
            ReadCacheStatus(on=True, capacity_bytes=GIB, hits=1, checksum_failures=2),
            "100% of reads hit, 0 B of 1 GiB, 2 checksums failed",
        ),
    ],
)
def test_a_read_cache_for_people(cache: ReadCacheStatus, shown: str) -> None:
    assert details_of_read_cache(cache) == {"read cache": shown}
    live = details_of_live(LiveVolume(state="running", read_cache=cache))
    assert live["read cache"] == shown
    assert details_of_read_cache(None) == {}


def test_logs_set_aside_are_named_with_their_host() -> None:
    assert details_of_asides([]) == {}
    shown = details_of_asides([Aside("h1", "/d/log.aside-1-1"), Aside("h2", "/d/log.aside-2-1")])
    assert shown["set aside"].startswith("/d/log.aside-1-1 on h1, /d/log.aside-2-1 on h2: each")


def test_options_of_a_write_path() -> None:
    nothing = {"max_lag_ms": None, "journal_memory_bytes": None, "journal_pool": None}
    assert parse_write_options(None, None) == (None, nothing)
    assert parse_write_options("cache", "0.5s") == ("cache", nothing | {"max_lag_ms": 500})
    path, bounds = parse_write_options("journal", None, "64M")
    assert (path, bounds.get("journal_memory_bytes")) == ("journal", 64 << 20)
    for text in ("15M", "1025M"):
        with pytest.raises(UsageError, match=r"A journal memory of .* is too") as caught:
            parse_write_options(None, None, text)
        assert caught.value.remedy == "Choose 16 MiB to 1 GiB."
    with pytest.raises(UsageError, match="'cahce' is not a write path") as caught:
        parse_write_options("cahce", None)
    assert caught.value.remedy == "Did you mean 'cache'?"
    with pytest.raises(UsageError, match="nothing to set"):
        require_something_to_set(None, parse_write_options(None, None)[1])
    require_something_to_set("direct", {})
    require_something_to_set(None, {"max_lag_ms": 100})
    require_something_to_set(None, {"journal_memory_bytes": 64 << 20})
    require_something_to_set(None, {"journal_pool": "flash"})


def test_the_memory_of_a_journal_is_shown() -> None:
    assert volume_document(DETACHED)["journal_memory_bytes"] is None
    assert volume_document(CACHED)["journal_memory_bytes"] == 256 * MIB
    spec = CACHED.spec.model_copy(update={"journal_memory_bytes": 64 * MIB})
    record = CACHED.model_copy(update={"spec": spec})
    assert volume_document(record)["journal_memory_bytes"] == 64 * MIB
    shown = details_of_record(record)["write path"]
    assert shown == "cache, at most 250 ms behind, at most 64 MiB of memory for its journal"
