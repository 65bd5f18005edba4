"""`grampus serve`: what it prints, and what it does again and again."""

from __future__ import annotations

import contextlib
import io
import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
import typer
from typer.testing import CliRunner

from grampus.cli.main import app
from grampus.cli.output import OutputFormat
from grampus.cli.serve import EventPrinter, _ending_superseded, _standing_by, is_journald
from grampus.cli.serve_backups import BinlogWatch, Look
from grampus.cli.serve_certificates import warn_of_expiry
from grampus.cli.serve_flattening import flatten_due
from grampus.cli.serve_jobs import due_jobs, settle, take_snapshots
from grampus.cli.serve_replicas import renew_replicas
from grampus.cli.serve_trash import empty_trash
from grampus.cli.service_manager import ServiceManager
from grampus.core.errors import GrampusError, RefusedError, SupersededError
from grampus.databases.backup.backup_schedules import CarriedBackup
from grampus.databases.clones.due_flattening import CarriedFlatten
from grampus.databases.controller.due_jobs import ControllerEvent
from grampus.databases.names.database_trash import Purged
from grampus.databases.replicas.renewals import Renewal
from grampus.databases.snapshots.snapshot_schedules import Carried
from grampus.databases.tls.decide_expiry import CertificateState
from tests.fakes.clock import FakeClock

EVENT = ControllerEvent(
    "shop", "read-only", "It is read-only.", "warning", {"free_bytes": 1}, "Resize it."
)


