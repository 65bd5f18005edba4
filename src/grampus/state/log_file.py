"""The log under GRAMPUS_HOME: JSON, one event a line, in a few files of bounded size.

Every process appends to the same file, each event by one call, so lines stay whole. A log that
cannot be written (a full disk) fails no command: a full home is warned of by itself.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from io import TextIOWrapper
from logging.handlers import WatchedFileHandler
from pathlib import Path
from typing import Any, TextIO

from pythonjsonlogger.json import JsonFormatter

from grampus.core.clock import SystemClock
from grampus.core.errors import GrampusError
from grampus.state.home import Home
from grampus.state.locks import hold_lock

LOGGER = "grampus"
DIRECTORY, FILE = "log", "grampus.log"
# Together 40 MiB: some hundred thousand events.
MOST_BYTES = 8 << 20
KEPT_FILES = 4
_LOCK = "log"
# What `extra` may not be called, and what each line has.
_FIELDS = {"levelname": "level", "name": "part", "message": "event", "timestamp": "at"}


def configure_log(context: Mapping[str, object], *, verbose: bool) -> None:
    """Send what this process logs to the log of `$GRAMPUS_HOME`; `context` is in every line.

    With `verbose` more is logged, and shown on stderr. Called again, it replaces what was
    configured before.
    """
    logger = logging.getLogger(LOGGER)
    for former in [one for one in logger.handlers if isinstance(one, _OURS)]:
        logger.removeHandler(former)
        former.close()
    logger.setLevel(logging.DEBUG if verbose else logging.INFO)
    handler = HomeLog(Home.from_environment())
    handler.setFormatter(
        JsonFormatter(
            ["levelname", "name", "message"],
            rename_fields=_FIELDS,
            static_fields=dict(context),
            timestamp=True,
        )
    )
    logger.addHandler(handler)
    if verbose:
        shown = ShownLog()
        shown.setFormatter(_Line(["levelname", "message"], timestamp=True))
        logger.addHandler(shown)


class HomeLog(WatchedFileHandler):
    """The file, opened at the first event; opened again where another process has moved it."""

    def __init__(self, home: Home) -> None:
        self._home = home
        file = home.root / DIRECTORY / FILE
        super().__init__(file, mode="a", encoding="utf-8", delay=True)

    def emit(self, record: logging.LogRecord) -> None:
        # Only a command that makes a lab makes GRAMPUS_HOME.
        if not self._home.root.is_dir():
            return
        try:
            super().emit(record)
        except OSError:
            self.handleError(record)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's own name
        """An event is lost, and the command goes on."""
        del record

    def _open(self) -> TextIOWrapper:
        file = Path(self.baseFilename)
        file.parent.mkdir(mode=0o700, exist_ok=True)
        self._rotate(file)
        descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        return TextIOWrapper(os.fdopen(descriptor, "ab"), encoding="utf-8")

    def _rotate(self, file: Path) -> None:
        """Move a file that is full out of the way; of two processes, one does it."""
        if not file.exists() or file.stat().st_size < MOST_BYTES:
            return
        try:
            with hold_lock(self._home, _LOCK, SystemClock(), timeout_s=0.0):
                if file.stat().st_size < MOST_BYTES:
                    return
                for number in range(KEPT_FILES - 1, 0, -1):
                    older = file.with_name(f"{FILE}.{number}")
                    if older.exists():
                        older.replace(file.with_name(f"{FILE}.{number + 1}"))
                file.replace(file.with_name(f"{FILE}.1"))
        except GrampusError as error:
            if error.code != "busy":  # the other process does it
                raise


class _Line(JsonFormatter):
    """The same fields in a line for people."""

    def serialize_log_record(self, log_data: dict[str, Any]) -> str:
        at, level = log_data.pop("timestamp"), log_data.pop("levelname")
        event = log_data.pop("message")
        fields = " ".join(f"{name}={value}" for name, value in log_data.items())
        return f"{at:%H:%M:%S} {level.lower():<7} {event} {fields}"


class ShownLog(logging.StreamHandler[TextIO]):
    """On stderr, for `--verbose`."""


_OURS = (HomeLog, ShownLog)
