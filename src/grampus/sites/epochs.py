"""The controller's epoch of a site: who may give commands to its hosts.

All machines that work on a site share one epoch, a record of its state. One begins when a machine
must be fenced: it held a lock and is silent, or its state was lost. From then on, each process that
began earlier can change nothing: the state takes none of its changes, and hosts refuse its commands
and end those that still run (`hosts/remote/epoch_guard.py`). A machine that was only slow works in
the new epoch from its next command on.

Failure and recovery: an epoch is one change of the shared state, which is made or not.
"""

from __future__ import annotations

import logging
import platform
import secrets
import sqlite3
from dataclasses import dataclass
from pathlib import Path

from grampus.core.checks import Check
from grampus.core.clock import Clock, format_moment
from grampus.core.errors import GrampusError, SupersededError
from grampus.sites.model import EPOCH_RECORD, ControllerEpoch
from grampus.state.home import read_if_there
from grampus.state.replicated import ReplicatedStore

_log = logging.getLogger("grampus.sites")
_MACHINE_ID = Path("/etc/machine-id")
_GET = "SELECT body FROM records WHERE kind = ? AND lab = ? AND name = ?"
_PUT = (
    "INSERT INTO records (kind, lab, name, body) VALUES (?, ?, ?, ?) "
    "ON CONFLICT (kind, lab, name) DO UPDATE SET body = excluded.body"
)
_BREAK = "DELETE FROM held WHERE lab = ? AND holder NOT GLOB ? || '.*'"
# The epoch that this process works in, by the copy of the state: all its sessions share it.
_of_this_process: dict[str, ControllerEpoch] = {}


@dataclass(frozen=True)
class Machine:
    """The machine that Grampus runs on."""

    name: str
    id: str  # of machine-id(5); empty: it has none


def observe_machine() -> Machine:
    """This machine."""
    return Machine(platform.node() or "unknown", (read_if_there(_MACHINE_ID) or "").strip())


class SiteEpochs:
    """The epochs of one site, as one process sees them: it works in the one that it began in."""

    def __init__(
        self,
        store: ReplicatedStore,
        site: str,
        clock: Clock,
        machine: Machine | None = None,
        *,
        process: dict[str, ControllerEpoch] = _of_this_process,
    ) -> None:
        """`process` has the epochs that this process works in, for all its sessions."""
        self._store = store
        self._process = process
        self._copy = store.member_id()
        self._place = (EPOCH_RECORD, site, site)
        self._site = site
        self._clock = clock
        self._machine = machine or observe_machine()
        with store.transaction() as connection:
            found = self._find(connection)
        if found is not None:
            process.setdefault(self._copy, found)
        store.require = self._require_in

    def own(self) -> ControllerEpoch | None:
        """The epoch that this process works in; None: the site has none yet."""
        return self._process.get(self._copy)

    def renew(self) -> None:
        """Work in the last epoch from here on: this process has done nothing in the former one."""
        with self._store.transaction() as connection:
            found = self._find(connection)
        if found is not None:
            self._process[self._copy] = found

    def require(self, seen_within_s: float = 0.0) -> None:
        """Raise SupersededError when the site has a later epoch.

        The cluster is not asked if this process has done so `seen_within_s` ago or later. Raises
        GrampusError when it does not say.
        """
        self._store.catch_up(seen_within_s)
        with self._store.transaction() as connection:
            self._require_in(connection)

    def begin(self, why: str, *, after: int = 0, holder: str = "") -> ControllerEpoch:
        """A later epoch than all others and than the number `after`, which this process works in.

        Every other process is superseded, and holds no lock any more. `holder` begins the names of
        this one as a holder of locks. Raises SupersededError if another one was first.
        """

        def write(connection: sqlite3.Connection) -> ControllerEpoch:
            known = self._find(connection)
            if known is not None:
                self._require_in(connection)
            made = ControllerEpoch(
                number=max(after, 0 if known is None else known.number) + 1,
                id=secrets.token_hex(8),
                machine=self._machine.name,
                machine_id=self._machine.id,
                since=self._clock.now(),
                why=why,
            )
            connection.execute(_PUT, (*self._place, made.model_dump_json()))
            connection.execute(_BREAK, (self._site, holder))
            return made

        # What is appended was made in the epoch that it ends.
        self._store.require = lambda _: None
        try:
            made = self._store.change(write)
        finally:
            self._store.require = self._require_in
        self._process[self._copy] = made
        _log.info("epoch.begun", extra={"site": self._site, "epoch": made.number, "why": made.why})
        return made

    def check(self) -> Check:
        """The epoch, and how it began."""
        with self._store.transaction() as connection:
            last = self._find(connection)
        if last is None:
            return Check("controller", "warning", "The state of the site has no epoch.")
        began = f"since {format_moment(last.since)}, from {last.machine}: {last.why}"
        return Check("controller", "ok", f"Controller epoch {last.number} ({began}).")

    # -- inside -------------------------------------------------------------------------------

    def _find(self, connection: sqlite3.Connection) -> ControllerEpoch | None:
        row = connection.execute(_GET, self._place).fetchone()
        return None if row is None else ControllerEpoch.model_validate_json(row["body"])

    def _require_in(self, connection: sqlite3.Connection) -> None:
        last = self._find(connection)
        if last is None:
            raise GrampusError(
                f"The state of the site '{self._site}' has no controller epoch.",
                f"Adopt the site again (`grampus site adopt {self._site}`).",
                code="no-epoch",
            )
        own = self.own()
        if own is not None and last.id == own.id:
            return
        raise SupersededError(
            f"This command is superseded: {last.machine} began the controller epoch {last.number} "
            f"of the site '{self._site}' at {format_moment(last.since)} ({last.why}).",
            "Run the command again. Grampus first finishes or undoes what was interrupted.",
        )