def test_a_line_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    EventPrinter(OutputFormat.HUMAN, FakeClock()).tell("growth", EVENT)
    assert capsys.readouterr().out == (
        "2026-01-01 00:00:00 UTC  warning    It is read-only. Resize it.\n"
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
    made = due_jobs(contextlib.nullcontext)  # type: ignore[arg-type]
    jobs = {job.name: job for job in made}
    assert len(jobs) == len(made)
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


def test_a_certificate_that_ends_soon_is_warned_of_in_the_same_words_each_hour() -> None:
    states = {
        "blog": GrampusError("openssl is gone.", "Install it."),
        "shop": CertificateState(NOON + timedelta(days=9), is_rotated=False),
        "store": CertificateState(NOON + timedelta(days=900), is_rotated=False),
    }
    rotation = SimpleNamespace(all=lambda: states, keep_copies=lambda: None)
    first, later = (
        warn_of_expiry(rotation, now)  # type: ignore[arg-type]
        for now in (NOON, NOON + timedelta(hours=1))
    )
    assert first == later
    assert [(event.database, event.kind, event.level) for event in first] == [
        ("blog", "failed", "failed"),
        ("shop", "certificate-ends", "warning"),
    ]


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def look(until_s: float | None, ended_s: float, *problems: GrampusError) -> dict[str, Look]:
    """One of `shop`, by which all is copied until then."""
    until = None if until_s is None else at(until_s)
    return {
        "shop": Look(CarriedBackup("shop", archived_until=until, problems=[*problems]), at(ended_s))
    }


def watched() -> BinlogWatch:
    """`shop` was copied until NOON."""
    watch = BinlogWatch(contextlib.nullcontext, patience_s=0.0)  # type: ignore[arg-type]
    assert watch.events_of(["shop"], look(0, 0), at(0)) == []
    return watch


@pytest.mark.parametrize(
    ("looks", "now_s", "lag_s"),
    [
        (look(2, 3), 4, None),
        (look(4, 5.5), 6, 5.5),  # what was committed right after NOON waited for this one
        (look(None, 6), 6, 6.0),  # this look failed
        ({}, 5, None),  # it is at it
        ({}, 7, 7.0),
    ],
)
def test_lag_is_what_a_commit_may_have_waited(
    looks: dict[str, Look], now_s: float, lag_s: float | None
) -> None:
    events = watched().events_of(["shop"], looks, at(now_s))
    assert [event.details["lag_s"] for event in events] == ([] if lag_s is None else [lag_s])


def test_lag_is_told_as_a_state_that_lasts() -> None:
    """The text is the same each time: the figure is among the details."""
    watch = watched()
    late = watch.events_of(["shop"], look(None, 6), at(6))
    later = watch.events_of(["shop"], {}, at(60))
    stopped = watch.events_of([], {}, at(61))
    started = watch.events_of(["shop"], look(None, 90), at(90))
    assert (stopped, started) == ([], [])
    assert [(event.kind, event.level) for event in (*late, *later)] == 2 * [
        ("archive-late", "warning")
    ]
    assert late[0].text == later[0].text
    assert (late[0].details, later[0].details) == ({"lag_s": 6.0}, {"lag_s": 60.0})


def test_what_needed_no_look_is_copied() -> None:
    watch = watched()
    assert watch.events_of(["shop"], {}, at(60), {"shop": at(59)}) == []
    # What is committed after that waits for the next look.
    (late,) = watch.events_of(["shop"], look(70, 71), at(72))
    assert late.details == {"lag_s": 12.0}


def test_what_a_look_met_is_so_until_the_next_is_over() -> None:
    watch = watched()
    gap = GrampusError("There is a gap.", code="archive-gap")
    met = watch.events_of(["shop"], look(None, 2, gap), at(2))
    meanwhile = watch.events_of(["shop"], {}, at(4))
    assert (len(met), meanwhile) == (1, met)
    assert watch.events_of(["shop"], look(4, 5), at(5)) == []


def test_what_became_of_replicas_is_told() -> None:
    renewals = [
        Renewal("shop-r1", "shop", "schedule"),
        Renewal("shop-r2", "shop", "too-far-behind"),
        Renewal("blog-r1", "blog", "schedule", problem="h2 is down."),
        Renewal("blog-r2", "blog", "ahead", problem="The replica blog-r2 is ahead of its primary."),
    ]
    service = SimpleNamespace(carry_out=lambda: renewals)
    events = renew_replicas(service)  # type: ignore[arg-type]
    assert [(event.database, event.kind, event.level) for event in events] == [
        ("shop-r1", "replica-renewed", "done"),
        ("shop-r2", "replica-renewed", "done"),
        ("blog-r1", "failed", "failed"),
        ("blog-r2", "replica-ahead", "warning"),
    ]
    assert "no longer had the missing binary logs" in events[1].text
    assert "grampus db replica renew blog-r2 --discard-errant" in events[3].remedy
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
    cannot = "The move of the database shop was interrupted and could not be recovered: h1 is down."
    done = {True: ["The resize of 'x' is now finished."]}  # and the copies that wait, too
    volumes = SimpleNamespace(converge=lambda *, completes: done[completes])
    operations = SimpleNamespace(records=SimpleNamespace(all=dict), volumes=volumes)
    databases = SimpleNamespace(converge=lambda *, retries: [cannot], operations=operations)
    session = SimpleNamespace(volumes=lambda: volumes, databases=lambda: databases)
    events = settle(session)  # type: ignore[arg-type]
    assert [(event.kind, event.level, event.text) for event in events] == [
        ("settled", "done", "The resize of 'x' is now finished."),
        ("unsettled", "failed", cannot),
    ]


def test_journald_is_known_by_the_stream_that_it_names(tmp_path: Path) -> None:
    with (tmp_path / "stream").open("w") as stream:
        seen = os.fstat(stream.fileno())
        assert is_journald(f"{seen.st_dev}:{seen.st_ino}", stream)
        assert not is_journald("", stream)
        assert not is_journald("1:1", io.StringIO())
        assert not is_journald(f"{seen.st_dev}:{seen.st_ino + 1}", stream)


def test_a_standby_that_is_ended_has_not_failed() -> None:
    told: list[ControllerEvent] = []
    manager = ServiceManager({}, FakeClock())
    with (
        pytest.raises(typer.Exit) as ended,
        _standing_by(manager, lambda _, event: told.append(event), "admin2"),
    ):
        raise KeyboardInterrupt  # SIGTERM, too
    assert ended.value.exit_code == 0
    assert [event.kind for event in told] == ["standby", "stopped"]


def test_a_superseded_controller_says_so_as_an_event_and_ends() -> None:
    told: list[ControllerEvent] = []
    with (
        pytest.raises(typer.Exit) as ended,
        _ending_superseded(lambda _, event: told.append(event)),
    ):
        raise SupersededError("It is controlled from admin2.", "Go there.")
    assert ended.value.exit_code == 4
    (event,) = told
    assert (event.level, event.text) == ("failed", "It is controlled from admin2.")
    with pytest.raises(RefusedError), _ending_superseded(lambda *_: None):
        raise RefusedError("Another one runs.", code="busy")
