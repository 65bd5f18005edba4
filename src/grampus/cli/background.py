"""Long commands in the background (`--async`): started as a process of their own."""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import typer

from grampus.cli.composition.lab import BACKGROUND_VARIABLE, LabSession
from grampus.cli.output import OutputFormat, make_output
from grampus.core.errors import UsageError
from grampus.operations.watching import OperationView, OperationWatch

OPTION = "--async"
_SHOW_PASSWORD = "--show-password"  # noqa: S105 - the name of an option
LOGS = "background"
KEPT_S = 30 * 86_400.0
POLL_S = 0.1
END_S = 30.0


def start(words: Sequence[str], lab: str, output_format: OutputFormat) -> None:
    """Run the command of these words in a process of its own, and say which operation it is.

    Returns once it has begun one. A command that ends before says what it said, and ends this one
    with its own exit code (typer.Exit).
    """
    if _SHOW_PASSWORD in words:
        raise UsageError(
            f"{_SHOW_PASSWORD} and {OPTION} exclude each other, because the password would "
            "stay in a file.",
            f"Remove {_SHOW_PASSWORD}: the option file of the database has the password.",
        )
    session = LabSession(lab)
    session.require_place()
    token = secrets.token_hex(8)
    log = _make_log(session.home.root / LOGS, token)
    with log.open("ab") as output, session.progress:
        session.progress.phase("Start it in the background")
        process = subprocess.Popen(
            [sys.executable, "-m", "grampus", *(word for word in words if word != OPTION)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**os.environ, BACKGROUND_VARIABLE: token},
            start_new_session=True,
        )
        try:
            view = _wait_for_begin(session, process, token)
        except KeyboardInterrupt:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(END_S)  # it undoes what it had begun, which may take longer
            raise
    if view is None:
        sys.stdout.write(log.read_text(encoding="utf-8", errors="replace"))
        log.unlink()
        raise typer.Exit(process.returncode)
    number = view.operation.id
    make_output(output_format).text(
        {"operation": number, "pid": process.pid, "log": str(log)},
        f"Operation {number} ({view.what} of '{view.operation.subject}') runs in the "
        f"background.\n`grampus operation wait {number}` waits for the operation. Its output "
        f"is in {log}.",
    )


def _wait_for_begin(
    session: LabSession, process: subprocess.Popen[bytes], token: str
) -> OperationView | None:
    """The operation; None: the command ended without one."""
    watch = OperationWatch(session.store, session.lab_name, session.clock)
    while True:
        ended = process.poll() is not None
        view = watch.find_of(token)
        if view is not None or ended:
            return view
        session.clock.sleep(POLL_S)


def _make_log(directory: Path, token: str) -> Path:
    """An empty file for what the command says; those that are old go."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    for old in directory.glob("*.log"):
        if time.time() - old.stat().st_mtime > KEPT_S:
            old.unlink(missing_ok=True)
    log = directory / f"{token}.log"
    log.touch(mode=0o600)
    return log
