"""Fences in the middle of appends: the old owner adds nothing, and the new one has all."""

from __future__ import annotations

import time

from tests.proof.decide_crashes import Crash, WritePath, decide_victim
from tests.proof.ledgered_volumes import LedgeredVolumes, record_look
from tests.proof.outcome import FenceTimes, Judgement, classify_fence, classify_late_writes
from tests.proof.proof_lab import HOSTS, ProofLab
from tests.proof.results import Result

FAILURE_S = 60.0
END_S = 60.0
HEIR_OPERATIONS = 100


class Fences:
    """The volumes that are fenced, one a write path; each goes from host to host."""

    def __init__(self, lab: ProofLab) -> None:
        self._lab = lab
        self._volumes = LedgeredVolumes(lab, "fence")

    def carry_out(self, crash: Crash) -> Result:
        """Take the volume from a writer that goes on trying, and look from the new host.

        Raises AssertionError, OSError and what subprocesses raise, when it cannot be done.
        """
        began_s = time.monotonic()
        found = self._volumes.find(crash.write_path)
        volume = found or self._volumes.make(crash.write_path, HOSTS[0])
        old = str(volume.document["host"])
        new = decide_victim(self._lab.others(old), crash.draw)
        volume.begin()
        ledger = volume.ledger
        ledger.start("--keep-trying", "--writes-per-flush", str(crash.writes_per_flush))
        ledger.wait_for_more(crash.operations, timeout_s=120)
        time.sleep(crash.delay_ms / 1000)
        ordered_s = time.monotonic()
        self._lab.command_line.ok("volume", "fence", volume.name, "--yes")
        fenced_ns = time.time_ns()
        ledger.wait_for_failure(FAILURE_S)
        volume.attach(new)
        opened_ns = time.time_ns()
        recovery_s = time.monotonic() - ordered_s
        look = volume.look(may_lose=volume.write_path == "cache")
        asides = volume.ensure_asides_absent() if volume.write_path == "cache" else 0
        # The heir writes elsewhere on the volume, while the old owner goes on trying.
        heir = self._lab.exercisers[new].ledger(
            "heir", f"{volume.document['mount_path']}/heir", "--direct", "--length", "4194304"
        )
        with heir:
            heir.start()
            heir.wait_for_more(HEIR_OPERATIONS)
            ledger.request_end()
            ended = ledger.end(END_S)
            heir.stop()
            heir.verify()
        times = FenceTimes(
            fenced_ns=fenced_ns,
            opened_ns=opened_ns,
            flush_answers_ns=tuple(volume.all_answers_ns("f")),
            write_answers_ns=tuple(volume.all_answers_ns("w")),
        )
        again = volume.look(may_lose=False)
        judgement = _worst(
            look.judgement,
            classify_fence(times),
            again.judgement,
            classify_late_writes(look.judgement, again.cut),
        )
        return record_look(
            crash,
            "fence",
            look,
            judgement,
            took_s=time.monotonic() - began_s,
            recovery_s=recovery_s,
            detail={
                "from": old,
                "to": new,
                "writes_per_flush": crash.writes_per_flush,
                "refused": ended.document["failures"],
                "logs_set_aside": asides,  # of an earlier time on the new host
                # Into a cache that was never flushed: owed to nobody.
                "writes_after_fence": sum(at > fenced_ns for at in times.write_answers_ns),
                "last_flush_before_fence_ms": _before_ms(times),
            },
        )

    def reset(self, write_path: WritePath) -> None:
        """Begin anew with a volume that cannot be gone on with."""
        self._volumes.reset(write_path)

    def end(self) -> None:
        """End every writer that is left."""
        self._volumes.end()


def _worst(*judgements: Judgement) -> Judgement:
    reasons = tuple(reason for judgement in judgements for reason in judgement.reasons)
    if any(judgement.verdict == "violated" for judgement in judgements):
        return Judgement("violated", reasons)
    is_within = any(judgement.verdict == "within-lag" for judgement in judgements)
    return Judgement("within-lag" if is_within else "kept", reasons)


def _before_ms(times: FenceTimes) -> float | None:
    """How long before the fence was confirmed the old owner's last flush was answered."""
    if not times.flush_answers_ns:
        return None
    return round((times.fenced_ns - max(times.flush_answers_ns)) / 1e6, 1)
