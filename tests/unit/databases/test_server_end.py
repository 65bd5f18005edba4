from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from grampus.databases.server_end import (
    MOST_RESTART_S,
    STABLE_S,
    EndKind,
    ServerEnd,
    ServerFailure,
    classify_end,
    decide_restart_wait_s,
    explain_end,
    is_stable,
    note_failure,
    note_restart,
)

NOW = datetime(2026, 11, 27, tzinfo=UTC)
BEGAN = "2026-11-27T04:00:00Z 0 [System] [MY-010116] /usr/sbin/mysqld starting as process 1"
READY = "2026-11-27T04:00:01Z 0 [System] [MY-010931] ready for connections."
CRASH = "2026-11-27T04:00:02Z UTC - mysqld got signal 11 ;"
ABORT = (
    "2026-11-27T04:00:00Z 0 [ERROR] [MY-000067] [Server] unknown variable 'x=1'.\n"
    "2026-11-27T04:00:00Z 0 [ERROR] [MY-010119] [Server] Aborting"
)
SHUT = "2026-11-27T04:00:09Z 0 [System] [MY-010910] Shutdown complete (mysqld 9.7.4)."


@pytest.mark.parametrize(
    ("killed", "log", "kind", "said"),
    [
        (1, f"{BEGAN}\n{READY}", "out-of-memory", "memory limit"),
        (1, f"{BEGAN}\n{CRASH}", "out-of-memory", "memory limit"),
        (0, f"{BEGAN}\n{READY}\n{CRASH}\nQuery (7f): INSERT secrets", "signal", "signal 11"),
        (0, f"{BEGAN}\n{ABORT}", "error", "unknown variable 'x=1'"),
        (0, f"{BEGAN}\n{READY}\n{SHUT}", "shutdown", "it was shut down from outside"),
        (0, f"{BEGAN}\n{READY}", "killed", "SIGKILL"),
        # The former run's end says nothing of this one's.
        (0, f"{BEGAN}\n{ABORT}\n{BEGAN}\n{READY}", "killed", "SIGKILL"),
        (0, "", "absent", "host or its container"),
        (0, None, "absent", "host or its container"),
    ],
)
def test_why_a_server_ended(killed: int, log: str | None, kind: EndKind, said: str) -> None:
    end = classify_end(killed, log)
    assert end.kind == kind
    assert said in explain_end(end)


@pytest.mark.parametrize("line", ["A temporary password is generated: s3cret", "Query (1): s3cret"])
def test_nothing_secret_of_a_log_is_shown(line: str) -> None:
    for log in (f"{BEGAN}\n{line}", f"{BEGAN}\n{line}\n{CRASH}\n{line}"):
        assert "s3cret" not in str(classify_end(0, log))


def _failure(**changes: object) -> ServerFailure:
    base = ServerFailure(end=ServerEnd(kind="killed"), since=NOW, next_at=NOW)
    return base.model_copy(update=changes)


def test_the_first_restart_comes_at_once_and_later_ones_with_a_growing_wait() -> None:
    failure = note_failure(None, ServerEnd(kind="killed"), NOW)
    assert failure.next_at == NOW
    waits = []
    for _ in range(12):
        failure = note_restart(failure, NOW, "no")
        waits.append((failure.next_at - NOW).total_seconds())
    assert waits == [decide_restart_wait_s(n) for n in range(1, 13)]
    assert waits[0] < waits[1] < waits[2]
    assert waits[-1] == MOST_RESTART_S


@pytest.mark.parametrize(
    ("restarts", "ran_s", "waits_s"),
    [
        (1, 0.0, 20.0),
        (1, 5.0, 15.0),
        (1, 20.0, 0.0),
        # It ran for minutes: nobody has to wait because it failed once before.
        (1, STABLE_S / 2, 0.0),
        (5, 30.0, 290.0),
        (5, STABLE_S - 1, 0.0),
        (12, STABLE_S - 1, MOST_RESTART_S - STABLE_S + 1),
    ],
)
def test_starts_of_a_server_that_fails_again_and_again_are_ever_further_apart(
    restarts: int, ran_s: float, waits_s: float
) -> None:
    restarted = _failure(restarts=restarts, started_at=NOW)
    ended_at = NOW + timedelta(seconds=ran_s)
    again = note_failure(restarted, ServerEnd(kind="signal"), ended_at)
    assert (again.restarts, again.end.kind, again.started_at) == (restarts, "signal", None)
    assert (again.next_at - ended_at).total_seconds() == waits_s


def test_a_server_that_ran_for_long_begins_anew() -> None:
    restarted = note_restart(_failure(), NOW)
    later = NOW + timedelta(seconds=STABLE_S)
    assert is_stable(restarted, later)
    assert note_failure(restarted, ServerEnd(kind="killed"), later).restarts == 0


def test_why_it_failed_first_outlives_restarts_that_fail() -> None:
    known = note_restart(_failure(end=ServerEnd(kind="out-of-memory")), NOW, "no")
    assert note_failure(known, ServerEnd(kind="absent"), NOW).end.kind == "out-of-memory"
