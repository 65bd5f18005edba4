"""What `grampus site check` says of the hosts of a site."""

from __future__ import annotations

import pytest

from grampus.cli.composition.site_hosts import HostCondition, check_hosts
from grampus.core.checks import Verdict
from grampus.hosts.remote.host_parts import HostParts, PartsState

PARTS = HostParts(1, "0.2.0", "sid-1", "d")


@pytest.mark.parametrize(
    ("states", "verdict", "remedy"),
    [
        ((), "warning", "`grampus host add`"),
        (("current", "current"), "ok", ""),
        (("current", "older"), "warning", "`grampus host upgrade --all --site prod`"),
        (("older", "newer"), "warning", "Upgrade Grampus on this machine."),
        (("current", "too-old"), "refused", "`grampus host upgrade --all --site prod`"),
        (("older", "too-new"), "refused", "Upgrade Grampus on this machine."),
    ],
)
def test_hosts_are_judged_together(
    states: tuple[PartsState, ...], verdict: Verdict, remedy: str
) -> None:
    conditions = [
        HostCondition(f"db{number}", PARTS, state, f"db{number} is {state}.", "Do something.")
        for number, state in enumerate(states)
    ]
    check = check_hosts(conditions, "prod")
    assert check.verdict == verdict
    assert remedy in check.remedy
    for one in conditions:
        assert (one.sentence in check.sentence) is (one.state != "current")
        assert one.check().verdict == {"current": "ok", "older": "warning", "newer": "warning"}.get(
            one.state, "refused"
        )
