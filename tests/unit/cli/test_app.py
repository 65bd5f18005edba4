"""How every command ends: exit codes, error documents, tracebacks only for --debug."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable

import pytest
import typer
from typer.testing import CliRunner

from grampus.cli.app import (
    DEBUG_VARIABLE,
    command,
    confirm,
    explain_error,
    join_lines,
)
from grampus.cli.noun import Noun
from grampus.cli.options import FORMAT_DEFAULT, FormatOption
from grampus.core.errors import GrampusError, NotFoundError, RefusedError, UsageError

EACCES = OSError(errno.EACCES, os.strerror(errno.EACCES), "/var/lib/grampus/locks")


def raising(error: BaseException) -> Callable[[], None]:
    def act() -> None:
        raise error

    return act


def make_app(act: Callable[[], None]) -> typer.Typer:
    """An app of two verbs, one of which does `act`."""
    app = Noun("made", "Made up.")

    @command(app, "act", "made act")
    def act_command(word: str = "", output_format: FormatOption = FORMAT_DEFAULT) -> None:
        """Act."""
        del word, output_format
        act()

    @command(app, "other", "made other")
    def other_command() -> None:
        """Another verb."""

    return app


@pytest.mark.parametrize(
    ("error", "exit_code", "code"),
    [
        (GrampusError("Broken.", "Fix it."), 1, "failed"),
        (GrampusError("Late.", code="timeout"), 1, "timeout"),
        (UsageError("Wrong.", "Read --help."), 2, "wrong-use"),
        (NotFoundError("None.", "Make one."), 3, "not-found"),
        (RefusedError("No.", "Say --force.", code="busy"), 4, "busy"),
        (EACCES, 1, "system"),
        (OSError("odd"), 1, "system"),
        (KeyError("x"), 1, "internal"),
        (ZeroDivisionError(), 1, "internal"),
    ],
)
@pytest.mark.parametrize("output_format", ["human", "json"])
def test_error_becomes_sentences_and_an_exit_code(
    error: Exception, exit_code: int, code: str, output_format: str
) -> None:
    result = CliRunner().invoke(make_app(raising(error)), ["act", "--format", output_format])
    assert result.exit_code == exit_code
    assert "Traceback" not in result.output
    explained = explain_error(error)
    assert explained.code == code
    if output_format == "json":
        assert json.loads(result.stdout) == {
            "error": {"code": code, "problem": explained.problem, "remedy": explained.remedy}
        }
    else:
        assert result.stdout == ""
    assert result.stderr.startswith(f"error: {explained.problem}")
    assert explained.remedy in result.stderr


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (EACCES, "The system reported an error: Permission denied (/var/lib/grampus/locks)."),
        (
            OSError(errno.ENOSPC, "No space left on device"),
            "reported an error: No space left on device.",
        ),
        (KeyError("x"), "Grampus has a defect: KeyError: 'x'."),
    ],
)
def test_what_is_no_error_of_ours_is_put_into_words(error: Exception, sentence: str) -> None:
    assert sentence in explain_error(error).problem
    assert explain_error(error).remedy


def test_success_and_exits_of_its_own_pass() -> None:
    assert CliRunner().invoke(make_app(lambda: None), ["act"]).exit_code == 0
    assert CliRunner().invoke(make_app(raising(typer.Exit(7))), ["act"]).exit_code == 7
    assert CliRunner().invoke(make_app(raising(typer.Abort())), ["act"]).exit_code == 1


@pytest.mark.parametrize("error", [NotFoundError("None."), KeyError("x"), EACCES])
def test_debug_lets_the_error_through(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    monkeypatch.setenv(DEBUG_VARIABLE, "1")
    result = CliRunner().invoke(make_app(raising(error)), ["act"])
    assert result.exception is error


@pytest.mark.parametrize("output_format", ["human", "json"])
def test_ctrl_c_is_no_traceback(output_format: str) -> None:
    app = make_app(raising(KeyboardInterrupt()))
    result = CliRunner().invoke(app, ["act", "--format", output_format])
    assert result.exit_code == 130
    assert "error: Interrupted." in result.stderr
    if output_format == "json":
        assert json.loads(result.stdout)["error"]["code"] == "interrupted"
    else:
        assert result.stdout == ""


@pytest.mark.parametrize(
    ("error", "event", "level"),
    [
        (GrampusError("Broken.", "Fix it."), "command.failed", "ERROR"),
        (KeyError("x"), "command.failed", "ERROR"),
        (RefusedError("No.", "Say --force.", code="busy"), "command.refused", "INFO"),
        (KeyboardInterrupt(), "command.interrupted", "INFO"),
        (typer.Exit(1), "command.ended", "INFO"),
    ],
)
def test_the_log_says_how_a_command_ended(
    error: BaseException, event: str, level: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "grampus")
    CliRunner().invoke(make_app(raising(error)), ["act"])
    assert [(one.getMessage(), one.levelname) for one in caplog.records] == [(event, level)]


@pytest.mark.parametrize("arguments", [["act", "--no-such"], ["no-such"], ["act", "surplus"]])
def test_wrong_words_are_wrong_use(arguments: list[str]) -> None:
    result = CliRunner().invoke(make_app(lambda: None), arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr


def test_bytes_that_are_no_text_are_wrong_use() -> None:
    reached: list[None] = []
    app = make_app(lambda: reached.append(None))
    result = CliRunner().invoke(app, ["act", "--word", "shop\udcff"])
    assert result.exit_code == 2
    assert "is not valid UTF-8" in result.stderr
    assert reached == []
    assert CliRunner().invoke(app, ["act", "--word", "käse 🐬"]).exit_code == 0


@pytest.mark.parametrize("yes", [False, True])
def test_confirmation_without_a_terminal_is_wrong_use(yes: bool) -> None:
    result = CliRunner().invoke(make_app(lambda: confirm("Go on?", yes=yes)), ["act"], input="y\n")
    assert result.exit_code == (0 if yes else 2)
    assert ("Add --yes." in result.stderr) is not yes


def test_confirmation_without_any_stdin_is_wrong_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(UsageError, match="no terminal"):
        confirm("Go on?", yes=False)


PROGRAM = """
import sys
from grampus.cli.app import command
from grampus.cli.noun import Noun
from grampus.cli.options import FORMAT_DEFAULT, FormatOption
from grampus.cli.output import make_output
from grampus.core.errors import NotFoundError

