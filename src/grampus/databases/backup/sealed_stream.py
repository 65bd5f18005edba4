"""A stream of bytes as it is kept: in chunks, compressed, encrypted, each of them authentic.

Layout, numbers big-endian:

    header  magic (8 bytes), salt (32 bytes), chunk size in bytes (4 bytes)
    chunk   length of what follows (4 bytes), AES-256-GCM of a zstd frame with its tag

Each stream has a key of its own (HKDF of the backup key, the salt and the stream's context), so a
nonce may be the chunk's number; the byte after it says whether it is the last one, as in the STREAM
construction (Hoang, Reyhanitabar, Rogaway, Vizár: Online Authenticated-Encryption and its
Nonce-Reuse Misuse-Resistance, 2015). The header is authenticated with every chunk. So a chunk that
was changed, left out, doubled, moved, or taken from another stream is found, and so is an end that
was cut off. Every stream has a last chunk, which may be empty.
"""

from __future__ import annotations

import hashlib
import itertools
import secrets
import struct
from collections.abc import Iterator, Sequence

import zstandard
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from pydantic import ConfigDict

from grampus.core.models import Model
from grampus.core.streams import ByteReader, ByteWriter
from grampus.core.units import MIB
from grampus.databases.backup.errors import damaged
from grampus.databases.backup.keys import BackupKey

MAGIC = b"GRAMPUS1"
SALT_BYTES = 32
_HEADER = struct.Struct(f">8s{SALT_BYTES}sI")
_LENGTH = struct.Struct(">I")
# Big enough that zstd finds what repeats between pages, small enough to hold a few of them.
CHUNK_BYTES = 4 * MIB
_MAX_CHUNK_BYTES = 64 * MIB
# What a frame that zstd could not make smaller adds, and the tag; far more than either takes.
_MAX_OVERHEAD_BYTES = 64 * 1024
# 3 is zstd's own default: about 300 MB/s a core, which a pool rarely outruns.
_COMPRESSION_LEVEL = 3


