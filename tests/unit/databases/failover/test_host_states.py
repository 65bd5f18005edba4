"""In which state a host is, and that nothing but a loss that lasts moves a database."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grampus.databases.failover.host_states import (
    CUT_AFTER_S,
    FLAP_WINDOW_S,
    FLAPPING_LOST_AFTER_S,
    FLAPS,
    LOST_AFTER_ROUNDS,
    LOST_AFTER_S,
    HostSight,
    HostState,
    HostTrack,
    classify_host,
    decide_host_action,
    follow_host,
)

WELL = HostSight(managed=True)
SILENT = HostSight(managed=False, peers=2)
HEARD = HostSight(managed=False, peers=2, heard_by=1)
ALONE = HostSight(managed=False)
NO_QUORUM = HostSight(managed=False, peers=2, cluster_answers=False)
CUT = HostSight(managed=True, reaches_mons=False, silent_volumes=1)
CUT_AND_IDLE = HostSight(managed=True, reaches_mons=False)
NO_MONS = HostSight(managed=True, reaches_mons=False, silent_volumes=1, cluster_answers=False)
SLOW = HostSight(managed=True, silent_volumes=3)
# As `HostWatch` looks: all rounds in one look, which takes as long.
ALL_ROUNDS = HostSight(managed=False, peers=2, rounds=LOST_AFTER_ROUNDS)
CUT_ALL_ROUNDS = replace(CUT, rounds=LOST_AFTER_ROUNDS)


def look(
    sights: Iterable[HostSight], *, every_s: float = 1.0, takes_s: float = 0.0
) -> list[HostState]:
    """The state after each look; they begin `every_s` apart."""
    track, states = HostTrack(), []
    for number, sight in enumerate(sights):
        began_s = 1000.0 + number * every_s
        track = follow_host(track, sight, began_s)
        states.append(classify_host("h1", track, sight, began_s + takes_s))
    return states


@pytest.mark.parametrize(
    ("sights", "expected"),
    [
        ([WELL], "healthy"),
        ([SILENT], "host-suspect"),
        ([SILENT] * 2, "host-suspect"),
        ([SILENT] * 3, "host-dead"),
        ([SILENT] * 2 + [WELL], "healthy"),
        ([SILENT] * 2 + [WELL, SILENT], "host-suspect"),
        # Who cannot tell confirms nothing, and ends nothing.
        ([SILENT] + [ALONE] * 9, "controller-cut-off"),
        ([SILENT] + [ALONE] * 9 + [SILENT], "host-suspect"),
        ([SILENT] + [NO_QUORUM] * 9, "cluster-stuck"),
        ([SILENT] * 3 + [NO_QUORUM] * 3 + [SILENT], "host-dead"),
        ([HEARD] * 100, "host-cut-from-controller"),
        ([SILENT] * 3 + [HEARD], "host-cut-from-controller"),
        ([ALONE] * 100, "controller-cut-off"),
        ([NO_QUORUM] * 100, "cluster-stuck"),
        ([CUT] * 2, "host-suspect"),
        ([CUT] * 3, "host-cut-from-ceph"),
        ([CUT] * 2 + [SILENT] * 2, "host-suspect"),
        ([CUT] * 2 + [SILENT] * 3, "host-dead"),
        # It is not cut off from what it needs: nobody waits there.
        ([CUT_AND_IDLE] * 100, "healthy"),
        # A volume calls the cluster silent after 5 s, in which the host was looked at already.
        ([CUT_AND_IDLE] * 2 + [CUT], "host-cut-from-ceph"),
        ([CUT_AND_IDLE, CUT], "host-suspect"),
        ([CUT_AND_IDLE] * 2 + [WELL, CUT], "host-suspect"),
        ([NO_MONS] * 100, "cluster-stuck"),
        ([SLOW] * 100, "healthy"),
    ],
)
def test_states(sights: list[HostSight], expected: str) -> None:
    assert look(sights)[-1].name == expected


@pytest.mark.parametrize(
    ("sights", "takes_s", "expected"),
    [
        ([ALL_ROUNDS], LOST_AFTER_S, "host-dead"),
        ([CUT_ALL_ROUNDS], CUT_AFTER_S, "host-cut-from-ceph"),
        # Asked often enough, but not for long enough; and the other way round.
        ([ALL_ROUNDS], LOST_AFTER_S - 0.1, "host-suspect"),
        ([CUT_ALL_ROUNDS], CUT_AFTER_S - 0.1, "host-suspect"),
        ([SILENT], LOST_AFTER_S, "host-suspect"),
        ([HEARD], LOST_AFTER_S, "host-cut-from-controller"),
        # A host that was heard is suspected anew.
        ([ALL_ROUNDS, HEARD, SILENT], LOST_AFTER_S, "host-suspect"),
    ],
)
def test_one_look_that_asks_often_enough_is_enough(
    sights: list[HostSight], takes_s: float, expected: str
) -> None:
    assert look(sights, takes_s=takes_s, every_s=takes_s + 1)[-1].name == expected


def test_a_host_in_maintenance_is_left_alone() -> None:
    track = HostTrack("silent", 0.0, 100)
    state = classify_host("h1", track, SILENT, 1000.0, is_planned=True)
    assert (state.name, decide_host_action(state)) == ("planned", "none")


def test_a_flapping_host_is_left_when_it_is_gone_for_long() -> None:
    flap = [SILENT, SILENT, WELL]
    states = look(flap * (FLAPS - 1) + [SILENT] * 100)
    names = [state.name for state in states]
    # The last time is one of three within ten minutes.
    assert names.index("flapping") < names.index("host-dead")
    since = (FLAPS - 1) * len(flap)
    assert names.index("host-dead") == since + FLAPPING_LOST_AFTER_S
    assert "host-dead" not in {state.name for state in look(flap * 1000)}


def test_losses_of_long_ago_are_forgotten() -> None:
    calm = [WELL] * (int(FLAP_WINDOW_S) + 1)
    names = [state.name for state in look([SILENT, WELL] * FLAPS + calm + [SILENT] * 4)]
    assert names[-1] == "host-dead"


def test_the_text_of_a_state_stays_the_same_while_it_lasts() -> None:
    states = [state for state in look([SILENT] * 30) if state.name == "host-dead"]
    assert len({state.evidence for state in states}) == 1
    assert states[-1].lasted_s > states[0].lasted_s >= LOST_AFTER_S


SIGHTS = st.sampled_from(
    [
        *(WELL, SILENT, ALL_ROUNDS, HEARD, ALONE, NO_QUORUM, CUT, CUT_ALL_ROUNDS, CUT_AND_IDLE),
        *(NO_MONS, SLOW),
    ]
)


@given(st.lists(SIGHTS, min_size=1, max_size=60), st.floats(0.2, 3.0))
def test_a_database_moves_only_after_a_loss_that_lasted(
    sights: list[HostSight], every_s: float
) -> None:
    for number, state in enumerate(look(sights, every_s=every_s)):
        if decide_host_action(state) != "move":
            continue
        symptom = sights[number].symptom
        least_s = LOST_AFTER_S if symptom == "silent" else CUT_AFTER_S
        assert state.name == ("host-dead" if symptom == "silent" else "host-cut-from-ceph")
        # Back to the first look of this loss nobody heard the host, and it was asked three times.
        first = number - round(state.lasted_s / every_s)
        lasting = sights[first : number + 1]
        assert (number - first) * every_s >= least_s - 1e-6
        assert all(one.symptom == symptom or not one.is_conclusive for one in lasting)
        assert sum(one.rounds for one in lasting if one.symptom == symptom) >= 3


@given(st.lists(st.sampled_from([WELL, SLOW, HEARD, CUT_AND_IDLE, NO_MONS]), min_size=1))
def test_what_answers_is_never_left(sights: list[HostSight]) -> None:
    assert all(decide_host_action(state) != "move" for state in look(sights))


@given(st.lists(st.sampled_from([SILENT, WELL]), min_size=1, max_size=400))
def test_a_link_that_is_never_gone_for_long_moves_nothing(sights: list[HostSight]) -> None:
    """A day of a bad link: each gap ends before a host counts as lost."""
    gaps = []
    for sight in sights:
        gaps.append(WELL if gaps[-2:] == [SILENT, SILENT] else sight)
    assert all(decide_host_action(state) != "move" for state in look(gaps))
