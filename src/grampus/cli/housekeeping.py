"""What commands do at their end: warn, and remove old operations and unneeded binary logs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from importlib import import_module

from pydantic import ConfigDict, Field

from grampus.cli.composition.lab import LabSession
from grampus.cli.composition.session import Session
from grampus.core.errors import GrampusError
from grampus.core.models import Model
from grampus.databases.catalogue import KIND_PREFIX
from grampus.state.home_space import HOME_FULL
from grampus.state.locks import hold_lock
from grampus.state.retention import ROWS_OF_A_COMMAND, OperationRetention, parse_kept_days

# What these make has no binary logs yet that somebody could have stopped needing.
_NEW = ("db.create", "db.clone")
LOOK_EVERY = timedelta(minutes=5)
_LOOKS = "binlog-looks"


def forget_operations(session: Session) -> None:
    """Remove a few old operations from the history (see `serve_history.py`). A failure is told,
    and is no failure of the command.
    """
    try:
        days = parse_kept_days(os.environ)
        retention = OperationRetention(session.store, session.lab_name, session.clock)
        if retention.is_due():
            # What it takes is imported once a day.
            names = import_module("grampus.cli.composition.names")
            names.histories(session).forget(days, most=ROWS_OF_A_COMMAND)
    except GrampusError as error:
        session.progress.note(f"Old operations were not removed from the history: {error}")


@contextmanager
def telling_of_space(session: LabSession) -> Iterator[None]:
    """Warn at the end that GRAMPUS_HOME has little room, unless the command failed for that."""
    try:
        yield
    except GrampusError as error:
        if error.code == HOME_FULL:
            session.forget_space_warning()
        raise
    finally:
        session.warn_of_space()


def controller_lock(lab: str) -> str:
    """The name of the lock that `grampus serve` holds."""
    return f"serve.{lab}"


def keep_touched_binlogs(session: Session) -> None:
    """What `grampus serve` would do, if it does not run, for the databases that were changed.

    MySQL knows no bound of space: without this, its logs would go by their age alone. A failure is
    told, and is no failure of the command.
    """
    names = session.journal.begun(session.lab_name, kind_prefix=KIND_PREFIX, but=_NEW)
    try:
        if not names or _is_served(session):
            return
        names = _due_for_a_look(session, names)
        if names:
            # What it takes is imported by commands that change something.
            import_module("grampus.cli.binlog_documents").keep_binlogs(session, names)
    except GrampusError as error:
        session.progress.note(f"Binary logs of {', '.join(names)} were not checked: {error}")


class BinlogLooks(Model):
    """When commands last looked at the binary logs of databases, by name, as far as that matters.

    Losing one, or having one of a former database of that name, moves a look by minutes.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    at: Mapping[str, datetime] = Field(default_factory=dict)


def _due_for_a_look(session: Session, names: Sequence[str]) -> list[str]:
    """Those at which no command has looked for `LOOK_EVERY`; from now on they count as looked at.

    A look takes a second of a busy machine, and the server's own bound holds meanwhile.
    """
    store, lab, now = session.store, session.lab_name, session.clock.now()
    found = store.get(_LOOKS, lab, lab, BinlogLooks) or BinlogLooks()
    recent = {name: at for name, at in found.at.items() if now - at < LOOK_EVERY}
    due = [name for name in names if name not in recent]
    if due:
        looks = BinlogLooks(at={**recent, **dict.fromkeys(due, now)})
        store.put(_LOOKS, lab, lab, looks, is_noted=False)
    return due


def _is_served(session: Session) -> bool:
    """Whether a controller runs, which looks after all databases and remembers more of them."""
    lock = controller_lock(session.lab_name)
    try:
        with hold_lock(session.home, lock, session.clock, shared=True, timeout_s=0.0):
            return False
    except GrampusError as error:
        if error.code != "busy":
            raise
        return True
