"""What is waited for before a lab counts as healthy."""

from __future__ import annotations

import pytest

from grampus.ceph.cluster import parse_status
from grampus.lab.waiting import is_well

DOWN = ("OSD_DOWN", "1 osds down")
SCRUBS_OFF = ("OSDMAP_FLAGS", "noscrub,nodeep-scrub flag(s) set")


@pytest.mark.parametrize(
    ("health", "checks", "well"),
    [
        ("HEALTH_OK", [], True),
        # A benchmark is under way, or was killed: nobody can wait for that.
        ("HEALTH_WARN", [SCRUBS_OFF], True),
        ("HEALTH_WARN", [("OSDMAP_FLAGS", "nodeep-scrub flag(s) set")], True),
        ("HEALTH_WARN", [SCRUBS_OFF, DOWN], False),
        ("HEALTH_WARN", [("OSDMAP_FLAGS", "pauserd,pausewr,noscrub flag(s) set")], False),
        ("HEALTH_WARN", [DOWN], False),
        ("HEALTH_WARN", [], False),
        ("HEALTH_ERR", [SCRUBS_OFF], False),
    ],
)
def test_scrubs_that_are_off_are_not_waited_for(
    health: str, checks: list[tuple[str, str]], well: bool
) -> None:
    found = {code: {"summary": {"message": message}} for code, message in checks}
    status = parse_status({"health": {"status": health, "checks": found}}, None)
    assert is_well(status) is well
