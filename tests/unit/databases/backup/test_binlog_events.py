"""What binary logs say of their transactions; the events were written by MySQL 9.7.4."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from grampus.core.errors import GrampusError
from grampus.databases.backup.binlog_events import (
    MAGIC,
    BinlogScanner,
    Previous,
    Transaction,
)
from grampus.databases.backup.errors import BackupDamagedError

from .made_binlogs import SERVER, begin, event, transaction

NOW = datetime(2026, 11, 27, 4, 0, 0, tzinfo=UTC)
UUID = "92902247-ea15-11f1-a9aa-02fc00000001"
_UUID = "92902247ea1511f1a9aa02fc00000001"
PLAIN = f"01{_UUID}01000000000000000200000000000000000100000000000000951044f7396106b0506201"
WITH_ORIGINAL_TIME = (
    f"00{_UUID}0500000000000000020000000000000000010000000000000030db44f7396186"
    "01000000000000" + "fc2301" + "506201"
)
TAGGED = (
    "02740000000249024102448ea9032a22c503a502a90204f103000000020404060a6d7974616708180a700c7ff17d"
    "79f739610610690412831204"
)
PREVIOUS_TAGGED = (
    f"0102000000000001{_UUID}00010000000000000001000000000000002000000000000000"
    f"{_UUID}0a6d7974616701000000000000000100000000000000" + "0200000000000000"
)
COMMITTED_US = 1795751449727125


def scan(log: bytes, *, chunk: int = 1 << 20) -> list[Previous | Transaction]:
    scanner = BinlogScanner("binlog.000001")
    return [
        found for at in range(0, len(log), chunk) for found in scanner.feed(log[at : at + chunk])
    ]


@pytest.mark.parametrize(
    ("kind", "body", "source", "number", "length"),
    [
        (33, PLAIN, UUID, 1, 176),
        (33, WITH_ORIGINAL_TIME, UUID, 5, 0x123),
        (42, TAGGED, f"{UUID}:mytag", 1, 282),
    ],
)
def test_transaction_has_its_gtid_commit_time_and_length(
    kind: int, body: str, source: str, number: int, length: int
) -> None:
    (found,) = scan(MAGIC + event(kind, bytes.fromhex(body)))
    assert isinstance(found, Transaction)
    assert (found.source, found.number, found.at_bytes) == (source, number, 4)
    assert found.end_bytes == 4 + length
    moment = datetime.fromtimestamp(found.committed_us / 1e6, tz=UTC)
    assert moment.strftime("%Y-%m-%d %H:%M") == "2026-11-27 03:50"


def test_commit_time_is_to_the_microsecond() -> None:
    (found,) = scan(MAGIC + event(33, bytes.fromhex(PLAIN)))
    assert isinstance(found, Transaction)
    assert found.committed_us == COMMITTED_US


def test_previous_transactions_with_tags() -> None:
    (found,) = scan(MAGIC + event(35, bytes.fromhex(PREVIOUS_TAGGED)))
    assert isinstance(found, Previous)
    assert found.transactions == {UUID: ((1, 31),), f"{UUID}:mytag": ((1, 1),)}


@pytest.mark.parametrize("chunk", [1, 7, 64, 100_000])
def test_log_reads_the_same_however_it_comes(chunk: int) -> None:
    log = begin({SERVER: (1, 4)}) + transaction(5, NOW, "a" * 900) + transaction(6, NOW, "b")
    found = scan(log, chunk=chunk)
    assert isinstance(found[0], Previous)
    assert found[0].transactions == {SERVER: ((1, 4),)}
    assert [one.gtid for one in found[1:] if isinstance(one, Transaction)] == [
        f"{SERVER}:5",
        f"{SERVER}:6",
    ]
    last = found[-1]
    assert isinstance(last, Transaction)
    assert last.end_bytes == len(log)


@pytest.mark.parametrize(
    ("log", "code"),
    [
        (b"\xfdbin" + bytes(600), "binlog-encrypted"),
        (b"nothing of the kind", "backup-damaged"),
        (MAGIC + event(34, bytes(60)), "binlog-anonymous"),
        (MAGIC + event(33, bytes(10)), "backup-damaged"),
        (MAGIC + event(42, b"\xff\xff"), "backup-damaged"),
        (MAGIC + event(35, b"\x01"), "backup-damaged"),
        (MAGIC + bytes(40), "backup-damaged"),
    ],
)
def test_what_cannot_be_read_is_an_error(log: bytes, code: str) -> None:
    with pytest.raises(GrampusError) as caught:
        scan(log)
    assert caught.value.code == code
    assert isinstance(caught.value, BackupDamagedError) or code != "backup-damaged"
