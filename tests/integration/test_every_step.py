"""Every kind of operation killed at each of its steps on a real lab; the next command settles it.

With `GRAMPUS_TESTS_ON=site` the operations are those of a site, on hosts that Grampus did not
create, and the command that settles runs on another machine of the site: nobody returns to the one
that was killed. It waits until that counts as lost, each time.

What is finished when it was cut off is killed at one step after the other until nothing is left to
kill; what is undone is begun anew for each step. Then nothing is left but what the operation should
leave, and each row that was acknowledged before is there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.system.command_line import KILLED, CommandLine
from tests.system.leftovers import cluster_inventory, differences, site_inventory
from tests.system.machine import wait_for
from tests.system.operations_to_stop import LEFTOVERS, NAME, OPERATIONS, Stopped, words
from tests.system.places import ON_SITE
from tests.system.site_machines import LabCluster, joined_machine, own_site

pytestmark = [
    pytest.mark.integration,
    pytest.mark.exhaustive,
    # On a site, each step waits for half a minute until the killed machine counts as lost.
    pytest.mark.timeout(3600),
    pytest.mark.logs("operation.closed", "operation.undone", "lock.kept"),
]

# A machine of a site counts as lost after 30 s; the rest is for commands on a busy machine.
LOST_S = 90.0
SIZES = ("--size", "1G", "--memory", "512M", "--cpus", "0.5")


@dataclass
class TrialPlace:
    """Where operations are tried: what begins them, what settles them, and what they may leave."""

    line: CommandLine
    settler: CommandLine
    inventory: Callable[[], dict[str, Any]]

    def settle(self, operation: Stopped) -> None:
        """The next command settles it, and the one after finds nothing to do.

        One of another machine leaves it alone until the machine that was killed counts as lost.
        """

        def is_settled() -> bool:
            self.settler.ok(*operation.settles)
            listed = self.settler.json("operation", "list", "--last", "0")["operations"]
            return not listed

        wait_for(is_settled, f"{operation.kind} to be settled", LOST_S)
        assert "was interrupted" not in self.line.ok(*operation.settles).stderr

    def kill_settling(self, operation: Stopped, step: str, number: int) -> None:
        """Kill what settles it, after that step; machines take turns."""
        line = (self.settler, self.line)[number % 2]
        points = f"{operation.kind}/{step}/after=kill"

        def is_killed() -> bool:
            cut = line.run(*operation.settles, failpoints=points)
            assert cut.code in (0, KILLED), cut.stderr
            return cut.code == KILLED

        wait_for(is_killed, f"{operation.kind} to come to the end of {step}", LOST_S)


@pytest.fixture(scope="module")
def place(lab: CommandLine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TrialPlace]:
    """The lab, or a site on its cluster."""
    if not ON_SITE:
        yield TrialPlace(lab, lab, lambda: cluster_inventory(lab))
        return
    line, files = CommandLine("site-steps"), tmp_path_factory.mktemp("site")
    machines = line.home / "machines"
    with (
        own_site(line, LabCluster(lab), files, machines, ("h1", "h2", "h3")) as site,
        joined_machine(site) as second,
    ):
        line.ok("host", "list")  # the first command on a host makes the root that commands run in
        yield TrialPlace(line, second.line, lambda: site_inventory(site))


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
        hosts = [host["name"] for host in self._lab.json("host", "list")["hosts"]]
        return str(next(host for host in hosts if host != here))

    def _safety_snapshot(self) -> str:
        listed = self._lab.json("db", "snapshot", "list", NAME)["snapshots"]
        return str(next(s["name"] for s in listed if s["name"].startswith("before-rollback-")))


@pytest.fixture(scope="module")
def shared(place: TrialPlace, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    made = Shared(place.line, tmp_path_factory.mktemp("every-step"))
    made.make()
    try:
        yield made
    finally:
        place.line.run("db", "delete", NAME, "--now", "--yes")


def test_making_the_golden_volume_killed_at_each_step_is_undone(place: TrialPlace) -> None:
    """Before the shared database, which is cloned from one."""
    (operation,) = (each for each in OPERATIONS if each.kind == "db.golden")
    for volume in place.line.json("volume", "list")["volumes"]:
        if volume["name"].startswith("golden-"):
            place.line.ok("volume", "delete", volume["name"], "--yes")
    before = place.inventory()
    for step in operation.steps:
        _kill(place.line, operation, step, operation.command.split())
        place.settle(operation)
    assert differences(before, place.inventory()) == {}


@pytest.fixture(autouse=True)
def _nothing_left_for_the_next(place: TrialPlace) -> Iterator[None]:
    """What a test that failed has left; one that passed has left nothing."""
    yield
    for command in LEFTOVERS:
        place.line.run(*command.split())


OTHERS = [operation for operation in OPERATIONS if operation.kind != "db.golden"]


@pytest.mark.parametrize("operation", OTHERS, ids=[each.kind for each in OTHERS])
def test_killed_at_each_step_it_is_settled_and_leaves_nothing(
    place: TrialPlace, shared: Shared, operation: Stopped
) -> None:
    shared.write()
    before = place.inventory()
    if operation.is_undone:
        for step in operation.steps:
            _do(place.line, shared, operation.prepare)
            prepared = place.inventory() if operation.prepare else before
            _kill(place.line, operation, step, shared.words(operation.command))
            place.settle(operation)
            if operation.prepare:
                found = differences(prepared, place.inventory())
                assert set(found) <= operation.settles_anyway, f"killed after {step}: {found}"
            _do(place.line, shared, operation.back)
    else:
        _do(place.line, shared, operation.prepare)
        first, *others = operation.steps
        _kill(place.line, operation, first, shared.words(operation.command))
        for number, step in enumerate(others):
            place.kill_settling(operation, step, number)
        place.settle(operation)
        _do(place.line, shared, operation.back)
    assert differences(before, place.inventory()) == {}
    shared.require_rows()


def _kill(lab: CommandLine, operation: Stopped, step: str, command: Sequence[str]) -> None:
    cut = lab.run(*command, failpoints=f"{operation.kind}/{step}/after=kill")
    assert cut.code == KILLED, f"{operation.kind} has no step {step} here: {cut.stderr}"


def _do(lab: CommandLine, shared: Shared, commands: Sequence[str]) -> None:
    for command in commands:
        lab.ok(*shared.words(command))
