"""The tests with a lab in two lanes side by side, each with a GRAMPUS_HOME and labs of its own.

One lane alone often waits: for a watch to expire, for a cluster to repair itself. A test that holds
times to bounds is marked `alone`: the other lane waits for its end.

    python -m tests.system.lanes [ARGUMENTS OF PYTEST]

Ends with 0 if every lane passed. A test that fails stops nothing; a lane that cannot go on stops
the others. After Ctrl-C each lane takes its labs down first. The whole output of a lane is in
build/test-logs.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from tests.system.command_line import CHECKOUT, HOME_NAME_VARIABLE
from tests.system.exclusive_tests import LOCKS_VARIABLE

BUILD = CHECKOUT / "build"
# A lane without a line for so long says what it is at.
SILENT_S = 60.0
PASSED, FAILED = 0, 1
# So many failures are one fault of everything.
MAX_FAILURES = 10
# Of a test that hangs: twice that of one lane, whose tests have the machine for themselves.
TIMEOUT_S = 600
INTEGRATION = "tests/integration"


@dataclass(frozen=True)
class Lane:
    """Modules that run one after the other, in this order, on labs in one home.

    Homes have names of the same length: a socket's path has a limit.
    """

    name: str
    home_name: str
    modules: tuple[str, ...]

    @property
    def paths(self) -> list[str]:
        """What pytest is given; a name without a directory is of the integration tests."""
        return [
            module if "/" in module else f"{INTEGRATION}/test_{module}.py"
            for module in self.modules
        ]


# As long as each other (seconds that each takes by itself); a new module goes into the shorter one.
LANES = (
    Lane(
        "cluster",
        "test-home",
        (
            "tests/acceptance",  # 400, first: on a lab that nobody has used
            "broken_cells",  # 290
            "lab_interrupted",  # 110
            "own_cluster",  # 120
            "matrix_runs",  # 110
            "guest_runs",  # exhaustive
            "fio_on_images",  # 70
            "backup_places",  # 65
            "archiving",  # 95
            "certificates",  # 65
            "live_changes",  # 60
            "snapshots",  # 45
            "volumed_journal",  # 85
            "volumed_faults",  # 75
            "volumed_data",  # 65
            "volumed_fence",  # 30
            "volumed_live",  # 30
            "volumed_cache",  # 15
            "emulated_disk",  # 20
            "librbd_binding",  # 25
            "package",  # 50, and a root
            "namespaces",  # 40
            "growth",  # 30
            "grown_file_systems",  # 5
            "secure_messages",  # exhaustive
            "stock_cluster",  # exhaustive, with two more images
            "upgrades",  # exhaustive
        ),
    ),
    Lane(
        "databases",
        "test-dbms",
        (
            "automatic_failover",  # 240, first: it breaks and heals the lab
            "encryption",  # 170
            "clones",  # 200
            "verify",  # 190
            "read_endpoints",  # 160
            "day_two_names",  # 140
            "migrate",  # 110
            "site_hosts",  # 160, and its hosts' image
            "backup",  # 90
            "replicas",  # 75
            "databases_interrupted",  # 70
            "lab_monitoring",  # 50, with its host image
            "site_access",  # 40
            "site_ports",  # exhaustive
            "guest_host",  # exhaustive, with another image
            "guide",  # exhaustive
            "every_step",  # exhaustive
            "ten_databases",  # exhaustive
        ),
    ),
)


class RunningLane:
    """A lane's pytest; its lines are shown with the name of the lane before them."""

    def __init__(self, lane: Lane, arguments: Sequence[str], logs: Path) -> None:
        self.lane = lane
        self.log = logs / f"{lane.name}.log"
        self._is_interrupted = False
        self._begun_s = self._shown_s = time.monotonic()
        self._line = b""
        # A group of its own: Ctrl-C reaches it once, from us.
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "pytest", "--verbose", "--durations=25"),
                *(f"--maxfail={MAX_FAILURES}", f"--timeout={TIMEOUT_S}"),
                *(*arguments, *lane.paths),
            ],
            cwd=CHECKOUT,
            env={
                **os.environ,
                HOME_NAME_VARIABLE: lane.home_name,
                LOCKS_VARIABLE: str(logs / "locks"),
                "PYTHONUNBUFFERED": "1",
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            process_group=0,
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.log.open("wb") as log:
            while chunk := os.read(self.process.stdout.fileno(), 65536):
                log.write(chunk)
                log.flush()
                *lines, self._line = (self._line + chunk).split(b"\n")
                for line in lines:
                    self.show(line.decode(errors="replace"))
        self.process.stdout.close()

    def show(self, line: str) -> None:
        """Show a line as the lane's."""
        self._shown_s = time.monotonic()
        took = f"{(self._shown_s - self._begun_s) / 60:4.1f} min"
        print(f"{self.lane.name:9} {took} | {line}", flush=True)  # noqa: T201 - a program's output

    def tell_if_silent(self) -> None:
        """What it is at, when it has shown nothing for long."""
        if time.monotonic() - self._shown_s > SILENT_S:
            self.show(f"... {self._line.decode(errors='replace').strip()}")

    def interrupt(self) -> None:
        """As Ctrl-C, once: it takes its labs down, which a second one would stop."""
        if not self._is_interrupted:
            self._is_interrupted = True
            self.process.send_signal(signal.SIGINT)  # nothing happens to one that has ended

    def finish(self) -> int:
        """Its code, once all its lines are shown."""
        self._reader.join()
        code = self.process.wait()
        took_s = time.monotonic() - self._begun_s
        self.show(f"ended with {code} after {took_s / 60:.1f} minutes; all of it is in {self.log}")
        return code


def share_images(homes: Sequence[Path], images: Path) -> None:
    """Let all homes have the same host images; whoever is first builds one, under its lock."""
    images.mkdir(parents=True, exist_ok=True)
    for home in homes:
        link = home / "images"
        if link.resolve() == images.resolve():
            continue
        home.mkdir(parents=True, exist_ok=True)
        link.symlink_to(os.path.relpath(images, home))


def decide_code(codes: Sequence[int]) -> int:
    """The code of all lanes: 0 if each passed, otherwise the worst word of pytest. Pure."""
    return PASSED if set(codes) == {PASSED} else max(map(abs, codes))


def select_failures(log: str) -> list[str]:
    """The lines of pytest's summary that name a test which did not pass. Pure."""
    return [line for line in log.splitlines() if line.startswith(("FAILED ", "ERROR "))]


def must_stop(codes: Sequence[int | None]) -> bool:
    """Whether a lane ended that could not go on; None has not ended. Pure."""
    return any(code not in (None, PASSED, FAILED) for code in codes)


@contextlib.contextmanager
def interrupting(lanes: Sequence[RunningLane]) -> Iterator[None]:
    """Hand on each request to end."""

    def hand_on(_number: int, _frame: FrameType | None) -> None:
        for running in lanes:
            running.interrupt()

    before = {number: signal.signal(number, hand_on) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def run(lanes: Sequence[Lane], arguments: Sequence[str], build: Path = BUILD) -> int:
    """Run lanes to their ends; the code of all. Homes and logs are in `build`."""
    logs = build / "test-logs"
    logs.mkdir(parents=True, exist_ok=True)
    share_images([build / lane.home_name for lane in lanes], build / "test-home" / "images")
    running: list[RunningLane] = []
    with interrupting(running):
        running += [RunningLane(lane, arguments, logs) for lane in lanes]
        while any(one.process.poll() is None for one in running):
            time.sleep(0.2)
            for one in running:
                if one.process.poll() is None:
                    one.tell_if_silent()
            if must_stop([one.process.poll() for one in running]):
                for one in running:
                    one.interrupt()
        code = decide_code([one.finish() for one in running])
        for one in running:  # last, and together: where the output of both begins is far above
            for line in select_failures(one.log.read_text(errors="replace")):
                one.show(line)
        return code


if __name__ == "__main__":
    raise SystemExit(run(LANES, sys.argv[1:]))
