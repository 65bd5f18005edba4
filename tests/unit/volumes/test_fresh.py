from __future__ import annotations

import pytest

from grampus.volumes.fresh import KEPT_S, Fresh
from tests.fakes.clock import FakeClock


@pytest.mark.parametrize(("later_s", "expected"), [(0.0, 2), (KEPT_S, 2), (KEPT_S + 1, None)])
def test_what_was_found_is_taken_once_and_while_it_is_fresh(
    later_s: float, expected: int | None
) -> None:
    clock = FakeClock()
    found: Fresh[int] = Fresh(clock)
    found.put("key", 1)
    found.put("key", 2)
    clock.sleep(later_s)
    assert found.take("other") is None
    assert found.take("key") == expected
    assert found.take("key") is None
