"""The log of changes that a replicated state is read from and written to, as a port."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from grampus.core.errors import GrampusError


class StateUnansweredError(GrampusError):
    """The cluster did not say whether it did what was asked."""

    default_code = "state-unanswered"


@dataclass(frozen=True)
class LogPart:
    """The log's id, and entries behind the one that was asked for: number and text."""

    log: str
    base: int  # entries up to this one are in the snapshot alone
    head: int  # the last entry
    entries: tuple[tuple[int, str], ...]


class StateLogPort(Protocol):
    """As `ceph.state_log.StateLog`. All methods raise GrampusError, and StateUnansweredError."""

    def read(self, after: int) -> LogPart | None: ...

    def append(self, log: str, head: int, text: str) -> bool: ...

    def compact(self, log: str, base: int, number: int, text: str) -> bool: ...

    def snapshot(self, number: int) -> str | None: ...
