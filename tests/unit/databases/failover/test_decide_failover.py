"""INV-74: when a database may be taken from its host."""

from __future__ import annotations

import pytest

from grampus.core.errors import RefusedError, UsageError
from grampus.databases.failover.decide_failover import (
    HostSigns,
    decide_targets,
    require_consent,
    require_lost,
)
from grampus.databases.placement import HostLoad
from tests.fakes.specs import database_spec

SPEC = database_spec(address="10.0.0.5", server_id=5, write_path="cache", max_lag_ms=250)
GONE = HostSigns(reachable=False)
LISTENS = HostSigns(reachable=False, answers_clients=True)
EMPTY = HostSigns(reachable=True)


@pytest.mark.parametrize(
    ("signs", "shall_run", "code"),
    [
        (GONE, True, ""),
        (GONE, False, ""),
        (LISTENS, True, "still-serving"),
        (EMPTY, True, ""),
        (EMPTY, False, "host-answers"),
        (HostSigns(reachable=True, server_running=True), True, "host-answers"),
        (HostSigns(reachable=True, volume_alive=True), True, "host-answers"),
    ],
)
def test_only_what_nobody_serves_is_taken(signs: HostSigns, *, shall_run: bool, code: str) -> None:
    found = ""
    try:
        require_lost(SPEC, signs, shall_run=shall_run, forced=False)
    except RefusedError as error:
        found = error.code
    assert found == code
    require_lost(SPEC, signs, shall_run=shall_run, forced=True)


def test_what_may_be_lost_is_said_in_numbers_and_must_be_accepted() -> None:
    with pytest.raises(RefusedError) as caught:
        require_consent(SPEC, "h1", "h2", accepts_loss=False)
    assert caught.value.code == "may-lose"
    assert "250 ms" in caught.value.problem
    assert "--accept-loss" in caught.value.remedy
    assert require_consent(SPEC, "h1", "h2", accepts_loss=True) == 250
    assert require_consent(SPEC, None, "h2", accepts_loss=True) is None
    assert require_consent(SPEC, "h2", "h2", accepts_loss=False) is None


def test_the_least_busy_host_comes_first() -> None:
    loads = [
        HostLoad("h1", reachable=False, databases=0),
        HostLoad("h2", reachable=True, databases=2),
        HostLoad("h3", reachable=True, databases=1),
        HostLoad("h4", reachable=False, databases=0),
    ]
    assert decide_targets(loads, "h1", None) == ["h3", "h2"]
    assert decide_targets(loads, "h1", "h2") == ["h2"]
    with pytest.raises(UsageError):
        decide_targets(loads, "h1", "h1")
    with pytest.raises(RefusedError) as caught:
        decide_targets(loads[:1], "h1", None)
    assert caught.value.code == "no-host"
