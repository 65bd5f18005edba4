"""What a place can do, and what a cell asks of it that it cannot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from grampus.bench.declared import word_list
from grampus.bench.matrix.cells import Cell
from grampus.bench.matrix.dimensions import DIMENSIONS, Value, default_of, value_of
from grampus.state.runs import Frozen


class Offer(Frozen):
    """Values that can be had in one dimension: those listed, and numbers within the limits.

    `because` says why no others can (`Debian's Ceph 20 has no FileStore`), without a full stop.
    """

    values: tuple[Value, ...] = ()
    at_least: float | None = None
    at_most: float | None = None
    because: str | None = None


class Capabilities(Frozen):
    """What `place` (`this lab`) can do. A dimension without an offer has its default alone.

    `versions` holds the versions that can be had of a component; one that is not named has any.
    """

    place: Annotated[str, Field(min_length=1)]
    offers: Mapping[str, Offer] = Field(default_factory=dict)
    versions: Mapping[str, tuple[str, ...]] = Field(default_factory=dict)


def why_not_runnable(cell: Cell, capabilities: Capabilities) -> str | None:
    """A sentence for everything that `cell` asks for and cannot have; None when it can run.

    A version asked for is had when one that can be had is it, or begins with it (16.2: 16.2.15).
    """
    lacking = []
    for name in DIMENSIONS:
        value = value_of(cell.point, name)
        offer = capabilities.offers.get(name)
        if not _is_offered(name, value, offer):
            lacking.append(f"{name} {value} ({_what_there_is(name, offer)})")
    for component, version in cell.versions:
        known = capabilities.versions.get(component)
        if known is not None and not any(_is_version(one, version) for one in known):
            has = f"it has {word_list(list(known), last='and')}" if known else "it has none"
            lacking.append(f"{component} {version} ({has})")
    if not lacking:
        return None
    return (
        f"{capabilities.place[0].upper()}{capabilities.place[1:]} cannot do {'; '.join(lacking)}."
    )


def _is_offered(name: str, value: Value, offer: Offer | None) -> bool:
    if offer is None:
        return value == default_of(name)
    if value in offer.values:
        return True
    if isinstance(value, str) or (offer.at_least is None and offer.at_most is None):
        return False
    return (offer.at_least is None or value >= offer.at_least) and (
        offer.at_most is None or value <= offer.at_most
    )


def _what_there_is(name: str, offer: Offer | None) -> str:
    if offer is None:
        return f"only {default_of(name)}"
    words = [str(value) for value in offer.values]
    if offer.at_least is not None and offer.at_most is not None:
        words.append(f"{offer.at_least:g} to {offer.at_most:g}")
    elif offer.at_most is not None:
        words.append(f"at most {offer.at_most:g}")
    elif offer.at_least is not None:
        words.append(f"at least {offer.at_least:g}")
    had = f"only {word_list(words)}" if words else "none"
    return f"{had}: {offer.because}" if offer.because else had


def _is_version(known: str, wanted: str) -> bool:
    return known == wanted or known.startswith(f"{wanted}.")
