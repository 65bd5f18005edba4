"""Where backups are kept: named contents, as an object store has them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Protocol

from grampus.core.errors import GrampusError
from grampus.core.streams import ByteReader, ByteWriter

TARGET_FILE = "grampus-backups"
TARGET_ID_BYTES = 4


class BackupTarget(Protocol):
    """Contents by name; names are words with `/` between them.

    Every method raises TargetError when the place cannot be used.
    """

    @property
    def place(self) -> str:
        """Where it is, for people."""
        ...

    def ensure_id(self) -> str:
        """8 hexadecimal digits that tell this target from others, made at the first use."""
        ...

    def find_id(self) -> str | None:
        """As `ensure_id`, or None when nothing was ever kept there."""
        ...

    def names(self, below: str = "", *, after: str = "") -> list[str]:
        """All whole contents whose names begin with `below` and a `/`, sorted.

        With `after`, which need be nobody's name, only those that sort after it: what is before
        costs (next to) nothing.
        """
        ...

    def parts(self, below: str = "") -> list[str]:
        """As `names`, of contents that were begun and are not whole (`writing`)."""
        ...

    def read(self, name: str) -> bytes | None:
        """A small content, or None when there is none."""
        ...

    def put(self, name: str, content: bytes) -> None:
        """Keep a small content durably, in place of an older one; never half of it."""
        ...

    def claim(self, name: str, content: bytes) -> bytes:
        """Keep a small content unless there is one already; what is there by then."""
        ...

    def reading(self, name: str) -> AbstractContextManager[ByteReader]:
        """A content of any size. Raises NotFoundError."""
        ...

    def writing(self, name: str) -> AbstractContextManager[ByteWriter]:
        """A new content, durable and to be seen once the block ends without an error."""
        ...

    def discard(self, name: str) -> None:
        """Take one content away; nothing happens when there is none."""
        ...

    def remove(self, below: str, *, first: str | None = None) -> None:
        """Take away all below a name, also what is half-written; `first` goes before the rest."""
        ...

    def require_lockable(self) -> None:
        """Raise RefusedError with code `no-object-lock` where contents cannot be locked."""
        ...

    def lock(self, names: Sequence[str], until: datetime) -> None:
        """Let nobody delete or change these contents until then; a longer lock stays."""
        ...

    def locked_until(self, below: str) -> datetime | None:
        """Until when something below the name is locked, which may be over; None: nothing is."""
        ...


def parse_target_id(text: str, file: str) -> str:
    """The id in `file`. Raises GrampusError with code `no-target` when it holds something else."""
    found = text.strip()
    if len(found) != 2 * TARGET_ID_BYTES or not set(found) <= set("0123456789abcdef"):
        raise GrampusError(
            f"The file {file} does not have the id of a place of backups.",
            "Choose an empty place, or restore that file.",
            code="no-target",
        )
    return found
