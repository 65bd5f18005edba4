"""Which moment of its own history a state file is of: so that a copy is known when it is put back.

The state has an id and a number that only grows. The number is raised whenever something is noted
on images, and what is noted says it too (`ceph/state_note.py`). A copy of the file that is put back
has a smaller number than the cluster remembers, or another id.

The cluster is not asked each time. Two small files beside the state tell whether it may have been
put back. `state-generation` has the last number: the state alone was put back where that is
greater. `state-origin` is never written again, and where it stands (its inode, when that changed,
and since which boot) is known to the state: another one stands there when the whole directory was
put back.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from pydantic import ConfigDict, ValidationError

from grampus.core.models import Model
from grampus.state.home import write_atomically
from grampus.state.store import Store

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_GET = "SELECT state, number FROM generation"
_BEGIN = (
    "INSERT OR IGNORE INTO generation (one, state, number) "
    "VALUES (1, lower(hex(randomblob(16))), 1)"
)
_RAISE = "UPDATE generation SET number = max(number, ?) + 1"
_RENEW = "UPDATE generation SET state = lower(hex(randomblob(16))), number = max(number, ?) + 1"
_CONFIRMED = "SELECT place FROM confirmed WHERE lab = ?"
_CONFIRM = "INSERT OR REPLACE INTO confirmed (lab, place) VALUES (?, ?)"
_DOUBT = "DELETE FROM confirmed"

StateAge = Literal["current", "older"]


class Generation(Model):
    """A moment in the history of a state."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    state: str
    number: int


def decide_age(ours: Generation, noted: Generation | None) -> StateAge:
    """How old a state is by what the cluster, or a file, has noted last; None: nothing yet."""
    if noted is None or (noted.state == ours.state and noted.number <= ours.number):
        return "current"
    return "older"


class StateGeneration:
    """The generation of one state file; of one in memory alone nothing is doubtful.

    The two files beside it are in `directory`.
    """

    def __init__(self, store: Store, directory: Path) -> None:
        self._store = store
        self._origin = directory / "state-origin"
        self._witness = directory / "state-generation"

    def current(self) -> Generation:
        """The generation of the state, which begins with the first look."""
        with self._store.transaction() as connection:
            row = connection.execute(_GET).fetchone()
            if row is None:
                connection.execute(_BEGIN)
                row = connection.execute(_GET).fetchone()
        return Generation(state=row["state"], number=row["number"])

    def is_known(self, lab: str) -> bool:
        """Whether this is the state that the cluster of `lab` was last compared with, or a later
        one: nothing was put back since."""
        if not self._store.is_file:
            return True
        if decide_age(self.current(), self._witnessed()) == "older":
            with self._store.transaction() as connection:
                connection.execute(_DOUBT)  # of all labs
            return False
        with self._store.transaction() as connection:
            row = connection.execute(_CONFIRMED, (lab,)).fetchone()
        return row is not None and row["place"] == self._place()

    def confirm(self, lab: str) -> None:
        """The state was compared with the cluster of `lab`, and is no older."""
        if not self._store.is_file:
            return
        if not self._origin.exists():
            write_atomically(self._origin, os.urandom(8).hex().encode(), mode=0o600)
        self._write_witness()
        with self._store.transaction() as connection:
            connection.execute(_CONFIRM, (lab, self._place()))

    def doubt(self) -> None:
        """From now on the state has to be compared with each cluster again."""
        with self._store.transaction() as connection:
            connection.execute(_DOUBT)

    def advance(self) -> Generation:
        """A later generation, before what is noted of it is noted anywhere."""
        return self._change(_RAISE, 0)

    def renew(self, after: int) -> Generation:
        """Another state, later than the number `after`: whoever has the former is the older."""
        return self._change(_RENEW, after)

    def _change(self, statement: str, after: int) -> Generation:
        self.current()
        with self._store.transaction() as connection:
            connection.execute(statement, (after,))
        if self._store.is_file:
            self._write_witness()
        return self.current()

    def _write_witness(self) -> None:
        write_atomically(self._witness, self.current().model_dump_json().encode(), mode=0o600)

    def _witnessed(self) -> Generation | None:
        try:
            return Generation.model_validate_json(self._witness.read_bytes())
        except FileNotFoundError:
            return None
        except ValidationError:
            return Generation(state="", number=0)  # damaged: no state is that one

    def _place(self) -> str:
        """Where the origin stands; empty: there is none."""
        try:
            found = self._origin.stat()
        except FileNotFoundError:
            return ""
        boot = BOOT_ID.read_text(encoding="ascii").strip() if BOOT_ID.exists() else ""
        return f"{boot}:{found.st_dev}:{found.st_ino}:{found.st_ctime_ns}"
