"""Errors a user can act on.

Each carries two sentences: what is wrong, and what to do. The class decides the exit code
of the command line: 1 failed, 2 wrong use, 3 not found, 4 refused for safety.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import ClassVar


class GrampusError(Exception):
    """Something failed (exit code 1).

    `problem` and `remedy` are whole sentences; `code` is a stable lower-kebab word for
    `--format json`.
    """

    exit_code: ClassVar[int] = 1
    default_code: ClassVar[str] = "failed"

    def __init__(self, problem: str, remedy: str = "", *, code: str | None = None) -> None:
        super().__init__(problem)
        self.problem = problem
        self.remedy = remedy
        self.code = code or self.default_code

    def __str__(self) -> str:
        return f"{self.problem} {self.remedy}".strip()


class UsageError(GrampusError):
    """The request itself is wrong (exit code 2)."""

    exit_code = 2
    default_code = "wrong-use"


class NotFoundError(GrampusError):
    """The thing named does not exist (exit code 3)."""

    exit_code = 3
    default_code = "not-found"


class RefusedError(GrampusError):
    """Possible, but unsafe as asked (exit code 4)."""

    exit_code = 4
    default_code = "refused"


class SupersededError(RefusedError):
    """Another GRAMPUS_HOME controls the site (INV-93): nothing may be begun or undone from here."""

    default_code = "superseded"


def closest_name(wanted: str, known: Iterable[str]) -> str | None:
    """The known name that `wanted` was most likely meant to be, or None."""
    matches = difflib.get_close_matches(wanted, list(known), n=1, cutoff=0.6)
    return matches[0] if matches else None


def suggest(wanted: str, known: Iterable[str], otherwise: str) -> str:
    """The remedy for a wrong name: the known one that was most likely meant, else `otherwise`."""
    meant = closest_name(wanted, known)
    return otherwise if meant is None else f"Did you mean '{meant}'?"


def suggest_file(file: Path, otherwise: str) -> str:
    """The remedy for a file that does not exist: what was most likely meant, else `otherwise`.

    Says which of its directories is missing, or which file beside it has a name like it.
    """
    missing = [one for one in file.absolute().parents if not one.is_dir()]
    if missing:
        why = "is not a directory" if missing[-1].exists() else "does not exist"
        return f"{missing[-1]} {why}. {otherwise}"
    try:
        meant = closest_name(file.name, [one.name for one in file.absolute().parent.iterdir()])
    except OSError:  # a directory that may be entered, but not listed
        meant = None
    return otherwise if meant is None else f"Did you mean '{file.parent / meant}'?"


def not_found(noun: str, wanted: str, known: Iterable[str], *, list_command: str) -> NotFoundError:
    """A NotFoundError that suggests the closest known name, else the command that lists them."""
    names = sorted(known)
    shown = f"`{list_command}` shows the available ones{'' if names else ' (none yet)'}."
    remedy = suggest(wanted, names, shown)
    return NotFoundError(f"There is no {noun} named '{wanted}'.", remedy)


class Planned(BaseException):
    """A dry run has come to its first change: these are the steps, one line each.

    It is no failure, so nothing that handles failures may catch it.
    """

    def __init__(self, titles: Sequence[str]) -> None:
        super().__init__("a dry run ends before the first change")
        self.titles = tuple(titles)
