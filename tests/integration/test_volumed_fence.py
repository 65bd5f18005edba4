"""A fenced volume changes nothing, its neighbours see nothing, and two never write at once."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.system.command_line import CommandLine, Finished
from tests.system.endurance import REPEATS
from tests.system.exerciser import (
    NS_PER_S,
    Exerciser,
    VolumeLedger,
    first_failure_ns,
    observe_windows,
)
from tests.system.lab_machine import LabMachine
from tests.system.machine import wait_for
from tests.system.volumes import attach, attached_volume

LEDGER_OPTIONS = ("--direct", "--length", str(8 * 1024 * 1024))
# From the command to the first failure that a writer sees: the command's own time, one map to the
# OSDs, one refused request.
FENCED_WITHIN_S = 10.0


@pytest.fixture
def exercisers(lab: CommandLine, exerciser_program: Path) -> dict[str, Exerciser]:
    """The exerciser on each of two hosts."""
    return {host: Exerciser(LabMachine(lab, host), exerciser_program) for host in ("h1", "h2")}


@pytest.fixture(scope="module")
def neighbour(lab: CommandLine) -> Iterator[dict[str, Any]]:
    """A volume on h1 that must not notice what happens beside it."""
    with attached_volume(lab, "neighbour") as volume:
        yield volume


@pytest.fixture(scope="module")
def made(lab: CommandLine) -> Iterator[None]:
    """The volume to be fenced exists."""
    with attached_volume(lab, "fenced"):
        yield


@pytest.fixture
def volume(lab: CommandLine, made: None) -> dict[str, Any]:
    """The volume to be fenced: wherever it is attached, or on h1."""
    shown: dict[str, Any] = lab.json("volume", "show", "fenced")
    return shown if shown["host"] else attach(lab, "fenced", "h1")


def ledger_on(exerciser: Exerciser, name: str, volume: dict[str, Any]) -> VolumeLedger:
    """A ledger of a file on the volume."""
    return exerciser.ledger(name, f"{volume['mount_path']}/{name}", *LEDGER_OPTIONS)


def require_apart(program: Path, one: VolumeLedger, other: VolumeLedger) -> None:
    """From the log of writes: at no moment could both write."""
    document = observe_windows(program, one, other)
    assert all(window["writes"] > 0 for window in document["windows"])
    assert [list(pair) for pair in document["pairs"]] == [["apart"]], document


def test_fence_cuts_off_one_client_and_no_other(
    lab: CommandLine,
    exerciser_program: Path,
    exercisers: dict[str, Exerciser],
    volume: dict[str, Any],
    neighbour: dict[str, Any],
) -> None:
    assert volume["host"] == neighbour["host"] == "h1"
    on_h1, on_h2 = exercisers["h1"], exercisers["h2"]
    with ExitStack() as ledgers:
        fenced = ledgers.enter_context(ledger_on(on_h1, "fenced", volume))
        beside = ledgers.enter_context(ledger_on(on_h1, "beside", neighbour))
        beside.start()
        # It goes on trying: what a fence lets through once, it would get through.
        fenced.start("--keep-trying")
        ordered_ns = time.time_ns()
        lab.ok("volume", "fence", "fenced", "--yes")
        done_ns = time.time_ns()
        fenced.wait_for_failure(timeout_s=FENCED_WITHIN_S)
        assert first_failure_ns(fenced.stamps) - ordered_ns < FENCED_WITHIN_S * NS_PER_S
        beside.wait_for_more(200)
        fenced.request_end()
        summary = fenced.end().document
        assert summary["failures"] > 10
        assert summary["last_write_ns"] < done_ns
        assert {failure["errno"] for failure in summary["described"]} == {errno.EIO}
        blocklisted = on_h1.machine.ok("ceph", "osd", "blocklist", "ls")
        assert volume["client_address"] in blocklisted
        assert neighbour["client_address"] not in blocklisted

        taken = attach(lab, "fenced", "h2")
        verified = fenced.verify(on_h2, path=f"{taken['mount_path']}/fenced")
        assert verified["blocks"] == 2048
        heir = ledgers.enter_context(ledger_on(on_h2, "heir", taken))
        heir.start()
        heir.wait_for_more(100)
        heir.stop()
        require_apart(exerciser_program, fenced, heir)
        beside.stop()
        beside.verify()


def test_host_that_comes_back_after_a_fence_writes_nothing(
    lab: CommandLine,
    exerciser_program: Path,
    exercisers: dict[str, Exerciser],
    volume: dict[str, Any],
) -> None:
    """Writes wait on a host that is cut off; taken over meanwhile, they must never land."""
    cut_off = volume["host"]
    other = "h2" if cut_off == "h1" else "h1"
    with ExitStack() as cleanup:
        fenced = cleanup.enter_context(ledger_on(exercisers[cut_off], "zombie", volume))
        fenced.start("--keep-trying")
        healing = ExitStack()
        cleanup.callback(healing.close)  # before what waits for it is ended
        healing.callback(lab.ok, "lab", "fault", "heal")
        lab.ok("lab", "fault", "partition", cut_off)
        lab.ok("volume", "fence", "fenced", "--yes")
        taken = attach(lab, "fenced", other)
        blocks = f"{taken['mount_path']}/zombie"
        fenced.verify(exercisers[other], path=blocks)
        heir = cleanup.enter_context(ledger_on(exercisers[other], "heir", taken))
        heir.start()
        healing.close()
        fenced.wait_for_failure(timeout_s=60)
        heir.wait_for_more(200)
        fenced.request_end()
        assert fenced.end().document["failures"] > 0
        heir.stop()
        heir.verify()
        # What was found at the takeover is what is there: nothing came in late.
        fenced.verify(exercisers[other], path=blocks)
        require_apart(exerciser_program, fenced, heir)


@dataclass(frozen=True)
class OwnDaemon:
    """A volumed of the tests' own, past Grampus, on one image."""

    machine: LabMachine
    image: str

    @property
    def program(self) -> str:
        return str(self.machine.scratch() / "volumed")

    @property
    def socket(self) -> str:
        return str(self.machine.scratch() / "control")

    @property
    def mountpoint(self) -> Path:
        return self.machine.scratch() / "own"

    @contextmanager
    def started(self) -> Iterator[subprocess.Popen[str]]:
        """The daemon; killed afterwards if it should still be there."""
        self.mountpoint.touch()
        pid_file = self.machine.scratch() / "own.pid"
        argv = self.machine.argv(
            *(self.program, "serve", "--image", self.image, "--user", "admin"),
            *("--mountpoint", str(self.mountpoint), "--socket", self.socket),
            options=("--pid-file", str(pid_file)),
        )
        with subprocess.Popen(
            argv, stderr=subprocess.STDOUT, stdout=subprocess.PIPE, text=True
        ) as process:
            try:
                yield process
            finally:
                if process.poll() is None:
                    os.kill(int(pid_file.read_text()), signal.SIGKILL)
                    self.machine.run("umount", "--lazy", str(self.mountpoint))

    def ask(self, command: str) -> Finished:
        return self.machine.run(self.program, "ctl", "--socket", self.socket, command)


