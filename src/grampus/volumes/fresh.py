"""What a process found out a moment ago, for the next one in it that asks."""

from __future__ import annotations

from typing import Generic, TypeVar

from grampus.core.clock import Clock

# A switch of a database writes changed pages out in between, which may take minutes.
KEPT_S = 300.0

ValueT = TypeVar("ValueT")


class Fresh(Generic[ValueT]):
    """Values by key, each taken once and none of them when it is old: another process may have
    changed what they tell of since."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._found: dict[str, tuple[float, ValueT]] = {}

    def put(self, key: str, value: ValueT) -> None:
        """Keep `value` for whoever takes it, instead of an earlier one."""
        self._found[key] = (self._clock.monotonic_s(), value)

    def take(self, key: str) -> ValueT | None:
        """The value, if there is one and it is fresh; it is gone then."""
        found = self._found.pop(key, None)
        if found is None or self._clock.monotonic_s() - found[0] > KEPT_S:
            return None
        return found[1]
