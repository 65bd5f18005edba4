"""Progress drawn on stderr: a line that moves on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)


class TerminalProgress:
    """A `core.progress.Progress` on a terminal: finished phases stay, the current one moves."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False)
        self._bar = Progress(
            SpinnerColumn(finished_text=" "),
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("[dim]{task.fields[detail]}"),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
        )
        self._task: TaskID | None = None
        self._name = ""
        self._began_s = 0.0

    def __enter__(self) -> TerminalProgress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close(failed=error is not None)

    def phase(self, name: str) -> None:
        self._finish(failed=False)
        self._name, self._began_s = name, time.monotonic()
        self._bar.start()
        self._task = self._bar.add_task(escape(name), total=None, detail="")

    def detail(self, text: str, *, fraction: float | None = None) -> None:
        if self._task is None:
            return
        if fraction is None:
            self._bar.update(self._task, detail=escape(text))
        else:
            self._bar.update(
                self._task, detail=escape(text), total=1.0, completed=min(fraction, 0.999)
            )

    def note(self, text: str) -> None:
        self._console.print(f"[yellow]•[/yellow] {escape(text)}")

    def close(self, *, failed: bool = False) -> None:
        """Draw no more; the last phase is done, or `failed`."""
        self._finish(failed=failed)
        self._bar.stop()

    def _finish(self, *, failed: bool) -> None:
        if self._task is None:
            return
        self._bar.remove_task(self._task)
        self._task = None
        mark = "[red]✗[/red]" if failed else "[green]✓[/green]"
        took_s = time.monotonic() - self._began_s
        self._console.print(f"{mark} {escape(self._name)} [dim]{took_s:.1f} s[/dim]")


class PlainProgress:
    """Progress as lines, for a log file."""

    def __enter__(self) -> PlainProgress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def phase(self, name: str) -> None:
        sys.stderr.write(f"{name} ...\n")
        sys.stderr.flush()

    def detail(self, text: str, *, fraction: float | None = None) -> None:
        del text, fraction

    def note(self, text: str) -> None:
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()

    def close(self, *, failed: bool = False) -> None:
        """Nothing to take down."""
        del failed


def make_progress() -> TerminalProgress | PlainProgress:
    """What fits stderr."""
    return TerminalProgress() if sys.stderr.isatty() else PlainProgress()
