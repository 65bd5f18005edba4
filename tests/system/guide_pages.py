"""The guide's pages as they are typed: their commands, and what each is said to print.

A page is tried when a comment in it says with what: `<!-- tried with: shop -->` (a new database of
that name), or `nothing`. A block after `<!-- not tried: why -->` is left out. What is typed is
`grampus`, or `ceph` and `rbd` where the cluster is.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

_TRIED = re.compile(r"<!-- tried with: (?P<with>[^>]*?) -->")
_NOT_TRIED = re.compile(r"<!-- not tried: [^>]+? -->")
_FENCE = "```"
_PROMPT = "$ "
_ANYTHING = "..."
_NOTHING = "nothing"
_GRAMPUS = "grampus"
_PROGRAMS = frozenset({_GRAMPUS, "ceph", "rbd"})
# What differs from run to run: passwords, hosts, digests, numbers in all that is made of them
# (sizes, dates, versions, addresses), and how wide a table is.
_PASSWORD = re.compile(r"(?<=:)[A-Za-z0-9]{28}(?=@)")
_HOST = re.compile(r"\bh[1-9]\b")
_DIGEST = re.compile(r"\b(?=[0-9a-f]*\d)[0-9a-f]{8,}\b")
_GROUP = re.compile(r"\b\d+\.[0-9a-f]{1,3}\b")  # a placement group
_NUMBER = re.compile(r"\d+(?:[.:/-]\d+)*")
_SPACE = re.compile(r"\s+")
_UNIT = re.compile(r"# ?(?:[KMGT]iB|B|ms|s)\b")


@dataclass(frozen=True)
class TypedCommand:
    """One command of a page."""

    line: int  # of the page, from 1
    program: str  # of _PROGRAMS
    argv: tuple[str, ...]  # without the program
    printed: tuple[str, ...] = ()  # as the page has it

    @property
    def is_grampus(self) -> bool:
        """Whether it is ours, and not one of the cluster's own."""
        return self.program == _GRAMPUS


@dataclass(frozen=True)
class GuidePage:
    """What is tried of a page."""

    database: str | None  # that it begins with
    commands: tuple[TypedCommand, ...]


def parse_page(text: str) -> GuidePage | None:
    """The page's commands in order; None when nothing says that it is tried."""
    tried = _TRIED.search(text)
    if tried is None:
        return None
    commands: list[TypedCommand] = []
    within, skipped, begins = False, False, False
    for number, line in enumerate(text.splitlines(), start=1):
        if line.startswith(_FENCE):
            within = not within
            skipped, begins = skipped and within, within
        elif not within:
            skipped = bool(_NOT_TRIED.search(line)) or (skipped and not line.strip())
        elif not skipped:
            if begins and not line.startswith(_PROMPT):
                raise ValueError(f"line {number}: nothing was typed that could print {line!r}")
            begins = False
            _take(commands, number, line)
    database = tried["with"]
    return GuidePage(None if database == _NOTHING else database, tuple(commands))


def _take(commands: list[TypedCommand], number: int, line: str) -> None:
    if line.startswith(_PROMPT):
        program, *argv = shlex.split(line.removeprefix(_PROMPT), comments=True)
        if program not in _PROGRAMS:
            raise ValueError(f"line {number}: {program!r} is not tried; say so before its block")
        commands.append(TypedCommand(number, program, tuple(argv)))
        return
    commands[-1] = replace(commands[-1], printed=(*commands[-1].printed, line))


def place_words(argv: Sequence[str], places: Mapping[str, str]) -> list[str]:
    """The words of a command, each of these places in them replaced by another."""
    placed = list(argv)
    for theirs, mine in places.items():
        placed = [word.replace(theirs, mine) for word in placed]
    return placed


def find_difference(expected: Sequence[str], actual: str, *, same: Mapping[str, str]) -> str | None:
    """Where what was printed is not what the page says; None: nowhere that counts.

    `same` are texts of this run and what stands for them on the page. A line `...` of the page
    stands for any lines, the same within a line for anything.
    """
    for mine, theirs in same.items():
        actual = actual.replace(mine, theirs)
    lines = [_plain(line) for line in actual.splitlines() if line.strip()]
    wanted = [_plain(line) for line in expected if line.strip()]
    place = 0
    for number, line in enumerate(wanted):
        if line == _ANYTHING:
            following = wanted[number + 1 : number + 2]
            while place < len(lines) and not (following and _agrees(following[0], lines[place])):
                place += 1
            continue
        if place >= len(lines):
            return f"the page goes on with {expected[number]!r}"
        if not _agrees(line, lines[place]):
            return f"the page has\n  {line}\nand here it is\n  {lines[place]}"
        place += 1
    if place < len(lines):
        return f"here it goes on with {lines[place]!r}"
    return None


def _plain(line: str) -> str:
    line = _PASSWORD.sub(_ANYTHING, line)
    line = _GROUP.sub("#", _DIGEST.sub("#", _HOST.sub("h#", line)))
    line = _NUMBER.sub("#", line)
    return _SPACE.sub(" ", _UNIT.sub("# U", line)).strip()


def _agrees(expected: str, actual: str) -> bool:
    pattern = ".*".join(re.escape(part) for part in expected.split(_ANYTHING))
    return re.fullmatch(pattern, actual) is not None
