"""The catalog holds the sources' figures, consistently, and a wrong file is explained."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from grampus.bench.catalog import Experiment, PublishedFigure, Source, Unit, load_catalog
from grampus.core.errors import GrampusError, NotFoundError, UsageError

CATALOG_DIRECTORY = Path(__file__).parents[3] / "catalog"
CATALOG = load_catalog(CATALOG_DIRECTORY)
EXPERIMENTS = [
    pytest.param(source, experiment, id=f"{source.name}-{experiment.name}")
    for source in CATALOG.sources
    for experiment in source.experiments
]
VALID = """
name: someone
title: A title
publisher: Someone
date: "2016"
experiments:
  - name: one
    question: Is it so?
    conclusion: It is so.
    shown_in: [Table 1]
    conditions: {copies: "3"}
    figures:
      - {labels: {pattern: write}, quantity: tps, value: 5, unit: tps, read_from: table}
      - {labels: {}, quantity: tps, value: null, unit: tps, read_from: plot, shown_in: Figure 1}
"""


def test_the_four_sources_are_there() -> None:
    assert [source.name for source in CATALOG.sources] == [
        "intel-optane",
        "redhat-2016",
        "redhat-hci-1",
        "redhat-hci-2",
    ]
    # One text has a copyright notice; nothing in the others says when they were published.
    assert [source.date for source in CATALOG.sources] == ["unknown", "2016", "unknown", "unknown"]


@pytest.mark.parametrize(("source", "experiment"), EXPERIMENTS)
def test_each_experiment_is_whole(source: Source, experiment: Experiment) -> None:
    assert experiment.question.endswith("?")
    assert experiment.conclusion.endswith(".")
    assert source.conditions
    for figure in experiment.figures:
        assert figure.unit in get_args(Unit)
        # A published ratio above 1 and its inverse must not be mistaken for each other.
        if figure.unit == "times" and "over" not in figure.quantity and figure.value != 2:
            assert any(" over " in label for label in figure.labels.values()), figure


def _figure(source: str, experiment: str, quantity: str, **labels: str) -> PublishedFigure:
    _, found = CATALOG.find(source, experiment)
    (figure,) = (
        one
        for one in found.figures
        if one.quantity == quantity and labels.items() <= one.labels.items()
    )
    return figure


@pytest.mark.parametrize(
    ("source", "experiment", "quantity", "labels", "value"),
    [
        ("intel-optane", "throughput-overview", "qps", {"pattern": "100% read"}, 2_366_000),
        ("intel-optane", "throughput-overview", "latency-avg", {"pattern": "100% write"}, 32.4),
        ("intel-optane", "client-side-cache", "iops", {"cache": "none"}, 6476),
        (
            "redhat-hci-1",
            "rados-write-by-clients",
            "write-throughput",
            {"clients": "up to 7"},
            2234,
        ),
        ("redhat-hci-2", "write-media", "tps", {"media": "nvme over hdd"}, 16),
        ("redhat-hci-2", "write-media", "latency-p99", {"media": "hdd over nvme"}, 750),
        ("redhat-hci-2", "mix-media", "latency-avg", {"media": "hdd over nvme"}, 46),
        ("redhat-2016", "buffer-pool-share", "buffer-over-dataset", {}, 0.2),
    ],
)
def test_figures_are_the_published_ones(
    source: str, experiment: str, quantity: str, labels: dict[str, str], value: float
) -> None:
    assert _figure(source, experiment, quantity, **labels).value == value


def test_what_only_a_plot_shows_has_no_value() -> None:
    plotted = [
        figure
        for source in CATALOG.sources
        for experiment in source.experiments
        for figure in experiment.figures
        if figure.read_from == "plot"
    ]
    assert plotted
    assert all(figure.value is None and figure.shown_in for figure in plotted)


def test_an_unknown_name_is_answered_with_a_suggestion() -> None:
    with pytest.raises(UsageError, match="no source 'redhat-hci-3'") as caught:
        CATALOG.find("redhat-hci-3", "x")
    assert "Did you mean 'redhat-hci-" in caught.value.remedy
    with pytest.raises(UsageError, match="no experiment 'write-medium'") as caught:
        CATALOG.find("redhat-hci-2", "write-medium")
    assert "'write-media'" in caught.value.remedy
    with pytest.raises(UsageError, match="no source 'xyz'") as caught:
        CATALOG.find("xyz", "x")
    assert "It has intel-optane" in caught.value.remedy


def _load(tmp_path: Path, text: str) -> None:
    (tmp_path / "someone.yaml").write_text(text, encoding="utf-8")
    load_catalog(tmp_path)


def test_the_example_is_valid(tmp_path: Path) -> None:
    _load(tmp_path, VALID)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("name: someone", "name: other", "calls itself 'other'"),
        ("    conclusion: It is so.\n", "", "lacks the key 'experiments.0.conclusion'"),
        ("conclusion: It is so.", 'conclusion: ""', "'experiments.0.conclusion' is not valid"),
        (
            "unit: tps, read_from: table",
            "unit: tpm, read_from: table",
            "experiments.0.figures.0.unit",
        ),
        ("value: 5", "value: -5", "experiments.0.figures.0.value"),
        ("value: 5", "value: .nan", "experiments.0.figures.0.value"),
        ("value: 5", "value: null", "without a value must have read_from: plot"),
        (", shown_in: Figure 1", "", "must say in shown_in which"),
        ('date: "2016"', 'date: "last year"', "'date'"),
        ("question:", "questoin:", "unknown key 'experiments.0.questoin'"),
        ("{pattern: write}", "{}", ""),
        ("experiments:\n", "experiments: []\nx:\n", "unknown key 'x'"),
    ],
)
def test_a_wrong_file_is_named_with_its_field(
    tmp_path: Path, old: str, new: str, problem: str
) -> None:
    assert old in VALID
    text = VALID.replace(old, new, 1)
    if not problem:  # the same labels twice
        text = text.replace(
            "value: null, unit: tps, read_from: plot", "value: 6, unit: tps, read_from: prose"
        )
        problem = "two figures of tps have the same labels"
    with pytest.raises(GrampusError) as caught:
        _load(tmp_path, text)
    assert "someone.yaml" in caught.value.problem
    assert problem in caught.value.problem
    assert caught.value.remedy


def test_two_experiments_with_one_name_are_refused(tmp_path: Path) -> None:
    body = VALID.split("experiments:\n")[1]
    with pytest.raises(GrampusError, match="two experiments have the name 'one'"):
        _load(tmp_path, VALID + body)


def test_a_directory_without_a_catalog_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        load_catalog(tmp_path)
