"""`grampus serve`: the controller, in the foreground."""

from __future__ import annotations

import logging
import math
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from datetime import datetime
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Annotated, TextIO

import typer

from grampus.cli.app import EXIT_FAILED, command, ensure_log
from grampus.cli.composition.lab import KeptFleet
from grampus.cli.composition.names import warning_history
from grampus.cli.composition.session import Session
from grampus.cli.event_delivery import EventDelivery, Receiver
from grampus.cli.event_documents import render_controller_event
from grampus.cli.housekeeping import controller_lock
from grampus.cli.nouns import app
from grampus.cli.options import FORMAT_DEFAULT, LAB_DEFAULT, DryRunOption, FormatOption, LabOption
from grampus.cli.output import OutputFormat
from grampus.cli.progress_bar import PlainProgress
from grampus.cli.serve_hook import HookProgram
from grampus.cli.serve_jobs import due_jobs
from grampus.cli.service_manager import ServiceManager
from grampus.core.clock import Clock, SystemClock, format_moment
from grampus.core.errors import RefusedError, SupersededError
from grampus.databases.controller.due_jobs import ControllerEvent, failure_of
from grampus.databases.controller.keeping import keep_warnings
from grampus.databases.controller.loop import Controller, Tell
from grampus.state.locks import hold_lock
from grampus.state.shared_locks import HeldElsewhereError

_WATCHED = "failover"  # the job that must not hang, see `service_manager.py`
_ENDED = "Ended."
_CONTROLLER = "controller"  # as the job of what is told of the controller itself
# Levels of the log, and of journald (sd-daemon(3)).
_LEVELS = {"warning": logging.WARNING, "failed": logging.ERROR}
_PRIORITIES = {"warning": 4, "failed": 3}
_INFO_PRIORITY = 6
_log = logging.getLogger("grampus.controller")
# How old the answer may be that this home still controls the site. Hosts refuse at once.
_CONTROLLER_SEEN_S = 5.0
_PATIENCE_S = 1.0  # commands that look whether one runs hold its lock for a moment


