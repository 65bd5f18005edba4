"""Markdown of what a driver or a user may have written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; nothing without rows."""
    if not rows:
        return ""
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(_cell(text) for text in line)} |" for line in lines)


def bullets(sentences: Iterable[str]) -> str:
    """A list."""
    return "\n".join(f"- {escape(one)}" for one in sentences)


def escape(text: str) -> str:
    """What a driver or a user wrote must not become markup: no tags, and one line."""
    return " ".join(text.split()).replace("<", "&lt;").replace("[", "\\[")


def _cell(text: str) -> str:
    return escape(text.strip()).replace("|", "\\|")
