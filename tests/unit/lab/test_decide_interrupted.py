from __future__ import annotations

import pytest

from grampus.lab.operation_kinds import Interrupted, decide_interrupted
from grampus.state.operations import Operation, OperationStatus


def _operation(
    kind: str, step: str, status: OperationStatus = "running", **spec: bool
) -> Operation:
    return Operation(1, kind, "t", "t", dict(spec), status, step, "", "2026-01-01")


@pytest.mark.parametrize("step", ["", "record", "data", "network", "hosts", "mons", "osds"])
def test_a_new_lab_stopped_before_its_pool_never_held_anything(step: str) -> None:
    found = decide_interrupted([_operation("lab.up", step, is_new=True)])
    assert found == Interrupted(must_be_removed=False, is_new=True)


@pytest.mark.parametrize("step", ["pool", "health"])
def test_a_new_lab_that_reached_its_pool_may_hold_databases(step: str) -> None:
    found = decide_interrupted([_operation("lab.up", step, is_new=True)])
    assert found == Interrupted(must_be_removed=False, is_new=False)


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        (_operation("lab.up", "mons", is_new=False), Interrupted(False, False)),
        (_operation("lab.up", "mons"), Interrupted(False, False)),
        (_operation("lab.up", "data", "undoing", is_new=True), Interrupted(True, True)),
        (_operation("lab.down", "daemons", keep=False), Interrupted(False, False)),
        (_operation("lab.down", "overlays", keep=False), Interrupted(False, False)),
        (_operation("lab.down", "data", keep=False), Interrupted(True, False)),
        (_operation("lab.down", "forget", keep=False), Interrupted(True, False)),
        (_operation("lab.down", "overlays", keep=True), Interrupted(False, False)),
    ],
)
def test_removal_that_began_goes_on_to_its_end(operation: Operation, expected: Interrupted) -> None:
    assert decide_interrupted([operation]) == expected


def test_nothing_interrupted() -> None:
    assert decide_interrupted([]) == Interrupted(must_be_removed=False, is_new=False)


def test_every_operation_counts() -> None:
    found = decide_interrupted(
        [_operation("lab.up", "osds", is_new=True), _operation("lab.down", "data", keep=False)]
    )
    assert found == Interrupted(must_be_removed=True, is_new=True)
