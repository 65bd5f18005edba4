"""The events of a MySQL binary log that say which transactions it holds, and when each committed.

Only event headers are read, and the bodies of three kinds: `Previous_gtids` at the start of a file,
and the GTID event (plain or with a tag) at the start of each transaction. Compressed transactions
have their GTID event outside what is compressed.

Sources: MySQL 9.7, "Binary Log Event Structure", `Gtid_event` and `Previous_gtids_event` in
libs/mysql/binlog/event/control_events.h, and the variable-length integers of
libs/mysql/serialization. Compared with `mysqlbinlog` of 9.7.4.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from uuid import UUID

from grampus.core.errors import GrampusError
from grampus.databases.backup.errors import damaged
from grampus.databases.replicas.gtid_sets import GtidSet

MAGIC, ENCRYPTED_MAGIC = b"\xfebin", b"\xfdbin"
_HEADER = struct.Struct("<IBIIIH")  # time, type, server id, size, end position, flags
_FORMAT_DESCRIPTION, _GTID, _ANONYMOUS, _PREVIOUS, _TAGGED = 15, 33, 34, 35, 42
_READ_WHOLE = (_GTID, _PREVIOUS, _TAGGED)
# Of the body of a plain GTID event: flags, UUID, number, how its logical clock is written, that.
_PLAIN = struct.Struct("<B16sqBqq")
_HAS_ORIGINAL_TIME = 1 << 55  # in the commit time of a plain GTID event, which has 7 bytes
_TIME_BYTES = 7
_COUNT_MASK = (1 << 48) - 1
# Fields of a GTID event with a tag that are read.
_UUID, _NUMBER, _TAG, _COMMITTED, _LENGTH = 1, 2, 3, 6, 8
_SKIPPED_NUMBERS = (0, 4, 5, 7, 9, 10, 11)  # flags, logical clock, times, versions: all integers


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transaction as its GTID event tells of it."""

    source: str  # UUID, with `:TAG` behind it if it has one
    number: int
    committed_us: int  # by the clock of the server that wrote this log, since the Unix epoch
    at_bytes: int  # where it begins in its file
    end_bytes: int  # where it ends

    @property
    def gtid(self) -> str:
        return f"{self.source}:{self.number}"


@dataclass(frozen=True)
class Previous:
    """All transactions that were in the logs before this file, as its start says."""

    transactions: GtidSet
    end_bytes: int  # of the event


