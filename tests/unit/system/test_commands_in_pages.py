"""Commands that pages name exist, with the options that they are shown with."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from grampus.cli.main import app
from tests.system.command_line import CHECKOUT as ROOT

DOCS = ROOT / "docs"
_COMMAND = re.compile(r"(?<![\w/.-])grampus ([a-z][^`\n|;&)]*)")
_PAGES = [
    *(page for page in ROOT.glob("*.md") if page.name != "CHANGELOG.md"),
    DOCS / "README.md",
    *(DOCS / "guide").glob("*.md"),
    DOCS / "reference" / "errors.md",
]


@cache
def _commands(words: tuple[str, ...]) -> Any:
    """What the command line knows under these words."""
    return _commands(words[:-1]).commands[words[-1]] if words else get_command(app)


def _find_unknown(text: str) -> Iterator[str]:
    """Words and options of commands in code that the command line does not have."""
    code = "\n".join(re.findall(r"```.*?```|`[^`\n]+`", text, re.DOTALL))
    for typed in _COMMAND.findall(re.sub(r"(?<!\S)#.*", "", code)):
        words: tuple[str, ...] = ()
        for word in typed.replace(",", " ").split():
            known = _commands(words)
            if word.startswith("-"):
                name = re.split(r"[=\]]", word)[0]
                options = {option for param in known.params for option in param.opts}
                is_verb = not hasattr(known, "commands")
                if (
                    is_verb
                    and re.fullmatch(r"--[a-z][a-z-]+", name)
                    and name not in {*options, "--help"}
                ):
                    yield f"grampus {typed}: {name}"
            elif hasattr(known, "commands") and re.fullmatch(r"[a-z][a-z-]*", word):
                if word not in known.commands:
                    yield f"grampus {typed}: {word}"
                    break
                words = (*words, word)


@pytest.mark.parametrize("page", _PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_in_pages_are_those_of_the_command_line(page: Path) -> None:
    assert list(_find_unknown(page.read_text())) == []


@pytest.mark.parametrize(
    ("text", "unknown"),
    [
        ("`grampus db show shop --format json`", []),
        ("`grampus db backup key list`, `list`", []),
        ("```\n$ grampus db frob shop\n```", ["grampus db frob shop: frob"]),
        ("`grampus db show shop --frob`", ["grampus db show shop --frob: --frob"]),
        ("grampus frob is no code", []),
    ],
)
def test_a_command_that_is_not_there_is_found(text: str, unknown: list[str]) -> None:
    assert list(_find_unknown(text)) == unknown
