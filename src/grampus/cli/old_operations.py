"""Old operations removed from the history: a few by each command (see `serve_history.py`)."""

from __future__ import annotations

import os
from importlib import import_module

from grampus.cli.composition.session import Session
from grampus.core.errors import GrampusError
from grampus.state.retention import ROWS_OF_A_COMMAND, OperationRetention, parse_kept_days


def forget_operations(session: Session) -> None:
    """What a command does about it at its end. A failure is told, and is no failure of it."""
    try:
        days = parse_kept_days(os.environ)
        retention = OperationRetention(session.store, session.lab_name, session.clock)
        if retention.is_due():
            # What it takes is imported once a day.
            names = import_module("grampus.cli.composition.names")
            names.histories(session).forget(days, most=ROWS_OF_A_COMMAND)
    except GrampusError as error:
        session.progress.note(f"Old operations stay in the history: {error}")
