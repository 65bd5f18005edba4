"""A state that several machines share: each has a copy in a file, and the changes are in one log.

A change is made in a transaction of the local file, which is committed once the rows that differ
are in the log (`log_port.py`). Another machine's copy gets these rows from there, in the same
order. An entry is appended only behind the last one that the copy has: if another machine was
first, the transaction is rolled back, the copy gets what it lacks, and the change is made anew. So
a copy that was the newest a moment ago is not compared before a change: the log does that. A change
that comes to nothing, or fails, counts only once the copy was compared.

Failure and recovery: a process that ends between the log and its own commit leaves a copy that
lacks an entry, and gets it by the next `catch_up`. If the answer of the log is lost, the entry is
looked for by its id, until the log answers or patience ends; then the change may be made or not,
which a journaled operation allows. Nothing is changed while the log does not answer.
"""

from __future__ import annotations

import contextlib
import json
import logging
import secrets
import sqlite3
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

from grampus.core.clock import Clock, SystemClock
from grampus.core.errors import GrampusError
from grampus.state.log_port import LogPart, StateLogPort, StateUnansweredError
from grampus.state.store import Store

# What is shared, with the columns that name a row. The other tables are about one copy.
SHARED = {
    "records": ("kind", "lab", "name"),
    "operations": ("id",),
    "warnings": ("id",),
    "secrets": ("lab", "name"),
    "held": ("lab", "name", "holder"),
}
# The format of entries and snapshots; a later one may have what this Grampus would lose.
FORMAT = 1
# After so many entries the log is replaced by a snapshot: it is what a new copy begins with.
COMPACT_AFTER = 2000
# A cluster that fails over to other OSDs answers again after less than this.
PATIENCE_S = 90.0
_RETRY_S = 1.0
# How long a copy that was the newest is likely to be so.
_LIKELY_NEWEST_S = 2.0
# How old may be what somebody looks at who looks all the time.
REFRESH_EVERY_S = 0.5
_MOST_ATTEMPTS = 100
# So many ids of entries are remembered, to find those whose answer was lost.
_REMEMBERED = 1000
_PLACE = "SELECT log, position, member FROM replica"
_JOIN = "INSERT INTO replica (one, log, position, member) VALUES (1, ?, 0, ?)"
_MOVE = "UPDATE replica SET position = ?"
_REMEMBER = "INSERT OR REPLACE INTO applied (position, entry) VALUES (?, ?)"
_FORGET = "DELETE FROM applied WHERE position <= ?"
_KNOWN = "SELECT 1 FROM applied WHERE entry = ?"
_CHANGED = "SELECT DISTINCT t, k1, k2, k3 FROM temp.changed_rows"

_logger = logging.getLogger("grampus.state")

ResultT = TypeVar("ResultT")
# Rows of one change: table, key, and the columns, or None of a row that is gone.
Row = tuple[str, tuple[Any, ...], dict[str, Any] | None]


