"""Locks between machines that work on the same site, kept in its shared state.

A lock is a row of the state (`replicated.py`), so it is taken in the same order as all other
changes. Its holder sends a heartbeat every few seconds. A holder that has been silent for long
enough is fenced before its locks are broken: nothing that it has begun can change anything then.

On one machine the lock's file (`locks.py`) is held first. Whoever holds that alone knows that every
row of the same machine was left by a process that has ended.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol

from grampus.core.clock import Clock, format_moment
from grampus.core.errors import GrampusError, RefusedError
from grampus.state.generation import BOOT_ID
from grampus.state.home import read_if_there
from grampus.state.locks import describe_lock
from grampus.state.log_port import StateUnansweredError
from grampus.state.replicated import ReplicatedStore
from grampus.state.store import Store

# A heartbeat is one small write; who meets a lock waits for the next one to know that its holder
# lives. Silence must outlast the failover of an OSD, during which nobody can write. On hosts,
# commands whose machine is silent end after 20 s (`hosts/command_server`), so nothing of a silent
# holder runs there any more.
BEAT_EVERY_S, SILENT_S = 2.0, 30.0
# Who has not looked for so long cannot tell a silent holder from a cluster that did not answer.
LOOK_WITHIN_S = 10.0
_LOOK_EVERY_S = 0.5
# The user who waits is told after this time that a holder is silent.
_TOLD_AFTER_S = 3 * BEAT_EVERY_S
# Who holds the whole site keeps all others from it, and waits for all; a controller that runs does
# not matter, because each of its jobs takes the locks that it needs.
_HOLDERS = "SELECT * FROM held WHERE lab = ? AND name IN (?, 'lab.' || lab) ORDER BY since"
_ALL_HOLDERS = "SELECT * FROM held WHERE lab = ? AND name NOT GLOB 'serve.*' ORDER BY since"
_TAKE = (
    "INSERT INTO held (lab, name, holder, machine, shared, since, what) "
    "VALUES (?, ?, ?, ?, ?, ?, ?)"
)
_RELEASE = "DELETE FROM held WHERE lab = ? AND name = ? AND holder = ?"
# The locks of a subject are named after it, whatever the part of Grampus and the lane.
_ELSEWHERE = (
    "SELECT machine FROM held WHERE lab = :lab AND (name GLOB '*.' || :lab || '.' || :subject "
    "OR name GLOB '*.' || :lab || '.' || :subject || '.*' OR name = :beside) "
    "AND holder NOT GLOB (SELECT member FROM replica) || '-*' LIMIT 1"
)
_log = logging.getLogger("grampus.locks")


@dataclass(frozen=True)
class Holder:
    """Somebody who holds a lock."""

    name: str  # of the lock
    id: str  # MEMBER.PROCESS.SESSION
    machine: str
    shared: bool
    since: datetime
    what: str  # the command

    @property
    def member(self) -> str:
        """The copy of the state that it works with, on the machine where it does."""
        return self.id.partition(".")[0]


class HeldElsewhereError(RefusedError):
    """Another machine holds a lock, and lives."""

    default_code = "busy"

    def __init__(self, name: str, holder: Holder) -> None:
        super().__init__(
            f"`{holder.what}` on {holder.machine} is working on {describe_lock(name)} since "
            f"{format_moment(holder.since)}.",
            "Wait until it ends, then try again.",
        )
        self.machine = holder.machine


class Heartbeats(Protocol):
    """As `ceph.state_log.StateLog`."""

    def beat(self, holder: str, value: str) -> None: ...

    def beats(self) -> dict[str, str]: ...


class Silence:
    """For how long holders have been silent, as far as this process has looked."""

    def __init__(self) -> None:
        self._seen: dict[
            str, tuple[str, float]
        ] = {}  # the heartbeat, and since when it is the last
        self._looked_s: float | None = None

    def observe(self, holder: str, beat: str, now_s: float) -> float:
        """Seconds since the last heartbeat; empty: there is none.

        Looks far apart tell nothing about the time between them.
        """
        if self._looked_s is None or now_s - self._looked_s > LOOK_WITHIN_S:
            self._seen.clear()
        self._looked_s = now_s
        known = self._seen.get(holder)
        if known is None or known[0] != beat:
            self._seen[holder] = beat, now_s
        return now_s - self._seen[holder][1]


# Of this process: a command that tries a lock again and again learns the same.
_silence = Silence()
_PROCESS = secrets.token_hex(6)


def decide_conflict(held: list[Holder], member: str, *, shared: bool) -> Holder | None:
    """Who keeps this member from a lock; on one machine, the lock's file decides."""
    others = [one for one in held if one.member != member]
    return next((one for one in others if not (shared and one.shared)), None)


def find_machine_at(store: Store, site: str, subject: str, kind: str) -> str | None:
    """The other machine that is at an operation of a kind on a subject; None: none, as in a lab."""
    beside = f"hosts.{site}" if kind.startswith("host.") else ""
    values = {"lab": site, "subject": subject, "beside": beside}
    with store.transaction() as connection:
        row = connection.execute(_ELSEWHERE, values).fetchone()
    return None if row is None else row["machine"]


