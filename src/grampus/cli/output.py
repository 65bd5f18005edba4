"""What a command prints: one writer for people, one for programs, chosen by --format.

Results go to stdout, and in JSON nothing else does; progress, notes and errors go to stderr.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Literal, Protocol

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from grampus.core.errors import GrampusError


class OutputFormat(StrEnum):
    """--format."""

    HUMAN = "human"
    JSON = "json"


class Output(Protocol):
    """Where a command's result goes. `document` is always the whole, stable JSON result."""

    def table(
        self, document: object, columns: Sequence[str], rows: Sequence[Sequence[str]], empty: str
    ) -> None:
        """A list; `empty` is the sentence for an empty one."""
        ...

    def details(self, document: object, pairs: Mapping[str, str]) -> None:
        """One thing, as names and values."""
        ...

    def groups(self, document: object, groups: Sequence[Mapping[str, str]]) -> None:
        """One thing with much to say of it, in groups with a line between them."""
        ...

    def text(self, document: object, text: str) -> None:
        """A sentence or a block of text."""
        ...

    def error(self, error: GrampusError) -> None:
        """Why the command failed."""
        ...


Side = Literal["left", "right"]


class PlainConsole(Console):
    """A console that shows text as it is: no markup, no emoji codes, nothing cut off."""

    def __init__(self, *, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, markup=False, emoji=False, highlight=False, soft_wrap=True)
        if not self.is_terminal:
            self.width = _WIDTH_OFF_TERMINAL

    def on_broken_pipe(self) -> None:
        """Leave it to `errors_shown`: Rich would exit with 1."""
        raise BrokenPipeError


class HumanOutput:
    """For people, at a terminal or in a file."""

    def __init__(self) -> None:
        self._console = PlainConsole()
        self._errors = PlainConsole(stderr=True)

    def table(
        self, document: object, columns: Sequence[str], rows: Sequence[Sequence[str]], empty: str
    ) -> None:
        del document
        if not rows:
            self._console.print(empty)
            return
        sides = [_side_of(column) for column in columns]
        lines = render_rows([[column.upper() for column in columns], *rows], sides)
        if lines is not None and cell_len(lines[0]) <= self._console.width:
            self._console.print(Text(lines[0], "bold"))
            self._console.print("\n".join(lines[1:]))
            return
        table = Table(box=None, pad_edge=False, header_style="bold")
        for column, side in zip(columns, sides, strict=True):
            table.add_column(column.upper(), justify=side, overflow="fold")
        for row in rows:
            table.add_row(*row)
        self._console.print(table)

    def details(self, document: object, pairs: Mapping[str, str]) -> None:
        self.groups(document, [pairs])

    def groups(self, document: object, groups: Sequence[Mapping[str, str]]) -> None:
        del document
        width = max((len(name) for pairs in groups for name in pairs), default=0)
        for number, pairs in enumerate(pairs for pairs in groups if pairs):
            if number:
                self._console.print()
            for name, value in pairs.items():
                lines = value.replace("\n", "\n" + " " * (width + 2))
                self._console.print(Text.assemble((f"{name:<{width}}", "bold"), "  ", lines))

    def text(self, document: object, text: str) -> None:
        del document
        self._console.print(text)

    def error(self, error: GrampusError) -> None:
        self._errors.print(Text.assemble(("error:", "red"), " ", error.problem))
        if error.remedy:
            self._errors.print(error.remedy)


class JsonOutput:
    """For programs."""

    def table(
        self, document: object, columns: Sequence[str], rows: Sequence[Sequence[str]], empty: str
    ) -> None:
        del columns, rows, empty
        _print_json(document)

    def details(self, document: object, pairs: Mapping[str, str]) -> None:
        del pairs
        _print_json(document)

    def groups(self, document: object, groups: Sequence[Mapping[str, str]]) -> None:
        del groups
        _print_json(document)

    def text(self, document: object, text: str) -> None:
        del text
        _print_json(document)

    def error(self, error: GrampusError) -> None:
        problem = {"code": error.code, "problem": error.problem, "remedy": error.remedy}
        # On one line, since it may come after events, of which each has one (`grampus serve`).
        _print_json({"error": problem}, indent=None)
        sys.stderr.write(f"error: {error}\n")


# A file or a pipe has no width: a table there is as wide as what it holds.
_WIDTH_OFF_TERMINAL = 10_000
_RIGHT_ALIGNED = frozenset({"size", "memory", "cpus", "tps", "qps", "used", "free"})


def _side_of(column: str) -> Side:
    is_number = column.endswith((" tps", " ms", "x")) or column in _RIGHT_ALIGNED
    return "right" if is_number else "left"


def render_rows(rows: Sequence[Sequence[str]], sides: Sequence[Side]) -> list[str] | None:
    """The lines of a table where nothing is folded, as Rich draws them in fifty times the time.

    None: a cell has a line break, or begins or ends with a space, which Rich may drop.
    """
    if any(not cell.isprintable() or cell != cell.strip() for row in rows for cell in row):
        return None
    sizes = [[cell_len(cell) for cell in row] for row in rows]
    widths = [max(column) for column in zip(*sizes, strict=True)]
    return [
        "  ".join(
            " " * (width - size) + cell if side == "right" else cell + " " * (width - size)
            for cell, size, width, side in zip(row, row_sizes, widths, sides, strict=True)
        )
        for row, row_sizes in zip(rows, sizes, strict=True)
    ]


def make_output(output_format: OutputFormat) -> Output:
    """The writer for --format."""
    return JsonOutput() if output_format is OutputFormat.JSON else HumanOutput()


def show_plan(output_format: OutputFormat, steps: Sequence[str]) -> None:
    """What --dry-run prints: the steps that would be carried out, in order."""
    shown = "\n".join(steps) or "Nothing would be changed."
    make_output(output_format).text({"plan": list(steps)}, shown)


def _print_json(document: object, *, indent: int | None = 2) -> None:
    sys.stdout.write(json.dumps(document, indent=indent, default=_plain) + "\n")
    sys.stdout.flush()


def _plain(value: Any) -> Any:
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if hasattr(value, "isoformat"):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} has no JSON form")