class ReplicatedStore(Store):
    """A `Store` whose shared tables are a copy of a site's state.

    `on_secret` is called with each row of `secrets` that this copy gets (name; content, or None),
    before it is committed. `require` is called with the connection before a change is appended,
    and raises if this process must not change anything.
    """

    def __init__(
        self,
        file: Path | None,
        site: str,
        log: StateLogPort,
        *,
        clock: Clock = SystemClock(),
        on_secret: Callable[[str, str | None], None] = lambda _name, _content: None,
        require: Callable[[sqlite3.Connection], None] = lambda _: None,
    ) -> None:
        super().__init__(file, clock=clock)
        self._site = site
        self._log = log
        self._clock = clock
        self._on_secret = on_secret
        self.require = require
        self._newest_s: float | None = None  # when this was the newest copy
        with self.transaction() as connection:
            _watch_changes(connection)

    def join(self, log: str) -> None:
        """Become an empty copy of the log with this id; one that is a copy already stays so."""

        def begin(connection: sqlite3.Connection) -> None:
            row = connection.execute(_PLACE).fetchone()
            if row is not None and row["log"] == log:
                return
            for table in SHARED:
                connection.execute(f"DELETE FROM {table}")  # noqa: S608 - of our own names
            connection.execute("DELETE FROM applied")
            connection.execute("DELETE FROM replica")
            connection.execute(_JOIN, (log, secrets.token_hex(4)))

        super().change(begin)

    def change(self, make: Callable[[sqlite3.Connection], ResultT]) -> ResultT:
        """See `Store.change`: made here once it is in the log."""
        results: dict[str, ResultT] = {}
        deadline_s = self._clock.monotonic_s() + PATIENCE_S
        for number in range(_MOST_ATTEMPTS):
            try:
                is_newest = number > 0 or not self._was_newest(_LIKELY_NEWEST_S)
                if is_newest:
                    self.catch_up()
                with self.transaction() as connection:
                    for known in results:
                        if connection.execute(_KNOWN, (known,)).fetchone() is not None:
                            return results[known]
                with self._lock, self._errors_explained():
                    entry = secrets.token_hex(8)
                    made = self._attempt(make, entry, results, is_newest=is_newest)
                if made:
                    return made[0]
            except StateUnansweredError:
                if self._clock.monotonic_s() >= deadline_s:
                    raise
                self._clock.sleep(_RETRY_S)
        raise GrampusError(
            "Other machines change the state of the site all the time.",
            "Try again.",
            code="state-busy",
        )

    def refresh(self) -> None:
        """See `Store.refresh`. While the cluster does not answer, what was known stays."""
        with contextlib.suppress(StateUnansweredError):
            self.catch_up(REFRESH_EVERY_S)

    def catch_up(self, seen_within_s: float = 0.0) -> None:
        """Get what others have changed, unless this was done `seen_within_s` ago or later.

        Raises GrampusError, StateUnansweredError at once.
        """
        now_s = self._clock.monotonic_s()
        if self._was_newest(seen_within_s):
            return
        while not self._get_part():
            pass
        self._newest_s = now_s

    def _was_newest(self, within_s: float) -> bool:
        """Whether this was the newest copy so many seconds ago or later."""
        return self._newest_s is not None and self._clock.monotonic_s() < self._newest_s + within_s

    def log_id(self) -> str | None:
        """The log that this is a copy of; None: none yet."""
        with self.transaction() as connection:
            row = connection.execute(_PLACE).fetchone()
        return None if row is None else row["log"]

    def member_id(self) -> str:
        """What names this copy among all of the log. Raises GrampusError before it has joined."""
        with self.transaction() as connection:
            self._place(connection)
            member: str = connection.execute(_PLACE).fetchone()["member"]
        return member

    # -- inside -------------------------------------------------------------------------------

    def _attempt(
        self,
        make: Callable[[sqlite3.Connection], ResultT],
        entry: str,
        results: dict[str, ResultT],
        *,
        is_newest: bool,
    ) -> list[ResultT]:
        """What `make` answered; empty: the change is not made, because the copy is not the newest,
        or may not be."""
        connection, begun_s = self._connection, self._clock.monotonic_s()
        connection.execute("BEGIN IMMEDIATE")
        try:
            connection.execute("DELETE FROM temp.changed_rows")
            try:
                result = make(connection)
                rows = _read_changed(connection)
                if rows:
                    self.require(connection)
            except Exception:
                if is_newest:
                    raise
                rows = []
            if not rows and not is_newest:
                connection.rollback()
                return []
            if not rows:
                connection.commit()
                return [result]
            log, position = self._place(connection)
            results[entry] = result
            text = json.dumps({"format": FORMAT, "entry": entry, "rows": rows})
            is_appended = self._log.append(log, position, text)
            if is_appended:
                self._note_applied(connection, position + 1, entry, rows)
                connection.commit()
                self._newest_s = begun_s
                return [result]
            del results[entry]
            connection.rollback()
            return []
        except BaseException:
            connection.rollback()
            raise

    def _get_part(self) -> bool:
        """Get the next entries; whether these were all."""
        with self.transaction() as connection:
            log, position = self._place(connection)
        part = self._log.read(position)
        self._require_same(log, position, part)
        assert part is not None  # noqa: S101 - `_require_same` has raised
        snapshot = None
        if position < part.base:
            snapshot = self._log.snapshot(part.base)
            if snapshot is None:
                return False  # another one has taken its place
        with self._lock, self._errors_explained(), self._connection as connection:
            connection.execute("BEGIN IMMEDIATE")
            if self._place(connection) != (log, position):
                return False  # another process of this machine was first
            if snapshot is not None:
                self._load(connection, part.base, _parse(snapshot)[1])
                return False
            for number, text in part.entries:
                entry, rows = _parse(text)
                _apply(connection, rows)
                self._note_applied(connection, number, entry, rows)
            last = part.entries[-1][0] if part.entries else position
            whole = None
            if last == part.head and last - part.base >= COMPACT_AFTER:
                whole = json.dumps({"format": FORMAT, "entry": "", "rows": _all(connection)})
        if whole is not None:
            try:
                self._log.compact(log, part.base, last, whole)
            except GrampusError as error:  # a full pool takes no snapshot; the log serves, too
                _logger.info("state.not-compacted", extra={"error": str(error)})
        return last == part.head

    def _note_applied(
        self, connection: sqlite3.Connection, number: int, entry: str, rows: Iterable[Row]
    ) -> None:
        for table, key, columns in rows:
            if table == "secrets":
                self._on_secret(key[1], None if columns is None else columns["sealed"])
        connection.execute(_MOVE, (number,))
        connection.execute(_REMEMBER, (number, entry))
        connection.execute(_FORGET, (number - _REMEMBERED,))

    def _load(self, connection: sqlite3.Connection, base: int, rows: list[Row]) -> None:
        """The state of a snapshot instead of what is here."""
        known = {(table, key) for table, key, _ in rows}
        gone: list[Row] = [
            (table, key, None) for table, key, _ in _all(connection) if (table, key) not in known
        ]
        _apply(connection, [*gone, *rows])
        self._note_applied(connection, base, "", [*gone, *rows])

    def _place(self, connection: sqlite3.Connection) -> tuple[str, int]:
        row = connection.execute(_PLACE).fetchone()
        if row is None:
            raise GrampusError(
                f"{self._file} is not a copy of the state of a site yet.",
                f"`grampus site adopt {self._site} --conf FILE --keyring FILE` makes it one.",
                code="state-not-joined",
            )
        return row["log"], row["position"]

    def _require_same(self, log: str, position: int, part: LogPart | None) -> None:
        if part is None or part.log != log:
            what = "has no state of the site any more" if part is None else "has another state"
            raise GrampusError(
                f"The cluster {what} than the one that this machine has joined.",
                f"`grampus site forget {self._site}` forgets it here. Then join or adopt it again.",
                code="state-gone",
            )
        if position > part.head:
            raise GrampusError(
                "The state of the site in the cluster is older than its copy on this machine: the "
                "pool was put back to an earlier time.",
                f"To accept it: `grampus site forget {self._site}`, then `grampus site "
                f"join --from FILE`. `grampus state rebuild --site {self._site}` compares it with "
                "the images.",
                code="state-older",
            )


