from __future__ import annotations

import pytest

from grampus.core.errors import GrampusError, RefusedError
from grampus.databases.placement import (
    HostLoad,
    decide_address,
    decide_placement,
    decide_server_id,
    find_free_address,
    parse_memory_total,
)
from tests.fakes.hosts import FakeFleet


@pytest.mark.parametrize(
    ("loads", "chosen"),
    [
        ([HostLoad("h1", True, 0), HostLoad("h2", True, 0)], "h1"),
        ([HostLoad("h1", True, 2), HostLoad("h2", True, 1)], "h2"),
        ([HostLoad("h1", False, 0), HostLoad("h2", True, 9)], "h2"),
        ([HostLoad("h2", True, 1), HostLoad("h1", True, 1)], "h1"),
    ],
)
def test_the_reachable_host_with_the_fewest_databases(loads: list[HostLoad], chosen: str) -> None:
    assert decide_placement(loads) == chosen


@pytest.mark.parametrize("loads", [[], [HostLoad("h1", False, 0)]])
def test_no_reachable_host_is_refused(loads: list[HostLoad]) -> None:
    with pytest.raises(RefusedError) as caught:
        decide_placement(loads)
    assert caught.value.code == "no-host"


def test_the_first_free_address_and_none_when_all_are_used() -> None:
    candidates = ["10.9.0.10", "10.9.0.11"]
    assert decide_address(candidates, {"10.9.0.10"}) == "10.9.0.11"
    with pytest.raises(RefusedError) as caught:
        decide_address(candidates, set(candidates))
    assert caught.value.code == "no-address"


def test_an_address_at_which_another_machine_answers_is_left_alone() -> None:
    fleet = FakeFleet([], ["10.9.0.10", "10.9.0.11", "10.9.0.12"])
    fleet.holders["10.9.0.11"] = "02:00:00:00:00:09"
    assert find_free_address(fleet, {"10.9.0.10"}) == "10.9.0.12"
    fleet.holders["10.9.0.12"] = "02:00:00:00:00:09"
    with pytest.raises(RefusedError) as caught:
        find_free_address(fleet, {"10.9.0.10"})
    assert caught.value.code == "no-address"


def test_a_site_without_addresses_says_how_to_name_them() -> None:
    with pytest.raises(RefusedError) as caught:
        decide_address([], set())
    assert caught.value.code == "no-address"
    assert "--addresses" in caught.value.remedy


def test_server_ids_are_the_addresses_in_32_bits() -> None:
    assert decide_server_id("10.9.0.10") == (10 << 24) + (9 << 16) + 10
    assert decide_server_id("255.255.255.255") == 2**32 - 1


def test_memory_of_the_machine() -> None:
    assert parse_memory_total("MemTotal:       25276516 kB\nMemFree: 1 kB") == 25276516 * 1024
    with pytest.raises(GrampusError):
        parse_memory_total("")
