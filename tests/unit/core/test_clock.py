from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from grampus.core.clock import SystemClock, format_duration, format_moment, wait_until
from grampus.core.errors import GrampusError
from tests.fakes.clock import FakeClock


def test_what_holds_already_is_not_waited_for() -> None:
    clock = FakeClock()
    wait_until(clock, lambda: True, what="nothing", timeout_s=0)
    assert clock.naps == []


def test_it_is_asked_again_every_interval_until_it_holds() -> None:
    clock = FakeClock()
    wait_until(
        clock, lambda: clock.monotonic_s() >= 1.0, what="a second", timeout_s=5, interval_s=0.25
    )
    assert clock.naps == [0.25] * 4


def test_giving_up_says_what_was_waited_for_how_long_and_what_to_do() -> None:
    clock = FakeClock()
    with pytest.raises(GrampusError) as caught:
        wait_until(
            clock,
            lambda: False,
            what="the cluster's health",
            remedy="Look at `grampus lab status`.",
            timeout_s=1.5,
            interval_s=0.5,
        )
    assert caught.value.problem == "Gave up waiting for the cluster's health after 1.5 s."
    assert caught.value.remedy == "Look at `grampus lab status`."
    assert caught.value.code == "timeout"
    assert clock.monotonic_s() == 1.5


def test_it_is_asked_once_even_without_time() -> None:
    asked: list[None] = []
    with pytest.raises(GrampusError, match="after 0 s"):
        wait_until(FakeClock(), lambda: bool(asked.append(None)), what="it", timeout_s=0)
    assert len(asked) == 1


def test_it_is_asked_a_last_time_after_the_last_nap() -> None:
    clock = FakeClock()
    wait_until(clock, lambda: clock.monotonic_s() >= 1.0, what="it", timeout_s=1.0, interval_s=1.0)
    assert clock.naps == [1.0]


def test_an_error_of_the_condition_passes() -> None:
    def broken() -> bool:
        raise GrampusError("The host is gone.", code="host-unreachable")

    with pytest.raises(GrampusError, match="gone") as caught:
        wait_until(FakeClock(), broken, what="it", timeout_s=10)
    assert caught.value.code == "host-unreachable"


def test_system_clock_knows_its_zone_and_never_goes_back() -> None:
    clock = SystemClock()
    assert clock.now().tzinfo is UTC
    before_s = clock.monotonic_s()
    clock.sleep(0)
    assert clock.monotonic_s() >= before_s


@pytest.mark.parametrize(
    ("duration_s", "shown"),
    [
        (-3, "0 s"),  # of another clock
        (0, "0 s"),
        (0.25, "250 ms"),
        (0.9996, "1 s"),
        (1.54, "1.5 s"),
        (9.6, "10 s"),
        (59.9, "60 s"),
        (75.3, "75 s"),
        (120, "2 min"),
        (3599, "59 min"),
        (3600, "1 h"),
        (3660, "1 h 1 min"),
        (86399, "23 h 59 min"),
        (86400 * 12 + 3600 * 5, "12 d 5 h"),
    ],
)
def test_durations(duration_s: float, shown: str) -> None:
    assert format_duration(duration_s) == shown


def test_moments_are_shown_in_utc() -> None:
    there = timezone(timedelta(hours=2))
    moment = datetime(2026, 11, 27, 1, 2, 3, tzinfo=there)
    assert format_moment(moment) == "2026-11-26 23:02:03 UTC"
