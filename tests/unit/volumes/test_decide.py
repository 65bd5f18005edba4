from __future__ import annotations

import pytest

from grampus.core.units import GIB, MIB
from grampus.volumes.decide_client import decide_client_address
from grampus.volumes.decide_driver import HostCapabilities, decide_drivers
from grampus.volumes.model import whole_mib


@pytest.mark.parametrize(
    ("krbd", "nbd", "fuse", "drivers", "last_reason"),
    [
        (True, True, True, ["krbd", "nbd", "qsd"], "FUSE is there"),
        (True, False, False, ["krbd"], "the kernel's own RBD client is there"),
        (
            False,
            True,
            False,
            ["nbd"],
            "the kernel has no rbd driver; nbd and rbd-nbd are there",
        ),
        (True, False, True, ["krbd", "qsd"], "the kernel has no nbd driver; FUSE is there"),
        (False, False, True, ["qsd"], "the kernel has no rbd nor nbd driver; FUSE is there"),
        (False, False, False, [], None),
    ],
)
def test_drivers_best_first_with_the_reason(
    krbd: bool, nbd: bool, fuse: bool, drivers: list[str], last_reason: str | None
) -> None:
    choices = decide_drivers(HostCapabilities(krbd, nbd, fuse))
    assert [choice.driver for choice in choices] == drivers
    assert (choices[-1].reason if choices else None) == last_reason


@pytest.mark.parametrize(
    ("watchers", "others", "expected"),
    [
        (["10.0.0.1:0/7"], [], "10.0.0.1:0/7"),
        ([], [], None),
        (["10.0.0.1:0/6", "10.0.0.1:0/7"], ["10.0.0.1:0/6"], "10.0.0.1:0/7"),
        (["10.0.0.1:0/6"], ["10.0.0.1:0/6"], None),
        (["10.0.0.2:0/7"], [], None),
        (["10.0.0.11:0/7", "10.0.0.1:0/8"], [], "10.0.0.1:0/8"),
    ],
    ids=["ours", "none", "beside-a-dead-one", "only-a-dead-one", "other-host", "like-prefix"],
)
def test_own_client_is_the_new_one_of_our_host(
    watchers: list[str], others: list[str], expected: str | None
) -> None:
    assert decide_client_address(watchers, others, "10.0.0.1") == expected


@pytest.mark.parametrize(
    ("size_bytes", "expected"),
    [(GIB, GIB), (GIB + 1, GIB + MIB), (GIB - 1, GIB), (1, MIB), (320 * MIB, 320 * MIB)],
)
def test_sizes_are_rounded_up_to_whole_mib(size_bytes: int, expected: int) -> None:
    assert whole_mib(size_bytes) == expected
