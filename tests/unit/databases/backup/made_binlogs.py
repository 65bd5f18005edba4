"""Binary logs made up byte by byte, as MySQL 9.7 writes them."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from datetime import datetime
from uuid import UUID

from grampus.databases.backup.replay_plan import to_us

SERVER = "4f958cc3-e615-11f1-956b-223fda4be3b2"
MAGIC = b"\xfebin"
_CHECKSUM = b"sum."
QUERY, FORMAT, GTID, PREVIOUS = 2, 15, 33, 35


def event(kind: int, body: bytes, *, at_s: int = 1_795_000_000) -> bytes:
    size = 19 + len(body) + len(_CHECKSUM)
    return struct.pack("<IBIIIH", at_s, kind, 1, size, 0, 0) + body + _CHECKSUM


def begin(
    previous: Mapping[str, tuple[int, int]] | None = None, *, at_s: int = 1_795_000_000
) -> bytes:
    """The start of a log: the transactions before it are those, by source first and last one."""
    body = struct.pack("<Q", len(previous or {}))
    for source, (first, last) in (previous or {}).items():
        body += UUID(source).bytes + struct.pack("<QQQ", 1, first, last + 1)
    return MAGIC + event(FORMAT, b"9.7.4", at_s=at_s) + event(PREVIOUS, body, at_s=at_s)


def transaction(
    number: int, committed: datetime, row: str = "", *, source: str = SERVER, at_s: int = 1
) -> bytes:
    """It inserts a row of that text. `at_s` is the time that a session may set."""
    statement = event(QUERY, row.encode(), at_s=at_s)
    length = 19 + 42 + 7 + 3 + len(_CHECKSUM) + len(statement)
    body = (
        struct.pack("<B16sqBqq", 0, UUID(source).bytes, number, 2, 0, 1)
        + to_us(committed).to_bytes(7, "little")
        + b"\xfc"
        + struct.pack("<H", length)
    )
    made = event(GTID, body, at_s=at_s) + statement
    assert len(made) == length
    return made


def rows_of(log: bytes) -> list[tuple[str, str]]:
    """GTID and row of each whole transaction in it."""
    found: list[tuple[str, str]] = []
    at, gtid = 4, ""
    while at + 19 <= len(log):
        _, kind, _, size, _, _ = struct.unpack_from("<IBIIIH", log, at)
        body = log[at + 19 : at + size - len(_CHECKSUM)]
        if kind == GTID:
            gtid = f"{UUID(bytes=body[1:17])}:{int.from_bytes(body[17:25], 'little')}"
        elif kind == QUERY and at + size <= len(log):
            found.append((gtid, body.decode()))
        at += size
    return found
