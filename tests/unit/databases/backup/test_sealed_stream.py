from __future__ import annotations

import hashlib
import io
import random
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grampus.databases.backup.errors import BackupDamagedError
from grampus.databases.backup.keys import BackupKey
from grampus.databases.backup.sealed_stream import (
    SALT_BYTES,
    SealedWriter,
    StreamDigest,
    StreamFacts,
    read_sealed,
)

KEY = BackupKey(bytes(range(32)))
CHUNK_BYTES = 100
HEADER_BYTES = 44
NOISE = random.Random(5).randbytes(350)  # noqa: S311 - any bytes that do not compress


class Trickle:
    """Gives what it has in small pieces, as a pipe may."""

    def __init__(self, content: bytes) -> None:
        self._file = io.BytesIO(content)

    def read(self, size_bytes: int, /) -> bytes:
        return self._file.read(min(size_bytes, 7))


def seal(
    content: bytes, *, context: str = "shop/1", key: BackupKey = KEY, salt: bytes | None = None
) -> tuple[bytes, StreamFacts]:
    sink = io.BytesIO()
    writer = SealedWriter(sink, key, context, chunk_bytes=CHUNK_BYTES, salt=salt)
    for start in range(0, len(content), 33):
        writer.write(content[start : start + 33])
    facts = writer.finish()
    return sink.getvalue(), facts


def unseal(sealed: bytes, *, context: str = "shop/1", key: BackupKey = KEY) -> bytes:
    return b"".join(read_sealed(io.BytesIO(sealed), [key], context))


def test_stream_is_read_with_whichever_key_sealed_it() -> None:
    sealed, _ = seal(NOISE, key=KEY)
    others = [BackupKey.make(), KEY, BackupKey.make()]
    assert b"".join(read_sealed(io.BytesIO(sealed), others, "shop/1")) == NOISE
    with pytest.raises(BackupDamagedError, match="Chunk 0"):
        list(read_sealed(io.BytesIO(sealed), [BackupKey.make()], "shop/1"))


def test_chunks_of_one_stream_are_sealed_with_one_key() -> None:
    other = BackupKey.make()
    salt = bytes(32)
    whole, _ = seal(NOISE, key=KEY, salt=salt)
    foreign, _ = seal(NOISE, key=other, salt=salt)
    first, *rest = chunks_of(foreign)
    mixed = whole[:HEADER_BYTES] + chunks_of(whole)[0] + b"".join(rest)
    assert first
    with pytest.raises(BackupDamagedError, match="Chunk 1"):
        list(read_sealed(io.BytesIO(mixed), [KEY, other], "shop/1"))


def chunks_of(sealed: bytes) -> list[bytes]:
    """The chunks with their length fields."""
    found, at = [], HEADER_BYTES
    while at < len(sealed):
        (length,) = struct.unpack_from(">I", sealed, at)
        found.append(sealed[at : at + 4 + length])
        at += 4 + length
    return found


