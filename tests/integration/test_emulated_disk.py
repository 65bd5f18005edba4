"""The emulated hard disk, as a block device, against its model; `make hard-disk` measures more."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from grampus.core.installation import find_volumed
from grampus.core.units import KIB, MIB
from grampus.hosts.media import HARD_DISK
from tests.proof.hard_disk import (
    DEVIATION,
    PATTERNS,
    emulated_disk,
    measure,
    measure_until_near,
)


@pytest.mark.alone
def test_it_is_as_fast_as_its_model_for_requests_of_all_sizes() -> None:
    # Sequential ones of 4 KiB need a machine that does nothing else.
    patterns = [
        one
        for one in PATTERNS
        if one.depth == 8
        and (one.is_random or one.size_bytes > 4 * KIB)
        and (one.direction == "write") is (one.size_bytes == 64 * KIB)
    ]
    assert {(one.size_bytes, one.is_random) for one in patterns} == {
        *((size_bytes, True) for size_bytes in (4 * KIB, 64 * KIB, 4 * MIB)),
        *((size_bytes, False) for size_bytes in (64 * KIB, 4 * MIB)),
    }
    with emulated_disk() as disk:
        found = [measure_until_near(disk.device, pattern, attempts=8) for pattern in patterns]
    deviations = {str(one.pattern): round(one.deviation(HARD_DISK), 3) for one in found}
    assert all(-0.03 < one < DEVIATION for one in deviations.values()), deviations


def test_without_its_pace_it_is_as_fast_as_what_is_below() -> None:
    (random_reads,) = (
        one
        for one in PATTERNS
        if (one.size_bytes, one.is_random, one.depth, one.direction) == (4 * KIB, True, 8, "read")
    )
    with emulated_disk() as disk:
        _ask(disk.socket, "pace", "off")
        assert measure(disk.device, random_reads) < HARD_DISK.service_s(0, is_elsewhere=True) / 5
        _ask(disk.socket, "pace", "on")
        assert measure(disk.device, random_reads) > HARD_DISK.service_s(0, is_elsewhere=True) * 0.97


def _ask(socket: Path, *words: str) -> None:
    argv = [str(find_volumed()), "ctl", "--socket", str(socket), *words]
    answer = subprocess.run(argv, check=True, capture_output=True, text=True)
    assert json.loads(answer.stdout) == {"paced": words[-1] == "on"}
