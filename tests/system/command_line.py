"""Runs `./grampus` as a user does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from tests.system.forked_commands import ForkedCommands
from tests.system.machine import tag_of

CHECKOUT = Path(__file__).resolve().parents[2]
# Kept between test runs: host images take a minute to build. Lanes have one each (`lanes.py`).
HOME_NAME_VARIABLE = "GRAMPUS_TEST_HOME_NAME"
TEST_HOME = CHECKOUT / "build" / os.environ.get(HOME_NAME_VARIABLE, "test-home")
KILLED = -9
# Python's own: whether compiled source is kept, and where.
BYTECODE_SETTINGS = {"PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX"}


@dataclass(frozen=True)
class Finished:
    """How one command ended."""

    code: int
    stdout: str
    stderr: str

    @property
    def document(self) -> Any:
        """The JSON that it printed."""
        return json.loads(self.stdout)


class CommandLine:
    """The command line on one lab."""

    # What runs commands where they need not import Grampus each; None: each is a new program.
    all_forked: ClassVar[ForkedCommands | None] = None

    def __init__(
        self, lab: str, home: Path = TEST_HOME, *, forked: ForkedCommands | None = None
    ) -> None:
        self.lab = lab
        self.home = home
        self._forked = forked

    @property
    def tag(self) -> str:
        """What the lab's names on this machine hold, also while it is not there."""
        return tag_of(self.home, self.lab)

    def run(
        self, *arguments: str, failpoints: str = "", stdin: str = "", timeout_s: float = 400
    ) -> Finished:
        """Run `grampus ARGUMENTS` to its end, whatever its code."""
        forked = self._forked or self.all_forked
        if forked is not None:
            environment = self.environment(failpoints)
            return Finished(*forked.run(arguments, environment, stdin=stdin, timeout_s=timeout_s))
        finished = subprocess.run(
            [sys.executable, "-m", "grampus", *arguments],
            input=stdin,
            env=self.environment(failpoints),
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        return Finished(finished.returncode, finished.stdout, finished.stderr)

    def ok(self, *arguments: str, stdin: str = "", timeout_s: float = 400) -> Finished:
        """Run `grampus ARGUMENTS`, which must succeed."""
        finished = self.run(*arguments, stdin=stdin, timeout_s=timeout_s)
        said = f"code {finished.code}: {finished.stderr}"
        assert finished.code == 0, f"grampus {' '.join(arguments)}: {said}"
        return finished

    def json(self, *arguments: str) -> Any:
        """The JSON document of a command that must succeed."""
        return self.ok(*arguments, "--format", "json").document

    def sql(self, database: str, statement: str) -> list[list[str]]:
        """Rows that a statement gives, without the line of names."""
        printed = self.ok("db", "connect", database, "-e", statement).stdout
        return [line.split("\t") for line in printed.splitlines()[1:]]

    def start(
        self,
        *arguments: str,
        stdin: int | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> subprocess.Popen[str]:
        """Start `grampus ARGUMENTS` and return at once; `environment` is added to ours."""
        return subprocess.Popen(
            [sys.executable, "-m", "grampus", *arguments],
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**self.environment(""), **(environment or {})},
            text=True,
        )

    def environment(self, failpoints: str) -> dict[str, str]:
        """Ours, with this lab, this home and these failpoints.

        Commands keep their bytecode, as those of an installed Grampus have it: a machine whose
        settings forbid it would compile all of the source for each of them.
        """
        kept = {key: value for key, value in os.environ.items() if key not in BYTECODE_SETTINGS}
        return {
            **kept,
            "PYTHONPYCACHEPREFIX": str(CHECKOUT / "build" / "bytecode"),
            "GRAMPUS_HOME": str(self.home),
            "GRAMPUS_LAB": self.lab,
            "GRAMPUS_SITE": "",  # of the user, it would come before it
            "GRAMPUS_FAILPOINTS": failpoints,
        }
