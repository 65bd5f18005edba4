"""What a trim came to, for people."""

from __future__ import annotations

import pytest

from grampus.cli.volume_trim import conclusion
from grampus.core.units import GIB, MIB
from grampus.volumes.trimming import Trimmed

USES = "The volume 'v' uses 2 GiB of its pool, before copies."


@pytest.mark.parametrize(
    ("trimmed", "said"),
    [
        (Trimmed(5 * GIB, 2 * GIB), f"{USES} Before, it used 5 GiB."),
        (Trimmed(2 * GIB, 2 * GIB), f"{USES} There was no space to return."),
        (Trimmed(5 * GIB, 2 * GIB, MIB, 0), f"{USES} Before, it used 5 GiB."),
        (
            Trimmed(5 * GIB, 2 * GIB, 40 * MIB, 0),
            f"{USES} Before, it used 5 GiB. Its journal held 40 MiB before and 0 B after the "
            "trim, which are not counted.",
        ),
        (
            Trimmed(5 * GIB, 2 * GIB, 0, None),
            f"{USES} Before, it used 5 GiB. Its driver did not say how much its journal holds, "
            "which is not counted.",
        ),
    ],
)
def test_a_conclusion(trimmed: Trimmed, said: str) -> None:
    assert conclusion("volume", "v", trimmed) == said
