"""Each experiment of the catalog has its suite, which could end in ten minutes when tiny."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from grampus.bench.catalog import PublishedFigure, load_catalog
from grampus.bench.matrix.cells import Cell
from grampus.bench.matrix.conclusions import Conclusion
from grampus.bench.matrix.expansion import compared_cells, estimate_s, expand_cells
from grampus.bench.matrix.loading import (
    load_matrix_suites,
    parse_matrix_suite,
    require_catalogued,
)
from grampus.bench.matrix.suite import SCALES, MatrixSuite
from grampus.bench.quick_suite import list_suites
from grampus.core.errors import UsageError
from tests.unit.bench.matrix.made_suites import MADE

CHECKOUT = Path(__file__).parents[4]
CATALOG = load_catalog(CHECKOUT / "catalog")
SUITES = load_matrix_suites(CHECKOUT / "suites" / "sources")
NAMED = [pytest.param(suite, id=suite.name) for suite in SUITES]
TINY_S = 600
# Thirty databases take two cores ten minutes to make.
UNTESTED = {
    ("redhat-hci-2-read-layout", "tiny", "little-lost-with-ten"),
    ("redhat-2016-bare-container-vm", "tiny", "container-before-vm"),
}


def test_each_experiment_has_a_suite_or_a_reason_why_not() -> None:
    repeatable = {
        (source.name, experiment.name)
        for source in CATALOG.sources
        for experiment in source.experiments
        if experiment.no_suite is None
    }
    assert {(suite.source, suite.experiment) for suite in SUITES} == repeatable
    require_catalogued(SUITES, CATALOG)


@pytest.mark.parametrize("suite", NAMED)
def test_tiny_could_end_within_ten_minutes(suite: MatrixSuite) -> None:
    assert estimate_s(suite, "tiny") <= TINY_S
    assert estimate_s(suite, "tiny") < estimate_s(suite, "small") < estimate_s(suite, "full")


@pytest.mark.parametrize("suite", NAMED)
def test_each_conclusion_can_be_told_at_each_scale(suite: MatrixSuite) -> None:
    for scale in SCALES:
        assert suite.scales[scale].rounds >= 2
        for conclusion in suite.conclusions:
            is_left_out = (suite.name, scale, conclusion.name) in UNTESTED
            assert bool(compared_cells(suite, scale, conclusion)) is not is_left_out


@pytest.mark.parametrize("suite", NAMED)
def test_tiny_drops_no_caches_that_it_cannot_fill_again(suite: MatrixSuite) -> None:
    """On flash the seconds after are those of a warm-up; on hard disks, empty caches are meant."""
    dropping = [one.point for one in expand_cells(suite, "tiny") if one.point.caches != "keep"]
    assert {point.media for point in dropping} <= {"hdd"}


@pytest.mark.parametrize("suite", NAMED)
def test_ids_of_cells_differ(suite: MatrixSuite) -> None:
    cells = [cell for scale in SCALES for cell in expand_cells(suite, scale)]
    assert len({cell.cell_id for cell in cells}) == len(set(cells)) == len(cells)


def test_cells_of_different_suites_have_one_id_only_when_they_are_the_same() -> None:
    by_id: dict[str, Cell] = {}
    for suite in SUITES:
        for cell in expand_cells(suite, "full"):
            assert by_id.setdefault(cell.cell_id, cell) == cell


@pytest.mark.parametrize(
    "dimension",
    [
        *("workload", "threads", "databases", "clients", "buffer_ratio", "objectstore", "media"),
        *("wal_db_device", "layout", "runtime", "write_path", "profile", "trx_commit"),
        *("doublewrite", "fill_percent", "osds_per_device", "osd_cores_per_host"),
    ],
)
def test_what_the_sources_varied_is_varied(dimension: str) -> None:
    assert any(dimension in suite.dimensions for suite in SUITES)


@pytest.mark.parametrize("suite", NAMED)
def test_filestore_asks_for_a_ceph_that_has_it(suite: MatrixSuite) -> None:
    stores = {cell.point.objectstore for cell in expand_cells(suite, "full")}
    if "filestore" in stores:
        assert dict(suite.versions)["ceph"].startswith("16.")


def _derived(figures: Sequence[PublishedFigure]) -> list[float]:
    """Ratios that a source's figures give: as they are, inverted, as what a reduction leaves,
    or of two figures of the same quantity."""
    values = [figure for figure in figures if figure.value]
    ratios = [one.value or 0 for one in values if one.unit == "times"]
    inverted = [1 / ratio for ratio in ratios]
    reduced = [one.value or 0 for one in values if one.unit == "fraction"]
    # More than the whole cannot be taken away: then all of them are read as shares added.
    are_added = any(share >= 1 for share in reduced)
    left = [1 / (1 + share) if are_added else 1 - share for share in reduced]
    pairs = [
        (one.value or 0) / (other.value or 1)
        for one in values
        for other in values
        if one is not other and one.quantity == other.quantity
    ]
    return [*ratios, *inverted, *left, *pairs]


@pytest.mark.parametrize("suite", NAMED)
def test_published_ratios_are_those_of_the_catalog(suite: MatrixSuite) -> None:
    _, experiment = CATALOG.find(suite.source or "", suite.experiment or "")
    known = _derived(experiment.figures)
    for conclusion in suite.conclusions:
        if conclusion.test == "ratio" and conclusion.published is not None:
            published = pytest.approx(conclusion.published, rel=0.01)
            assert any(one == published for one in known), conclusion.name


# In a closed loop, all of these are the number of clients and one figure (Little's law).
ONE_FACT = {"tps", "qps", "tps-per-database", "qps-per-database", "latency-avg", "iops"}


def _compared(conclusion: Conclusion, suite: MatrixSuite) -> tuple[object, ...]:
    if conclusion.test == "ratio":
        against = conclusion.against or suite.baseline
        return ("ratio", conclusion.arm, against, tuple(conclusion.at.items()))
    return (conclusion.test, conclusion.along, tuple(conclusion.at.items()))


@pytest.mark.parametrize("suite", NAMED)
def test_one_fact_is_concluded_once(suite: MatrixSuite) -> None:
    own = [one for one in suite.conclusions if one.repeats is None and one.quantity in ONE_FACT]
    compared = [_compared(one, suite) for one in own]
    assert len(set(compared)) == len(compared), [one.name for one in own]
    for conclusion in suite.conclusions:
        if conclusion.repeats is not None:
            (first,) = (one for one in suite.conclusions if one.name == conclusion.repeats)
            if first.test == "ratio":
                assert _limits(conclusion) == pytest.approx(_limits(first), rel=0.02)


def _limits(conclusion: Conclusion) -> tuple[float, float]:
    """Of a ratio of throughputs: what it must be at least and at most."""
    if conclusion.test != "ratio":
        return (0, 0)
    low, high = conclusion.at_least or 0.0, conclusion.at_most or float("inf")
    if conclusion.quantity == "latency-avg":
        return (1 / high, 1 / low if low else float("inf"))
    return (low, high)


def test_todays_commands_do_not_see_them() -> None:
    assert [suite.name for suite in list_suites(CHECKOUT / "suites")] == ["paths", "quick"]


@pytest.mark.parametrize(
    ("source", "experiment", "problem"),
    [
        ("redhat-2016", "batch-flush", "The catalog has no experiment 'batch-flush'"),
        ("redhat-2017", "batch-flushing", "The catalog has no source 'redhat-2017'"),
        ("redhat-2016", "cost-per-iops", "an experiment of which the catalog says that no suite"),
    ],
)
def test_a_suite_must_name_what_the_catalog_has(source: str, experiment: str, problem: str) -> None:
    named = f"name: {source}-{experiment}\nsource: {source}\nexperiment: {experiment}"
    suite = parse_matrix_suite(MADE.replace("name: made-layers", named), source="made.yaml")
    with pytest.raises(UsageError) as caught:
        require_catalogued([suite], CATALOG)
    assert problem in caught.value.problem
    assert caught.value.remedy


def test_a_suite_of_a_users_own_needs_no_catalog() -> None:
    require_catalogued([parse_matrix_suite(MADE, source="made.yaml")], CATALOG)
