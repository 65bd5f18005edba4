"""Why a server ended that should run, from what the kernel and its log say.

Pure but for `observe_end`.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Literal

from pydantic import ConfigDict

from grampus.core.models import Model
from grampus.databases.layout import server_daemon_name
from grampus.hosts.port import DaemonStatus, Host

# `absent`: it was ended with its host, or nothing is left that says more.
EndKind = Literal["out-of-memory", "signal", "error", "shutdown", "killed", "absent"]

# From one start of a server that fails to the next, twice as long each time.
FIRST_RESTART_S = 10.0
MOST_RESTART_S = 900.0
# A server that has run so long is not failing any more: the next failure begins anew.
STABLE_S = 600.0
_LONGEST_SAID = 500
# The end of a log that holds a crash's report.
_LOG_LINES = 80

_SIGNAL = re.compile(r"got (?:signal|exception) (?P<number>\w+)")
_MARKED = re.compile(r"\[ERROR\]|\bERROR\b")
_SHUT_DOWN = re.compile(r"Shutdown complete|Normal shutdown|Received SHUTDOWN")
_ABORTED = re.compile(r"Aborting|Giving up|Assertion failure|\[FATAL\]|Fatal error")
# A new start: what stands before it is of the one before.
_BEGAN = re.compile(r"starting as process|Starting MariaDB|MY-015015|MY-010116")


class ServerEnd(Model):
    """How a server ended."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    kind: EndKind
    said: str = ""  # the last lines of its log that say why; without anything secret


class ServerFailure(Model):
    """A server that should run and does not, as the controller knows it."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    end: ServerEnd
    since: datetime  # when it was first found so
    restarts: int = 0  # in a row
    next_at: datetime  # when it is started again
    started_at: datetime | None = None  # the last restart that succeeded
    problem: str = ""  # why the last restart failed

    @property
    def is_down(self) -> bool:
        """Whether it was down at the last look; a failure lasts until it is up for a while."""
        return self.started_at is None


def classify_end(out_of_memory: int, log: str | None) -> ServerEnd:
    """How a server ended, from the kernel's count and the end of its log; None: there is none."""
    if log is None:
        return ServerEnd(kind="absent")
    lines = _of_last_start(log)
    said = _last_words(lines)
    if out_of_memory:
        return ServerEnd(kind="out-of-memory", said=said)
    text = "\n".join(lines)
    if _SIGNAL.search(text):
        return ServerEnd(kind="signal", said=said)
    if _ABORTED.search(text):
        return ServerEnd(kind="error", said=said)
    if _SHUT_DOWN.search(text):
        return ServerEnd(kind="shutdown", said="")
    # It wrote nothing about its end: something killed it.
    return ServerEnd(kind="killed" if lines else "absent", said=said)


def observe_end(host: Host, database: str, status: DaemonStatus | None) -> ServerEnd:
    """How the server of a database ended; `status` None: its daemon is gone."""
    if status is None:
        return classify_end(0, None)
    daemon = server_daemon_name(database)
    return classify_end(status.out_of_memory, host.daemon_log(daemon, last_lines=_LOG_LINES))


def explain_end(end: ServerEnd) -> str:
    """The end as half a sentence, after `the server ended`: without a full stop."""
    found = _SIGNAL.search(end.said)
    reason = {
        "out-of-memory": "it reached its memory limit and the kernel killed it",
        "signal": f"it crashed with signal {found['number']}" if found else "it crashed",
        "error": "it stopped because of an error",
        "shutdown": "it was shut down from outside",
        "killed": "it was killed (SIGKILL)",
        "absent": "its host or its container was stopped",
    }[end.kind]
    shows_log = end.kind in ("signal", "error") or (
        end.kind == "killed" and _MARKED.search(end.said) is not None
    )
    return f"{reason}: {end.said.rstrip('.')}" if shows_log and end.said else reason


def advise_on_end(end: ServerEnd, name: str) -> str:
    """What the user can do, as a sentence."""
    if end.kind == "out-of-memory":
        return f"`grampus db set {name} --memory SIZE` gives it more memory."
    if end.kind in ("signal", "error"):
        return (
            f"`grampus db parameter list {name}` shows the parameters that were set. `grampus "
            f"volume show {name}` shows the volume."
        )
    return f"`grampus db start {name}` starts it."


def decide_restart_wait_s(restarts: int) -> float:
    """Seconds until the next start, after `restarts` in a row."""
    return min(MOST_RESTART_S, FIRST_RESTART_S * float(2 ** min(restarts, 10)))


def note_failure(known: ServerFailure | None, end: ServerEnd, now: datetime) -> ServerFailure:
    """What is known of a server that is found ended, given what was known before.

    The first restart comes at once. One that did not stay up long enough counts as the same
    failure, so that the wait grows. It is counted from the last start: a server that ran for longer
    is started at once.
    """
    if known is None or is_stable(known, now):
        return ServerFailure(end=end, since=now, next_at=now)
    if known.started_at is None:
        return known  # it has not been up since
    due_at = known.started_at + timedelta(seconds=decide_restart_wait_s(known.restarts))
    update = {"end": end, "started_at": None, "next_at": max(now, due_at)}
    return known.model_copy(update=update)


def note_restart(failure: ServerFailure, now: datetime, problem: str = "") -> ServerFailure:
    """What is known after a restart; `problem`: why it failed."""
    restarts = failure.restarts + 1
    wait_s = decide_restart_wait_s(restarts)
    return failure.model_copy(
        update={
            "restarts": restarts,
            "started_at": None if problem else now,
            "next_at": now + timedelta(seconds=wait_s) if problem else now,
            "problem": problem[:_LONGEST_SAID],
        }
    )


def is_stable(failure: ServerFailure, now: datetime) -> bool:
    """Whether it has been up for so long that the failure is over."""
    started_at = failure.started_at
    return started_at is not None and (now - started_at).total_seconds() >= STABLE_S


def _of_last_start(log: str) -> list[str]:
    # The password that mysqld invents for root is replaced and locked, yet not worth showing; a
    # statement that was under way when the server crashed may hold anything.
    lines = [
        line.strip()
        for line in log.splitlines()
        if line.strip() and "password" not in line.lower() and not line.startswith("Query (")
    ]
    begun = [number for number, line in enumerate(lines) if _BEGAN.search(line)]
    return lines[begun[-1] :] if begun else lines


def _last_words(lines: list[str]) -> str:
    crash = [line for line in lines if _SIGNAL.search(line)]
    errors = [line for line in lines if _MARKED.search(line) and "Aborting" not in line]
    return " / ".join((crash or errors or lines)[-2:])[:_LONGEST_SAID]
