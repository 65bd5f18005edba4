"""What operations and locks are tested with: a world of files, and an operation on it."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from grampus.core.clock import SystemClock
from grampus.core.failpoints import VARIABLE, failpoint
from grampus.core.progress import SilentProgress
from grampus.state.operations import OperationJournal, Step
from grampus.state.store import Store

KIND = "cake.bake"
LAB = "default"
SUBJECT = "sponge"
SPEC = {"name": SUBJECT, "layers": 3}
PARTS = ("flour", "eggs", "sugar")


class Bowl:
    """The world that the operation changes: one file a part, made of two halves.

    Between the halves stands a failpoint, so that a step can be cut off in its middle too.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(exist_ok=True)

    def add(self, part: str) -> None:
        (self.directory / f"{part}.first").write_text(part)
        failpoint(f"{KIND}/{part}/middle")
        (self.directory / f"{part}.second").write_text(part)

    def take(self, part: str) -> None:
        (self.directory / f"{part}.second").unlink(missing_ok=True)
        failpoint(f"{KIND}/{part}/undo-middle")
        (self.directory / f"{part}.first").unlink(missing_ok=True)

    def content(self) -> list[str]:
        return sorted(path.name for path in self.directory.iterdir())


FULL = sorted(f"{part}.{half}" for part in PARTS for half in ("first", "second"))


def make_steps(bowl: Bowl) -> list[Step]:
    """One step a part, then one that has nothing to undo."""

    def step(part: str) -> Step:
        return Step(part, f"Add {part}", lambda: bowl.add(part), lambda: bowl.take(part))

    return [*map(step, PARTS), Step("taste", "Taste it", lambda: None)]


def bake(directory: Path, *, undo_on_failure: bool) -> None:
    """Run the operation as a process of its own would."""
    store = Store(directory / "state.db")
    journal = OperationJournal(store, SystemClock())
    steps = make_steps(Bowl(directory / "bowl"))
    operation = journal.begin(KIND, LAB, SUBJECT, SPEC)
    journal.apply(operation, steps, SilentProgress(), undo_on_failure=undo_on_failure)
    store.close()


def bake_killed(directory: Path, failpoints: str) -> int:
    """The exit status of a process of its own that bakes under `failpoints`, negative by signal."""
    child = os.fork()
    if child == 0:
        os.environ[VARIABLE] = failpoints
        bake(directory, undo_on_failure=True)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


if __name__ == "__main__":
    # Pairs of a directory and failpoints come in; the statuses go out.
    jobs: list[tuple[str, str]] = json.load(sys.stdin)
    json.dump([bake_killed(Path(directory), points) for directory, points in jobs], sys.stdout)
