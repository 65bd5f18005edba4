"""Progress that is kept for the test to read."""

from __future__ import annotations


class RecordedProgress:
    """A `Progress`: phases, details with their fractions, and notes, each in order."""

    def __init__(self) -> None:
        self.phases: list[str] = []
        self.details: list[tuple[str, float | None]] = []
        self.notes: list[str] = []

    def phase(self, name: str) -> None:
        self.phases.append(name)

    def detail(self, text: str, *, fraction: float | None = None) -> None:
        self.details.append((text, fraction))

    def note(self, text: str) -> None:
        self.notes.append(text)
