"""Which server a database runs, and which one it may go on with."""

from __future__ import annotations

import re
from collections.abc import Sequence

from grampus.core.errors import RefusedError, UsageError, closest_name
from grampus.databases.model import FlavourName

Version = tuple[int, ...]  # such as (9, 7, 4)

# MySQL goes from one long-term series to the next, never past one. Source: MySQL 9.7 Reference
# Manual, "Upgrade Paths" (read 2026-11-22). MariaDB goes from any to any later one (MariaDB
# Knowledge Base, "Upgrading Between Major MariaDB Versions").
_MYSQL_LONG_TERM: tuple[Version, ...] = ((8, 0), (8, 4), (9, 7))


def parse_version(text: str) -> Version:
    """The numbers that `text` begins with: (9, 7, 4) of `9.7.4-2`, (11, 8) of `11.8`.

    Empty when it begins with none: a server that has never answered has no version yet.
    """
    match = re.match(r"\d+(?:\.\d+)*", text)
    return tuple(int(number) for number in match[0].split(".")) if match else ()


def choose_version(flavour: FlavourName, asked: str | None, known: Sequence[str]) -> str:
    """The version to run: the one asked for, else the newest; `known` are series such as `11.8`.

    Raises UsageError with code `unknown-version`.
    """
    if not known:
        raise UsageError(
            f"No host image has a {flavour} server.",
            "Add an image to images/, or choose another --flavour.",
            code="unknown-version",
        )
    ordered = sorted(known, key=parse_version, reverse=True)
    if asked is None:
        return ordered[0]
    wanted = parse_version(asked)
    for version in ordered:
        series = parse_version(version)
        if wanted and (wanted[: len(series)] == series or series[: len(wanted)] == wanted):
            return version
    meant = closest_name(asked, ordered)
    raise UsageError(
        f"{flavour} {asked} is not available.",
        f"Did you mean {meant}?" if meant else f"Choose one of {', '.join(ordered)}.",
        code="unknown-version",
    )


def require_upgrade(name: str, flavour: FlavourName, have: str, want: str) -> None:
    """Raise RefusedError unless a database of the version `have` can be opened by `want`.

    The code is `downgrade`, or `version-between` when another series must come first.
    """
    former, new = parse_version(have), parse_version(want)
    if new < former[: len(new)]:
        raise RefusedError(
            f"{name} runs {flavour} {have}: the older {want} cannot open its data.",
            f"Load a dump into a database of that version (`grampus db create --version {want}`).",
            code="downgrade",
        )
    if flavour == "mysql":
        between = [s for s in _MYSQL_LONG_TERM if former[:2] < s < new[:2]]
        if between:
            series = ".".join(str(number) for number in between[0])
            raise RefusedError(
                f"MySQL upgrades from {have} to {want} need {series} in between.",
                f"Upgrade the database to {series} first: `grampus db upgrade {name} --to "
                f"{series}`.",
                code="version-between",
            )
