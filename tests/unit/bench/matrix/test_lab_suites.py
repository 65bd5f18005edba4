"""Suites for labs that repeat nobody's experiment."""

from __future__ import annotations

from pathlib import Path

from grampus.bench.environments.environment_plan import decide_environment, merge_environments
from grampus.bench.matrix.expansion import compared_cells, estimate_s, expand_cells
from grampus.bench.matrix.loading import load_matrix_suites
from grampus.bench.matrix.suite import SCALES
from grampus.core.units import GIB

SUITES = load_matrix_suites(Path(__file__).parents[4] / "suites" / "labs")


def test_each_is_short_at_tiny_and_compares_something_at_every_scale() -> None:
    assert [suite.name for suite in SUITES] == [
        "image-latencies",
        "journal-on-flash",
        "many-databases",
    ]
    for suite in SUITES:
        assert suite.source is None
        assert estimate_s(suite, "tiny") < 600
        for scale in SCALES:
            assert all(compared_cells(suite, scale, one) for one in suite.conclusions)


def test_they_stand_on_what_a_lab_has() -> None:
    for suite in SUITES:
        if "journal_pool" in suite.dimensions:
            # Its images are on others, in front of which are those that the lab has.
            assert "own" in suite.dimensions["journal_pool"]
            continue
        osds = {suite.fixed[name] for name in ("media", "wal_db_device", "objectstore")}
        assert osds == {"own"}


def test_ten_databases_are_one_environment_at_tiny_and_fit_a_small_machine() -> None:
    (suite,) = [one for one in SUITES if one.name == "many-databases"]
    plans = [decide_environment(cell) for cell in expand_cells(suite, "tiny")]
    assert [plan.count for plan in plans] == [1, 2, 5, 10]
    (environment,) = merge_environments(plans).values()
    assert environment.count == 10
    assert environment.count * environment.memory_bytes < 4 * GIB
