"""When a server is hung or cut off from its clients, and that a slow one is neither."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grampus.databases.failover.server_states import (
    CUT_OFF_AFTER_S,
    HUNG_AFTER_S,
    ServerState,
    ServerTrack,
    classify_server,
    decide_server_action,
    find_symptom,
    follow_server,
)
from grampus.hosts.probing import PlaceAnswer
from grampus.volumes.model import DriverFault

EVERY_S = 5.0
Answers = Sequence[PlaceAnswer]
GREETS: Answers = ["greets"]
HUNG: Answers = ["listens", "listens"]
CUT: Answers = ["silent", "silent"]
NOBODY: Answers = []
# Its server greets, and the driver of its volume does not answer, or has ended.
STUCK: Answers = [*GREETS]
ENDED: Answers = [*GREETS]
FAILING: Answers = [*GREETS]


def look(looks: Sequence[Answers]) -> list[ServerState]:
    """The state after each look."""
    track, states = ServerTrack(), []
    for number, answers in enumerate(looks):
        began_s = number * EVERY_S
        faults: dict[int, DriverFault] = {id(STUCK): "stuck", id(ENDED): "ended"}
        driver = {**faults, id(FAILING): "failing"}.get(id(answers))
        track = follow_server(track, answers, began_s, driver=driver)
        states.append(classify_server("shop", track, number * EVERY_S))
    return states


@pytest.mark.parametrize(
    ("answers", "symptom"),
    [
        ([], None),
        (["greets"], None),
        (["refused"], None),
        (["silent", "greets"], None),
        (["listens", "greets"], None),
        (["listens"], "hung"),
        (["silent", "listens"], "hung"),
        (["silent", "silent"], "cut-off"),
        (["silent"], None),  # who looked alone may be cut off itself
    ],
)
def test_symptoms(answers: Answers, symptom: str | None) -> None:
    assert find_symptom(answers) == symptom


@pytest.mark.parametrize(
    ("answers", "symptom"),
    [
        (["greets"], "ended"),
        (["listens", "listens"], "ended"),
        (["refused"], None),  # its server has ended too, which is another job's
        (["silent", "silent"], "cut-off"),
        ([], None),  # nobody knows whether a server is there
    ],
)
def test_symptoms_of_a_driver_that_is_of_no_use(answers: Answers, symptom: str | None) -> None:
    assert find_symptom(answers, driver="ended") == symptom
    expected = "failing" if symptom == "ended" else symptom
    assert find_symptom(answers, driver="failing") == expected


@pytest.mark.parametrize(
    ("looks", "expected", "action"),
    [
        ([GREETS], "well", "none"),
        ([HUNG] * 3, "suspect", "none"),
        ([HUNG] * 4, "instance-hung", "restart"),
        ([HUNG] * 3 + [GREETS, HUNG], "suspect", "none"),
        ([HUNG] * 3 + [NOBODY] * 20, "instance-hung", "restart"),
        ([HUNG] + [NOBODY] * 20 + [HUNG], "suspect", "none"),
        ([STUCK] * 3, "suspect", "none"),
        ([STUCK] * 4, "volume-stuck", "restart"),
        ([ENDED], "suspect", "none"),
        ([ENDED] * 2, "driver-ended", "restart"),
        ([FAILING], "suspect", "none"),
        ([FAILING] * 2, "driver-failed", "restart"),
        ([FAILING, ENDED], "suspect", "none"),
        ([ENDED, GREETS], "well", "none"),
        ([ENDED, NOBODY], "well", "none"),
        ([STUCK, ENDED], "suspect", "none"),
        ([STUCK] * 4 + [GREETS], "well", "none"),
        ([STUCK] * 4 + [NOBODY], "well", "none"),
        ([HUNG] * 3 + [STUCK], "suspect", "none"),
        ([CUT] * 2, "suspect", "none"),
        ([CUT] * 3, "clients-cut-off", "move"),
        ([CUT] * 2 + [HUNG] * 3, "suspect", "none"),
        ([["silent"]] * 100, "well", "none"),
        ([["refused"]] * 100, "well", "none"),
    ],
)
def test_states(looks: list[Answers], expected: str, action: str) -> None:
    state = look(looks)[-1]
    assert (state.name, decide_server_action(state)) == (expected, action)


@given(st.lists(st.sampled_from([GREETS, HUNG, CUT, STUCK, NOBODY]), min_size=1, max_size=60))
def test_nothing_is_done_before_the_trouble_has_lasted(looks: list[Answers]) -> None:
    for number, state in enumerate(look(looks)):
        if decide_server_action(state) == "none":
            continue
        symptom = {"instance-hung": HUNG, "volume-stuck": STUCK}.get(state.name, CUT)
        after_s = CUT_OFF_AFTER_S if symptom is CUT else HUNG_AFTER_S
        lasting = []
        for answers in reversed(looks[: number + 1]):
            if answers is not symptom and (answers is not NOBODY or symptom is STUCK):
                break
            lasting.append(answers)
        assert sum(answers is symptom for answers in lasting) >= 3
        assert (len(lasting) - 1) * EVERY_S >= after_s
