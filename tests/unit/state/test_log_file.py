"""The log under GRAMPUS_HOME."""

from __future__ import annotations

import errno
import json
import logging
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from grampus.core.errors import GrampusError
from grampus.core.progress import SilentProgress
from grampus.state import log_file
from grampus.state.home import HOME_VARIABLE
from grampus.state.log_file import DIRECTORY, FILE, KEPT_FILES, LOGGER, configure_log
from grampus.state.operations import OperationJournal, Step
from grampus.state.store import Store
from tests.fakes.clock import FakeClock

LAB = "t"


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The file, of a process that runs `db stop`."""
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path))
    configure_log({"command": "db stop"}, verbose=False)
    yield tmp_path / DIRECTORY / FILE
    logger = logging.getLogger(LOGGER)
    for handler in list(logger.handlers):
        logger.removeHandler(handler)
        handler.close()
    logger.setLevel(logging.NOTSET)


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def say(event: str) -> None:
    logging.getLogger("grampus.tests").info(event)


def test_an_event_is_a_line_for_its_owner_alone(log: Path) -> None:
    assert not log.parent.exists(), "what says nothing leaves nothing"
    logging.getLogger("grampus.tests").warning("pie.burnt", extra={"minutes": 40})
    (line,) = lines(log)
    assert line.pop("at").endswith("+00:00")
    assert line == {
        "level": "WARNING",
        "part": "grampus.tests",
        "event": "pie.burnt",
        "command": "db stop",
        "minutes": 40,
    }
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    assert stat.S_IMODE(log.parent.stat().st_mode) == 0o700


def test_an_operation_is_logged_from_its_beginning_to_its_end_without_its_document(
    log: Path,
) -> None:
    journal = OperationJournal(Store(None), FakeClock())

    def fail() -> None:
        raise GrampusError("The host h1 cannot be reached.")

    for stop in (lambda: None, fail):
        operation = journal.begin("db.stop", LAB, "shop", {"password": "hunter2"})
        steps = [Step("stop", "Stop the server", stop, lambda: None)]
        try:
            journal.apply(operation, steps, SilentProgress(), undo_on_failure=True)
        except GrampusError:
            continue
    events = [(line["event"], line["level"], line["operation"]) for line in lines(log)]
    assert events == [
        ("operation.begun", "INFO", 1),
        ("operation.step", "INFO", 1),
        ("operation.done", "INFO", 1),
        ("operation.begun", "INFO", 2),
        ("operation.step", "INFO", 2),
        ("operation.failed", "WARNING", 2),
        ("operation.undo", "INFO", 2),
        ("operation.undone", "WARNING", 2),
    ]
    assert lines(log)[5]["error"] == "The host h1 cannot be reached."
    assert {line["subject"] for line in lines(log)} == {"shop"}
    assert "hunter2" not in log.read_text()


def test_a_full_file_is_moved_away_and_few_are_kept(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_file, "MOST_BYTES", 300)
    for number in range(40):
        configure_log({}, verbose=False)  # as the next command
        say(f"event.{number}")
    files = sorted(path.name for path in log.parent.iterdir())
    assert files == [FILE, *(f"{FILE}.{number}" for number in range(1, KEPT_FILES + 1))]
    assert lines(log)[-1]["event"] == "event.39"
    kept = [line["event"] for name in files for line in lines(log.with_name(name))]
    assert len(kept) == len(set(kept))


def test_a_process_goes_on_in_the_new_file_when_another_has_moved_the_former_one(
    log: Path,
) -> None:
    say("event.before")
    log.rename(log.with_name(f"{FILE}.1"))
    say("event.after")
    assert [line["event"] for line in lines(log)] == ["event.after"]


def test_lines_of_processes_beside_one_another_stay_whole(log: Path, tmp_path: Path) -> None:
    program = (
        "import logging, os; from grampus.state.log_file import configure_log;"
        "configure_log({'pid': os.getpid()}, verbose=False);"
        "[logging.getLogger('grampus.x').info('e', extra={'text': 'x' * 3000}) for _ in range(200)]"
    )
    writers = [
        subprocess.Popen([sys.executable, "-c", program], env={**os.environ}) for _ in range(2)
    ]
    assert [writer.wait(60) for writer in writers] == [0, 0]
    assert len(lines(log)) == 400


def test_a_log_that_cannot_be_written_fails_nothing(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "open", refuse)
    say("event.lost")
    monkeypatch.undo()
    assert not log.exists()
    assert capsys.readouterr().err == ""


def test_an_absent_home_stays_absent(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "none"))
    configure_log({}, verbose=False)
    say("event.nowhere")
    assert list(tmp_path.iterdir()) == []


def test_what_is_logged_can_be_shown(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    configure_log({"command": "db stop"}, verbose=True)
    logging.getLogger("grampus.tests").debug("pie.look", extra={"minutes": 40})
    said = capsys.readouterr().err
    assert said.endswith(" debug   pie.look minutes=40\n")
    assert lines(log)[0]["event"] == "pie.look"
