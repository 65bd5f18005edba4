"""Labels of databases: words that their users find them by. All pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from grampus.core.errors import RefusedError, UsageError

MAX_LABELS = 16
# Neither needs quoting in a shell, on an image, or where several stand in one line.
_KEY = re.compile(r"[a-z](?:[a-z0-9-]{0,30}[a-z0-9])?")
_VALUE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._/-]{0,62})")


def parse_changes(words: Sequence[str]) -> dict[str, str | None]:
    """What `team=web` and `team-` ask for: values by key, None for a label that is to go.

    Raises UsageError for any other word, and for a key that is named twice.
    """
    changes: dict[str, str | None] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals and word.endswith("-"):
            key = word[:-1]
        if _KEY.fullmatch(key) is None or not (equals or word.endswith("-")):
            raise _invalid(word)
        if equals and _VALUE.fullmatch(value) is None:
            raise _invalid(word)
        if key in changes:
            raise UsageError(
                f"The label '{key}' is given twice.", "Give each label once.", code="invalid-label"
            )
        changes[key] = value if equals else None
    return changes


def parse_selectors(words: Sequence[str]) -> dict[str, str]:
    """What `--label team=web` asks for, as labels that a database must have."""
    wanted = parse_changes(words)
    for word, value in zip(words, wanted.values(), strict=True):
        if value is None:
            raise _invalid(word)
    return {key: value for key, value in wanted.items() if value is not None}


def decide_labels(labels: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    """The labels after the changes, by key. Raises RefusedError when there would be too many."""
    merged = {**labels, **changes}
    kept = {key: value for key, value in sorted(merged.items()) if value is not None}
    if len(kept) > MAX_LABELS:
        raise RefusedError(
            f"A database has at most {MAX_LABELS} labels.",
            "Remove some first: `grampus db label NAME KEY-`.",
            code="too-many-labels",
        )
    return kept


def has_labels(labels: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    """Whether all that is `wanted` is among the labels."""
    return all(labels.get(key) == value for key, value in wanted.items())


def _invalid(word: str) -> UsageError:
    return UsageError(
        f"{word!r} is not a label.",
        "Write KEY=VALUE, such as team=web, or KEY- to remove a label. A key has lower-case "
        "letters, digits and hyphens. A value has letters, digits and ._/-.",
        code="invalid-label",
    )
