"""Write docs/reference from the code: the command line, the JSON schemas of suites and runs.

scripts/write_reference.py            write them
scripts/write_reference.py --check    exit with 1 when they are not what the code says
"""

from __future__ import annotations

import argparse
import difflib
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from typer.main import get_command

from grampus.bench.matrix.schema import suite_schema
from grampus.cli.main import app
from grampus.state.matrix_layers import SeriesPoint
from grampus.state.matrix_runs import MatrixRun, Visit

DIRECTORY = Path(__file__).resolve().parents[1] / "docs" / "reference"
PROGRAM = "grampus"
INTRODUCTION = """\
# The command line

<!-- Written by `make reference` from the code; changes made here are lost. -->

`grampus NOUN VERB [OPTIONS]`. Results go to stdout, progress and errors to stderr. With
`--format json` stdout holds one JSON document and nothing else, also when the command fails:
`{"error": {"code": ..., "problem": ..., "remedy": ...}}`. Only words that the command line does
not know are explained on stderr alone. `--help` works after every word.

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | failed |
| 2 | wrong use |
| 3 | not found |
| 4 | refused for safety |
| 130 | interrupted by Ctrl-C |

| variable | meaning |
|---|---|
| `GRAMPUS_HOME` | where everything is kept (default `/var/lib/grampus`) |
| `GRAMPUS_LAB` | the lab to work in, when `--lab` is not given |
| `GRAMPUS_DEBUG` | if set, as `--debug` |
| `GRAMPUS_KEEP_OPERATIONS_DAYS` | how many days operations that ended stay in the history (default 90) |
"""


def render_reference() -> str:
    """The whole page."""
    root: Any = get_command(app)
    commands = list(_walk(root, ()))
    blocks = [INTRODUCTION, "## Before the noun\n", _options(root.params)]
    noun = ""
    for path, command in commands:
        if path[0] != noun:
            noun = path[0]
            blocks += [f"## {PROGRAM} {noun}\n", f"{_plain(root.commands[noun].help)}\n"]
        blocks.append(_render_command(path, command))
    return "\n".join(blocks)


def _walk(group: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every verb with its words, in the order of --help."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _walk(command, (*path, name))
        else:
            yield (*path, name), command


def _render_command(path: tuple[str, ...], command: Any) -> str:
    words = f"{PROGRAM} {' '.join(path)}"
    arguments = [param for param in command.params if param.param_type_name == "argument"]
    options = [param for param in command.params if param.param_type_name == "option"]
    usage = " ".join([words, *map(_argument_name, arguments), *_required(options), "[OPTIONS]"])
    lines = [f"### {words}\n", f"{_plain(command.help)}\n", "```", usage, "```\n"]
    if arguments:
        rows = [_row(_argument_name(param), param) for param in arguments]
        lines += ["| argument | meaning | default |", "|---|---|---|", *rows, ""]
    lines += [_options(options)]
    lines += ["Example:\n", "```", _example(command), "```\n"]
    return "\n".join(lines)


def _options(options: list[Any]) -> str:
    rows = [_row(_option_names(option), option) for option in options]
    return "\n".join(["| option | meaning | default |", "|---|---|---|", *rows, ""])


def _required(options: list[Any]) -> list[str]:
    return [_option_names(option) for option in options if option.required]


def _row(names: str, param: Any) -> str:
    # In a table a bar would end the cell, even inside code.
    names, meaning = (text.replace("|", "\\|") for text in (names, _plain(param.help or "")))
    if getattr(param, "envvar", None):
        meaning += f" Variable: `{param.envvar}`."
    return f"| `{names}` | {meaning} | {_default(param)} |".replace("|  |", "| |")


def _argument_name(param: Any) -> str:
    name = param.name.upper().replace("_", "-")
    return name if param.required else f"[{name}]"


def _option_names(param: Any) -> str:
    names = ", ".join(sorted(param.opts, key=len, reverse=True))
    value = "" if param.is_flag else f" {_value_name(param)}"
    return f"{names}{value}"


def _value_name(param: Any) -> str:
    choices = param.type_descriptor.choices or ()
    return param.metavar or "|".join(choice.value for choice in choices) or param.name.upper()


def _default(param: Any) -> str:
    if param.required:
        return "required"
    default = param.default
    if default is None or default is False:
        return ""
    return f"`{default.value if isinstance(default, Enum) else default}`"


def _example(command: Any) -> str:
    return _plain(command.epilog).removeprefix("Example: ").strip("`")


def _plain(text: str) -> str:
    """Without the markup of the terminal; single line breaks are spaces."""
    without_markup = re.sub(r"\[/?(bold|dim|red)\]", "`", text)
    paragraphs = [" ".join(part.split()) for part in without_markup.split("\n\n")]
    return "\n\n".join(paragraphs)


def render_suite_schema() -> str:
    """What editors need to check a suite while it is written."""
    return json.dumps(suite_schema(), indent=2) + "\n"


def render_model_schema(model: type[BaseModel], title: str) -> str:
    """What reads the archive of runs can rely on."""
    schema = model.model_json_schema()
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = title
    return json.dumps(schema, indent=2) + "\n"


def render_run_schema() -> str:
    return render_model_schema(MatrixRun, "run.json of a published experiment's run")


def render_visit_schema() -> str:
    return render_model_schema(Visit, "A line of visits.jsonl of a published experiment's run")


def render_series_schema() -> str:
    return render_model_schema(SeriesPoint, "A line of series/CELL_ID/ROUND.jsonl of such a run")


PAGES: Mapping[str, Callable[[], str]] = {
    "command-line.md": render_reference,
    "suite.schema.json": render_suite_schema,
    "run.schema.json": render_run_schema,
    "visits.schema.json": render_visit_schema,
    "series.schema.json": render_series_schema,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare, and write nothing")
    is_check = parser.parse_args().check
    stale = 0
    for name, render in PAGES.items():
        file, wanted = DIRECTORY / name, render()
        found = file.read_text(encoding="utf-8") if file.exists() else ""
        if not is_check:
            DIRECTORY.mkdir(parents=True, exist_ok=True)
            file.write_text(wanted, encoding="utf-8")
        elif found != wanted:
            stale = 1
            difference = difflib.unified_diff(
                found.splitlines(), wanted.splitlines(), "the page", "the code", lineterm="", n=1
            )
            sys.stderr.write("\n".join([*difference, ""]))
            sys.stderr.write(f"{name} is not what the code says. `make reference` writes it.\n")
    return stale


if __name__ == "__main__":
    sys.exit(main())
