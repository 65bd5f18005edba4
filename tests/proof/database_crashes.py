"""MySQL's own evidence: its host is lost under load, and another host finds the commits."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from tests.proof.decide_crashes import Crash, WritePath, decide_victim
from tests.proof.outcome import (
    Row,
    classify_rows,
    decide_missing_rows,
    decide_row_age_ms,
)
from tests.proof.proof_lab import ProofLab
from tests.proof.rescue_server import RescueServer, parse_check, parse_recovery
from tests.proof.results import Result
from tests.proof.sql_load import TABLE, Found, SqlLoad, find_changes, render_rollbacks
from tests.system.volumes import attach

HOMES: dict[WritePath, str] = {"journal": "h1", "cache": "h2"}
RUNNING_S = 180.0


class DatabaseCrashes:
    """The databases whose hosts are lost, one a write path."""

    def __init__(self, lab: ProofLab) -> None:
        self._lab = lab
        self._made: set[WritePath] = set()

    def carry_out(self, crash: Crash) -> Result:
        """Lose the database's host under load, and look from another one.

        Raises AssertionError, OSError and what subprocesses raise, when it cannot be done.
        """
        began_s = time.monotonic()
        name, home = self._ready(crash.write_path), HOMES[crash.write_path]
        command_line, lab = self._lab.command_line, self._lab
        with SqlLoad(command_line, name) as load:
            load.wait_for(crash.operations)
            lab.fault("kill-host", home)
        acknowledged = load.acknowledged()
        lost_s = time.monotonic()
        config = (lab.machines[home].data / "databases" / name / "my.cnf").read_text()
        command_line.ok("volume", "fence", name, "--yes")
        heir = decide_victim(lab.others(home), crash.draw)
        document = attach(command_line, name, heir)
        server = RescueServer(lab.machines[heir])
        with server.started(str(document["mount_path"]), config):
            recovery_s = time.monotonic() - lost_s
            checked = parse_check(server.sql(f"check table {TABLE} extended"))
            found = find_changes(server.sql)
        said = parse_recovery(server.log.read_text())
        command_line.ok("volume", "detach", name)
        lab.heal()  # its host and the database with it: nothing of the past may come back
        back = self._held_at_home(name, found)
        may_lose = crash.write_path == "cache"
        judgement = classify_rows(acknowledged, found.held, may_lose=may_lose)
        reasons = [*judgement.reasons, *_broken(checked, said), *found.describe_halves()]
        if back != found:
            gone, new = len(found.held - back.held), len(back.held - found.held)
            reasons.append(f"back home {gone} changes are gone, and {new} are there anew")
        missing = decide_missing_rows(acknowledged, found.held)
        return Result(
            number=crash.number,
            write_path=crash.write_path,
            kind="database",
            verdict="violated" if reasons else judgement.verdict,
            reasons=tuple(reasons),
            at=datetime.now(UTC).isoformat(timespec="seconds"),
            took_s=round(time.monotonic() - began_s, 1),
            acknowledged=len(acknowledged),
            acknowledged_writes=len(acknowledged),
            lost=len(missing),
            lost_age_ms=_age_ms(acknowledged, missing),
            recovery_s=round(recovery_s, 2),
            detail={
                "lost_host": home,
                "taken_to": heir,
                "check_table": checked or "OK",
                "recovery": said[:6],
            },
        )

    def reset(self, write_path: WritePath) -> None:
        """Begin anew with a database that cannot be gone on with."""
        name = _name(write_path)
        self._lab.command_line.run("volume", "fence", name, "--yes")
        self._lab.command_line.run("lab", "fault", "heal")
        self._lab.command_line.run("db", "delete", name, "--now", "--yes")
        self._lab.heal()
        self._made.discard(write_path)

    def end(self) -> None:
        """Nothing of it outlives a crash."""

    def _ready(self, write_path: WritePath) -> str:
        """The database, running at home."""
        name, command_line = _name(write_path), self._lab.command_line
        if write_path in self._made:
            command_line.ok("db", "start", name)
            return name
        if command_line.run("db", "show", name).code == 0:  # of one that was cut off
            command_line.ok("db", "delete", name, "--now", "--yes")
        command_line.ok(
            *("db", "create", name, "--size", "2G", "--memory", "320M"),
            *("--host", HOMES[write_path], "--write-path", write_path),
        )
        self._made.add(write_path)
        return name

    def _held_at_home(self, name: str, before: Found) -> Found:
        command_line = self._lab.command_line
        command_line.ok("db", "start", name, timeout_s=RUNNING_S)
        found = find_changes(lambda statement: command_line.sql(name, statement))
        checked = parse_check(command_line.sql(name, f"check table {TABLE} extended"))
        assert not checked, f"back home: {checked}"
        command_line.sql(name, render_rollbacks(before.prepared))
        return found


def _name(write_path: WritePath) -> str:
    return f"crashdb-{write_path}"


def _broken(checked: str, said: list[str]) -> list[str]:
    reasons = [f"CHECK TABLE: {checked}"] if checked else []
    return reasons + [line for line in said if "[ERROR]" in line or "corrupt" in line.lower()]


def _age_ms(acknowledged: list[Row], missing: list[Row]) -> float | None:
    return round(decide_row_age_ms(acknowledged, missing), 1) if missing else None
