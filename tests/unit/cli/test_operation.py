"""`grampus operation`, and commands in the background."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from grampus.cli.background import start
from grampus.cli.main import app
from grampus.cli.output import OutputFormat
from grampus.core.errors import UsageError
from grampus.core.processes import OperationProcess, observe_own_process
from grampus.core.progress import SilentProgress
from grampus.lab.model import LAB_RECORD
from grampus.state.home import Home
from grampus.state.operations import OperationJournal, Step
from grampus.state.store import Store
from tests.fakes.clock import FakeClock
from tests.unit.lab.test_model import make_spec

LAB = "test"


@pytest.fixture
def store(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """The state of a lab with an operation that was undone, and one that this process is at."""
    monkeypatch.setenv("GRAMPUS_LAB", LAB)
    home.mkdir()
    store = Store(Home(home).store_file)
    store.put(LAB_RECORD, LAB, LAB, make_spec(name=LAB))
    process = OperationProcess(observe_own_process(), "db stop").render()
    journal = OperationJournal(store, FakeClock(), actor="anna", process=process)
    undone = journal.begin("db.start", LAB, "shop", {})
    journal.close_unapplied(undone, "The host h1 cannot be reached.")
    journal.begin("db.stop", LAB, "shop", {})
    yield store
    store.close()


def run(*argv: str) -> Result:
    return CliRunner().invoke(app, ["operation", *argv])


def test_operations_are_listed_with_what_they_do(store: Store) -> None:
    lines = run("list").stdout.splitlines()
    assert lines[0].split() == [
        *("ID", "OPERATION", "SUBJECT", "STATE", "STARTED", "TOOK", "BY", "DOING")
    ]
    assert lines[1].split(maxsplit=10)[1:5] == ["db", "start", "shop", "undone"]
    assert lines[1].endswith("anna  The host h1 cannot be reached.")
    assert lines[2].split()[1:5] == ["db", "stop", "shop", "running"]
    shown = json.loads(run("list", "--last", "0", "--format", "json").stdout)
    assert [one["state"] for one in shown["operations"]] == ["running"]
    assert run("list", "--last", "-1").exit_code == 2


def test_one_is_shown_with_its_command(store: Store) -> None:
    shown = json.loads(run("show", "2", "--format", "json").stdout)
    assert (shown["kind"], shown["command"], shown["by"]) == ("db.stop", "db stop", "anna")
    assert shown["pid"] == observe_own_process().pid
    assert "why" not in run("show", "1").stdout
    missing = run("show", "7")
    assert missing.exit_code == 3
    assert "operation 7 does not exist" in missing.output


@pytest.mark.parametrize("verb", ["list", "show", "wait", "cancel"])
def test_a_wrong_lab_gets_a_suggestion(store: Store, verb: str) -> None:
    words = [] if verb == "list" else ["1"]
    missing = run(verb, *words, "--lab", "tets")
    assert missing.exit_code == 3
    assert f"Did you mean '{LAB}'?" in missing.output


def test_a_wait_fails_unless_the_operation_was_done(store: Store) -> None:
    assert run("wait", "1").exit_code == 1
    timed_out = run("wait", "2", "--timeout", "1s")
    assert timed_out.exit_code == 1
    assert "has not ended" in timed_out.output
    journal = OperationJournal(store, FakeClock())
    (operation,) = journal.unfinished(LAB)
    steps = [Step("stop", "Stop it", lambda: None)]
    journal.apply(operation, steps, SilentProgress(), undo_on_failure=False)
    assert run("wait", "2").exit_code == 0


def test_what_has_ended_cannot_be_cancelled(store: Store) -> None:
    refused = run("cancel", "1", "--yes")
    assert refused.exit_code == 4
    assert "has ended: undone" in refused.output
    assert run("cancel", "2").exit_code == 2  # nobody can be asked


def test_a_command_in_the_background_that_begins_nothing_says_what_it_said(
    store: Store, capfd: pytest.CaptureFixture[str]
) -> None:
    for words, exit_code in ((["operation", "show", "1"], 0), (["operation", "show", "9"], 3)):
        with pytest.raises(typer.Exit) as ended:
            start([*words, "--async"], LAB, OutputFormat.HUMAN)
        assert ended.value.exit_code == exit_code
        said = capfd.readouterr().out
        assert ("db start of 'shop'" in said) == (exit_code == 0)
        assert ("operation 9 does not exist" in said) == (exit_code == 3)


def test_no_password_is_written_for_a_command_in_the_background(store: Store) -> None:
    with pytest.raises(UsageError, match="the password would stay in a file"):
        start(["db", "create", "shop", "--show-password", "--async"], LAB, OutputFormat.JSON)
