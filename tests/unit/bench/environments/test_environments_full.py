"""Databases whose volumes are full before, or behind, what was measured on them."""

from __future__ import annotations

from pathlib import Path

import pytest

from grampus.bench.drivers.outcome import DriverFailure
from grampus.core.errors import RefusedError
from grampus.core.units import GIB, MIB
from tests.unit.bench.environments.measured_cells import FIO, UPDATE, measure, sample_of
from tests.unit.bench.environments.world import EnvironmentWorld


def test_a_full_volume_is_not_loaded(tmp_path: Path) -> None:
    """Nor is anything asked of a server that may be waiting for room."""
    world = EnvironmentWorld(tmp_path)
    world.place().prepare([UPDATE])
    world.databases.free_bytes = [5 * MIB]
    with pytest.raises(RefusedError, match="are full"):
        measure(world, UPDATE)
    assert not world.hosts[0].clients


@pytest.mark.parametrize(("free_bytes", "is_figure"), [(9 * MIB, True), (5 * MIB, False)])
def test_a_volume_that_was_filled_meanwhile_leaves_no_figures(
    tmp_path: Path, free_bytes: int, is_figure: bool
) -> None:
    world = EnvironmentWorld(tmp_path)
    world.place().prepare([UPDATE])
    world.databases.free_bytes = [GIB, free_bytes]
    outcome = measure(world, UPDATE).outcome
    assert len(world.hosts[0].clients) == 4
    if is_figure:
        assert not isinstance(outcome, DriverFailure)
    else:
        assert isinstance(outcome, DriverFailure)
        assert "are full. That came while it was measured" in outcome.reason


def test_what_has_no_database_is_not_looked_at(tmp_path: Path) -> None:
    """A volume under fio is written over, in a file that has all its room."""
    world = EnvironmentWorld(tmp_path)
    world.place().prepare([FIO])
    world.databases.free_bytes = [0]
    sample_of(measure(world, FIO))
