"""A cell: one point of the matrix with all that determines its result, and its id."""

from __future__ import annotations

import hashlib
from typing import Annotated

from pydantic import Field

from grampus.bench.declared import Distribution, canonical_json
from grampus.bench.matrix.dimensions import DIMENSIONS, Point, default_of, value_of
from grampus.state.runs import Frozen

# Raised when a default of `Point` changes, or what a value means: old ids then stand for
# something else. A new dimension needs no new number, since defaults are left out of the id.
SCHEMA = 1
ID_LENGTH = 16


class Cell(Frozen):
    """A hashable, canonical point; two that are equal have the same id and may share a result.

    What the workload does not feel is None (`tables`, `distribution` of a database; `block_bytes`
    of the others) or at its default (`dimensions.canonical_point`). `versions` holds what was
    asked for, sorted by component: what ran is in the run's record.
    """

    point: Point
    warmup_s: Annotated[int, Field(ge=0)]
    measure_s: Annotated[int, Field(ge=1)]
    dataset_bytes: Annotated[int, Field(gt=0)]
    tables: int | None
    distribution: Distribution | None
    block_bytes: int | None
    versions: tuple[tuple[str, str], ...]

    @property
    def cell_id(self) -> str:
        """The first 16 hex digits of SHA-256 over the canonical JSON of the cell."""
        return hashlib.sha256(render_canonical(self).encode()).hexdigest()[:ID_LENGTH]


def render_canonical(cell: Cell) -> str:
    """The text that a cell's id is the digest of."""
    content = cell.model_dump(mode="json", exclude={"point"}, exclude_none=True)
    content["point"] = {
        name: value_of(cell.point, name)
        for name in DIMENSIONS
        if name == "workload" or value_of(cell.point, name) != default_of(name)
    }
    content["schema"] = SCHEMA
    return canonical_json(content)


def describe_point(point: Point) -> str:
    """The workload and what is not at its default: `update-index, media hdd, threads 16`."""
    unusual = [
        f"{name} {value_of(point, name)}"
        for name in DIMENSIONS
        if name != "workload" and value_of(point, name) != default_of(name)
    ]
    return ", ".join([point.workload, *unusual])
