"""Every kind of operation killed at each of its steps on a real lab; the next command settles it.

What is finished when it was cut off is killed at one step after the other until nothing is left to
kill; what is undone is begun anew for each step. Then nothing is left but what the operation should
leave, and each row that was acknowledged before is there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path

import pytest

from tests.system.command_line import KILLED, CommandLine
from tests.system.leftovers import cluster_inventory, differences
from tests.system.operations_to_stop import LEFTOVERS, NAME, OPERATIONS, Stopped, words

pytestmark = [
    pytest.mark.integration,
    pytest.mark.exhaustive,
    pytest.mark.logs("operation.closed", "operation.undone"),
]

SIZES = ("--size", "1G", "--memory", "512M", "--cpus", "0.5")


class Shared:
    """The database that the operations share, and its ledger of acknowledged rows."""

    def __init__(self, lab: CommandLine, directory: Path) -> None:
        self._lab = lab
        self._numbers = count(1100)  # sizes in MiB among them, so they grow
        self._shelf = directory / "shelf"
        self._moment = ""
        self._acknowledged = 0

    def make(self) -> None:
        """The database, with a backup and archived binary logs up to a moment."""
        lab, shelf = self._lab, str(self._shelf)
        lab.ok("db", "create", NAME, *SIZES)
        lab.sql(NAME, "CREATE DATABASE kept; CREATE TABLE kept.rows_of (id INT PRIMARY KEY)")
        lab.ok("db", "backup", "create", NAME, "--to", shelf)
        self.write()
        (self._moment,) = lab.sql(NAME, "DO SLEEP(2); SELECT UTC_TIMESTAMP()")[-1]
        lab.sql(NAME, "DO SLEEP(2)")
        lab.ok("db", "backup", "archive", NAME, "--to", shelf)

    def write(self) -> None:
        """One more row, acknowledged."""
        self._lab.sql(NAME, f"INSERT INTO kept.rows_of VALUES ({self._acknowledged + 1})")
        self._acknowledged += 1

    def require_rows(self) -> None:
        rows = self._lab.sql(NAME, "SELECT COUNT(*), MAX(id) FROM kept.rows_of")
        assert rows == [[str(self._acknowledged), str(self._acknowledged)]]

    def words(self, command: str) -> list[str]:
        """The words of a command, with what it names put in."""
        return words(command, lambda place: self._places[place]())

    @property
    def _places(self) -> dict[str, Callable[[], str]]:
        return {
            "n": lambda: str(next(self._numbers)),
            "shelf": lambda: str(self._shelf),
            "moment": lambda: self._moment.replace(" ", "T"),
            "host": self._other_host,
            "safety": self._safety_snapshot,
        }

    def _other_host(self) -> str:
        here = self._lab.json("db", "show", NAME)["host"]
        hosts = [host["name"] for host in self._lab.json("lab", "status")["hosts"]]
        return next(host for host in hosts if host != here)

    def _safety_snapshot(self) -> str:
        listed = self._lab.json("db", "snapshot", "list", NAME)["snapshots"]
        return next(s["name"] for s in listed if s["name"].startswith("before-rollback-"))


@pytest.fixture(scope="module")
def shared(lab: CommandLine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    made = Shared(lab, tmp_path_factory.mktemp("every-step"))
    made.make()
    try:
        yield made
    finally:
        lab.run("db", "delete", NAME, "--now", "--yes")


def test_making_the_golden_volume_killed_at_each_step_is_undone(lab: CommandLine) -> None:
    """Before the shared database, which is cloned from one."""
    (operation,) = (each for each in OPERATIONS if each.kind == "db.golden")
    for volume in lab.json("volume", "list")["volumes"]:
        if volume["name"].startswith("golden-"):
            lab.ok("volume", "delete", volume["name"], "--yes")
    before = cluster_inventory(lab)
    for step in operation.steps:
        _kill(lab, operation, step, operation.command.split())
        _settle(lab, operation)
    assert differences(before, cluster_inventory(lab)) == {}


@pytest.fixture(autouse=True)
def _nothing_left_for_the_next(lab: CommandLine) -> Iterator[None]:
    """What a test that failed has left; one that passed has left nothing."""
    yield
    for command in LEFTOVERS:
        lab.run(*command.split())


OTHERS = [operation for operation in OPERATIONS if operation.kind != "db.golden"]


@pytest.mark.parametrize("operation", OTHERS, ids=[each.kind for each in OTHERS])
def test_killed_at_each_step_it_is_settled_and_leaves_nothing(
    lab: CommandLine, shared: Shared, operation: Stopped
) -> None:
    shared.write()
    before = cluster_inventory(lab)
    if operation.is_undone:
        for step in operation.steps:
            _do(lab, shared, operation.prepare)
            prepared = cluster_inventory(lab) if operation.prepare else before
            _kill(lab, operation, step, shared.words(operation.command))
            _settle(lab, operation)
            if operation.prepare:
                found = differences(prepared, cluster_inventory(lab))
                assert set(found) <= operation.settles_anyway, f"killed after {step}: {found}"
            _do(lab, shared, operation.back)
    else:
        _do(lab, shared, operation.prepare)
        first, *others = operation.steps
        _kill(lab, operation, first, shared.words(operation.command))
        for step in others:
            _kill(lab, operation, step, operation.settles)
        _settle(lab, operation)
        _do(lab, shared, operation.back)
    assert differences(before, cluster_inventory(lab)) == {}
    shared.require_rows()


def _kill(lab: CommandLine, operation: Stopped, step: str, command: Sequence[str]) -> None:
    cut = lab.run(*command, failpoints=f"{operation.kind}/{step}/after=kill")
    assert cut.code == KILLED, f"{operation.kind} has no step {step} here: {cut.stderr}"


def _settle(lab: CommandLine, operation: Stopped) -> None:
    """The next command settles it, and the one after finds nothing to do."""
    lab.ok(*operation.settles)
    assert "was interrupted" not in lab.ok(*operation.settles).stderr


def _do(lab: CommandLine, shared: Shared, commands: Sequence[str]) -> None:
    for command in commands:
        lab.ok(*shared.words(command))
