"""How far a build is, read from the lines of `mmdebstrap --verbose`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

BuildPhase = Literal["lists", "base", "download", "install", "tidy"]

PHASE_TITLES: dict[BuildPhase, str] = {
    "lists": "Read the package lists",
    "base": "Build the base system",
    "download": "Download packages",
    "install": "Install packages",
    "tidy": "Tidy up",
}

_PHASE_STARTS: tuple[tuple[str, BuildPhase], ...] = (
    ("I: running apt-get update", "lists"),
    ("I: downloading packages with apt", "base"),
    ("I: installing remaining packages", "download"),
    ("I: cleaning package lists", "tidy"),
)
_TOTAL = re.compile(r"\d+ upgraded, (?P<count>\d+) newly installed")
_DOWNLOAD = re.compile(r"Get:(?P<number>\d+) \S+ \S+ \S+ (?P<package>\S+) \S+ \S+ \[")
_STEP = re.compile(r"(?P<verb>Unpacking|Setting up) (?P<package>[^ :]+)(?::\S+)? \(")


@dataclass(frozen=True)
class BuildStep:
    """A line that means progress. `fraction` is the share of the phase done, if known."""

    phase: BuildPhase
    detail: str
    fraction: float | None


class BuildProgressReader:
    """Reads lines in order; remembers the phase and the counts, nothing else."""

    def __init__(self) -> None:
        self._phase: BuildPhase = "lists"
        self._total = 0
        self._steps_done = 0

    def read(self, line: str) -> BuildStep | None:
        """What `line` says about progress, None for most lines."""
        for start, phase in _PHASE_STARTS:
            if line.startswith(start):
                self._enter(phase)
                return BuildStep(phase, "", 0.0)
        if line.startswith("I: extracting archives"):
            # The one long step that says nothing while it runs.
            return BuildStep(self._phase, "extracting the essential packages", None)
        if total := _TOTAL.match(line):
            self._total = int(total["count"])
            return None
        if download := _DOWNLOAD.match(line):
            return self._read_download(int(download["number"]), download["package"])
        if step := _STEP.match(line):
            return self._read_step(step["verb"], step["package"])
        return None

    def _enter(self, phase: BuildPhase) -> None:
        self._phase = phase
        if phase != "install":  # which installs what was counted for the download
            self._total = 0
        self._steps_done = 0

    def _read_download(self, number: int, package: str) -> BuildStep | None:
        if self._phase == "lists" or self._total == 0:
            return None
        share = min(number / self._total, 1.0)
        return BuildStep(
            self._phase,
            f"{package} ({number} of {self._total})",
            # In the base phase downloads are the smaller part; its bar belongs to the install.
            share if self._phase == "download" else None,
        )

    def _read_step(self, verb: str, package: str) -> BuildStep | None:
        if self._phase == "download":
            self._enter("install")
        if self._total == 0:
            return None
        # Each package is unpacked once and set up once.
        self._steps_done += 1
        return BuildStep(
            self._phase,
            f"{'unpacking' if verb == 'Unpacking' else 'setting up'} {package}",
            min(self._steps_done / (2 * self._total), 1.0),
        )
