"""Whether the proof can fail: what is wrong on purpose must be found, each time it is begun."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from tests.proof.decide_crashes import WritePath
from tests.proof.ledger_cut import BLOCK_BYTES, parse_run, parse_versions
from tests.proof.ledgered_volume import LedgeredVolume
from tests.proof.proof_lab import HOSTS, ProofLab


def require_losses_are_found(lab: ProofLab, write_path: WritePath) -> None:
    """Put blocks back to what they were, and change a bit, on a volume of its own.

    Raises AssertionError when one of these goes unnoticed, or what is right is called wrong.
    """
    volume = LedgeredVolume(lab, "self-check", write_path, HOSTS[-1])
    volume.ensure_absent()
    volume.ensure_made()
    try:
        volume.attach(volume.home)
        volume.begin()
        _write(volume)
        assert _verdict(volume, may_lose=False) == "kept"
        old = _blocks(volume)
        _write(volume)
        new, noted = _blocks(volume), volume.ledger.ledger.read_bytes()
        changed = [number for number in old if old[number] != new[number]]
        run = parse_run(noted.decode())
        first = decide_early(changed, parse_versions(b"".join(new.values()), run))
        flipped = new[first][:-1] + bytes([new[first][-1] ^ 1])
        wrong = {
            "one block of the past": {first: old[first]},
            "a whole moment of the past": {number: old[number] for number in changed},
            "one other bit": {first: flipped},
        }
        for what, blocks in wrong.items():
            _put(volume, new | blocks, changed)
            assert _verdict(volume, may_lose=False) == "violated", f"{what} went unnoticed"
        # A cache's lost host forgives the end of the past, and no mixture of moments.
        _put(volume, new | {first: old[first]}, changed)
        assert _verdict(volume, may_lose=True) == "violated", "a mixture of moments was forgiven"
        volume.ledger.ledger.write_bytes(noted)
        _put(volume, new, changed)
        assert _verdict(volume, may_lose=False) == "kept"
    finally:
        volume.ensure_absent()


def decide_early(changed: Sequence[int], versions: Sequence[int | None]) -> int:
    """The block whose write lies longest back: never the last of its writer.

    A block that was written last of all may hold what it held before: that is a moment, too.
    """
    return min(changed, key=lambda number: versions[number] or 0)


def _write(volume: LedgeredVolume) -> None:
    volume.ledger.start()
    volume.ledger.wait_for_more(200)
    volume.ledger.stop()


def _verdict(volume: LedgeredVolume, *, may_lose: bool) -> str:
    return volume.look(may_lose=may_lose).judgement.verdict


def _file(volume: LedgeredVolume) -> Path:
    return Path(volume.document["mount_path"]) / "blocks"


def _blocks(volume: LedgeredVolume) -> dict[int, bytes]:
    content = _file(volume).read_bytes()
    return {
        start // BLOCK_BYTES: content[start : start + BLOCK_BYTES]
        for start in range(0, len(content), BLOCK_BYTES)
    }


def _put(volume: LedgeredVolume, blocks: dict[int, bytes], numbers: list[int]) -> None:
    descriptor = os.open(_file(volume), os.O_WRONLY)
    try:
        for number in numbers:
            os.pwrite(descriptor, blocks[number], number * BLOCK_BYTES)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
