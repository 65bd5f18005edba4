"""A volume under faults: what a flush acknowledged stays, and nothing waits past the cause."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import pytest

from tests.system.command_line import CommandLine
from tests.system.endurance import REPEATS, WRITE_PATHS
from tests.system.exerciser import DEVICE_FAILED, NS_PER_S, Exerciser, VolumeLedger
from tests.system.lab_machine import LabMachine
from tests.system.machine import wait_for
from tests.system.volumes import attach, attached_volume

LEDGER_OPTIONS = ("--direct", "--length", str(16 * 1024 * 1024))
# An OSD that vanishes is reported after `osd heartbeat grace` (10 s in a lab), a MON is left
# after `mon client ping timeout` (6 s); the map, peering and resending come on top.
WITHOUT_OSD_S = 40.0
WITHOUT_MON_S = 30.0
# A killed volumed ends each request that waits for it: at once, as far as a request is concerned.
DEAD_DEVICE_S = 5.0


@dataclass(frozen=True)
class Written:
    """A volume with a ledger that is written to a file on it."""

    lab: CommandLine
    machine: LabMachine
    document: dict[str, Any]
    ledger: VolumeLedger

    @property
    def name(self) -> str:
        return str(self.document["name"])

    def live(self) -> dict[str, Any]:
        live: dict[str, Any] = self.lab.json("volume", "show", self.name)["live"]
        return live

    def healed(self) -> None:
        self.lab.ok("lab", "fault", "heal")

    def mon(self) -> str | None:
        """The daemon of the MON that volumed has its session with, if it has one."""
        address = self.live()["client_address"]
        for mon in self.machine.ceph("quorum_status")["quorum_names"]:
            asked = self.machine.run("ceph", "tell", f"mon.{mon}", "sessions", "--format", "json")
            if asked.code != 0:
                continue  # it has just died
            for session in asked.document:
                socket = session["socket_addr"]
                if f"{socket['addr']}/{socket['nonce']}" == address:
                    return f"mon-{mon}"
        return None


@pytest.fixture(scope="module", params=WRITE_PATHS)
def exerciser(
    lab: CommandLine, exerciser_program: Path, request: pytest.FixtureRequest
) -> Iterator[Exerciser]:
    """The exerciser on h1, and a volume attached there."""
    with attached_volume(lab, "ledgered", create=("--write-path", str(request.param))):
        yield Exerciser(LabMachine(lab, "h1"), exerciser_program)


@pytest.fixture
def written(lab: CommandLine, exerciser: Exerciser) -> Iterator[Written]:
    """The volume while it is written to."""
    document = attach(lab, "ledgered", "h1")
    path = f"{document['mount_path']}/blocks"
    with exerciser.ledger("faults", path, *LEDGER_OPTIONS) as ledger:
        ledger.start()
        try:
            yield Written(lab, exerciser.machine, document, ledger)
        finally:
            # What a failed test has left: before the ledger, whose writer may wait for it.
            if not is_whole(lab):
                lab.ok("lab", "fault", "heal")


def is_whole(lab: CommandLine) -> bool:
    """Whether everything of the lab runs; slow requests of the past are no matter."""
    status = lab.json("lab", "status")
    cluster = status["cluster"]
    return (
        status["state"] == "up"
        and cluster is not None
        and cluster["osds_up"] == cluster["osds"]
        and len(cluster["mons_in_quorum"]) == len(cluster["mons"])
    )


def require_nothing_lost(written: Written) -> None:
    """Stop a writer that met no error, and compare."""
    written.ledger.stop()
    verified = written.ledger.verify()
    assert verified["blocks"] == 4096
    assert verified["flushed_writes"] > 100


def test_killed_volumed_fails_its_device_and_attach_brings_it_back(written: Written) -> None:
    for _ in range(1 + REPEATS):
        killed_ns = time.time_ns()
        written.lab.ok("lab", "fault", "kill-daemon", "volumed-ledgered")
        finished = written.ledger.end(timeout_s=30)
        assert finished.code == DEVICE_FAILED, finished.stderr
        failed_ns = finished.document["described"][0]["answered_ns"]
        assert failed_ns - killed_ns < DEAD_DEVICE_S * NS_PER_S
        assert written.live()["state"] == "dead"
        attach(written.lab, "ledgered", "h1")
        assert written.live()["state"] == "running"
        verified = written.ledger.verify()
        assert (verified["blocks"], verified["faults"]) == (4096, 0)
        written.ledger.start()
    require_nothing_lost(written)


def test_killed_osd_and_then_mon_delay_writes_and_lose_none(written: Written) -> None:
    for osd in islice(cycle(("osd-1", "osd-2")), REPEATS):
        written.lab.ok("lab", "fault", "kill-daemon", osd)
        written.ledger.wait_for_more(200, timeout_s=WITHOUT_OSD_S)  # without being healed
        written.lab.ok("lab", "fault", "kill-daemon", str(written.mon()))
        wait_for(lambda: written.mon() is not None, "a session with another MON", WITHOUT_MON_S)
        written.ledger.wait_for_more(200, timeout_s=WITHOUT_OSD_S)
        # The OSD comes back in a map that volumed has from the other MON.
        written.healed()
        written.ledger.wait_for_more()
    require_nothing_lost(written)


def test_partition_of_an_osds_host_delays_writes_and_loses_none(written: Written) -> None:
    for _ in range(REPEATS):
        written.lab.ok("lab", "fault", "partition", "h3")
        written.ledger.wait_for_more(200, timeout_s=WITHOUT_OSD_S + WITHOUT_MON_S)
        written.healed()
        written.ledger.wait_for_more()
    require_nothing_lost(written)


def test_partition_of_the_volumes_own_host_is_waited_for(written: Written) -> None:
    for _ in range(REPEATS):
        written.lab.ok("lab", "fault", "partition", "h1")
        before = settled_count(written.ledger)
        written.healed()
        written.ledger.wait_for_more()
        assert written.ledger.count("e") == 0
        assert written.ledger.count("w") + written.ledger.count("f") > before
    require_nothing_lost(written)


def test_cluster_that_stops_answering_shows_and_goes_on_without_an_error(
    written: Written,
) -> None:
    for host in ("h2", "h3"):
        written.lab.ok("lab", "fault", "partition", host, "--force")
    wait_for(lambda: written.live()["state"] == "stalled", "the state stalled", 60)
    live = written.live()
    assert live["in_flight"] > 0
    assert live["oldest_in_flight_ms"] > 5000
    assert written.ledger.is_writing()
    written.healed()
    written.ledger.wait_for_more()
    assert written.live()["state"] == "running"
    require_nothing_lost(written)


def settled_count(ledger: VolumeLedger) -> int:
    """Acknowledged operations, once no more come."""
    counts = [-1]

    def has_stopped() -> bool:
        counts.append(ledger.acknowledged())
        # Ten looks apart by a tenth of a second each.
        return len(counts) > 10 and counts[-1] == counts[-10]

    wait_for(has_stopped, "writes to stop", 30)
    return counts[-1]


def find_volumed(machine: LabMachine, volume: str) -> int | None:
    """The process that serves the volume, or is about to."""
    place = f"{machine.data}/exports/{volume}/image".encode()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            words = path.read_bytes().split(b"\0")
            if words[1:2] == [b"serve"] and place in words:
                return int(path.parent.name)
    return None


def test_volumed_that_is_killed_as_it_opens_the_image_keeps_nobody_waiting(
    lab: CommandLine, exerciser: Exerciser
) -> None:
    """Its watch, and with it the lock, outlives it by 30 s, and no record has its address."""
    machine = exerciser.machine
    lab.ok("volume", "detach", "ledgered")
    log = machine.data.parent / "daemons" / "volumed-ledgered" / "log"
    arguments = ("volume", "attach", "ledgered", "--host", "h1", "--driver", "volumed")
    with lab.start(*arguments) as attaching:
        wait_for(
            lambda: log.exists() and "connected to the cluster" in log.read_text(),
            "volumed to connect",
            interval_s=0.002,
        )
        process = find_volumed(machine, "ledgered")
        assert process is not None
        os.kill(process, signal.SIGKILL)
        _, said = attaching.communicate(timeout=60)
        assert attaching.returncode != 0
        assert "The driver of" in said
    began_s = time.monotonic()
    attach(lab, "ledgered", "h1")
    assert time.monotonic() - began_s < 15
