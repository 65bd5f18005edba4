"""`make crashes`: crash, look, tell.

Exit codes: 0 all that was asked for is done and no promise is broken; 1 one is broken, or a volume
did not come back; 2 wrong use; 3 not over (the time is up: run it again to go on); 130 interrupted.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Protocol

from tests.proof.database_crashes import DatabaseCrashes
from tests.proof.decide_crashes import Crash, WritePath, decide_remaining
from tests.proof.fences import Fences
from tests.proof.proof_lab import DIRECTORY, ProofLab, digest_of, proof_lab
from tests.proof.render_pages import (
    PageFacts,
    PartName,
    render_left,
    render_page,
    render_result,
    summarise,
)
from tests.proof.results import Result, ResultLog, ensure_same_proof
from tests.proof.self_check import require_losses_are_found
from tests.proof.settings import ProofSettings, decide_is_full, parse_settings
from tests.proof.volume_crashes import VolumeCrashes
from tests.system.command_line import CHECKOUT
from tests.system.exerciser import build_exerciser

DOCS = CHECKOUT / "docs" / "proof"
PAGES: dict[PartName, str] = {
    "crashes": "crashes.md",
    "fences": "fences.md",
    "databases": "mysql.md",
}
# So many in a row that could not be recovered mean that the lab is beyond it.
GIVE_UP_AFTER = 3
# What a step raises that a real lab did not let be done.
TROUBLE = (AssertionError, OSError, ValueError, KeyError, subprocess.SubprocessError)
EXIT_BROKEN, EXIT_USAGE, EXIT_UNFINISHED, EXIT_INTERRUPTED = 1, 2, 3, 130


class Part(Protocol):
    """One part of the proof, on a lab that is up."""

    def carry_out(self, crash: Crash) -> Result: ...

    def reset(self, write_path: WritePath) -> None: ...

    def end(self) -> None: ...


class LabBeyondRepairError(Exception):
    """Nothing more can be tried on this lab."""


class Proof:
    """A proof that goes on where the last one was cut off."""

    def __init__(self, settings: ProofSettings, volumed: Path) -> None:
        self._settings = settings
        self._volumed = digest_of(volumed)
        self._deadline_s = time.monotonic() + settings.limit_s
        self._logs: dict[PartName, ResultLog] = {
            part: ResultLog(DIRECTORY / f"{part}.jsonl") for part in PAGES
        }
        self._versions: dict[str, str] = {}

    def go_on(self) -> int:
        """Do what is left; the exit code."""
        identity = {
            "seed": self._settings.seed,
            "write_paths": list(self._settings.write_paths),
            "volumed": self._volumed,
        }
        stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
        if ensure_same_proof(DIRECTORY, identity, stamp) and any(self._load().values()):
            _say("Going on with the proof in build/crashes.")
        try:
            if any(self._remaining(part) for part in PAGES):
                self._run()
        except (LabBeyondRepairError, *TROUBLE) as error:
            _say(f"\nGiven up: {error}")
            self._tell()
            return EXIT_BROKEN
        except KeyboardInterrupt:
            _say("\nInterrupted; the lab is down.")
            self._tell()
            return EXIT_INTERRUPTED
        return self._tell()

    def _run(self) -> None:
        _say("Building the exerciser ...")
        program = build_exerciser()
        _say("Bringing up a lab of its own ...")
        with proof_lab(program) as lab:
            self._versions = {
                "commit": _commit(),
                "volumed": self._volumed,
                **lab.observe_versions(),
            }
            _say("Checking that the proof can fail ...")
            require_losses_are_found(lab, self._settings.write_paths[0])
            parts: dict[PartName, Part] = {
                "crashes": VolumeCrashes(lab),
                "fences": Fences(lab),
                "databases": DatabaseCrashes(lab),
            }
            for name, part in parts.items():
                try:
                    self._run_part(name, part, lab)
                finally:
                    part.end()

    def _run_part(self, name: PartName, part: Part, lab: ProofLab) -> None:
        remaining = self._remaining(name)
        if not remaining:
            return
        total = self._settings.totals[name]
        _say(f"\n{name}: {len(remaining)} of {total} to do")
        in_a_row, took_s = 0, []
        for done, crash in enumerate(remaining, start=1):
            if time.monotonic() > self._deadline_s:
                return
            began_s = time.monotonic()
            result = self._carry_out(part, crash, name)
            self._logs[name].append(result)
            took_s.append(time.monotonic() - began_s)
            _say(render_result(result, total))
            if done % 10 == 0:
                _say(f"           {render_left(len(remaining) - done, took_s)}")
            if result.is_good:
                in_a_row = 0
                continue
            in_a_row += 1
            _keep_evidence(lab, name, result)
            if in_a_row >= GIVE_UP_AFTER:
                raise LabBeyondRepairError(f"{in_a_row} in a row went wrong")
            part.reset(crash.write_path)

    def _carry_out(self, part: Part, crash: Crash, name: PartName) -> Result:
        began_s = time.monotonic()
        try:
            return part.carry_out(crash)
        except TROUBLE as error:
            return Result(
                number=crash.number,
                write_path=crash.write_path,
                kind={"fences": "fence", "databases": "database"}.get(name, crash.kind),
                verdict="unrecovered",
                at=datetime.now(UTC).isoformat(timespec="seconds"),
                took_s=round(time.monotonic() - began_s, 1),
                reasons=(f"{type(error).__name__}: {str(error)[:2000]}",),
            )

    def _remaining(self, part: PartName) -> list[Crash]:
        settings = self._settings
        done = {result.number for result in self._logs[part].load()}
        return decide_remaining(settings.seed, settings.totals[part], done, settings.write_paths)

    def _load(self) -> dict[PartName, list[Result]]:
        return {
            part: [one for one in log.load() if one.number <= self._settings.totals[part]]
            for part, log in self._logs.items()
        }

    def _tell(self) -> int:
        """Write the pages, say how it stands; the exit code."""
        _say("")
        is_over, is_good = True, True
        for part, results in self._load().items():
            total = self._settings.totals[part]
            is_over = is_over and len(results) >= total
            is_good = is_good and all(result.is_good for result in results)
            if not total:
                continue
            is_full = decide_is_full(part, self._settings, len(results))
            page = (DOCS if is_full else DIRECTORY) / PAGES[part]
            page.parent.mkdir(parents=True, exist_ok=True)
            facts = PageFacts(self._settings.seed, total, self._versions_of(part))
            page.write_text(render_page(part, results, facts))
            _say(f"{part}: {summarise(results, total)} ({page.relative_to(CHECKOUT)})")
        if not is_good:
            _say("NOT PROVEN: a promise was broken, or something did not come back.")
            return EXIT_BROKEN
        if not is_over:
            _say("Not over: `make crashes` goes on with the rest.")
            return EXIT_UNFINISHED
        _say("Done: no promise was broken.")
        return 0

    def _versions_of(self, part: PartName) -> dict[str, str]:
        """What it ran on, kept beside the results: a page may be written by a later run."""
        file = DIRECTORY / "versions.txt"
        if self._versions:
            lines = [f"{name}: {value}" for name, value in self._versions.items()]
            file.write_text("\n".join(lines) + "\n")
        lines = file.read_text().splitlines() if file.exists() else []
        return {line.partition(": ")[0]: line.partition(": ")[2] for line in lines}


def _keep_evidence(lab: ProofLab, part: PartName, result: Result) -> None:
    """What is needed to find out why: accounts, and the daemons' logs."""
    directory = DIRECTORY / "evidence" / f"{part}-{result.number}"
    shutil.rmtree(directory, ignore_errors=True)
    for host, machine in lab.machines.items():
        kept = directory / host
        kept.mkdir(parents=True)
        for pattern in ("*.ledger", "*.stamps", "*.log"):
            for file in machine.scratch().glob(pattern):
                shutil.copy2(file, kept)
        for log in machine.data.parent.glob("daemons/volumed-*/log"):
            shutil.copy2(log, kept / f"{log.parent.name}.log")
    _say(f"           evidence: {directory.relative_to(CHECKOUT)}")


def _commit() -> str:
    """The checkout's commit; with `+` when something in it has changed since."""
    argv = ("git", "-C", str(CHECKOUT), "describe", "--always", "--dirty=+")
    described = subprocess.run(argv, capture_output=True, text=True, check=False)
    return described.stdout.strip() or "unknown"


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _interrupt(number: int, _: FrameType | None) -> None:
    raise KeyboardInterrupt(f"signal {number}")


def main() -> int:
    """The proof that the environment asks for; the exit code."""
    signal.signal(signal.SIGTERM, _interrupt)
    signal.signal(signal.SIGINT, _interrupt)
    try:
        settings = parse_settings(os.environ)
    except ValueError as error:
        _say(f"error: {error}")
        return EXIT_USAGE
    built = CHECKOUT / "dataplane" / "target" / "release" / "volumed"
    volumed = Path(os.environ.get("GRAMPUS_VOLUMED") or built)
    if os.geteuid() != 0 or not volumed.exists():
        _say("error: the proof needs root, and volumed. `make setup` builds it.")
        return EXIT_USAGE
    return Proof(settings, volumed).go_on()


if __name__ == "__main__":
    sys.exit(main())
