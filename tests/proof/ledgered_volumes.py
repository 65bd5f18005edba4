"""The volumes of one part of the proof, and how what happened to one is written down."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from tests.proof.decide_crashes import Crash, WritePath
from tests.proof.ledgered_volume import LedgeredVolume, Look
from tests.proof.outcome import Judgement
from tests.proof.proof_lab import ProofLab
from tests.proof.results import Result


class LedgeredVolumes:
    """A volume for each write path, made when it is first asked for."""

    def __init__(self, lab: ProofLab, prefix: str) -> None:
        self.lab = lab
        self._prefix = prefix
        self._volumes: dict[WritePath, LedgeredVolume] = {}

    def find(self, write_path: WritePath) -> LedgeredVolume | None:
        """The one that is gone on with."""
        return self._volumes.get(write_path)

    def make(self, write_path: WritePath, home: str) -> LedgeredVolume:
        """A new one, attached to its home."""
        volume = LedgeredVolume(self.lab, f"{self._prefix}-{write_path}", write_path, home)
        volume.ensure_absent()  # of a crash that could not be carried out
        volume.ensure_made()
        volume.attach(home)
        self._volumes[write_path] = volume
        return volume

    def reset(self, write_path: WritePath) -> None:
        """Begin anew with a volume that cannot be gone on with."""
        volume = self._volumes.pop(write_path, None)
        if volume is not None:
            volume.end()
        self.lab.heal()
        if volume is not None:
            volume.ensure_absent()

    def end(self) -> None:
        """End every writer that is left."""
        for volume in self._volumes.values():
            volume.end()


def record_look(
    crash: Crash,
    kind: str,
    look: Look,
    judgement: Judgement,
    *,
    took_s: float,
    recovery_s: float,
    detail: dict[str, Any],
) -> Result:
    """What a crash did, from the first look after it and the judgement of all looks."""
    lost_age_ms = look.lost_age_ms
    return Result(
        number=crash.number,
        write_path=crash.write_path,
        kind=kind,
        verdict=judgement.verdict,
        reasons=judgement.reasons,
        at=datetime.now(UTC).isoformat(timespec="seconds"),
        took_s=round(took_s, 1),
        acknowledged=look.cut.flushes,
        acknowledged_writes=look.cut.flushed_writes,
        lost=len(look.cut.lost),
        lost_age_ms=None if lost_age_ms is None else round(lost_age_ms, 1),
        recovery_s=round(recovery_s, 2),
        detail=detail,
    )
