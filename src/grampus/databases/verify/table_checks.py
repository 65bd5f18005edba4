"""Every table checked, by the server that serves it or by one of its own on a thin clone.

InnoDB's check counts the rows of each index as its transaction sees them. For each row of a page
of a secondary index that somebody has written to since the check began, it looks up the row itself,
a read at random. A check that takes longer than its clients need to touch most such pages so reads
the whole table row by row: 46 seconds became more than 40 minutes with ten transactions a second on
a table of 1.2 GiB and a buffer pool of a quarter of that. Nobody writes to a clone. A server that
ends at a page which it cannot read is then one that nobody uses, too.
"""

from __future__ import annotations

from grampus.core.errors import GrampusError
from grampus.core.progress import Progress
from grampus.databases.administrator import (
    Administrator,
    StatementFailedError,
    administrator_of,
)
from grampus.databases.clones.cloning import DatabaseClones
from grampus.databases.clones.decide_clone import CloneRequest
from grampus.databases.model import DatabaseRecord
from grampus.databases.service import DatabaseService
from grampus.databases.verify.decide_scratch import scratch_name
from grampus.databases.verify.decide_tables import (
    CONNECTION_LOST,
    LIST_TABLES,
    Table,
    classify_check,
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
CLONE_LABEL = "verify"
# What keeps a clone from being made, though the database itself can be asked.
_NO_CLONE = frozenset({"is-replica", "too-deep", "no-host", "no-address", "no-volume-key"})


class TableChecks:
    """Checks of the tables of databases of one lab or cluster."""

    def __init__(self, databases: DatabaseService, clones: DatabaseClones) -> None:
        self._scratch = ScratchDatabases(databases, CLONE_LABEL)
        self._clones = clones
        self._operations = databases.operations

    def describe(self, record: DatabaseRecord, *, in_place: bool) -> list[str]:
        """What `check` would do, one line a step."""
        name, clone = record.spec.name, _clone_request(record).name
        count = len(parse_tables(self._administrator(record).query(LIST_TABLES)))
        reason = "" if in_place else self._refused(record)
        if in_place or reason:
            return [f"Check {count} tables of {name} in its own server{reason and f': {reason}'}"]
        return [
            f"Clone {name} as it is now into {clone}",
            f"Check {count} tables there",
            f"Delete {clone} again",
        ]

    def check(self, record: DatabaseRecord, *, in_place: bool) -> list[TableCheck]:
        """Check every table, on a clone where one can be made and nobody asked for `in_place`.

        Raises RefusedError with code `busy` (another check of its tables is under way) or
        `name-taken`, and what keeps a clone from being made.
        """
        operations, request = self._operations, _clone_request(record)
        lock = f"verify-tables.{operations.lab}.{record.spec.name}"
        with hold_lock(operations.home, lock, operations.clock, timeout_s=0):
            self._scratch.remove(request.name)  # of a check that was cut off
            reason = "" if in_place else self._refused(record)
            if reason:
                operations.progress.note(f"Its tables are checked in its own server: {reason}")
            if in_place or reason:
                return check_tables(self._administrator(record), operations.progress)
            with self._scratch.gone_after(request.name):
                self._clones.clone(request)
                clone = operations.ready(request.name)
                return check_tables(self._administrator(clone), operations.progress)

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


def check_tables(administrator: Administrator, progress: Progress) -> list[TableCheck]:
    """What CHECK TABLE says of each table. Once a server has ended, it is not asked again."""
    rows = administrator.query(LIST_TABLES)
    tables, sizes_bytes = parse_tables(rows), parse_sizes(rows)
    progress.phase(f"Check {len(tables)} tables")
    whole_bytes = max(1, sum(sizes_bytes.values()))
    done_bytes, ended = 0, ""
    checks: list[TableCheck] = []
    for table in tables:
        shown = show_table(table)
        progress.detail(shown, fraction=done_bytes / whole_bytes)
        done_bytes += sizes_bytes[table]
        if ended:
            checks.append(TableCheck(table=shown, outcome="unchecked", said=ended))
            continue
        check, is_lost = _check_table(administrator, table)
        if is_lost:
            ended = f"The server ended at the check of {shown}."
        checks.append(check)
    return checks


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
