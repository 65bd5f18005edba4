"""One fault: provoked under load, waited out, healed, and looked at."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.proof.chaos.bank_client import BankClient
from tests.proof.chaos.draws import Expected, Fault, PlaceKind
from tests.proof.chaos.index_updates import IndexUpdates
from tests.proof.chaos.list_client import ListClients, check_history
from tests.proof.chaos.moments import (
    count_late,
    count_wrong_moves,
    find_last_answer,
    find_outage,
    read_phases,
)
from tests.proof.chaos.provoking import DATABASE, NEIGHBOUR, RECOVERS_WITHIN_S, Faults, Hosts
from tests.proof.chaos.summary import TrialResult
from tests.proof.operations.commit_watch import CommitWatch
from tests.proof.operations.remote_client import RemoteClient
from tests.system.command_line import CommandLine
from tests.system.lab_machine import LabMachine
from tests.system.machine import wait_for
from tests.system.places import LAB_HOSTS, Place
from tests.system.serving import Serving, serving

CUT_S = 10.0  # how long the controller cannot reach a host that is well
WATCHDOG_S = 10.0
QUIET_S = 3.0  # of watching after the first new commit


class ChaosTrials:
    """Trials in one place, with two databases and a controller."""

    def __init__(
        self, place: Place, kind: PlaceKind, histories: Path, standby: CommandLine | None = None
    ) -> None:
        """`histories` is the directory for what clients saw, one file a trial; `standby` a second
        machine of the site."""
        self._standby = standby
        self._place = place
        self._kind = kind
        self._histories = histories
        self._faults = Faults(place)

    def prepare(self) -> None:
        """Both databases, on two hosts."""
        for name, host in zip((DATABASE, NEIGHBOUR), self._place.hosts, strict=False):
            self._place.line.ok(
                *("db", "create", name, "--size", "1G", "--memory", "320M", "--host", host)
            )

    def carry_out(self, number: int, fault: Fault) -> TrialResult:
        """Provoke the fault, wait until the database serves, heal, and look.

        Raises AssertionError, OSError and what subprocesses raise, when it cannot be done.
        """
        place, expected = self._place, fault.expected_in(self._kind)
        hosts, clients = self._find_hosts()
        client = RemoteClient(clients, DATABASE, place.line, place.data_of)
        other = client.of(NEIGHBOUR)
        client.refresh()
        other.refresh()
        with ExitStack() as stack:
            serve = stack.enter_context(serving(place.line, WATCHDOG_S))
            serves = [serve]
            if self._standby is not None:
                serves.append(stack.enter_context(serving(self._standby)))
            watch = stack.enter_context(CommitWatch(client))
            bank = stack.enter_context(BankClient(client))
            lists = stack.enter_context(ListClients(client, number))
            neighbour = stack.enter_context(CommitWatch(other))
            watch.wait_for_more()
            neighbour.wait_for_more()
            if fault.name.endswith("-in-writes"):
                stack.enter_context(IndexUpdates(client))
            failed_before = neighbour.failed()
            began_s = time.monotonic()
            self._faults.provoke(fault, hosts, serve, stack)
            is_served = self._wait_for_service(fault, expected, serves, watch, bank)
            self._wait(CUT_S if expected == "stays" else QUIET_S)
            ended_s = time.monotonic()
            self._faults.thaw()
            failed = neighbour.failed() - failed_before
            done = [e for one in serves for e in one.events() if e["kind"] == "failed-over"]
            moves = [e for e in done if e["database"] == DATABASE]
            place.heal()
            self._wait_until_cleared()
            lost = len(watch.missing()) + len(bank.missing()) + len(neighbour.missing())
            wrong_totals = bank.wrong_totals()
            history = lists.history()
            answers_s = sorted(row.at_s for row in [*watch.rows(), *bank.rows()])
        self._histories.mkdir(parents=True, exist_ok=True)
        file = self._histories / f"trial-{number}.jsonl"
        is_serializable, said = check_history(history, file)
        outage = find_outage(answers_s, began_s, ended_s)
        phases = read_phases(moves[0]["details"]) if moves else None
        is_neighbour_hit = fault.name in ("other-host-power-cut", "two-hosts-power-cut")
        return TrialResult(
            number=number,
            fault=fault.name,
            at=datetime.now(UTC).isoformat(timespec="seconds"),
            outage_s=outage.lasted_s if is_served else None,
            moved=place.host_of(DATABASE) != hosts.victim,
            acknowledged=len(answers_s),
            lost=lost,
            two_writers=0 if phases is None else count_late(answers_s, phases),
            neighbour_errors=0 if is_neighbour_hit else failed,
            wrong_totals=wrong_totals,
            wrong_moves=count_wrong_moves(done, _taken_by(fault, expected, hosts)),
            anomalies=int(not is_serializable),
            expected=expected,
            detail={
                **({} if is_serializable else {"anomaly": said}),
                "transactions": sum(one["type"] == "ok" for one in history),
                **(
                    {}
                    if phases is None
                    else phases.after(find_last_answer(answers_s, phases.detected_s))
                ),
                "victim": hosts.victim,
                "events": [kind for one in serves for kind in one.kinds(DATABASE)],
            },
        )

    # -- inside -------------------------------------------------------------------------------

    def _find_hosts(self) -> tuple[Hosts, LabMachine]:
        """Where everything is, and the machine of all clients: no host of a database."""
        place = self._place
        victim, neighbour = place.host_of(DATABASE), place.host_of(NEIGHBOUR)
        if victim == neighbour:
            place.line.ok("db", "switchover", NEIGHBOUR)
            neighbour = place.host_of(NEIGHBOUR)
        clients = next(name for name in LAB_HOSTS[::-1] if name not in (victim, neighbour))
        return Hosts(victim, neighbour, clients), LabMachine(place.cluster, clients)

    def _wait_for_service(
        self,
        fault: Fault,
        expected: Expected,
        serves: Sequence[Serving],
        watch: CommitWatch,
        bank: BankClient,
    ) -> bool:
        """Whether it serves again, after it was interrupted if it was to be."""
        failed = watch.failed() + bank.failed()
        try:
            if expected == "moves":
                wait_for(lambda: _has_moved(serves), "the move", RECOVERS_WITHIN_S)
            elif expected == "restarts":
                wait_for(lambda: watch.failed() + bank.failed() > failed, "an error", 30)
            elif expected == "returns":
                self._wait(CUT_S)
                if fault.name == "pool-full":
                    self._faults.set_quota(0)
                self._place.heal()
            known = len(watch.rows()) + len(bank.rows())
            wait_for(
                lambda: len(watch.rows()) + len(bank.rows()) > known + 1,
                "new commits",
                RECOVERS_WITHIN_S,
            )
        except AssertionError:
            return False
        return True

    def _wait(self, seconds: float) -> None:
        until_s = time.monotonic() + seconds
        wait_for(lambda: time.monotonic() >= until_s, "time to pass", seconds + 30)

    def _wait_until_cleared(self) -> None:
        """Nothing of a database runs where it was before."""
        line, hosts = self._place.line, self._place.hosts

        def is_cleared() -> bool:
            found = [
                (host, daemon["name"])
                for host in hosts
                for daemon in line.json("host", "show", host)["daemons"]
            ]
            return all(
                [host for host, daemon in found if daemon == f"mysqld-{name}"]
                == [self._place.host_of(name)]
                for name in (DATABASE, NEIGHBOUR)
            )

        wait_for(is_cleared, "the remains on the lost host to go", RECOVERS_WITHIN_S)


def _taken_by(fault: Fault, expected: Expected, hosts: Hosts) -> set[str]:
    """The hosts that the fault takes away from their databases."""
    if fault.name == "two-hosts-power-cut":
        return {hosts.victim, hosts.neighbour}
    if fault.name == "other-host-power-cut":
        return {hosts.neighbour}
    return {hosts.victim} if expected == "moves" else set()


def _moves(serves: Sequence[Serving]) -> list[dict[str, Any]]:
    found = (event for serve in serves for event in serve.events(DATABASE))
    return [event for event in found if event["kind"] in ("failed-over", "switched-over")]


def _has_moved(serves: Sequence[Serving]) -> bool:
    """Whether the database runs elsewhere; a failover that was cut off is told as settled."""
    events = (event for serve in serves for event in serve.events())
    settled = [event["text"] for event in events if event["kind"] == "settled"]
    return bool(_moves(serves)) or any(f"failover of the database {DATABASE}" in s for s in settled)