class SharedLocks:
    """The locks of one site, as one command takes them.

    `fence` supersedes every other holder, and removes their locks; it is told why. `tell` has what
    a user is told meanwhile. `copy_tag` is of the file of `store`, by default as it is here.
    """

    def __init__(
        self,
        store: ReplicatedStore,
        site: str,
        heartbeats: Heartbeats,
        clock: Clock,
        *,
        machine: str,
        what: str,
        fence: Callable[[str], object],
        tell: Callable[[str], None] = lambda _: None,
        silence: Silence = _silence,
        process: str = _PROCESS,
        copy_tag: str = "",
    ) -> None:
        self._store = store
        self._site = site
        self._heartbeats = heartbeats
        self._clock = clock
        self._machine = machine
        self._what = what
        self._fence = fence
        self._tell = tell
        self._silence = silence
        self._member = f"{store.member_id()}-{copy_tag or _tag_of(store.file)}"
        # What all locks of this process have in common; `epochs` keeps them.
        self.process = f"{self._member}.{process}"
        self.id = f"{self.process}.{secrets.token_hex(4)}"
        self._lock = threading.Lock()
        self._count = 0
        self._ended: threading.Event | None = None

    @contextmanager
    def hold(self, name: str, *, shared: bool, timeout_s: float) -> Iterator[None]:
        """Hold the lock against other machines.

        Raises HeldElsewhereError when one of them keeps it for `timeout_s` seconds and is known to
        live, and GrampusError when the cluster does not answer. Without a timeout, it is tried
        once.
        """
        with self._alive():
            self._take(name, shared=shared, timeout_s=timeout_s)
            try:
                yield
            finally:
                self._release(name)

    # -- inside -------------------------------------------------------------------------------

    def _take(self, name: str, *, shared: bool, timeout_s: float) -> None:
        deadline_s = self._clock.monotonic_s() + timeout_s
        heard: dict[str, str] = {}  # the first heartbeat of each holder that was met
        told: set[str] = set()
        while (holder := self._store.change(self._taking(name, shared=shared))) is not None:
            try:
                beat = self._heartbeats.beats().get(holder.id, "")
            except StateUnansweredError:
                continue  # `change` waits until the cluster answers, or raises
            now_s = self._clock.monotonic_s()
            silent_s = self._silence.observe(holder.id, beat, now_s)
            # Who waits at all waits until it is known whether the holder lives.
            is_alive = heard.setdefault(holder.id, beat) != beat
            if silent_s >= _TOLD_AFTER_S and holder.id not in told:
                told.add(holder.id)
                self._tell(
                    f"`{holder.what}` on {holder.machine} holds a lock and sends no heartbeat. "
                    f"It is fenced after {SILENT_S:g} s."
                )
            if silent_s >= SILENT_S:
                self._fence(f"`{holder.what}` on {holder.machine} sent no heartbeat")
            elif now_s >= deadline_s and (timeout_s == 0 or is_alive):
                raise HeldElsewhereError(name, holder)
            else:
                self._clock.sleep(_LOOK_EVERY_S)

    def _taking(self, name: str, *, shared: bool) -> Callable[[sqlite3.Connection], Holder | None]:
        place = (self._site, name)
        since = self._clock.now().isoformat()
        is_whole = name == f"lab.{self._site}"

        def take(connection: sqlite3.Connection) -> Holder | None:
            found = (
                connection.execute(_ALL_HOLDERS, (self._site,))
                if is_whole
                else connection.execute(_HOLDERS, place)
            ).fetchall()
            held = [_parse(row) for row in found]
            conflict = decide_conflict(held, self._member, shared=shared)
            if conflict is not None:
                return conflict
            for left in held:
                is_ours = left.id == self.id or (not shared and left.member == self._member)
                if left.name == name and is_ours:
                    connection.execute(_RELEASE, (*place, left.id))
            said = (self.id, self._machine, int(shared), since, self._what)
            connection.execute(_TAKE, (*place, *said))
            return None

        return take

    def _release(self, name: str) -> None:
        values = (self._site, name, self.id)
        try:
            self._store.change(lambda connection: connection.execute(_RELEASE, values))
        except GrampusError as error:
            # The command has ended in its own way. Others break the lock once this is silent.
            _log.warning("lock.kept", extra={"lock": name, "error": str(error)})

    @contextmanager
    def _alive(self) -> Iterator[None]:
        with self._lock:
            self._count += 1
            if self._count == 1:
                self._try_to_beat(secrets.token_hex(4))
                self._ended = threading.Event()
                threading.Thread(
                    target=self._keep_beating, args=(self._ended,), daemon=True
                ).start()
        try:
            yield
        finally:
            with self._lock:
                self._count -= 1
                if self._count == 0 and self._ended is not None:
                    self._ended.set()
                    self._ended = None
                    self._try_to_beat("")

    def _keep_beating(self, ended: threading.Event) -> None:
        while not ended.wait(BEAT_EVERY_S):
            self._try_to_beat(secrets.token_hex(4))

    def _try_to_beat(self, value: str) -> None:
        try:
            self._heartbeats.beat(self.id, value)
        except GrampusError as error:
            # While the cluster does not answer, nobody can fence this either.
            _log.info("lock.silent", extra={"error": str(error)})


def _parse(row: sqlite3.Row) -> Holder:
    since = datetime.fromisoformat(row["since"])
    shared = bool(row["shared"])
    return Holder(row["name"], row["holder"], row["machine"], shared, since, row["what"])


def _tag_of(file: Path) -> str:
    """Of one file on one machine since its boot: a copy of the file elsewhere, also that of a
    virtual machine, is not the same holder. Locks from before a boot are those of a silent one.
    """
    boot = (read_if_there(BOOT_ID) or "").strip()
    return hashlib.sha256(f"{boot}\0{file}".encode()).hexdigest()[:6]
