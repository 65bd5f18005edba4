"""A controller beside the load of a benchmark, which shows what that takes of the throughput."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO
from urllib.error import URLError
from urllib.request import urlopen

from grampus.core.errors import GrampusError
from grampus.hosts.containers import DIES_WITH_US
from grampus.lab.monitoring import SCRAPE_EVERY_S

_BEGIN_TIMEOUT_S = 60.0
_END_TIMEOUT_S = 30.0
_ADDRESS = "127.0.0.1"
_STARTED = '"started"'  # the kind of its first event


@contextmanager
def controller_serving(lab: str) -> Iterator[None]:
    """`grampus serve --metrics` of the lab, whose metrics are read as often as a lab's Prometheus
    does.

    It ends with this process, however that ends. Raises GrampusError with code `no-controller` if
    it does not begin, as when another one serves the lab.
    """
    metrics = f"{_ADDRESS}:{find_free_port()}"
    serve = ("serve", "--lab", lab, "--metrics", metrics, "--format", "json")
    argv, address = (sys.executable, "-m", "grampus", *serve), f"http://{metrics}/metrics"
    with running_beside(argv, _STARTED, address, every_s=SCRAPE_EVERY_S):
        yield


@contextmanager
def running_beside(
    argv: Sequence[str], sign: str, address: str, *, every_s: float
) -> Iterator[None]:
    """A program that has printed `sign`, and whose `address` is read every so many seconds.

    Raises GrampusError with code `no-controller` if it does not within a minute, or ends before the
    block does.
    """
    process = subprocess.Popen(
        [*DIES_WITH_US, *argv],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    stop = threading.Event()
    output = _Output(process.stdout, sign)
    scraper = threading.Thread(target=_read_often, args=(address, every_s, stop))
    try:
        if not output.begun.wait(_BEGIN_TIMEOUT_S) or output.is_over:
            raise _no_controller("did not begin", output)
        scraper.start()
        yield
        if process.poll() is not None:
            output.close()
            raise _no_controller("ended before the load", output)
    finally:
        stop.set()
        _end(process)
        output.close()
        if scraper.ident is not None:
            scraper.join()


class _Output:
    """What a process prints, read so that it never waits for a full pipe."""

    def __init__(self, lines: IO[str] | None, sign: str) -> None:
        self.begun = threading.Event()  # the sign was printed, or all was
        self._sign = sign
        self.is_over = False
        self.last = ""
        self._lines = lines
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def close(self) -> None:
        self._reader.join()
        if self._lines is not None:
            self._lines.close()

    def _read(self) -> None:
        for line in self._lines or ():
            self.last = line.strip() or self.last
            if self._sign in line:
                self.begun.set()
        self.is_over = True
        self.begun.set()


def _no_controller(what: str, output: _Output) -> GrampusError:
    return GrampusError(
        f"The controller beside the load {what}: {output.last or 'it said nothing'}",
        "If another controller serves the lab, end it. Then try again.",
        code="no-controller",
    )


def _read_often(address: str, every_s: float, stop: threading.Event) -> None:
    while not stop.wait(every_s):
        # What it answers is not what is measured.
        with (
            contextlib.suppress(URLError, OSError),
            urlopen(address, timeout=every_s) as answer,  # noqa: S310 - of this machine
        ):
            answer.read()


def find_free_port() -> int:
    """A port of this machine at which nobody listens."""
    with socket.socket() as free:
        free.bind((_ADDRESS, 0))
        port: int = free.getsockname()[1]
        return port


def _end(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(_END_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
