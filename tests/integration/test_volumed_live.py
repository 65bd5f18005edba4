"""A volume in use: resized under a writer, and bounded however long it runs."""

from __future__ import annotations

import os
import time
from pathlib import Path

from tests.system.command_line import CommandLine
from tests.system.endurance import SOAK_S
from tests.system.exerciser import Exerciser
from tests.system.lab_machine import LabMachine
from tests.system.volumes import attached_volume

MIB = 1024 * 1024
WARM_UP_S = 8
# The allocator's own noise; a leak of one 4 KiB buffer in a thousand requests would be more.
GROWTH_BYTES = 12 * MIB


def test_resize_under_a_writer_is_no_error(lab: CommandLine, exerciser_program: Path) -> None:
    machine = LabMachine(lab, "h1")
    exerciser = Exerciser(machine, exerciser_program)
    options = ("--direct", "--length", str(8 * MIB))
    with attached_volume(lab, "growing", size="512M") as volume:
        mounted = Path(volume["mount_path"])
        with exerciser.ledger("growing", mounted / "blocks", *options) as ledger:
            ledger.start()
            for size_mib in (768, 1024):
                lab.ok("volume", "resize", "growing", "--size", f"{size_mib}M")
                size = int(machine.ok("blockdev", "--getsize64", volume["device"]))
                assert size == size_mib * MIB
                assert Path(volume["export_path"]).stat().st_size == size
                assert total_bytes(mounted) > (size_mib - 96) * MIB
                ledger.wait_for_more()
            # The new space holds data: more than there was room for before.
            machine.ok("fallocate", "--length", "600M", str(mounted / "large"))
            grown = ("--path", str(mounted / "large"), "--direct", "--offset", str(500 * MIB))
            exerciser.ok("model", *grown, "--operations", "200")
            ledger.stop()
            assert ledger.verify()["blocks"] == 2048
        shown = lab.json("volume", "show", "growing")
        assert shown["size_bytes"] == 1024 * MIB
        assert shown["live"]["size_bytes"] == 1024 * MIB
        smaller = lab.run("volume", "resize", "growing", "--size", "512M")
        assert smaller.code in (2, 4), smaller.stderr


def test_memory_files_and_threads_stay_bounded_under_load(
    lab: CommandLine, exerciser_program: Path
) -> None:
    machine = LabMachine(lab, "h1")
    with attached_volume(lab, "soaked") as volume:
        pid = machine.daemons()["volumed-soaked"]
        load = Exerciser(machine, exerciser_program).ledger(
            *("soaked", Path(volume["mount_path"]) / "blocks"),
            *("--direct", "--length", str(32 * MIB), "--writers", "8"),
        )
        with load:
            load.start()
            deadline = time.monotonic() + SOAK_S
            warm = None
            while time.monotonic() < deadline:
                load.wait_for_more(500)
                if warm is None and time.monotonic() > deadline - SOAK_S + WARM_UP_S:
                    warm = resources(pid)
            assert warm is not None
            now = resources(pid)
            assert now["memory_bytes"] - warm["memory_bytes"] < GROWTH_BYTES, (warm, now)
            assert now["files"] <= warm["files"] + 2, (warm, now)
            assert now["threads"] <= warm["threads"] + 2, (warm, now)
            load.stop()
            load.verify()
        statistics = lab.json("volume", "show", "soaked")["live"]["kinds"]
        assert statistics["write"]["operations"] > 1000
        assert statistics["write"]["errors"] == 0
        assert statistics["flush"]["errors"] == 0


def resources(pid: int) -> dict[str, int]:
    """What a process holds, as seen from this machine."""
    process = Path(f"/proc/{pid}")
    status = dict(
        line.split(":", 1) for line in (process / "status").read_text().splitlines() if ":" in line
    )
    return {
        "memory_bytes": int(status["VmRSS"].split()[0]) * 1024,
        "threads": int(status["Threads"]),
        "files": len(list((process / "fd").iterdir())),
    }


def total_bytes(path: Path) -> int:
    """The size of the file system mounted there."""
    found = os.statvfs(path)
    return found.f_blocks * found.f_frsize
