"""Crashes of a volume under load, and what they leave."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import Any

from tests.proof.decide_crashes import Crash, CrashKind, WritePath, decide_victim
from tests.proof.ledgered_volume import LedgeredVolume, Look
from tests.proof.ledgered_volumes import LedgeredVolumes, record_look
from tests.proof.local_disk import LocalDisk
from tests.proof.outcome import Judgement, Verdict, allows_loss
from tests.proof.proof_lab import MONS, OSDS, ProofLab
from tests.proof.results import Result
from tests.system.machine import wait_for

# Not the same host: what kills one leaves the other alone.
HOMES: dict[WritePath, str] = {"journal": "h1", "cache": "h2"}
# An OSD that is killed is noticed at once, and what it led is led by another after peering; a MON
# is left after `mon client ping timeout` (6 s).
STALL_S = 60.0
END_S = 60.0
MODE_S = 60.0
# A cut waits so long for an append to be under way.
APPENDING_S = 2.0


class VolumeCrashes:
    """The volumes that are crashed, one a write path."""

    def __init__(self, lab: ProofLab) -> None:
        self._lab = lab
        self._volumes = LedgeredVolumes(lab, "crash")
        self._deeds: dict[CrashKind, Callable[[LedgeredVolume, Crash], dict[str, Any]]] = {
            "kill-volumed": self._kill_volumed,
            "cut-append": self._cut_append,
            "lose-host": self._lose_host,
            "lose-disk": self._lose_disk,
            "kill-osd": self._kill_osd,
            "kill-mon": self._kill_mon,
        }

    def carry_out(self, crash: Crash) -> Result:
        """Crash the volume under load, bring it back, and look.

        Raises AssertionError, OSError and what subprocesses raise, when it cannot be done or the
        volume does not come back.
        """
        began_s = time.monotonic()
        volume = self._ready(crash)
        with LocalDisk(volume.machine, volume.name, wanted=crash.kind == "lose-disk") as disk:
            if crash.kind == "lose-disk":
                self._move_to(volume, disk)
            volume.ledger.start("--writes-per-flush", str(crash.writes_per_flush))
            volume.ledger.wait_for_more(crash.operations, timeout_s=120)
            detail = self._deeds[crash.kind](volume, crash)
            detail |= {"writes_per_flush": crash.writes_per_flush}
            if crash.kind == "lose-disk":
                disk.remove()
            recovery_s = self._recover(volume, crash)
            look = volume.look(may_lose=allows_loss(crash.write_path, crash.kind))
            judgement = _with_filesystem(look.judgement, volume.check_filesystem())
            judgement = _both(judgement, self._return(volume, crash, detail))
        return record_look(
            crash,
            crash.kind,
            look,
            judgement,
            took_s=time.monotonic() - began_s,
            recovery_s=recovery_s,
            detail=detail | {"unflushed_kept": look.cut.unflushed_kept},
        )

    def reset(self, write_path: WritePath) -> None:
        """Begin anew with a volume that cannot be gone on with."""
        self._volumes.reset(write_path)

    def end(self) -> None:
        """End every writer that is left."""
        self._volumes.end()

    # -- before -------------------------------------------------------------------------------

    def _ready(self, crash: Crash) -> LedgeredVolume:
        """The volume of the crash's write path, attached at home."""
        volume = self._volumes.find(crash.write_path)
        home = HOMES[crash.write_path]
        if volume is None:
            volume = self._volumes.make(crash.write_path, home)
            volume.begin()
        else:
            volume.attach(home)
            volume.ensure_short_ledger()
        return volume

    def _move_to(self, volume: LedgeredVolume, disk: LocalDisk) -> None:
        """Attach it again, with its log on the disk that is to be lost."""
        volume.detach()
        disk.make()
        volume.attach(volume.home)

    # -- the crashes --------------------------------------------------------------------------

    def _kill_volumed(self, volume: LedgeredVolume, crash: Crash) -> dict[str, Any]:
        self._lab.fault("kill-daemon", volume.daemon)
        volume.ledger.end(END_S)
        return {}

    def _cut_append(self, volume: LedgeredVolume, crash: Crash) -> dict[str, Any]:
        """SIGKILL while an append is under way, some milliseconds after a flush was answered."""
        pid = volume.machine.daemons()[volume.daemon]
        flushes = volume.ledger.count("f")
        _wait_briefly(lambda: volume.ledger.count("f") > flushes, END_S)
        time.sleep(crash.delay_ms / 1000)
        journal: dict[str, Any] = {}

        def is_appending() -> bool:
            journal.update(volume.status()["journal"])
            return bool(journal["lag_bytes"] > 0 or journal["sealed"] > journal["replicated"])

        was_appending = _wait_briefly(is_appending, APPENDING_S)
        os.kill(pid, signal.SIGKILL)
        volume.ledger.end(END_S)
        return {
            "delay_ms": crash.delay_ms,
            "appending": was_appending,
            "lag_bytes": journal["lag_bytes"],
            "batches_in_flight": journal["sealed"] - journal["replicated"],
        }

    def _lose_host(self, volume: LedgeredVolume, crash: Crash) -> dict[str, Any]:
        self._lab.fault("kill-host", volume.home)
        volume.ledger.end(END_S)
        return {"lost_host": volume.home}

    def _lose_disk(self, volume: LedgeredVolume, crash: Crash) -> dict[str, Any]:
        """The disk fails under the log; volumed goes on as `journal`, and then dies too."""
        before, failures = volume.status()["journal"], volume.ledger.count("e")
        LocalDisk.shut_down(volume.machine, volume.name)
        volume.ledger.wait_for_more(200, timeout_s=STALL_S)
        wait_for(
            lambda: volume.status()["journal"]["mode"] == "journal",
            "the cache to become a journal",
            MODE_S,
        )
        volume.ledger.wait_for_more(50, timeout_s=STALL_S)
        said = volume.status()["journal"]["degraded"]
        assert said, "the status does not say that the local log failed"
        assert volume.ledger.count("e") == failures, "an operation failed with the local disk"
        self._kill_volumed(volume, crash)
        unapplied = before["replicated"] - before["applied"]
        return {"degraded": said, "unapplied_batches": unapplied}

    def _kill_osd(self, volume: LedgeredVolume, crash: Crash) -> dict[str, Any]:
        return self._kill_and_crash(volume, crash, decide_victim(OSDS, crash.draw))

    def _kill_mon(self, volume: LedgeredVolume, crash: Crash) -> dict[str, Any]:
        return self._kill_and_crash(volume, crash, decide_victim(MONS, crash.draw))

    def _kill_and_crash(self, volume: LedgeredVolume, crash: Crash, daemon: str) -> dict[str, Any]:
        """A daemon of the cluster dies, writes go on, and volumed dies before that is mended."""
        failures = volume.ledger.count("e")  # of earlier crashes
        self._lab.fault("kill-daemon", daemon)
        began_s = time.monotonic()
        volume.ledger.wait_for_more(100, timeout_s=STALL_S)
        stall_s = time.monotonic() - began_s
        assert volume.ledger.count("e") == failures, f"an operation failed with {daemon}"
        self._kill_volumed(volume, crash)
        return {"killed": daemon, "went_on_after_s": round(stall_s, 2)}

    # -- after --------------------------------------------------------------------------------

    def _recover(self, volume: LedgeredVolume, crash: Crash) -> float:
        """Bring the volume back; how long the commands for it took, in seconds."""
        if crash.kind != "lose-host":
            return volume.attach(volume.home)
        began_s = time.monotonic()
        self._lab.command_line.ok("volume", "fence", volume.name, "--yes")
        volume.attach(decide_victim(self._lab.others(volume.home), crash.draw))
        return time.monotonic() - began_s

    def _return(
        self, volume: LedgeredVolume, crash: Crash, detail: dict[str, Any]
    ) -> Judgement | None:
        """Mend what else the crash broke; a volume that was taken over goes home, and is looked
        at again: nothing of the past may come back with its host (INV-3)."""
        if crash.kind in ("kill-osd", "kill-mon"):
            self._lab.heal()
        if crash.kind == "lose-disk":
            journal = volume.status()["journal"]
            assert journal["mode"] == "cache", f"with a new disk: {journal}"
        if crash.kind != "lose-host":
            return None
        detail["taken_to"] = volume.document["host"]
        self._lab.heal()
        volume.detach()
        volume.attach(volume.home)
        if volume.write_path == "cache":
            detail["logs_set_aside"] = volume.ensure_asides_absent()
        again: Look = volume.look(may_lose=False)
        return again.judgement


def _wait_briefly(condition: Callable[[], bool], timeout_s: float) -> bool:
    """Look each millisecond; whether `condition` came to hold."""
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline_s:
            return False
        time.sleep(0.001)
    return True


def _with_filesystem(judgement: Judgement, found: str) -> Judgement:
    if not found:
        return judgement
    return Judgement("violated", (*judgement.reasons, f"the file system is not clean: {found}"))


def _both(first: Judgement, second: Judgement | None) -> Judgement:
    """The worse of two looks, with the reasons of both."""
    if second is None or second.verdict == "kept":
        return first
    worst: Verdict = "violated" if "violated" in (first.verdict, second.verdict) else first.verdict
    return Judgement(worst, (*first.reasons, *second.reasons))
