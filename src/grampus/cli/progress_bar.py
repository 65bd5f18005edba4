"""Progress drawn on stderr: a line that moves on a terminal, plain lines elsewhere."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
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

from grampus.core.clock import format_duration
from grampus.core.errors import Planned


class _Reporting:
    """What a step does is also written down, for `grampus operation show`."""

    report: Callable[[str], None] | None = None

    def _report(self, text: str, fraction: float | None) -> None:
        if self.report is not None:
            share = "" if fraction is None else f"{fraction:.0%}"
            self.report(", ".join(part for part in (text, share) if part))


class TerminalProgress(_Reporting):
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
        self.close(failed=error is not None and not isinstance(error, Planned))

    def phase(self, name: str) -> None:
        self._finish(failed=False)
        self._name, self._began_s = name, time.monotonic()
        self._bar.start()
        self._task = self._bar.add_task(escape(name), total=None, detail="")

    def detail(self, text: str, *, fraction: float | None = None) -> None:
        self._report(text, fraction)
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
        self._console.print(f"{mark} {escape(self._name)} [dim]{format_duration(took_s)}[/dim]")


class PlainProgress(_Reporting):
    """Progress as lines, for a log file.

    It goes silent when nobody reads any more (`grampus ... 2>&1 | head`): work that has begun
    is not broken off for that.
    """

    def __init__(self) -> None:
        self._is_read = True

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
        self._write(f"{name} ...\n")

    def detail(self, text: str, *, fraction: float | None = None) -> None:
        self._report(text, fraction)

    def note(self, text: str) -> None:
        self._write(f"{text}\n")

    def close(self, *, failed: bool = False) -> None:
        """Nothing to take down."""
        del failed

    def _write(self, line: str) -> None:
        if not self._is_read:
            return
        try:
            sys.stderr.write(line)
            sys.stderr.flush()
        except BrokenPipeError:
            self._is_read = False
            # What is still in Python's buffer would fail again when the process ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def make_progress() -> TerminalProgress | PlainProgress:
    """What fits stderr."""
    return TerminalProgress() if sys.stderr.isatty() else PlainProgress()
