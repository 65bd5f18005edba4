"""How long work tells what it is doing. The command line draws it; tests record it."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """A sequence of named phases, each with a share done and a line of detail."""

    def phase(self, name: str) -> None:
        """Begin the phase `name`; the phase before it is done."""
        ...

    def detail(self, text: str, *, fraction: float | None = None) -> None:
        """What the current phase is doing, and how much of it is done (0 to 1) if known."""
        ...

    def note(self, text: str) -> None:
        """A line worth keeping on the screen, such as a fallback that was taken."""
        ...


class SilentProgress:
    """Says nothing."""

    def phase(self, name: str) -> None:
        del name

    def detail(self, text: str, *, fraction: float | None = None) -> None:
        del text, fraction

    def note(self, text: str) -> None:
        del text
