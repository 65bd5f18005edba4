"""Progress that is kept."""

from __future__ import annotations


class RecordingProgress:
    """Keeps what was said."""

    def __init__(self) -> None:
        self.phases: list[str] = []
        self.notes: list[str] = []

    def phase(self, name: str) -> None:
        self.phases.append(name)

    def detail(self, text: str, *, fraction: float | None = None) -> None:
        pass

    def note(self, text: str) -> None:
        self.notes.append(text)