@pytest.mark.parametrize("size", [0, 1, 99, 100, 101, 200, 350])
def test_what_was_sealed_comes_back(size: int) -> None:
    content = NOISE[:size]
    sealed, facts = seal(content)
    assert unseal(sealed) == content
    assert facts == StreamFacts(
        plain_bytes=size,
        plain_sha256=hashlib.sha256(content).hexdigest(),
        stored_bytes=len(sealed),
        stored_sha256=hashlib.sha256(sealed).hexdigest(),
        chunks=max(1, -(-size // CHUNK_BYTES)),
    )


@given(st.binary(max_size=1000))
def test_any_content_comes_back_in_pieces(content: bytes) -> None:
    sealed, _ = seal(content)
    assert b"".join(read_sealed(Trickle(sealed), [KEY], "shop/1")) == content


def test_what_repeats_is_compressed_and_nothing_shows_through() -> None:
    sealed, facts = seal(b"secret" * 1000)
    assert facts.stored_bytes < facts.plain_bytes / 1.5
    assert b"secret" not in sealed


def test_same_content_is_never_sealed_alike() -> None:
    assert seal(b"page")[0][HEADER_BYTES:] != seal(b"page")[0][HEADER_BYTES:]


@pytest.mark.parametrize("at", [0, 7, 8, 39, 40, 43, 44, 48, 100, -1])
def test_any_flipped_bit_is_found(at: int) -> None:
    sealed, _ = seal(NOISE)
    changed = bytearray(sealed)
    changed[at] ^= 1
    with pytest.raises(BackupDamagedError):
        unseal(bytes(changed))


def test_any_cut_is_found() -> None:
    sealed, _ = seal(NOISE)
    for length in range(len(sealed)):
        with pytest.raises(BackupDamagedError):
            unseal(sealed[:length])


def test_what_follows_the_end_is_found() -> None:
    sealed, _ = seal(NOISE)
    with pytest.raises(BackupDamagedError, match="after its end"):
        unseal(sealed + b"x")


@pytest.mark.parametrize(
    "order",
    [
        (1, 0, 2, 3),
        (0, 0, 1, 2, 3),
        (0, 1, 3),
        (0, 1, 2),
        (3,),
        (0, 1, 2, 2),
    ],
)
def test_chunks_left_out_doubled_or_moved_are_found(order: tuple[int, ...]) -> None:
    sealed, _ = seal(NOISE)
    chunks = chunks_of(sealed)
    assert len(chunks) == 4
    with pytest.raises(BackupDamagedError):
        unseal(sealed[:HEADER_BYTES] + b"".join(chunks[number] for number in order))


def test_chunk_of_another_stream_is_found() -> None:
    one, _ = seal(NOISE)
    other, _ = seal(NOISE)
    ours, theirs = chunks_of(one), chunks_of(other)
    with pytest.raises(BackupDamagedError, match="Chunk 1"):
        unseal(one[:HEADER_BYTES] + ours[0] + theirs[1] + ours[2] + ours[3])


def test_stream_of_another_backup_or_key_is_found() -> None:
    # Even with the same salt: the context is part of the key.
    salt = bytes(SALT_BYTES)
    sealed, _ = seal(NOISE, context="shop/2", salt=salt)
    with pytest.raises(BackupDamagedError, match="Chunk 0"):
        unseal(sealed, context="shop/1")
    with pytest.raises(BackupDamagedError, match="Chunk 0"):
        unseal(sealed, context="shop/2", key=BackupKey(bytes(32)))


@pytest.mark.parametrize("chunk_bytes", [0, 2**32 - 1])
def test_chunk_size_that_would_fill_memory_is_not_believed(chunk_bytes: int) -> None:
    sealed, _ = seal(NOISE)
    with pytest.raises(BackupDamagedError, match="its chunks"):
        unseal(sealed[:40] + struct.pack(">I", chunk_bytes) + sealed[44:])


def test_length_that_would_fill_memory_is_not_believed() -> None:
    sealed, _ = seal(NOISE)
    with pytest.raises(BackupDamagedError, match="says that it has"):
        unseal(sealed[:HEADER_BYTES] + struct.pack(">I", 2**31) + sealed[48:])


def test_nothing_is_given_out_that_is_not_authentic() -> None:
    sealed, _ = seal(NOISE)
    changed = bytearray(sealed)
    changed[-1] ^= 1
    given_out = []
    with pytest.raises(BackupDamagedError, match="Chunk 3"):
        given_out += list(read_sealed(io.BytesIO(changed), [KEY], "shop/1"))
    stream = read_sealed(io.BytesIO(changed), [KEY], "shop/1")
    assert b"".join(next(stream) for _ in range(3)) == NOISE[:300]


def test_digest_is_of_what_passed() -> None:
    digest = StreamDigest(io.BytesIO(b"abc"))
    assert digest.read(2) + digest.read(9) == b"abc"
    assert (digest.size_bytes, digest.sha256) == (3, hashlib.sha256(b"abc").hexdigest())
