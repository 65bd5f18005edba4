"""A volume under the ledger's load, and what it shows after a crash."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.proof.decide_crashes import WritePath
from tests.proof.ledger_cut import (
    Cut,
    classify_cut,
    forget_flushes,
    parse_events,
    parse_run,
    parse_versions,
)
from tests.proof.outcome import Answer, Judgement, Seen, classify_outcome, decide_lost_age_ms
from tests.proof.proof_lab import ProofLab, ask_status
from tests.system.exerciser import VolumeLedger
from tests.system.lab_machine import LabMachine
from tests.system.volumes import attach

LEDGER_BYTES = 16 * 1024 * 1024
BLOCKS = LEDGER_BYTES // 4096
LONG_LEDGER_BYTES = 32 * 1024 * 1024
MOUNT_OPTIONS = "noatime,nodev,nosuid,nouuid"  # as `volume attach` mounts
MOUNT_TIMEOUT_S = 120.0


@dataclass(frozen=True)
class Look:
    """One look at a volume after a crash: what was seen, and what it means."""

    cut: Cut
    lost_age_ms: float | None
    judgement: Judgement


class LedgeredVolume:
    """A volume with a ledger of the file `blocks` on it, whose home is one host of the lab."""

    def __init__(self, lab: ProofLab, name: str, write_path: WritePath, home: str) -> None:
        self.lab = lab
        self.name = name
        self.write_path = write_path
        self.home = home
        self.document: dict[str, Any] = {}
        self._ledger: VolumeLedger | None = None
        self._base = [1] * BLOCKS
        self._ledger_start = 0
        self._stamps_start = 0

    @property
    def ledger(self) -> VolumeLedger:
        """The ledger of the writer that is, or was last, at work."""
        assert self._ledger is not None, "begin() was not called"
        return self._ledger

    @property
    def daemon(self) -> str:
        return f"volumed-{self.name}"

    @property
    def machine(self) -> LabMachine:
        """The host that it is attached to."""
        return self.lab.machines[self.document["host"]]

    def ensure_made(self) -> None:
        """The volume exists."""
        if self.lab.command_line.run("volume", "show", self.name).code != 0:
            options = ("--size", "512M", "--write-path", self.write_path)
            self.lab.command_line.ok("volume", "create", self.name, *options)

    def attach(self, host: str) -> float:
        """Attach it to `host`, or mend its attachment; how long it took, in seconds."""
        began_s = time.monotonic()
        document = attach(self.lab.command_line, self.name, host)
        assert document["write_path"] == self.write_path, document
        self.document = document
        return time.monotonic() - began_s

    def begin(self) -> None:
        """Forget the ledger: the next write begins one, with version 1 in each block."""
        self.end()
        path = self._blocks(self.document)
        self._ledger = self.lab.exercisers[self.document["host"]].ledger(
            self.name, path, "--direct", "--length", str(LEDGER_BYTES)
        )
        self._base = [1] * BLOCKS
        self._ledger_start = self._stamps_start = 0

    def ensure_short_ledger(self) -> None:
        """Forget a ledger that has grown so long that reading it takes longer than crashing."""
        if self.ledger.ledger.stat().st_size > LONG_LEDGER_BYTES:
            self.begin()

    def end(self) -> None:
        """End a writer that should still be there, even one that waits for its device."""
        if self._ledger is not None:
            self._ledger.__exit__()
            self._ledger = None

    def detach(self) -> None:
        self.lab.command_line.ok("volume", "detach", self.name)

    def ensure_absent(self) -> None:
        """The volume is gone, attached or not."""
        self.end()
        if self.lab.command_line.run("volume", "show", self.name).code == 0:
            self.lab.command_line.run("volume", "fence", self.name, "--yes")
            self.lab.command_line.ok("volume", "delete", self.name, "--yes")

    def status(self) -> dict[str, Any]:
        """What its volumed says, asked past the command line. Raises OSError, ValueError."""
        return ask_status(Path(self.document["export_path"]).parent)

    def ensure_asides_absent(self) -> int:
        """Remove the logs that volumed found of an older epoch and set aside (INV-3), a quarter of
        a GiB each; how many it names."""
        asides = self.status()["journal"]["local_asides"]
        for path in asides:
            self.machine.ok("rm", "-f", str(path))
        return len(asides)

    def look(self, *, may_lose: bool) -> Look:
        """Hold what the volume shows to its ledger, and to that from now on.

        A loss that is allowed is settled: what is missing is owed no longer.
        """
        ledger = self.ledger
        text = _tail(ledger.ledger, self._ledger_start)
        with ledger.ledger.open() as file:
            run = parse_run(file.readline())
        found = parse_versions(Path(self._blocks(self.document)).read_bytes(), run)
        cut = classify_cut(self._base, parse_events(text), found)
        age_ms = decide_lost_age_ms(cut, self._answers("f", self._stamps_start))
        if cut.lost and may_lose:
            whole = ledger.ledger.read_bytes()[: self._ledger_start].decode()
            _replace(ledger.ledger, whole + forget_flushes(text, cut.lost))
        verified = self._verify()
        seen = Seen(
            cut=cut,
            lost_age_ms=age_ms,
            block_faults=verified["faults"],
            described=tuple(verified["described"][:4]),
            filesystem="",
        )
        judgement = classify_outcome(seen, may_lose=may_lose)
        if judgement.verdict != "violated":
            self._base = [version for version in found if version is not None]
            self._ledger_start = ledger.ledger.stat().st_size
            self._stamps_start = ledger.stamps.stat().st_size if ledger.stamps.exists() else 0
        return Look(cut, age_ms, judgement)

    def all_answers_ns(self, kind: str) -> list[int]:
        """When each write (w) or flush (f) of the ledger was answered."""
        return [answer.answered_ns for answer in self._answers(kind, 0)]

    def check_filesystem(self) -> str:
        """What `xfs_repair` finds wrong in the file system; nobody may use it. Empty: nothing.

        That it could be mounted at all, and its log be brought in, has been shown by then.
        """
        device, path = str(self.document["device"]), str(self.document["mount_path"])
        machine = self.machine
        machine.ok("umount", path, timeout_s=MOUNT_TIMEOUT_S)
        try:
            checked = machine.run("xfs_repair", "-n", device, timeout_s=MOUNT_TIMEOUT_S)
        finally:
            mount = ("mount", "-t", "xfs", "-o", MOUNT_OPTIONS, device, path)
            machine.ok(*mount, timeout_s=MOUNT_TIMEOUT_S)
        if checked.code == 0:
            return ""
        return f"exit code {checked.code}: {(checked.stderr + checked.stdout)[-300:]}"

    def _answers(self, kind: str, start: int) -> list[Answer]:
        stamps = self.ledger.stamps
        if not stamps.exists():
            return []
        lines = (line.split() for line in _tail(stamps, start).splitlines())
        return [Answer(int(line[3]), int(line[2])) for line in lines if line[0] == kind]

    def _blocks(self, document: dict[str, Any]) -> str:
        return f"{document['mount_path']}/blocks"

    def _verify(self) -> dict[str, Any]:
        """The exerciser's own judgement of each block, on the host where the volume is now."""
        judge = self.lab.exercisers[self.document["host"]]
        ledger = self.ledger.ledger
        local = judge.machine.scratch() / ledger.name
        if local != ledger:  # hosts do not see each other's files
            shutil.copy2(ledger, local)
        known_bytes = local.stat().st_size
        options = ("--path", self._blocks(self.document), "--ledger", str(local))
        finished = judge.run("ledger", "verify", "--settle", "--direct", *options)
        assert finished.code in (0, 1), f"ledger verify: {finished.stdout}{finished.stderr}"
        if local != ledger:
            with ledger.open("ab") as file:  # its writer may still be there
                file.write(local.read_bytes()[known_bytes:])
        document: dict[str, Any] = finished.document
        return document


def _tail(file: Path, start: int) -> str:
    """A file's whole lines from `start` on; a line that is being written is left out."""
    with file.open("rb") as opened:
        opened.seek(start)
        whole, newline, _ = opened.read().rpartition(b"\n")
    return (whole + newline).decode()


def _replace(file: Path, text: str) -> None:
    new = file.with_suffix(".new")
    new.write_text(text)
    new.replace(file)
