"""A volume with the write path `cache`: what a flush acknowledged is on the host's own disk.

`make crashes` does these and more, hundreds of times: hosts that are lost, fences, appends cut.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.proof.local_disk import LocalDisk
from tests.system.command_line import CommandLine
from tests.system.endurance import REPEATS
from tests.system.exerciser import DEVICE_FAILED, Exerciser
from tests.system.lab_machine import LabMachine
from tests.system.machine import wait_for
from tests.system.volumes import attach, attached_volume

MIB = 1024 * 1024
BLOCKS = 2048
LEDGER_OPTIONS = ("--direct", "--length", str(8 * MIB))
CACHE = ("--write-path", "cache")
REFUSED = 4


def journal_of(lab: CommandLine, name: str) -> dict[str, Any]:
    journal: dict[str, Any] = lab.json("volume", "show", name)["live"]["journal"]
    return journal


def test_killed_volumed_loses_nothing_flushed_and_stays_with_its_log(
    lab: CommandLine, exerciser_program: Path
) -> None:
    exerciser = Exerciser(LabMachine(lab, "h1"), exerciser_program)
    with attached_volume(lab, "cached", create=CACHE) as document:
        path = f"{document['mount_path']}/blocks"
        with exerciser.ledger("cached", path, *LEDGER_OPTIONS) as ledger:
            for _ in range(REPEATS):
                ledger.start()
                ledger.wait_for_more(400)
                assert journal_of(lab, "cached")["mode"] == "cache"
                lab.ok("lab", "fault", "kill-daemon", "volumed-cached")
                assert ledger.end(timeout_s=30).code == DEVICE_FAILED
                # Its last flushes may be on the disk of h1 alone.
                elsewhere = lab.run("volume", "attach", "cached", "--host", "h2")
                assert elsewhere.code == REFUSED, elsewhere.stderr
                attach(lab, "cached", "h1")
                verified = ledger.verify()
                assert (verified["blocks"], verified["faults"]) == (BLOCKS, 0)
                assert verified["flushed_writes"] > 20
        # All of it is in the image once it is detached, and no log is left behind.
        lab.ok("volume", "detach", "cached")
        moved = attach(lab, "cached", "h2")
        verified = ledger.verify(
            Exerciser(LabMachine(lab, "h2"), exerciser_program),
            path=f"{moved['mount_path']}/blocks",
        )
        assert (verified["blocks"], verified["faults"]) == (BLOCKS, 0)
        journal = journal_of(lab, "cached")
        assert (journal["local_asides"], journal["left_behind"]) == ([], None)


def test_lost_local_disk_turns_cache_into_journal(
    lab: CommandLine, exerciser_program: Path
) -> None:
    machine = LabMachine(lab, "h1")
    exerciser = Exerciser(machine, exerciser_program)
    lab.ok("volume", "create", "diskless", "--size", "512M", *CACHE)
    try:
        with LocalDisk(machine, "diskless", wanted=True) as disk:
            disk.make()
            document = attach(lab, "diskless", "h1")
            path = f"{document['mount_path']}/blocks"
            with exerciser.ledger("diskless", path, *LEDGER_OPTIONS) as ledger:
                ledger.start()
                ledger.wait_for_more(200)
                LocalDisk.shut_down(machine, "diskless")
                ledger.wait_for_more(200)
                wait_for(
                    lambda: journal_of(lab, "diskless")["mode"] == "journal",
                    "the cache to become a journal",
                    30.0,
                )
                ledger.wait_for_more(100)
                assert ledger.count("e") == 0, "the volume has failed with a disk it can do without"
                ledger.stop()
                verified = ledger.verify()
                assert (verified["blocks"], verified["faults"]) == (BLOCKS, 0)
            assert journal_of(lab, "diskless")["degraded"]
            lab.ok("volume", "detach", "diskless")
    finally:
        lab.ok("volume", "delete", "diskless", "--yes")
