"""Every table checked, by the server that serves it or by one of its own on a thin clone.

InnoDB's check counts the rows of each index as its transaction sees them. For each row of a page
of a secondary index that somebody has written to since the check began, it looks up the row itself,
a read at random. A check that takes longer than its clients need to touch most such pages so reads
the whole table row by row: 46 seconds became more than 40 minutes with ten transactions a second on
a table of 1.2 GiB and a buffer pool of a quarter of that. Nobody writes to a clone. A server that
ends at a page which it cannot read is then one that nobody uses, too.

A clone's server checks several tables at once. One that ends takes all of these checks with it, so
it is started again then, and goes on with one at a time, which tells at which it ends.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from contextlib import nullcontext

from grampus.core.errors import GrampusError
from grampus.core.progress import Progress
from grampus.databases.administrator import (
    Administrator,
    StatementFailedError,
    administrator_of,
)
from grampus.databases.clones.cloning import DatabaseClones
from grampus.databases.clones.decide_clone import CloneRequest
from grampus.databases.controller.side_by_side import SideBySide
from grampus.databases.model import DatabaseRecord
from grampus.databases.service import DatabaseService
from grampus.databases.verify.decide_scratch import CLONE_LABEL, Maker, scratch_name
from grampus.databases.verify.decide_tables import (
    CONNECTION_LOST,
    LIST_TABLES,
    Table,
    classify_check,
    decide_checks_at_once,
    decide_clone_memory,
    parse_sizes,
    parse_tables,
    render_check,
    show_table,
)
from grampus.databases.verify.model import TableCheck
from grampus.databases.verify.scratch_databases import ScratchDatabases
from grampus.state.locks import hold_lock

# A check reads the whole table, with every index.
CHECK_TIMEOUT_S = 12 * 3600.0
# What keeps a clone from being made, though the database itself can be asked.
_NO_CLONE = frozenset({"is-replica", "too-deep", "no-host", "no-address", "no-volume-key"})


class TableChecks:
    """Checks of the tables of databases of one lab or cluster."""

    def __init__(self, databases: DatabaseService, clones: DatabaseClones) -> None:
        self._databases = databases
        self._scratch = ScratchDatabases(databases, CLONE_LABEL)
        self._clones = clones
        self._operations = databases.operations

    def check(self, record: DatabaseRecord, *, in_place: bool) -> list[TableCheck]:
        """Check every table, on a clone where one can be made and nobody asked for `in_place`.

        Raises RefusedError with code `busy` (another check of its tables is under way) or
        `name-taken`, and what keeps a clone from being made.
        """
        operations, request = self._operations, _clone_request(record)
        lock = Maker(CLONE_LABEL, record.spec.name).lock(operations.lab)
        with hold_lock(operations.home, lock, operations.clock, timeout_s=0):
            operations.runner.propose(lambda: self._describe(record, in_place=in_place))
            self._scratch.remove(request.name)  # of a check that was cut off
            reason = "" if in_place else self._refused(record)
            if reason:
                operations.progress.note(
                    f"The tables are checked in the database's own server: {reason}"
                )
            if in_place or reason:
                return check_tables(self._administrator(record), operations.progress)
            with self._scratch.gone_after(request.name):
                self._clones.clone(request)
                clone = operations.ready(request.name)
                return check_tables(
                    self._administrator(clone),
                    operations.progress,
                    at_once=decide_checks_at_once(clone.spec.cpus),
                    revive=lambda: self._databases.start(request.name),
                )

    def _describe(self, record: DatabaseRecord, *, in_place: bool) -> list[str]:
        name, clone = record.spec.name, _clone_request(record).name
        count = len(parse_tables(self._administrator(record).query(LIST_TABLES)))
        reason = "" if in_place else self._refused(record)
        if in_place or reason:
            return [f"Check {count} tables of {name} in its own server{reason and f': {reason}'}"]
        return [
            f"Clone the current data of {name} into {clone}",
            f"Check {count} tables there",
            f"Delete {clone}",
        ]

    def _refused(self, record: DatabaseRecord) -> str:
        """Why no clone of it can be made; empty: one can."""
        try:
            self._clones.plan(_clone_request(record))
        except GrampusError as error:
            if error.code not in _NO_CLONE:
                raise
            return str(error)
        return ""

    def _administrator(self, record: DatabaseRecord) -> Administrator:
        return administrator_of(self._operations.ports, record.spec)


def check_tables(
    administrator: Administrator,
    progress: Progress,
    *,
    at_once: int = 1,
    revive: Callable[[], None] | None = None,
) -> list[TableCheck]:
    """What CHECK TABLE says of each table. Once a server has ended at one, it is not asked again.

    `at_once` tables are checked side by side; then `revive` starts a server that has ended, and
    may raise GrampusError. An interrupt leaves such checks to the end of their server.
    """
    checking = _Checking(administrator, progress)
    suspects = checking.side_by_side(at_once) if at_once > 1 else []
    if len(suspects) > 1 and checking.is_revived(suspects, revive):
        checking.one_by_one(suspects)
    checking.one_by_one(checking.tables)
    return [checking.found[table] for table in checking.tables]


class _Checking:
    """The checks of the tables of one server."""

    def __init__(self, administrator: Administrator, progress: Progress) -> None:
        rows = administrator.query(LIST_TABLES)
        self.tables = parse_tables(rows)
        self.found: dict[Table, TableCheck] = {}
        self._administrator = administrator
        self._progress = progress
        self._sizes_bytes = parse_sizes(rows)
        self._whole_bytes = max(1, sum(self._sizes_bytes.values()))
        self._ended = ""  # at what the server ended; then no table is checked any more
        self._lock = threading.Lock()
        progress.phase(f"Check {len(self.tables)} tables")

    def one_by_one(self, tables: Iterable[Table]) -> None:
        """Check those of the tables that have not been."""
        for table in tables:
            if table in self.found:
                continue
            self._tell(table)
            if self._ended:
                self._leave(table)
                continue
            check, is_lost = _check_table(self._administrator, table)
            if is_lost:
                self._ended = f"The server ended during the check of {check.table}."
            self.found[table] = check

    def side_by_side(self, at_once: int) -> list[Table]:
        """Check all tables, several at once, until the server ends.

        Answers with those that it was at then; one alone is to blame, and is found broken.
        """
        numbered = {str(number): table for number, table in enumerate(self.tables)}
        lost: dict[Table, TableCheck] = {}
        stopped = threading.Event()

        def check(administrator: Administrator, number: str) -> None:
            table = numbered[number]
            with self._lock:
                if stopped.is_set():
                    return
                self._tell(table)
            try:
                answer, is_lost = _check_table(administrator, table)
            except BaseException:
                stopped.set()
                raise
            with self._lock:
                if is_lost:
                    stopped.set()
                (lost if is_lost else self.found)[table] = answer

        beside = SideBySide[Administrator, None](
            lambda: nullcontext(self._administrator), most=at_once
        )
        try:
            beside.run(dict.fromkeys(numbered, ""), check, patience_s=None)
        except BaseException:
            stopped.set()
            raise
        if len(lost) == 1:
            self.found |= lost
            self._ended = f"The server ended during the check of {show_table(next(iter(lost)))}."
        return sorted(lost)

    def is_revived(self, suspects: list[Table], revive: Callable[[], None] | None) -> bool:
        """Whether the server serves again, which ended while it was at all of `suspects`.

        If it does not, they are all found broken.
        """
        shown = ", ".join(map(show_table, suspects))
        why = ""
        try:
            if revive is not None:
                self._progress.note(
                    f"The server ended during the check of {shown}. Grampus continues with "
                    "one table at a time."
                )
                revive()
                return True
        except GrampusError as error:
            why = f" The server could not be started again: {error.problem}"
        self._ended = f"The server ended during the check of one of {shown}."
        for table in suspects:
            self.found[table] = TableCheck(
                table=show_table(table), outcome="broken", said=f"{self._ended}{why}"
            )
        return False

    def _tell(self, table: Table) -> None:
        done_bytes = sum(self._sizes_bytes[one] for one in self.found)
        self._progress.detail(show_table(table), fraction=done_bytes / self._whole_bytes)

    def _leave(self, table: Table) -> None:
        self.found[table] = TableCheck(
            table=show_table(table), outcome="unchecked", said=self._ended
        )


def _clone_request(record: DatabaseRecord) -> CloneRequest:
    spec = record.spec
    return CloneRequest(
        source=spec.name,
        name=scratch_name(CLONE_LABEL, spec.name),
        memory_bytes=decide_clone_memory(spec.memory_bytes),
        labels={CLONE_LABEL: spec.name},
        write_path="direct",  # it writes little, and a log of its own would be made for nothing
    )


def _check_table(administrator: Administrator, table: Table) -> tuple[TableCheck, bool]:
    """The check, and whether it lost us the server: InnoDB ends at pages that it cannot read."""
    try:
        rows = administrator.query(render_check(table), timeout_s=CHECK_TIMEOUT_S)
    except StatementFailedError as error:
        broken = TableCheck(table=show_table(table), outcome="broken", said=error.said)
        # Without a number the client itself was ended: it goes with the server's container.
        return broken, error.number is None or error.number in CONNECTION_LOST
    return classify_check(table, rows), False
