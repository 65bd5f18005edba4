"""Bytes as they flow: what reads them and what takes them, whatever is at the other end."""

from __future__ import annotations

from typing import Protocol


class ByteReader(Protocol):
    """Where bytes come from."""

    def read(self, size_bytes: int, /) -> bytes:
        """The next bytes, at most `size_bytes` and fewer only at the end; empty at the end."""
        ...


class ByteWriter(Protocol):
    """Where bytes go."""

    def write(self, data: bytes, /) -> object:
        """Take all of `data`."""
        ...