def _watch_changes(connection: sqlite3.Connection) -> None:
    """Have this connection note the keys of the rows that it changes, in a table of its own."""
    connection.execute("CREATE TEMP TABLE changed_rows (t, k1, k2, k3)")
    for table, keys in SHARED.items():
        for event, versions in (
            ("INSERT", ("NEW",)),
            ("UPDATE", ("OLD", "NEW")),
            ("DELETE", ("OLD",)),
        ):
            noted = "".join(
                f"INSERT INTO changed_rows VALUES ('{table}', {_key(version, keys)}); "  # noqa: S608
                for version in versions
            )
            connection.execute(
                f"CREATE TEMP TRIGGER note_{table}_{event} AFTER {event} ON main.{table} "
                f"BEGIN {noted} END"
            )


def _key(version: str, keys: tuple[str, ...]) -> str:
    names = [f"{version}.{key}" for key in keys]
    return ", ".join([*names, *["NULL"] * (3 - len(names))])


def _read_changed(connection: sqlite3.Connection) -> list[Row]:
    """The rows that the transaction has changed, as they are now."""
    found: list[Row] = []
    for table, *noted in map(tuple, connection.execute(_CHANGED).fetchall()):
        key = tuple(noted[: len(SHARED[table])])
        row = connection.execute(f"SELECT * FROM {table} WHERE {_where(table)}", key).fetchone()  # noqa: S608
        found.append((table, key, None if row is None else dict(row)))
    return found


def _all(connection: sqlite3.Connection) -> list[Row]:
    return [
        (table, tuple(row[key] for key in keys), dict(row))
        for table, keys in SHARED.items()
        for row in connection.execute(f"SELECT * FROM {table}")  # noqa: S608 - of our own names
    ]


def _apply(connection: sqlite3.Connection, rows: Iterable[Row]) -> None:
    for table, key, columns in rows:
        if columns is None:
            connection.execute(f"DELETE FROM {table} WHERE {_where(table)}", key)  # noqa: S608
            continue
        names, keys = list(columns), SHARED[table]
        changed = ", ".join(f"{name} = excluded.{name}" for name in names if name not in keys)
        connection.execute(
            f"INSERT INTO {table} ({', '.join(names)}) "  # noqa: S608 - of our own names
            f"VALUES ({', '.join('?' * len(names))}) ON CONFLICT ({', '.join(keys)}) DO "
            + (f"UPDATE SET {changed}" if changed else "NOTHING"),
            [columns[name] for name in names],
        )


def _where(table: str) -> str:
    return " AND ".join(f"{key} = ?" for key in SHARED[table])


def _parse(text: str) -> tuple[str, list[Row]]:
    """The id of an entry or a snapshot, and its rows. Raises GrampusError."""
    document = json.loads(text)
    if document["format"] > FORMAT:
        raise GrampusError(
            "The state of the site was changed by a later version of Grampus.",
            "Upgrade Grampus on this machine.",
            code="state-unreadable",
        )
    rows = [(table, tuple(key), columns) for table, key, columns in document["rows"]]
    return document["entry"], rows
