"""Texts that users read, found in the source and in pages, and the commands in them."""

from __future__ import annotations

import ast
import functools
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parents[3]
SOURCE = CHECKOUT / "src" / "grampus"
# Pages that people write. Those about commands and errors are rendered from the source.
PAGES = (
    *sorted((CHECKOUT / "docs" / "guide").glob("*.md")),
    CHECKOUT / "docs" / "README.md",
    *(CHECKOUT / f"{name}.md" for name in ("README", "ARCHITECTURE", "CONTRIBUTING", "SECURITY")),
)
# What stands for a value that is put in.
VALUE = "VALUE"
# Facts of runs, which are in archives and compared between runs: they keep their words.
_IN_ARCHIVES = ("bench/own/facts", "bench/paths/facts")
_BACKTICKS = re.compile(r"`([^`]+)`")
_BLOCK = re.compile(r"^ *```.*?^ *```|<!--.*?-->", re.DOTALL | re.MULTILINE)
_TARGET = re.compile(r"\]\([^)]*\)")
_PROMPT = re.compile(r"^(?:\$ |# )?((?:[A-Z_]+=\S+ )*grampus .*)$")


@dataclass(frozen=True)
class Told:
    """A text, and where it is."""

    place: str
    text: str


def prose_of_pages() -> Iterator[Told]:
    """Lines of pages for users, without code and without where links lead."""
    for file in PAGES:
        if file.parent.name != "guide" and file.name != "README.md":
            continue
        prose = _BLOCK.sub(lambda block: "\n" * block[0].count("\n"), file.read_text())
        for number, line in enumerate(prose.splitlines(), 1):
            text = _TARGET.sub("]", _BACKTICKS.sub("", line))
            yield Told(f"{file.relative_to(CHECKOUT)}:{number}", text)


@functools.cache
def texts_in_source() -> list[Told]:
    """Every string constant of the source but docstrings, with VALUE for what is put in."""
    return [told for file in sorted(SOURCE.rglob("*.py")) for told in _told_in(file)[0]]


@functools.cache
def errors_in_source() -> list[Told]:
    """The sentences that errors are raised with."""
    return [told for file in sorted(SOURCE.rglob("*.py")) for told in _told_in(file)[1]]


@functools.cache
def _told_in(file: Path) -> tuple[list[Told], list[Told]]:
    """The texts and the errors in a file, which is parsed once: that takes the longest."""
    nodes = list(ast.walk(ast.parse(file.read_text())))
    skipped, place = _parts_of_others(nodes), str(file.relative_to(CHECKOUT))
    texts: list[Told] = []
    errors: list[Told] = []
    for node in nodes:
        text = "" if id(node) in skipped else text_of(node)
        if text:
            texts.append(Told(f"{place}:{node.lineno}", text))  # type: ignore[attr-defined]
        if isinstance(node, ast.Call) and _name(node.func).endswith("Error"):
            said = (text_of(argument) for argument in node.args)
            errors += [Told(f"{place}:{node.lineno}", text) for text in said if text]
    return texts, errors


def text_of(node: ast.AST) -> str:
    """The text of a string constant, also one that values are put into; else nothing."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(
            part.value if isinstance(part, ast.Constant) and isinstance(part.value, str) else VALUE
            for part in node.values
        )
    return ""


@functools.cache
def texts_users_read() -> list[Told]:
    """What has words, of all string constants of the source, and the help of commands."""
    unread = tuple(str(SOURCE / part) for part in _IN_ARCHIVES)
    read = [file for file in sorted(SOURCE.rglob("*.py")) if not str(file).startswith(unread)]
    texts = [told for file in read for told in _told_in(file)[0] if _is_prose(told.text)]
    return texts + [told for file in read for told in _help_of_commands(file)]


def _is_prose(text: str) -> bool:
    """Has words, and is no script."""
    return " " in text.strip() and "\n    " not in text and text.count("\n") < 3


def _help_of_commands(file: Path) -> Iterator[Told]:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.FunctionDef) and any(
            isinstance(one, ast.Call) and _name(one.func) == "command"
            for one in node.decorator_list
        ):
            place = f"{file.relative_to(CHECKOUT)}:{node.lineno}"
            yield Told(place, ast.get_docstring(node) or "")


def commands_in(text: str) -> list[str]:
    """What is in backticks and begins with `grampus`."""
    flat = " ".join(text.split())
    return [found for found in _BACKTICKS.findall(flat) if found.startswith("grampus ")]


def commands_in_pages() -> Iterator[Told]:
    """Commands of pages: in backticks, and on lines of their own in blocks."""
    for file in PAGES:
        in_block = False
        for number, line in enumerate(file.read_text().splitlines(), 1):
            place = f"{file.relative_to(CHECKOUT)}:{number}"
            if line.lstrip().startswith("```"):
                in_block = not in_block
            elif in_block:
                found = _PROMPT.match(line.lstrip())
                if found:
                    yield Told(place, found[1])
            else:
                for command in _BACKTICKS.findall(line):
                    if command.startswith("grampus "):
                        yield Told(place, command)


def what_is_wrong(line: str, root: Any, *, wants_arguments: bool = False) -> str:
    """Why no such command can be typed; empty: it can.

    With `wants_arguments` it must also name what it is about.
    """
    is_cut = "..." in line
    line = re.split(r"\s(?:\||>|2>|&&|;|#)\s?", line)[0]
    try:
        words = shlex.split(line.replace("...", " "))
    except ValueError:
        words = line.replace("...", " ").split()
    words = words[words.index("grampus") + 1 :]
    command = root
    path: list[str] = []
    while words and hasattr(command, "commands"):
        word = words.pop(0)
        word = word if word == VALUE else word.removesuffix(VALUE)  # such as ` --lab NAME`, or not
        if word.startswith("-"):
            if word not in _options(command) and word != "--help":
                return f"`{' '.join(path) or 'grampus'}` has no option {word}"
            continue
        if word.startswith(VALUE) or word.isupper():
            return ""  # any of them
        if word.strip("[]") not in command.commands:
            return f"there is no `{' '.join([*path, word])}`"
        command = command.commands[word.strip("[]")]
        path.append(word)
    needed = sum(one.required for one in command.params if one.param_type_name == "argument")
    plain = [word for word in words if not word.startswith("-")]
    if wants_arguments and not is_cut and len(plain) < needed:
        return f"`{' '.join(path)}` does not say what it is about"
    options = _options(command)
    for word in words:
        name = word.strip("[]").partition("=")[0]
        if name.startswith("--") and name not in {*options, "--help", "--"}:
            return f"`{' '.join(path)}` has no option {name}"
    return ""


def _options(command: Any) -> set[str]:
    return {name for one in command.params for name in (*one.opts, *one.secondary_opts)}


def _parts_of_others(nodes: list[ast.AST]) -> set[int]:
    """Constants that are a part of another text, and docstrings."""
    found = set()
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            found |= {id(part) for part in node.values}
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            found.add(id(node.value))
    return found


def _name(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""
