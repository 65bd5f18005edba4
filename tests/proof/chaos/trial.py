"""One fault: provoked under load, waited out, healed, and looked at."""

from __future__ import annotations

import os
import signal
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tests.proof.chaos.bank_client import BankClient
from tests.proof.chaos.draws import Fault
from tests.proof.chaos.moments import count_late, find_outage, read_phases
from tests.proof.chaos.summary import TrialResult
from tests.proof.operations.commit_watch import CommitWatch
from tests.proof.operations.remote_client import RemoteClient
from tests.system.command_line import CommandLine
from tests.system.lab_machine import LabMachine, wait_for_health
from tests.system.machine import wait_for
from tests.system.serving import Serving, serving

DATABASE, NEIGHBOUR = "chaos", "neighbour"
RECOVERS_WITHIN_S = 120.0
CUT_S = 10.0  # how long the controller cannot reach a host that is well
WATCHDOG_S = 10.0
QUIET_S = 3.0  # of watching after the first new commit


@dataclass(frozen=True)
class Places:
    """Where everything is when a fault is provoked."""

    victim: str  # the database's host
    neighbour: str  # of the other database
    clients: str  # of all clients


class ChaosLab:
    """A lab with two databases and a controller."""

    def __init__(self, command_line: CommandLine) -> None:
        self._command_line = command_line
        self._frozen: list[int] = []  # processes that were stopped

    def prepare(self) -> None:
        """Both databases, on two hosts."""
        for name, host in ((DATABASE, "h1"), (NEIGHBOUR, "h2")):
            if self._command_line.run("db", "show", name).code != 0:
                self._command_line.ok(
                    *("db", "create", name, "--size", "1G", "--memory", "320M", "--host", host)
                )

    def carry_out(self, number: int, fault: Fault) -> TrialResult:
        """Provoke the fault, wait until the database serves, heal, and look.

        Raises AssertionError, OSError and what subprocesses raise, when it cannot be done.
        """
        places = self._place()
        clients = LabMachine(self._command_line, places.clients)
        client, other = RemoteClient(clients, DATABASE), RemoteClient(clients, NEIGHBOUR)
        client.refresh()
        other.refresh()
        with ExitStack() as stack:
            serve = stack.enter_context(serving(self._command_line, WATCHDOG_S))
            watch = stack.enter_context(CommitWatch(client))
            bank = stack.enter_context(BankClient(client))
            neighbour = stack.enter_context(CommitWatch(other))
            watch.wait_for_more()
            neighbour.wait_for_more()
            failed_before = neighbour.failed()
            began_s = time.monotonic()
            self._provoke(fault, places, serve, stack)
            serves = self._wait_for_service(fault, serve, watch, bank)
            self._wait(CUT_S if fault.expected == "stays" else QUIET_S)
            ended_s = time.monotonic()
            self._thaw()
            failed = neighbour.failed() - failed_before
            done = [e for e in _moves(serve) if e["kind"] == "failed-over"]
            self._command_line.ok("lab", "fault", "heal")
            wait_for_health(self._command_line)
            self._wait_until_cleared()
            lost = len(watch.missing()) + len(bank.missing()) + len(neighbour.missing())
            wrong_totals = bank.wrong_totals()
            answers_s = sorted(row.at_s for row in [*watch.rows(), *bank.rows()])
        outage = find_outage(answers_s, began_s, ended_s)
        phases = read_phases(done[0]["details"]) if done else None
        is_neighbour_hit = fault.name in ("other-host-power-cut", "two-hosts-power-cut")
        return TrialResult(
            number=number,
            fault=fault.name,
            at=datetime.now(UTC).isoformat(timespec="seconds"),
            outage_s=outage.lasted_s if serves else None,
            moved=self._host_of(DATABASE) != places.victim,
            acknowledged=len(answers_s),
            lost=lost,
            two_writers=0 if phases is None else count_late(answers_s, phases),
            neighbour_errors=0 if is_neighbour_hit else failed,
            wrong_totals=wrong_totals,
            detail={
                **({} if phases is None else phases.after(outage.began_s)),
                "victim": places.victim,
                "events": serve.kinds(DATABASE),
            },
        )

    # -- inside -------------------------------------------------------------------------------

    def _place(self) -> Places:
        """The clients on a host that no database has."""
        victim, neighbour = self._host_of(DATABASE), self._host_of(NEIGHBOUR)
        if victim == neighbour:
            self._command_line.ok("db", "switchover", NEIGHBOUR)
            neighbour = self._host_of(NEIGHBOUR)
        (clients,) = {"h1", "h2", "h3"} - {victim, neighbour}
        return Places(victim, neighbour, clients)

    def _host_of(self, name: str) -> str:
        return str(self._command_line.json("db", "show", name)["host"])

    def _provoke(
        self, fault: Fault, places: Places, serve: Serving, until_healed: ExitStack
    ) -> None:
        """All of it. What is stopped goes on when `_thaw` is called, or in the end."""
        victim = places.victim
        if fault.name in ("server-hung", "driver-hung", "cut-off-and-frozen"):
            hung = fault.name == "server-hung"
            until_healed.callback(self._thaw)
            self._freeze(f"mysqld-{DATABASE}" if hung else self._driver_of(DATABASE))
        if fault.name in ("server-hung", "driver-hung"):
            return
        arguments = {
            "power-cut": ("kill-host", victim),
            "cut-off": ("partition", victim),
            "cut-from-ceph": ("partition", victim, "--from", "ceph"),
            "cut-from-clients": ("partition", victim, "--from", "clients"),
            "cut-from-controller": ("partition", victim, "--from", "controller"),
            "cut-off-incoming": ("partition", victim, "--from", "incoming"),
            "cut-off-outgoing": ("partition", victim, "--from", "outgoing"),
            "server-killed": ("kill-daemon", f"mysqld-{DATABASE}"),
            "driver-killed": ("kill-daemon", self._driver_of(DATABASE)),
            "osd-killed": ("kill-daemon", f"osd-{int(victim[1:]) - 1}"),
            "other-host-power-cut": ("kill-host", places.neighbour),
            "power-cut-and-controller": ("kill-host", victim),
            "power-cut-and-mgr": ("kill-host", victim),
            "cut-off-and-frozen": ("partition", victim),
            "power-cut-and-hung-controller": ("kill-host", victim),
            "two-hosts-power-cut": ("kill-host", victim),
        }[fault.name]
        if fault.name == "power-cut-and-hung-controller":
            serve.hang()
        mgr = self._other_mgr(victim) if fault.name == "power-cut-and-mgr" else None
        self._command_line.ok("lab", "fault", *arguments, "--force")
        if fault.name == "two-hosts-power-cut":
            self._command_line.ok("lab", "fault", "kill-host", places.neighbour, "--force")
        if mgr is not None:
            self._command_line.ok("lab", "fault", "kill-daemon", mgr, "--force")
        if fault.name == "power-cut-and-controller":
            serve.wait_for(DATABASE, "host-dead", RECOVERS_WITHIN_S)
            serve.crash()

    def _freeze(self, daemon: str) -> None:
        pid = self._pid_of(daemon)
        os.kill(pid, signal.SIGSTOP)
        self._frozen.append(pid)

    def _thaw(self) -> None:
        """Let what was stopped go on, unless it was killed."""
        while self._frozen:
            with suppress(ProcessLookupError):
                os.kill(self._frozen.pop(), signal.SIGCONT)

    def _other_mgr(self, victim: str) -> str:
        (mgr,) = [
            name
            for name, pid in self._daemons().items()
            if name.startswith("mgr-") and name != f"mgr-{victim}" and pid is not None
        ][:1]
        return mgr

    def _daemons(self) -> dict[str, int | None]:
        """Their processes by name."""
        hosts = self._command_line.json("lab", "status")["hosts"]
        return {daemon["name"]: daemon["pid"] for host in hosts for daemon in host["daemons"]}

    def _pid_of(self, daemon: str) -> int:
        pid = self._daemons()[daemon]
        assert pid is not None, f"{daemon} does not run"
        return pid

    def _driver_of(self, name: str) -> str:
        names = [one for one in self._daemons() if one.endswith(f"-{name}")]
        (driver,) = [one for one in names if not one.startswith("mysqld")]
        return driver

    def _wait_for_service(
        self, fault: Fault, serve: Serving, watch: CommitWatch, bank: BankClient
    ) -> bool:
        """Whether it serves again, after it was interrupted if it was to be."""
        failed = watch.failed() + bank.failed()
        try:
            if fault.expected == "moves":
                wait_for(lambda: _has_moved(serve), "the move", RECOVERS_WITHIN_S)
            elif fault.expected == "restarts":
                wait_for(lambda: watch.failed() + bank.failed() > failed, "an error", 30)
            elif fault.expected == "returns":
                self._wait(CUT_S)
                self._command_line.ok("lab", "fault", "heal")
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

        def is_cleared() -> bool:
            hosts = self._command_line.json("lab", "status")["hosts"]
            found = [(h["name"], d["name"]) for h in hosts for d in h["daemons"]]
            return all(
                [host for host, daemon in found if daemon == f"mysqld-{name}"]
                == [self._host_of(name)]
                for name in (DATABASE, NEIGHBOUR)
            )

        wait_for(is_cleared, "the remains on the lost host to go", RECOVERS_WITHIN_S)


def _moves(serve: Serving) -> list[dict[str, Any]]:
    return [e for e in serve.events(DATABASE) if e["kind"] in ("failed-over", "switched-over")]


def _has_moved(serve: Serving) -> bool:
    """Whether the database runs elsewhere; a failover that was cut off is told as settled."""
    settled = (e["text"] for e in serve.events() if e["kind"] == "settled")
    return bool(_moves(serve)) or any(f"failover of the database {DATABASE}" in s for s in settled)