app = Noun("made", "Made up.")

@command(app, "much", "made much")
def much(output_format: FormatOption = FORMAT_DEFAULT) -> None:
    for _ in range(100):
        make_output(output_format).text("x" * 10_000, "x" * 10_000)

@command(app, "fail", "made fail")
def fail() -> None:
    password = "hunter2"
    raise NotFoundError("There is none.")

app()
"""


@pytest.mark.parametrize("output_format", ["human", "json"])
def test_reader_that_has_gone_is_no_failure(output_format: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    child = subprocess.run(
        [sys.executable, "-c", PROGRAM, "much", "--format", output_format],
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(writer)
    assert (child.returncode, child.stderr) == (0, "")


@pytest.mark.parametrize("debug", ["", "1"])
def test_traceback_is_shown_for_debug_alone_and_without_local_values(debug: str) -> None:
    child = subprocess.run(
        [sys.executable, "-c", PROGRAM, "fail"],
        env={**os.environ, DEBUG_VARIABLE: debug},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "There is none." in child.stderr
    assert ("Traceback" in child.stderr) is bool(debug)
    assert child.returncode == (1 if debug else 3)
    assert "hunter2" not in child.stderr
    assert child.stdout == ""


INTERRUPTED_WORK = """
import os, signal
from grampus.cli.app import command
from grampus.cli.noun import Noun
app = Noun("made", "Made up.")

@command(app, "wait", "made wait")
def wait() -> None:
    os.kill(os.getpid(), signal.SIGINT)
    signal.pause()

@command(app, "other", "made other")
def other() -> None:
    pass

app()
"""


def test_a_real_ctrl_c_ends_a_program_with_130() -> None:
    child = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_WORK, "wait"],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert child.returncode == 130
    assert "Traceback" not in child.stderr


@pytest.mark.parametrize(
    ("docstring", "shown"),
    [
        ("", ""),
        ("Act.", "Act."),
        ("Act\nat once.", "Act at once."),
        ("Act.\n\nIt takes\nlong.\n", "Act.\n\nIt takes long."),
    ],
)
def test_the_help_has_a_paragraph_in_one_line_for_the_terminal_to_fold(
    docstring: str, shown: str
) -> None:
    assert join_lines(docstring) == shown
