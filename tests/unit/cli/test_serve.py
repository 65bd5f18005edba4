"""`grampus serve`: what it prints, and what it does again and again."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from grampus.cli.main import app
from grampus.cli.output import OutputFormat
from grampus.cli.serve import EventPrinter
from grampus.cli.serve_backups import BinlogWatch, decide_lag_s
from grampus.cli.serve_flattening import flatten_due
from grampus.cli.serve_jobs import due_jobs, settle, take_snapshots
from grampus.cli.serve_replicas import renew_replicas
from grampus.cli.serve_trash import empty_trash
from grampus.core.errors import GrampusError, RefusedError
from grampus.databases.backup.backup_schedules import CarriedBackup
from grampus.databases.clones.due_flattening import CarriedFlatten
from grampus.databases.controller.due_jobs import ControllerEvent
from grampus.databases.names.trash import Purged
from grampus.databases.replicas.renewals import Renewal
from grampus.databases.snapshots.snapshot_schedules import Carried
from tests.unit.clock import FakeClock

EVENT = ControllerEvent(
    "shop", "read-only", "It is read-only.", "warning", {"free_bytes": 1}, "Resize it."
)


def test_a_line_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    EventPrinter(OutputFormat.HUMAN, FakeClock()).tell("growth", EVENT)
    assert capsys.readouterr().out == (
        "2026-01-01 00:00:00  warning    It is read-only. Resize it.\n"
    )


def test_a_line_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    printer = EventPrinter(OutputFormat.JSON, FakeClock())
    printer.tell("growth", EVENT)
    printer.tell("settle", ControllerEvent("", "settled", "It is done."))
    first, second = capsys.readouterr().out.splitlines()
    assert json.loads(first) == {
        "at": "2026-01-01T00:00:00+00:00",
        "job": "growth",
        "database": "shop",
        "kind": "read-only",
        "level": "warning",
        "text": "It is read-only.",
        "remedy": "Resize it.",
        "details": {"free_bytes": 1},
    }
    assert (json.loads(second)["database"], json.loads(second)["remedy"]) == (None, None)


def test_jobs_have_names_of_their_own_and_the_guard_looks_often() -> None:
    jobs = {job.name: job for job in due_jobs()}
    assert len(jobs) == len(due_jobs())
    assert jobs["growth"].every_s <= 5
    assert all(job.every_s > 0 for job in jobs.values())


def test_without_a_lab_there_is_nothing_to_look_after() -> None:
    result = CliRunner().invoke(app, ["serve", "--once"])
    assert result.exit_code == 3
    assert "no lab named" in result.stderr


def test_what_schedules_did_is_told() -> None:
    carried = [
        Carried("quiet"),
        Carried("shop", taken="auto-1", deleted=["auto-0"], kept={"auto-x": "Clones stand on it."}),
        Carried("blog", problem="No answer."),
    ]
    schedules = SimpleNamespace(carry_out=lambda: carried)
    events = take_snapshots(schedules)  # type: ignore[arg-type]
    assert [(event.database, event.kind, event.level) for event in events] == [
        ("shop", "snapshot-taken", "done"),
        ("shop", "snapshots-let-go", "done"),
        ("shop", "snapshot-kept", "warning"),
        ("blog", "failed", "failed"),
    ]


NOON = datetime(2026, 11, 24, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("before_s", "until_s", "now_s", "lag_s"),
    [
        (None, None, 9, 0.0),  # nothing is known
        (None, 8, 9, 1.0),  # the first look
        (6, 8, 9, 3.0),  # what was committed right after the look before waited for this one
        (6, None, 90, 84.0),  # this look failed
    ],
)
def test_lag_is_what_a_commit_may_have_waited(
    before_s: int | None, until_s: int | None, now_s: int, lag_s: float
) -> None:
    def at(seconds: int | None) -> datetime | None:
        return None if seconds is None else NOON + timedelta(seconds=seconds)

    assert decide_lag_s(at(before_s), at(until_s), NOON + timedelta(seconds=now_s)) == lag_s


def test_lag_is_told_as_a_state_that_lasts() -> None:
    """The text is the same each time: the figure is among the details."""
    watch = BinlogWatch()
    failed = CarriedBackup("shop", has_logs=True)
    good = CarriedBackup("shop", has_logs=True, archived_until=NOON)
    first = watch.events_of([good], NOON)
    late = watch.events_of([failed], NOON + timedelta(seconds=6))
    later = watch.events_of([failed], NOON + timedelta(seconds=60))
    stopped = watch.events_of([CarriedBackup("shop")], NOON + timedelta(seconds=61))
    started = watch.events_of([failed], NOON + timedelta(seconds=90))
    assert (first, stopped, started) == ([], [], [])
    assert [(event.kind, event.level) for event in (*late, *later)] == 2 * [
        ("archive-late", "warning")
    ]
    assert late[0].text == later[0].text
    assert (late[0].details, later[0].details) == ({"lag_s": 6.0}, {"lag_s": 60.0})


def test_what_became_of_replicas_is_told() -> None:
    renewals = [
        Renewal("shop-r1", "shop", "schedule"),
        Renewal("shop-r2", "shop", "too-far-behind"),
        Renewal("blog-r1", "blog", "schedule", problem="h2 is down."),
    ]
    service = SimpleNamespace(carry_out=lambda: renewals)
    events = renew_replicas(service)  # type: ignore[arg-type]
    assert [(event.database, event.kind, event.level) for event in events] == [
        ("shop-r1", "replica-renewed", "done"),
        ("shop-r2", "replica-renewed", "done"),
        ("blog-r1", "failed", "failed"),
    ]
    assert "no longer had the binary logs" in events[1].text
    assert events[2].text == "h2 is down."


def test_what_was_flattened_is_told_and_what_waits_is_not() -> None:
    carried = [
        CarriedFlatten("shop", is_flat=True),
        CarriedFlatten("quiet", waits="it is stopped"),
        CarriedFlatten("blog", problem=GrampusError("No space left.", "Add OSDs.")),
    ]
    events = flatten_due(SimpleNamespace(carry_out=lambda: carried))  # type: ignore[arg-type]
    assert [(event.database, event.kind, event.level) for event in events] == [
        ("shop", "flattened", "done"),
        ("blog", "failed", "failed"),
    ]
    assert (events[1].text, events[1].remedy) == ("No space left.", "Add OSDs.")


def test_what_left_the_trash_is_told_and_what_must_stay_is_warned_of() -> None:
    purged = [
        Purged("shop.20260101T000000", "shop"),
        Purged("busy.20260101T000000", "busy", RefusedError("Busy.", code="busy")),
        Purged("base.20260101T000000", "base", RefusedError("Has clones.", code="has-clones")),
        Purged("blog.20260101T000000", "blog", GrampusError("No answer.")),
    ]
    events = empty_trash(SimpleNamespace(purge_expired=lambda: purged))  # type: ignore[arg-type]
    assert [(event.database, event.kind, event.level) for event in events] == [
        ("shop", "trash-emptied", "done"),
        ("base", "trash-kept", "warning"),
        ("blog", "failed", "failed"),
    ]


def test_what_cannot_be_settled_is_no_success_each_time() -> None:
    cannot = "Work on the database shop that had been cut off could not be settled: h1 is down."
    done = {True: ["The resize of 'x' is now finished."]}  # and the copies that wait, too
    volumes = SimpleNamespace(converge=lambda *, completes: done[completes])
    databases = SimpleNamespace(converge=lambda: [cannot])
    session = SimpleNamespace(volumes=lambda: volumes, databases=lambda: databases)
    events = settle(session)  # type: ignore[arg-type]
    assert [(event.kind, event.level, event.text) for event in events] == [
        ("settled", "done", "The resize of 'x' is now finished."),
        ("unsettled", "failed", cannot),
    ]
