"""The data plane's exerciser (dataplane/testkit), run on a lab's host."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.system.command_line import CHECKOUT, Finished
from tests.system.lab_machine import LabMachine
from tests.system.machine import wait_for

DEVICE_FAILED = 3
NS_PER_S = 1_000_000_000


def build_exerciser() -> Path:
    """The exerciser, built as everything of the data plane that tests run on a lab: released."""
    return build_program("../scripts/cargo-release.sh", "--package", "grampus-testkit")


def build_program(*argv: str) -> Path:
    """The one program that this command of cargo makes of the data plane."""
    built = subprocess.run(
        [*argv, "--message-format=json"],
        cwd=CHECKOUT / "dataplane",
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    artifacts = [json.loads(line) for line in built.stdout.splitlines()]
    (program,) = (found["executable"] for found in artifacts if found.get("executable"))
    return Path(program)


class Exerciser:
    """The program on one host."""

    def __init__(self, machine: LabMachine, program: Path) -> None:
        self.machine = machine
        self.program = machine.scratch() / "volume-exerciser"
        if not self.program.exists():
            shutil.copy2(program, self.program)

    def run(self, *arguments: str, timeout_s: float = 180) -> Finished:
        """Run it to its end, whatever its code."""
        return self.machine.run(str(self.program), *arguments, timeout_s=timeout_s)

    def ok(self, *arguments: str, timeout_s: float = 180) -> Any:
        """The document that it printed, having found no fault."""
        finished = self.run(*arguments, timeout_s=timeout_s)
        assert finished.code == 0, f"{' '.join(arguments)}: {finished.stdout}{finished.stderr}"
        return finished.document

    def ledger(self, name: str, path: str | Path, *options: str) -> VolumeLedger:
        """A ledger of what is written to `path`; nothing is written yet."""
        return VolumeLedger(self, name, str(path), options)


class VolumeLedger:
    """Writes to a file or device, with account of what was acknowledged kept elsewhere.

    The account may be carried on by another exerciser: on another host, or after a crash.
    """

    def __init__(
        self, exerciser: Exerciser, name: str, path: str, options: tuple[str, ...]
    ) -> None:
        self._exerciser = exerciser
        self._path = path
        self._options = options
        files = exerciser.machine.scratch()
        self.ledger = files / f"{name}.ledger"
        self.stamps = files / f"{name}.stamps"
        self._stop_file = files / f"{name}.stop"
        self._pid_file = files / f"{name}.pid"
        self._writer: subprocess.Popen[str] | None = None
        self._counted_bytes = 0
        self._counts: Counter[str] = Counter()
        for file in (self.ledger, self.stamps, self._stop_file, self._pid_file):
            file.unlink(missing_ok=True)

    def __enter__(self) -> VolumeLedger:
        return self

    def __exit__(self, *_: object) -> None:
        """End a writer that a failed test left, even one that waits for its device."""
        if self._writer is None:
            return
        with contextlib.suppress(OSError, ValueError):
            os.kill(int(self._pid_file.read_text()), signal.SIGKILL)
        self._writer.kill()
        with self._writer:  # waits for it, and closes its pipes
            pass

    def start(self, *options: str) -> None:
        """Begin to write, or go on."""
        self._stop_file.unlink(missing_ok=True)
        go_on = ("--continue",) if self.ledger.exists() else ()
        options = (*self._options, *options, *go_on)
        files = ("--ledger", str(self.ledger), "--stamp", str(self.stamps))
        writer = self._exerciser.machine.argv(
            str(self._exerciser.program),
            *("ledger", "write", "--path", self._path, *files),
            *("--stop-file", str(self._stop_file), *options),
            options=("--pid-file", str(self._pid_file)),
        )
        self._writer = subprocess.Popen(
            writer, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.wait_for_more()

    def wait_for_more(self, count: int = 20, timeout_s: float = 60.0) -> None:
        """Wait until `count` further operations are acknowledged: the writes go on."""
        wanted = self.acknowledged() + count
        self._wait(lambda: self.acknowledged() >= wanted, "acknowledged writes", timeout_s)

    def wait_for_failure(self, timeout_s: float = 60.0) -> None:
        """Wait until an operation has failed."""
        self._wait(lambda: self.count("e") > 0, "an operation to fail", timeout_s)

    def acknowledged(self) -> int:
        """Writes and flushes acknowledged so far."""
        return self.count("w") + self.count("f")

    def count(self, kind: str) -> int:
        """Stamps so far: of writes (w), flushes (f) or failures (e)."""
        # Only what is new: in an hour they become millions, and they are counted all the time.
        if self.stamps.exists():
            with self.stamps.open("rb") as file:
                file.seek(self._counted_bytes)
                whole, newline, _ = file.read().rpartition(b"\n")
            self._counted_bytes += len(whole + newline)
            self._counts.update(line[:1].decode() for line in whole.splitlines())
        return self._counts[kind]

    def is_writing(self) -> bool:
        """Whether the writer has not ended yet."""
        return self._writer is not None and self._writer.poll() is None

    def stop(self, timeout_s: float = 60.0) -> Any:
        """Let the writer end; its summary, which must tell of no failure."""
        self._stop_file.touch()
        finished = self.end(timeout_s)
        assert finished.code == 0, f"{finished.stdout}{finished.stderr}"
        return finished.document

    def end(self, timeout_s: float = 60.0) -> Finished:
        """Wait until the writer ends by itself, because its device failed or it was stopped."""
        assert self._writer is not None
        stdout, stderr = self._writer.communicate(timeout=timeout_s)
        code, self._writer = self._writer.returncode, None
        return Finished(code, stdout, stderr)

    def request_end(self) -> None:
        """Ask the writer to end; `end` waits for it."""
        self._stop_file.touch()

    def verify(self, other: Exerciser | None = None, *, path: str | Path | None = None) -> Any:
        """Hold the device to the ledger, and to what it shows now from now on.

        `other`: on another host, which the volume was taken to, where the file is at `path`.
        """
        judge = other or self._exerciser
        ledger = judge.machine.scratch() / self.ledger.name
        if ledger != self.ledger:  # hosts do not see each other's files
            shutil.copy2(self.ledger, ledger)
        known_bytes = ledger.stat().st_size
        verified = judge.ok(
            *("ledger", "verify", "--settle", "--direct"),
            *("--path", str(path or self._path), "--ledger", str(ledger)),
        )
        if ledger != self.ledger:
            with self.ledger.open("ab") as file:  # its writer may still be there
                file.write(ledger.read_bytes()[known_bytes:])
        return verified

    def _wait(self, condition: Callable[[], bool], what: str, timeout_s: float) -> None:
        def is_over() -> bool:
            return condition() or not self.is_writing()

        wait_for(is_over, f"{what} on {self._path}", timeout_s)
        if not condition():
            finished = self.end()
            raise AssertionError(f"the writer ended: {finished.stdout}{finished.stderr}")


def observe_windows(program: Path, *ledgers: VolumeLedger) -> Any:
    """When each writer could write, from their stamps, and how these times lie to each other."""
    command = [str(program), "stamps", *(str(ledger.stamps) for ledger in ledgers)]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    assert finished.returncode in (0, 1), finished.stderr
    return json.loads(finished.stdout)


def first_failure_ns(stamps: Path) -> int:
    """When the first failed operation was answered, in nanoseconds since 1970."""
    lines = (line.split() for line in stamps.read_text().splitlines()[:-1])
    return next(int(answered) for kind, _, answered, _ in lines if kind == "e")
