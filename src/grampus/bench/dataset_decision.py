"""Whether a data set that is there can be used, must be loaded, or must not be touched."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from grampus.core.errors import RefusedError

MARKER_TABLE = "grampus_dataset"
_SYSBENCH_TABLE = re.compile(r"sbtest[1-9]\d*")
# InnoDB estimates row counts from sampled pages; half is far outside its usual error.
MIN_ESTIMATED_SHARE = 0.5

DatasetAction = Literal["reuse", "load", "reload"]


@dataclass(frozen=True)
class Marker:
    """The one row of sbtest.grampus_dataset, written when a load is complete."""

    tables: int
    rows: int
    loaded_at: str


@dataclass(frozen=True)
class TableFacts:
    """A table as observed; ids are 0 in an empty table."""

    first_id: int
    last_id: int
    estimated_rows: int


@dataclass(frozen=True)
class DatasetState:
    """What the schema sbtest holds: names of tables and views, the marker, and table facts.

    `facts` is keyed by table and filled only where there is a marker.
    """

    tables: frozenset[str] = frozenset()
    marker: Marker | None = None
    facts: tuple[tuple[str, TableFacts], ...] = ()


def is_sysbench_table(name: str) -> bool:
    """Whether `name` is one of sbtest1, sbtest2, ..., which `sysbench prepare` makes."""
    return _SYSBENCH_TABLE.fullmatch(name) is not None


def decide_dataset(
    state: DatasetState, *, tables: int, rows: int, fresh: bool, where: str
) -> DatasetAction:
    """What to do so that sbtest1..`tables` hold `rows` rows each.

    `load` means that there is nothing to drop. `where` names the instance in errors.

    Raises RefusedError with code `schema-not-ours` when the schema has tables that neither
    sysbench nor Grampus made and no marker of ours.
    """
    foreign = sorted(
        name for name in state.tables if name != MARKER_TABLE and not is_sysbench_table(name)
    )
    if foreign and MARKER_TABLE not in state.tables:
        raise RefusedError(
            f"The schema sbtest {where} holds tables that are not Grampus's "
            f"({', '.join(foreign[:3])}{', ...' if len(foreign) > 3 else ''}).",
            "Rename or drop that schema, or run the benchmark on another database.",
            code="schema-not-ours",
        )
    if not state.tables - set(foreign):
        return "load"
    if fresh or state.marker is None:
        return "reload"
    wanted = {f"sbtest{number}" for number in range(1, tables + 1)}
    present = {name for name in state.tables if is_sysbench_table(name)}
    matches = (state.marker.tables, state.marker.rows) == (tables, rows) and present == wanted
    facts = dict(state.facts)
    whole = all(name in facts and _is_whole(facts[name], rows) for name in wanted)
    return "reuse" if matches and whole else "reload"


def _is_whole(facts: TableFacts, rows: int) -> bool:
    return (
        facts.first_id == 1
        and facts.last_id == rows
        and facts.estimated_rows >= MIN_ESTIMATED_SHARE * rows
    )