class StreamFacts(Model):
    """What a sealed stream holds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    plain_bytes: int
    plain_sha256: str
    stored_bytes: int
    stored_sha256: str
    chunks: int


class SealedWriter:
    """Seals what is written to it into `sink`; `finish` writes the last chunk.

    `context` says what the stream is; it must be the same when the stream is read.
    """

    def __init__(
        self,
        sink: ByteWriter,
        key: BackupKey,
        context: str,
        *,
        chunk_bytes: int = CHUNK_BYTES,
        salt: bytes | None = None,
    ) -> None:
        """`salt`: 32 random bytes, never used before with this key and context."""
        salt = salt or secrets.token_bytes(SALT_BYTES)
        self._sink = sink
        self._header = _HEADER.pack(MAGIC, salt, chunk_bytes)
        self._cipher = _cipher(key, context, salt)
        self._chunk_bytes = chunk_bytes
        self._compressor = zstandard.ZstdCompressor(
            level=_COMPRESSION_LEVEL, write_content_size=True
        )
        self._held = bytearray()
        self._number = 0
        self._plain_bytes = 0
        self._stored_bytes = 0
        self._plain_digest = hashlib.sha256()
        self._stored_digest = hashlib.sha256()
        self._store(self._header)

    @property
    def plain_bytes(self) -> int:
        """How much was written."""
        return self._plain_bytes

    @property
    def stored_bytes(self) -> int:
        """How much went to the sink."""
        return self._stored_bytes

    def write(self, data: bytes) -> None:
        """Take `data`; whole chunks go to the sink."""
        self._plain_bytes += len(data)
        self._plain_digest.update(data)
        self._held += data
        # One chunk stays: the last one must be told from the others.
        while len(self._held) > self._chunk_bytes:
            chunk = bytes(self._held[: self._chunk_bytes])
            del self._held[: self._chunk_bytes]
            self._seal(chunk, is_last=False)

    def finish(self) -> StreamFacts:
        """Write what is left as the last chunk; nothing may be written after it."""
        self._seal(bytes(self._held), is_last=True)
        self._held.clear()
        return StreamFacts(
            plain_bytes=self._plain_bytes,
            plain_sha256=self._plain_digest.hexdigest(),
            stored_bytes=self._stored_bytes,
            stored_sha256=self._stored_digest.hexdigest(),
            chunks=self._number,
        )

    def _seal(self, chunk: bytes, *, is_last: bool) -> None:
        nonce = _nonce(self._number, is_last=is_last)
        sealed = self._cipher.encrypt(nonce, self._compressor.compress(chunk), self._header)
        self._store(_LENGTH.pack(len(sealed)) + sealed)
        self._number += 1

    def _store(self, data: bytes) -> None:
        self._sink.write(data)
        self._stored_digest.update(data)
        self._stored_bytes += len(data)


def read_sealed(source: ByteReader, keys: Sequence[BackupKey], context: str) -> Iterator[bytes]:
    """The bytes that were sealed, a chunk at a time, each authentic when it is given out.

    The first of `keys` that opens the first chunk must open all of them.

    What was given out is the whole only when the iterator ends by itself. Raises
    BackupDamagedError where the stream is not what was written, also when it ends too early or
    goes on after its end.
    """
    header = _read(source, _HEADER.size)
    if len(header) < _HEADER.size or not header.startswith(MAGIC):
        raise damaged(f"{context} does not begin as a sealed stream")
    _, salt, chunk_bytes = _HEADER.unpack(header)
    if not 0 < chunk_bytes <= _MAX_CHUNK_BYTES:
        raise damaged(f"{context} says that its chunks have {chunk_bytes} bytes")
    ciphers = [_cipher(key, context, salt) for key in keys]
    decompressor = zstandard.ZstdDecompressor()
    number, is_last = 0, False
    while not is_last:
        sealed = _read_chunk(source, context, number, chunk_bytes + _MAX_OVERHEAD_BYTES)
        cipher, plain, is_last = _open(ciphers, sealed, header, context, number)
        ciphers = [cipher]
        try:
            yield decompressor.decompress(plain, max_output_size=chunk_bytes)
        except zstandard.ZstdError:
            raise damaged(f"Chunk {number} of {context} cannot be decompressed") from None
        number += 1
    if source.read(1):
        raise damaged(f"{context} has data after its end")


class StreamDigest:
    """Reads through to `source`, counting and digesting what passes."""

    def __init__(self, source: ByteReader) -> None:
        self._source = source
        self._digest = hashlib.sha256()
        self.size_bytes = 0

    def read(self, size_bytes: int, /) -> bytes:
        """As that of the source."""
        data = self._source.read(size_bytes)
        self._digest.update(data)
        self.size_bytes += len(data)
        return data

    @property
    def sha256(self) -> str:
        """Of all that was read."""
        return self._digest.hexdigest()


def _read_chunk(source: ByteReader, context: str, number: int, highest: int) -> bytes:
    length_field = _read(source, _LENGTH.size)
    if len(length_field) < _LENGTH.size:
        raise damaged(f"{context} ends before its last chunk, after {number} of them")
    (length,) = _LENGTH.unpack(length_field)
    # Before anything of that size is asked for: the field itself is not authenticated.
    if length > highest:
        raise damaged(f"Chunk {number} of {context} says that it has {length} bytes")
    sealed = _read(source, length)
    if len(sealed) < length:
        raise damaged(f"{context} ends within chunk {number}")
    return sealed


def _open(
    ciphers: Sequence[AESGCM], sealed: bytes, header: bytes, context: str, number: int
) -> tuple[AESGCM, bytes, bool]:
    for cipher, is_last in itertools.product(ciphers, (False, True)):
        try:
            plain = cipher.decrypt(_nonce(number, is_last=is_last), sealed, header)
        except InvalidTag:
            continue
        return cipher, plain, is_last
    raise damaged(f"Chunk {number} of {context} does not match its checksum")


def _read(source: ByteReader, size_bytes: int) -> bytes:
    """So many bytes, fewer only at the end, also from a source that gives them in pieces."""
    parts: list[bytes] = []
    while size_bytes > 0:
        data = source.read(size_bytes)
        if not data:
            break
        parts.append(data)
        size_bytes -= len(data)
    return b"".join(parts)


def _cipher(key: BackupKey, context: str, salt: bytes) -> AESGCM:
    return AESGCM(key.derive(f"grampus sealed stream 1: {context}", salt=salt))


def _nonce(number: int, *, is_last: bool) -> bytes:
    return number.to_bytes(11, "big") + (b"\1" if is_last else b"\0")