def test_second_daemon_on_an_image_is_refused_with_the_owner_named(
    lab: CommandLine, exercisers: dict[str, Exerciser], neighbour: dict[str, Any]
) -> None:
    image = f"{neighbour['pool']}/{neighbour['image']}"
    with own_daemons(exercisers, image)[1].started() as second:
        said, _ = second.communicate(timeout=60)
    assert second.returncode == 1, said
    assert neighbour["client_address"] in said
    live = lab.json("volume", "show", "neighbour")["live"]
    assert (live["state"], live["lock_owner"]) == ("running", True)
    file = Path(neighbour["mount_path"]) / "file"
    file.write_bytes(b"still ours")
    assert file.read_bytes() == b"still ours"


def test_of_two_daemons_started_at_once_one_serves(
    exercisers: dict[str, Exerciser], neighbour: dict[str, Any]
) -> None:
    machine, image = exercisers["h1"].machine, f"{neighbour['pool']}/contended"
    machine.ok("rbd", "create", "--size", "64M", image)
    try:
        for _ in range(1 + REPEATS):
            require_one_serves(own_daemons(exercisers, image))
    finally:
        machine.ok("rbd", "rm", "--no-progress", image)


def own_daemons(exercisers: dict[str, Exerciser], image: str) -> list[OwnDaemon]:
    """One on each host, with the program that `volume attach` has put on h1."""
    program = exercisers["h1"].machine.data / "bin" / "volumed"
    daemons = [OwnDaemon(exerciser.machine, image) for exerciser in exercisers.values()]
    for daemon in daemons:
        shutil.copy2(program, daemon.program)
    return daemons


def require_one_serves(daemons: list[OwnDaemon]) -> None:
    """Start daemons on one image at once: one serves, and the others name it."""
    with ExitStack() as started:
        processes = [started.enter_context(daemon.started()) for daemon in daemons]

        def serving() -> list[int]:
            return [i for i, process in enumerate(processes) if process.poll() is None]

        wait_for(lambda: len(serving()) == 1, "one of the daemons to be refused", 60)
        winner = serving()[0]
        wait_for(lambda: daemons[winner].ask("status").code == 0, "the other to serve")
        status = daemons[winner].ask("status").document
        assert (status["state"], status["lock_owner"]) == ("running", True)
        for process in processes:
            if process is not processes[winner]:
                said, _ = process.communicate(timeout=10)
                assert (process.returncode, status["client_address"] in said) == (1, True), said
        assert daemons[winner].ask("stop").code == 0
        processes[winner].communicate(timeout=60)
        assert processes[winner].returncode == 0
