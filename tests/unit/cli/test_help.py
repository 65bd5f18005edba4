"""Every command explains itself, and its example is one that the command line would take."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import version
from pkgutil import iter_modules
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

import grampus.cli
from grampus.cli.main import app

ROOT: Any = get_command(app)
# A client at the user's terminal has a form of its own.
WITHOUT_FORMAT = {("db", "connect")}


def walk(group: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, command in sorted(group.commands.items()):
        if hasattr(command, "commands"):
            yield from walk(command, (*path, name))
        else:
            yield (*path, name), command


def group_at(path: tuple[str, ...]) -> Any:
    group = ROOT
    for name in path:
        group = group.commands[name]
    return group


COMMANDS = list(walk(ROOT, ()))
GROUPS = sorted({path[:length] for path, _ in COMMANDS for length in range(len(path))})
IDS = [" ".join(path) for path, _ in COMMANDS]
each_command = pytest.mark.parametrize(("path", "command"), COMMANDS, ids=IDS)


def plain(text: str) -> str:
    """Without styles, box lines and line breaks."""
    return " ".join(re.sub(r"\x1b\[[0-9;]*m|[│─╭╮╰╯]", " ", text).split())


def test_the_nouns_are_there() -> None:
    assert set(ROOT.commands) >= {"lab", "db", "volume", "bench", "report"}
    assert len(COMMANDS) >= 25


@pytest.mark.parametrize("module", [module.name for module in iter_modules(grampus.cli.__path__)])
def test_a_word_that_a_module_adds_is_in_the_table_of_its_noun(module: str) -> None:
    import_module(f"grampus.cli.{module}")  # a noun refuses a word that its table leaves out


@each_command
@pytest.mark.parametrize("option", ["--help", "-h"])
def test_help_has_a_sentence_and_an_example(
    path: tuple[str, ...], command: Any, option: str
) -> None:
    result = CliRunner().invoke(app, [*path, option])
    assert result.exit_code == 0
    assert result.stderr == ""
    shown = plain(result.stdout)
    assert f"Example: grampus {' '.join(path)}" in shown
    assert command.help
    assert command.help[0].isupper()
    assert command.help.endswith(".")


@each_command
def test_every_option_and_argument_is_explained(path: tuple[str, ...], command: Any) -> None:
    for parameter in command.params:
        assert parameter.help, f"{' '.join(path)}: {parameter.name} has no help"
        assert parameter.help.endswith((".", ")")), parameter.help


@each_command
def test_arguments_are_shown_in_one_notation(path: tuple[str, ...], command: Any) -> None:
    arguments = [param for param in command.params if param.param_type_name == "argument"]
    wanted = [
        param.metavar if param.required else f"[{param.metavar}]"
        for param in arguments
        if re.fullmatch(r"[A-Z][A-Z=@-]*(\.\.\.)?", param.metavar)
    ]
    assert len(wanted) == len(arguments)
    usage = plain(CliRunner().invoke(app, [*path, "--help"]).stdout).partition("Usage: ")[2]
    assert usage.startswith(" ".join(["grampus", *path, "[OPTIONS]", *wanted]))


@pytest.mark.parametrize("path", [path for path in GROUPS if len(group_at(path).commands) > 10])
def test_a_noun_of_many_words_shows_them_by_task(path: tuple[str, ...]) -> None:
    panels = [word.rich_help_panel for word in group_at(path).commands.values()]
    assert all(panels)
    assert max(panels.count(panel) for panel in panels) <= 10
    shown = plain(CliRunner().invoke(app, [*path, "--help"]).stdout)
    assert all(panel in shown for panel in panels)


@each_command
def test_every_command_has_both_formats(path: tuple[str, ...], command: Any) -> None:
    names = {option for parameter in command.params for option in parameter.opts}
    assert ("--format" in names) is (path not in WITHOUT_FORMAT)


@each_command
def test_example_can_be_typed(path: tuple[str, ...], command: Any) -> None:
    example = re.sub(r"\[/?bold\]", "", command.epilog).removeprefix("Example: ")
    words = shlex.split(example)
    assert words[: len(path) + 1] == ["grampus", *path]
    # Parsed as the command line would, and not run.
    context = command.make_context(path[-1], words[len(path) + 1 :], resilient_parsing=False)
    context.close()


@pytest.mark.parametrize("path", GROUPS, ids=[" ".join(path) or "grampus" for path in GROUPS])
def test_noun_alone_shows_its_verbs_and_is_wrong_use(path: tuple[str, ...]) -> None:
    result = CliRunner().invoke(app, list(path))
    assert result.exit_code == 2
    for verb in group_at(path).commands:
        assert verb in plain(result.output)


@pytest.mark.parametrize(
    ("words", "suggestion"),
    [
        (["lba"], "Did you mean 'lab'?"),
        (["db", "crate"], "Did you mean 'create'"),
        (["lab", "fault", "heel"], "Did you mean 'heal'?"),
        (["zzz"], "No such command 'zzz'"),
        (["db", "create", "x", "--sise", "4G"], "--size"),
        (["db", "create", "x"], "Missing option '--size'"),
        (["db", "create", "x", "--size", "4G", "--cpus", "many"], "--cpus"),
        (["db", "list", "--format", "xml"], "--format"),
        (["volume", "show"], "Missing argument 'NAME'"),
    ],
)
def test_misspelt_word_is_wrong_use_and_helped(words: list[str], suggestion: str) -> None:
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert suggestion in plain(result.stderr)


def test_version() -> None:
    result = CliRunner().invoke(app, ["--version"])
    assert (result.exit_code, result.stdout) == (0, f"grampus {version('grampus')}\n")


def test_flags_are_shown_without_a_type() -> None:
    shown = plain(CliRunner().invoke(app, ["db", "create", "--help"]).stdout)
    assert "--dry-run Print" in shown
    assert "--size SIZE" in shown


def test_list_of_suites_and_runs_is_one_json_document() -> None:
    result = CliRunner().invoke(app, ["bench", "list", "--format", "json"])
    assert result.exit_code == 0
    document = json.loads(result.stdout)
    assert document["runs"] == []
    assert "quick" in [suite["name"] for suite in document["suites"]]
