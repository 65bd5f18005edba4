"""The catalog: what others have published about MySQL on Ceph, as figures with their source.

One file `catalog/NAME.yaml` a source. Nothing in it is a quotation: figures and facts, and
conclusions in our own words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from grampus.bench.declared import LowerKebab, explained, read_declared, require_file_name
from grampus.core.errors import UsageError, not_found
from grampus.state.runs import Frozen

# `times` is a ratio of two arms, `fraction` one of a whole (0.5: a half).
Unit = Literal["qps", "tps", "ms", "iops", "iops-per-gb", "mb-per-s", "times", "fraction", "count"]
# Where a reader finds the figure. `plot`: in a drawing alone, which the text does not have.
ReadFrom = Literal["table", "prose", "plot"]
Bound = Literal["exactly", "about", "up-to", "at-least", "below", "above"]
Sentence = Annotated[str, Field(min_length=1, max_length=600)]
Label = Annotated[str, Field(min_length=1, max_length=60)]


class PublishedFigure(Frozen):
    """One published figure.

    `labels` say which point it belongs to (`pattern: write`). `value` is in `unit`; None when the
    source shows it in a plot alone (`read_from: plot`), so that nobody takes it for measured by
    us or estimated. `bound` is what the source itself claims of the value; a claim of direction
    alone (more, less) is 1 `times`, `above` or `below`.
    """

    labels: Mapping[LowerKebab, Label]
    quantity: LowerKebab
    value: Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False)] | None
    unit: Unit
    read_from: ReadFrom
    bound: Bound = "exactly"
    shown_in: Label | None = None
    remark: Sentence | None = None

    @model_validator(mode="after")
    def _has_a_value_or_a_plot(self) -> PublishedFigure:
        if self.value is None and self.read_from != "plot":
            raise ValueError("a figure without a value must have read_from: plot")
        if self.read_from == "plot" and self.shown_in is None:
            raise ValueError("a figure in a plot must say in shown_in which")
        return self


class Experiment(Frozen):
    """What was asked, found and shown; `shown_in` names the tables and figures of the source.

    `conditions` are facts of the test (hardware, versions, data set, threads, copies), in the
    source's units. `no_suite` says why no benchmark suite can repeat it; None when one does.
    """

    name: LowerKebab
    question: Sentence
    conclusion: Sentence
    shown_in: Annotated[tuple[Label, ...], Field(min_length=1)]
    conditions: Mapping[LowerKebab, Sentence]
    figures: Annotated[tuple[PublishedFigure, ...], Field(min_length=1)]
    no_suite: Sentence | None = None

    @field_validator("figures")
    @classmethod
    def _figures_differ(cls, figures: tuple[PublishedFigure, ...]) -> tuple[PublishedFigure, ...]:
        seen = set()
        for figure in figures:
            key = (figure.quantity, figure.bound, tuple(sorted(figure.labels.items())))
            if key in seen:
                raise ValueError(f"two figures of {figure.quantity} have the same labels")
            seen.add(key)
        return figures


class Source(Frozen):
    """A publication. `date` is as the text gives it (`2016`), or `unknown`.

    `conditions` hold for all experiments, unless one says otherwise.
    """

    name: LowerKebab
    title: Sentence
    publisher: Sentence
    date: Annotated[str, Field(pattern=r"^(unknown|\d{4}(-\d{2}(-\d{2})?)?)$")]
    remarks: tuple[Sentence, ...] = ()
    conditions: Mapping[LowerKebab, Sentence] = Field(default_factory=dict)
    experiments: Annotated[tuple[Experiment, ...], Field(min_length=1)]

    @field_validator("experiments")
    @classmethod
    def _names_differ(cls, experiments: tuple[Experiment, ...]) -> tuple[Experiment, ...]:
        names = [experiment.name for experiment in experiments]
        for name in names:
            if names.count(name) > 1:
                raise explained(
                    f"two experiments have the name '{name}'.", "Give one of them another name."
                )
        return experiments


class Catalog(Frozen):
    """All sources, sorted by name."""

    sources: tuple[Source, ...]

    def find(self, source: str, experiment: str) -> tuple[Source, Experiment]:
        """The experiment and where it stands. Raises UsageError with a suggestion."""
        sources = {one.name: one for one in self.sources}
        if source not in sources:
            raise _unknown("source", source, list(sources))
        experiments = {one.name: one for one in sources[source].experiments}
        if experiment not in experiments:
            raise _unknown("experiment", experiment, list(experiments))
        return sources[source], experiments[experiment]


def load_catalog(directory: Path) -> Catalog:
    """The catalog in the `*.yaml` files of `directory`.

    Raises UsageError that names file and field when one is not valid, or calls itself something
    else than its file; NotFoundError when `directory` holds no file.
    """
    files = sorted(directory.glob("*.yaml"))
    if not files:
        raise not_found("catalog", str(directory), (), list_command="ls catalog")
    sources = []
    for file in files:
        source = read_declared(file, Source, noun="catalog")
        require_file_name(file, source.name, noun="catalog")
        sources.append(source)
    return Catalog(sources=tuple(sources))


def _unknown(noun: str, wanted: str, known: Sequence[str]) -> UsageError:
    found = not_found(noun, wanted, known, list_command="ls catalog")
    return UsageError(
        f"The catalog has no {noun} '{wanted}'.",
        found.remedy if "mean" in found.remedy else f"It has {', '.join(known)}.",
        code="invalid-catalog",
    )