@command(app, "serve", "grampus serve --format json")
def serve(
    once: Annotated[
        bool, typer.Option("--once", metavar="", help="Run each job once, then end; for cron.")
    ] = False,
    metrics: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS:PORT",
            help="Serve Prometheus metrics there, such as 127.0.0.1:9470 (default: none).",
        ),
    ] = None,
    hook: Annotated[
        str | None,
        typer.Option(
            metavar="PROGRAM",
            help="Run this program for each event, with the event as JSON on its stdin "
            "(default: none).",
        ),
    ] = None,
    webhook: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Send each event as JSON to the web address in this file (default: none).",
        ),
    ] = None,
    lab: LabOption = LAB_DEFAULT,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Take care of the databases until the command is ended (Ctrl-C, SIGTERM): failover, growth,
    schedules.

    The command prints one line for each event. With --format json, each event is a JSON document.
    """
    session = Session(lab)
    session.require_place()
    ensure_log()
    fleet = KeptFleet()
    clock, printer = SystemClock(), EventPrinter(output_format, SystemClock())
    jobs = due_jobs(lambda: _sharing(lab, fleet), once=once)
    when = "Once" if once else "Every {:g} s"
    with session.planning(dry_run=dry_run):
        session.runner.propose(lambda: [f"{when.format(job.every_s)}: {job.name}" for job in jobs])
    kept = [keep_warnings(job, warning_history) for job in jobs]
    tell: Tell = printer.tell
    running: list[AbstractContextManager[None]] = []
    if metrics is not None:
        # The library of Prometheus is imported for who wants metrics.
        exporter = import_module("grampus.cli.serve_metrics").Exporter(
            metrics, lambda: _sharing(lab, fleet), clock
        )
        kept = [exporter.measure(job) for job in kept]
        tell = exporter.noting(tell)
        running.append(exporter.serving())
    for receiver in _receivers(hook, webhook):
        delivery = EventDelivery(receiver, tell, clock)
        tell = delivery.tell
        running.append(delivery.running())
    manager = ServiceManager(os.environ, clock)
    kept = [manager.watch(job) if job.name == _WATCHED else job for job in kept]
    controller = Controller(kept, lambda: _sharing(lab, fleet), clock, tell)
    stand_by = None if once else partial(_standing_by, manager, printer.tell)
    with _alone(session, stand_by), closing(fleet), ExitStack() as served, _ending_superseded(tell):
        for part in running:
            served.enter_context(part)
        if once:
            events = controller.run_once()
            if any(event.level == "failed" for event in events):
                raise typer.Exit(EXIT_FAILED)
            return
        serving = f"Serving the {'lab' if session.find_site() is None else 'site'} '{lab}'"
        served.enter_context(manager.serving(f"{serving}."))
        stop = threading.Event()
        named = ", ".join(job.name for job in jobs)
        printer.tell(_CONTROLLER, ControllerEvent("", "started", f"{serving}: {named}."))
        try:
            controller.run(stop)
        except KeyboardInterrupt:  # SIGTERM too, see `main`
            stop.set()
            left = controller.finish()
        else:
            left = []
        text = _ENDED
        if left:
            text = (
                f"Ended while working on {', '.join(left)}. The next command finishes or "
                "undoes this work."
            )
        printer.tell(_CONTROLLER, ControllerEvent("", "stopped", text))


@contextmanager
def _ending_superseded(tell: Tell) -> Iterator[None]:
    """Tell as an event that another machine controls the site: whoever reads events reads lines."""
    try:
        yield
    except SupersededError as error:
        tell(_CONTROLLER, failure_of("", error))
        raise typer.Exit(error.exit_code) from error


def _receivers(hook: str | None, webhook: Path | None) -> list[Receiver]:
    receivers: list[Receiver] = []
    if hook is not None:
        receivers.append(HookProgram(hook))
    if webhook is not None:
        # The library of HTTP is imported for who wants it.
        receivers.append(import_module("grampus.cli.serve_webhook").Webhook(webhook))
    return receivers


class EventPrinter:
    """Events as lines on stdout; called by several threads."""

    def __init__(self, output_format: OutputFormat, clock: Clock) -> None:
        self._is_json = output_format is OutputFormat.JSON
        self._clock = clock
        self._lock = threading.Lock()
        self._is_journald = is_journald(os.environ.get("JOURNAL_STREAM", ""), sys.stdout)

    def tell(self, job: str, event: ControllerEvent) -> None:
        """One line."""
        _log.log(
            _LEVELS.get(event.level, logging.INFO),
            "controller.event",
            extra={
                "job": job,
                "database": event.database,
                "kind": event.kind,
                "outcome": event.level,
                "text": event.text,
            },
        )
        at = self._clock.now()
        line = render_controller_event(job, event, at) if self._is_json else _as_text(event, at)
        if self._is_journald:
            line = f"<{_PRIORITIES.get(event.level, _INFO_PRIORITY)}>{line}"
        with self._lock:
            typer.echo(line)


def _as_text(event: ControllerEvent, at: datetime) -> str:
    said = f"{event.text} {event.remedy}".rstrip()
    return f"{format_moment(at)}  {event.level:<9}  {said}"


def is_journald(stream: str, output: TextIO) -> bool:
    """Whether journald reads `output`: it then takes a priority from each line.

    `stream` is `$JOURNAL_STREAM` (systemd.exec(5)).
    """
    try:
        seen = os.fstat(output.fileno())
    except OSError:  # it has no descriptor
        return False
    return stream == f"{seen.st_dev}:{seen.st_ino}"


@contextmanager
def _alone(
    session: Session, stand_by: Callable[[str], AbstractContextManager[None]] | None
) -> Iterator[None]:
    """Held against another controller of the same lab or site.

    While one runs on another machine, `stand_by` is entered with the machine's name; without it,
    and for one on this machine, RefusedError with code `busy` is raised.
    """
    with ExitStack() as stack:
        try:
            try:
                _take_controller_lock(session, stack, _PATIENCE_S)
            except HeldElsewhereError as error:
                if stand_by is None:
                    raise
                with stand_by(error.machine):
                    _take_controller_lock(session, stack, math.inf)
        except SupersededError:
            raise
        except RefusedError as error:
            raise RefusedError(
                f"Another `grampus serve` already runs for '{session.lab_name}'.",
                "One is enough. To replace it, end the other one first.",
                code="busy",
            ) from error
        yield


def _take_controller_lock(session: Session, stack: ExitStack, timeout_s: float) -> None:
    lock = controller_lock(session.lab_name)
    while True:
        try:
            stack.enter_context(hold_lock(session.home, lock, session.clock, timeout_s=timeout_s))
        except SupersededError:
            # A machine was fenced while this one waited: it works in the new epoch.
            session.renew_epoch()
        else:
            return


@contextmanager
def _standing_by(manager: ServiceManager, tell: Tell, machine: str) -> Iterator[None]:
    """Say that the controller of another machine is waited for.

    One that is ended meanwhile, as systemd ends a service, has done what it was to do.
    """
    text = f"`grampus serve` runs on {machine}. This one takes its place when that one ends."
    tell(_CONTROLLER, ControllerEvent("", "standby", text))
    try:
        with manager.serving(text, is_last=False):
            yield
    except KeyboardInterrupt:
        tell(_CONTROLLER, ControllerEvent("", "stopped", _ENDED))
        raise typer.Exit(0) from None


class _Quiet(PlainProgress):
    """What is done is told as events."""

    def phase(self, name: str) -> None:
        del name

    def note(self, text: str) -> None:
        del text


@contextmanager
def _sharing(lab: str, fleet: KeptFleet) -> Iterator[Session]:
    """A session for one run of one job, that shares the lab with other commands."""
    session = Session(lab, progress=_Quiet(), kept_fleet=fleet)
    try:
        with session.sharing_lab():
            session.require_controller(_CONTROLLER_SEEN_S)
            if not session.state_watch().is_known():
                session.state_watch().require_current()
            yield session
    finally:
        session.close()
