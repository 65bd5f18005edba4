"""Whether a machine can be a host."""

from __future__ import annotations

import pytest

from grampus.hosts.remote.host_checks import classify_machine

GIB = 1024**3
GOOD = {
    "systemd": "252",
    "state": "running",
    "fuse": "yes",
    "loop": "yes",
    "xfs": "yes",
    "overlay": "yes",
    "kernel": "6.18.1",
    "uring": "Y",
    "memory": str(8 * 1024**2),
    "disk": str(20 * 1024**2),
    "clock": "1000.5",
}


def results(**changed: str) -> dict[str, str]:
    """What is not in order on a machine that differs from a good one."""
    text = "\n".join(f"{name} {value}" for name, value in {**GOOD, **changed}.items())
    checks = classify_machine(text, image_bytes=GIB, own_clock_s=1000.0)
    assert all(check.remedy for check in checks if check.verdict != "ok")
    return {check.name: check.verdict for check in checks if check.verdict != "ok"}


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, {}),
        ({"systemd": ""}, {"systemd": "refused"}),
        ({"systemd": "241"}, {"systemd": "refused"}),
        ({"state": "degraded"}, {"systemd": "warning"}),
        ({"missing": "tar"}, {"programs": "refused"}),
        ({"fuse": "no"}, {"fuse": "refused"}),
        ({"loop": "no"}, {"loop": "refused"}),
        ({"xfs": "no"}, {"xfs": "refused"}),
        ({"overlay": "no"}, {"overlay": "refused"}),
        ({"uring": "N"}, {"fuse-uring": "warning"}),
        ({"memory": str(512 * 1024)}, {"memory": "refused"}),
        ({"disk": str(1024**2)}, {"disk": "refused"}),
        ({"clock": "1007.0"}, {"clock": "warning"}),
        ({"clock": ""}, {"clock": "warning"}),
    ],
)
def test_each_lack_is_found_alone(changed: dict[str, str], expected: dict[str, str]) -> None:
    assert results(**changed) == expected


def test_a_machine_that_says_nothing_is_no_host() -> None:
    checks = classify_machine("", image_bytes=GIB, own_clock_s=1000.0)
    assert {check.name for check in checks if check.verdict == "refused"} >= {"systemd", "fuse"}