class BinlogScanner:
    """Reads one file as its bytes come; it holds one event at most, and only of a kind it reads."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._left = b""  # of what came and was not read yet
        self._left_at = 0  # where that begins in the file
        self._next_at = 0  # where the next event begins

    def feed(self, data: bytes) -> Iterator[Previous | Transaction]:
        """What is in the next bytes. Raises BackupDamagedError, and GrampusError with code
        `binlog-encrypted` or `binlog-anonymous`."""
        data = self._left + data if self._left else data
        if self._next_at == 0:
            if len(data) < len(MAGIC):
                self._left = data
                return
            self._require_magic(data)
            self._next_at = len(MAGIC)
        read_header, header_bytes, came_bytes = _HEADER.unpack_from, _HEADER.size, len(data)
        while (at := self._next_at - self._left_at) + header_bytes <= came_bytes:
            _, kind, _, size_bytes, _, _ = read_header(data, at)
            if size_bytes < _HEADER.size:
                raise damaged(f"{self._name} has no event at byte {self._next_at}")
            if kind in _READ_WHOLE:
                if at + size_bytes > len(data):
                    break
                yield self._read(kind, data[at + _HEADER.size : at + size_bytes], size_bytes)
            elif kind == _ANONYMOUS:
                raise _anonymous(self._name)
            self._next_at += size_bytes
        keep_from = min(self._next_at - self._left_at, len(data))
        self._left, self._left_at = data[keep_from:], self._left_at + keep_from

    def _require_magic(self, data: bytes) -> None:
        if data.startswith(ENCRYPTED_MAGIC):
            raise encrypted(self._name)
        if not data.startswith(MAGIC):
            raise damaged(f"{self._name} does not begin as a binary log")

    def _read(self, kind: int, body: bytes, size_bytes: int) -> Previous | Transaction:
        try:
            if kind == _PREVIOUS:
                return Previous(_parse_previous(body), self._next_at + size_bytes)
            parse = _parse_plain if kind == _GTID else _parse_tagged
            source, number, committed_us, length_bytes = parse(body)
        except (struct.error, IndexError, KeyError, ValueError):
            where = f"{self._name} at byte {self._next_at}"
            raise damaged(f"The event of {where} cannot be read") from None
        return Transaction(
            source, number, committed_us, self._next_at, self._next_at + length_bytes
        )


def encrypted(name: str) -> GrampusError:
    """What is wrong with a log whose events only its server can read."""
    return GrampusError(
        f"The binary log {name} is encrypted by its server, so Grampus cannot read its "
        "transactions.",
        "Reset the parameter `binlog_encryption`, then take a new backup. To encrypt all "
        "data on the volume, create the database with --encrypt.",
        code="binlog-encrypted",
    )


def _anonymous(name: str) -> GrampusError:
    return GrampusError(
        f"The binary log {name} has transactions without a GTID, so Grampus cannot track the "
        "transactions of a restored database.",
        "Restore a backup without later transactions (`--backup ID`), without `--time`.",
        code="binlog-anonymous",
    )


def _parse_plain(body: bytes) -> tuple[str, int, int, int]:
    _, uuid, number, _, _, _ = _PLAIN.unpack_from(body, 0)
    at = _PLAIN.size
    committed = _little(body, at, _TIME_BYTES)
    at += _TIME_BYTES
    if committed & _HAS_ORIGINAL_TIME:
        at += _TIME_BYTES
    return (
        _source(uuid),
        number,
        committed & ~_HAS_ORIGINAL_TIME,
        _packed_integer(body, at),
    )


def _packed_integer(body: bytes, at: int) -> int:
    """An integer of 1, 3, 4 or 9 bytes, as the client protocol writes lengths."""
    sizes = {252: 2, 253: 3, 254: 8}
    first = body[at]
    return first if first < 251 else _little(body, at + 1, sizes[first])


def _parse_tagged(body: bytes) -> tuple[str, int, int, int]:
    """A message of the serialization library: version, size, last needed field, then the fields.

    A field is its number and its value; a field with its default value is left out.
    """
    fields = _Serialized(body)
    fields.unsigned()  # version
    end_at = fields.unsigned()
    fields.unsigned()
    uuid, tag, found = b"", "", dict[int, int]()
    while fields.at < min(end_at, len(body)):
        field = fields.unsigned()
        if field == _UUID:
            uuid = bytes(fields.unsigned() for _ in range(16))
        elif field == _TAG:
            tag = fields.text()
        elif field == _NUMBER:
            found[field] = fields.signed()
        elif field in (_COMMITTED, _LENGTH, *_SKIPPED_NUMBERS):
            found[field] = fields.unsigned()
        else:
            break  # newer ones come last
    source = _source(uuid) + (f":{tag}" if tag else "")
    return source, found[_NUMBER], found[_COMMITTED], found[_LENGTH]


class _Serialized:
    """Reads values of the serialization library one after the other."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self.at = 0

    def unsigned(self) -> int:
        """As many bytes as the first one has 1 bits at its low end, and one more."""
        first = self._body[self.at]
        extra = 0
        while extra < 8 and first >> extra & 1:
            extra += 1
        size = extra + 1
        value = _little(self._body, self.at, size)
        self.at += size
        # Nine bytes have no room for a 0 bit behind the ones.
        return value >> (size if size < 9 else 8)

    def signed(self) -> int:
        value = self.unsigned()
        return -(value >> 1) - 1 if value & 1 else value >> 1

    def text(self) -> str:
        size = self.unsigned()
        self.at += size
        return self._body[self.at - size : self.at].decode("ascii")


def _parse_previous(body: bytes) -> GtidSet:
    """UUID, with tags if the first byte says so, and intervals whose end is outside."""
    (head,) = struct.unpack_from("<Q", body, 0)
    has_tags = bool(head >> 56)
    count = head >> 8 & _COUNT_MASK if has_tags else head
    at = 8
    found: dict[str, tuple[tuple[int, int], ...]] = {}
    for _ in range(count):
        source = str(UUID(bytes=body[at : at + 16]))
        at += 16
        if has_tags:
            reader = _Serialized(body[at : at + 64])
            tag = reader.text()
            at += reader.at
            source += f":{tag}" if tag else ""
        (intervals,) = struct.unpack_from("<Q", body, at)
        at += 8
        bounds = struct.unpack_from(f"<{2 * intervals}Q", body, at)
        at += 16 * intervals
        found[source] = tuple(
            (first, end - 1) for first, end in zip(bounds[::2], bounds[1::2], strict=True)
        )
    return found


@lru_cache
def _source(uuid: bytes) -> str:
    return str(UUID(bytes=uuid))


def _little(body: bytes, at: int, size: int) -> int:
    if at + size > len(body):
        raise IndexError(at)
    return int.from_bytes(body[at : at + size], "little")
