"""In what the cells of a run differ: dimensions, and those that change together as one factor."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from grampus.report.matrix.findings import FoundCell, Value

# Dimensions along which more load comes, in the order in which one is taken for the curves.
LOADS = ("threads", "rate", "clients", "databases", "volumes")


class _Named(Protocol):
    @property
    def names(self) -> tuple[str, ...]: ...


@dataclass(frozen=True)
class Factor:
    """Dimensions that change together, and the values that they take, in order."""

    names: tuple[str, ...]
    values: tuple[tuple[Value, ...], ...]

    @property
    def title(self) -> str:
        return ", ".join(self.names)


def value_in(cell: FoundCell, factor: _Named) -> tuple[Value, ...]:
    """The values of `cell` in the dimensions of `factor`."""
    return tuple(cell.point.get(name, "") for name in factor.names)


def varied_names(cells: Iterable[FoundCell]) -> tuple[str, ...]:
    """The dimensions in which `cells` differ, in the order of the dimensions."""
    seen: dict[str, set[Value]] = {}
    for cell in cells:
        for name, value in cell.point.items():
            seen.setdefault(name, set()).add(value)
    return tuple(name for name, values in seen.items() if len(values) > 1)


def ordered_values(values: Iterable[tuple[Value, ...]]) -> tuple[tuple[Value, ...], ...]:
    """Each value once: numbers by size, words in the order in which they first came."""
    found = list(dict.fromkeys(values))
    if all(isinstance(part, int | float) for value in found for part in value):
        return tuple(sorted(found, key=lambda value: [float(part) for part in value]))
    return tuple(found)


def decide_factors(cells: Sequence[FoundCell]) -> tuple[Factor, ...]:
    """The dimensions in which `cells` differ; such that always change together are one factor."""
    groups: list[list[str]] = []
    for name in varied_names(cells):
        group = next((one for one in groups if _go_together(cells, one[0], name)), None)
        if group is None:
            groups.append([name])
        else:
            group.append(name)
    factors = []
    for group in groups:
        names = tuple(group)
        values = [tuple(cell.point.get(name, "") for name in names) for cell in cells]
        factors.append(Factor(names, ordered_values(values)))
    return tuple(factors)


def arm_names(cells: Sequence[FoundCell]) -> tuple[str, ...]:
    """The dimensions that tell the arms apart: one value within each arm, several among them."""
    by_arm: dict[str, list[FoundCell]] = {}
    for cell in cells:
        if cell.arm is not None:
            by_arm.setdefault(cell.arm, []).append(cell)
    if len(by_arm) < 2:
        return ()
    return tuple(
        name
        for name in varied_names([cell for group in by_arm.values() for cell in group])
        if all(len({cell.point.get(name) for cell in group}) == 1 for group in by_arm.values())
    )


def describe_values(names: Sequence[str], values: Sequence[Value]) -> str:
    """`update-index, threads 8`; empty without names."""
    return ", ".join(
        str(value) if name == "workload" else f"{name} {value}"
        for name, value in zip(names, values, strict=True)
    )


def describe_cell(cell: FoundCell, names: Sequence[str]) -> str:
    """The cell by the dimensions `names`; by its name without any."""
    known = [name for name in names if name in cell.point]
    return describe_values(known, [cell.point[name] for name in known]) or cell.name


def _go_together(cells: Sequence[FoundCell], first: str, second: str) -> bool:
    """Each value of the one comes with a single value of the other, and the other way round."""
    pairs = {(cell.point.get(first), cell.point.get(second)) for cell in cells}
    return len(pairs) == len({one for one, _ in pairs}) == len({other for _, other in pairs})
