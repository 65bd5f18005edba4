"""A runner of operations for tests, over the journal of a world."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from grampus.core.clock import Clock
from grampus.core.errors import Planned
from grampus.core.progress import Progress, SilentProgress
from grampus.operations.runner import OperationRunner
from grampus.state.operations import OperationJournal
from grampus.state.store import Store
from grampus.state.unsettled import UnsettledWork


def make_runner(
    lab: str,
    store: Store,
    journal: OperationJournal,
    clock: Clock,
    progress: Progress | None = None,
) -> OperationRunner:
    """As a new process has it."""
    unsettled = UnsettledWork(store, lab, clock)
    return OperationRunner(lab, journal, unsettled, progress or SilentProgress())


def planned(runner: OperationRunner, change: Callable[[], object]) -> list[str]:
    """What a dry run of `change`, by services with that runner, tells: the steps, in words."""
    with pytest.raises(Planned) as stopped, runner.planning():
        change()
    return list(stopped.value.titles)
