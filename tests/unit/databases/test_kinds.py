"""What becomes of operations that were cut off."""

from __future__ import annotations

import pytest
from pydantic import BaseModel

from grampus.databases.kinds import DatabaseOperation
from grampus.operations.operation_type import WhenCutOff
from grampus.state.operations import Operation, OperationStatus, Step


class Document(BaseModel):
    """Nothing."""


def kind(when_cut_off: WhenCutOff, no_way_back: str = "") -> DatabaseOperation[Document]:
    return DatabaseOperation(
        kind="db.try",
        what="trial of",
        document=Document,
        build=lambda _ports, _document: [],
        subject=lambda _document: "demo",
        when_cut_off=when_cut_off,
        no_way_back=no_way_back,
    )


STEPS = [Step(name, name, lambda: None) for name in ("look", "destroy", "make")]


@pytest.mark.parametrize(
    ("of_kind", "status", "step", "left"),
    [
        (kind("undo"), "running", "make", None),
        (kind("finish"), "running", "look", ["look", "destroy", "make"]),
        (kind("finish-or-undo"), "running", "look", ["look", "destroy", "make"]),
        (kind("finish-or-undo"), "undoing", "look", None),
        (kind("finish", "destroy"), "running", "", None),
        (kind("finish", "destroy"), "running", "look", None),
        (kind("finish", "destroy"), "running", "destroy", ["destroy", "make"]),
        (kind("finish", "destroy"), "running", "make", ["destroy", "make"]),
        (kind("finish", "destroy"), "undoing", "look", None),
    ],
)
def test_what_finishes_it(
    of_kind: DatabaseOperation[Document], status: OperationStatus, step: str, left: list[str] | None
) -> None:
    operation = Operation(1, "db.try", "default", "demo", {}, status, step, "", "")
    found = of_kind.left_to_finish(operation, STEPS)
    assert (None if found is None else [one.name for one in found]) == left
