"""Binary logs as `db show` shows them, and what a command says of them that looks anyway."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from grampus.cli.composition.session import Session
from grampus.core.errors import GrampusError
from grampus.core.intervals import format_interval
from grampus.core.units import format_bytes
from grampus.databases.binlog_keeping.expiry import retention_of
from grampus.databases.binlog_keeping.keeper import BinlogKeeper, LogsView
from grampus.databases.overview import Overview
from grampus.databases.view import DatabaseView


def observe_binlogs(
    session: Session, view: DatabaseView, seen: Overview
) -> LogsView | GrampusError | None:
    """The binary logs of a running database, or why nobody knows; None: it does not run.

    Servers that have just given no answer are not asked again.
    """
    if view.status != "running" or seen.server is None:
        return None
    standings = {one.record.spec.name: one.standing for one in seen.replicas}
    silent = [name for name, standing in standings.items() if standing.state == "no-answer"]
    try:
        return BinlogKeeper().view(session.databases().operations, view.record, silent=silent)
    except GrampusError as error:
        return error


def binlogs_document(view: DatabaseView, seen: LogsView | GrampusError | None) -> dict[str, Any]:
    """The field `binary_logs` of `db show --format json`."""
    logs = seen if isinstance(seen, LogsView) else None
    return {
        "retention_s": retention_of(view.record.spec),
        "count": len(logs.logs) if logs else None,
        "size_bytes": logs.size_bytes if logs else None,
        "share_bytes": logs.room.share_bytes if logs else None,
        "held_by": [
            {
                "who": held.need.who,
                "replica": held.need.name or None,
                "answers": not held.need.is_away,
                "size_bytes": held.size_bytes,
                "bound_bytes": held.bound_bytes,
            }
            for held in (logs.held if logs else ())
        ],
        "problem": seen.problem if isinstance(seen, GrampusError) else None,
    }


def pairs_of_binlogs(view: DatabaseView, seen: LogsView | GrampusError | None) -> dict[str, str]:
    """For people: how much there is, for how long it is kept, and for whom."""
    kept = f"kept for {format_interval(retention_of(view.record.spec))} at least"
    if view.record.spec.replica_of is not None:
        kept = "kept while there is space"
    if isinstance(seen, GrampusError):
        return {"binary logs": f"{kept}; not known: {seen.problem}"}
    if seen is None:
        return {"binary logs": kept}
    files = "1 file" if len(seen.logs) == 1 else f"{len(seen.logs)} files"
    size, share = format_bytes(seen.size_bytes), format_bytes(seen.room.share_bytes)
    lines = [f"{files}, {size} (limit: {share} of the volume), {kept}"]
    lines += [f"{format_bytes(held.size_bytes)} kept for {held.need.words}" for held in seen.held]
    return {"binary logs": "\n".join(lines)}


def keep_binlogs(session: Session, databases: Sequence[str]) -> None:
    """Delete what these databases need no longer, as `grampus serve` does; say what is wrong."""
    keeper = BinlogKeeper(stays=False)
    for event in keeper.run(session.databases().operations, only=databases):
        if event.level != "done":
            session.progress.note(f"{event.text} {event.remedy}".strip())
