"""Suites for labs that repeat nobody's experiment."""

from __future__ import annotations

from pathlib import Path

from grampus.bench.matrix.expansion import compared_cells, estimate_s
from grampus.bench.matrix.loading import load_matrix_suites
from grampus.bench.matrix.suite import SCALES

SUITES = load_matrix_suites(Path(__file__).parents[4] / "suites" / "labs")


def test_each_is_short_at_tiny_and_compares_something_at_every_scale() -> None:
    assert [suite.name for suite in SUITES] == ["image-latencies"]
    for suite in SUITES:
        assert suite.source is None
        assert estimate_s(suite, "tiny") < 600
        for scale in SCALES:
            assert all(compared_cells(suite, scale, one) for one in suite.conclusions)


def test_images_are_measured_on_what_a_lab_has() -> None:
    (suite,) = SUITES
    assert {suite.fixed[name] for name in ("media", "wal_db_device", "objectstore")} == {"own"}
