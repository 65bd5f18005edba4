"""The file of a suite: dimensions, arms, conclusions and scales."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from grampus.bench.catalog import Sentence
from grampus.bench.declared import Distribution, LowerKebab, explained
from grampus.bench.matrix.conclusions import Conclusion, PartialPoint
from grampus.bench.matrix.dimensions import Value, parse_dimension, parse_value
from grampus.bench.paths.suite import SizeBytes
from grampus.state.matrix_runs import Environments
from grampus.state.runs import Frozen

ScaleName = Literal["tiny", "small", "full"]
SCALES: tuple[ScaleName, ...] = ("tiny", "small", "full")
Component = Literal["ceph", "mysql", "mariadb", "percona", "sysbench", "fio", "qemu"]
Size = Annotated[
    SizeBytes,
    WithJsonSchema(
        {
            "anyOf": [{"type": "integer", "exclusiveMinimum": 0}, {"type": "string"}],
            "description": "bytes, or a number with a binary unit such as 512M",
        }
    ),
]


def _parse_values(content: object) -> object:
    if not isinstance(content, Mapping):
        return content
    parsed: dict[str, tuple[Value, ...]] = {}
    for name, values in content.items():
        dimension = parse_dimension(name)
        if not isinstance(values, list | tuple) or not values:
            raise explained(
                f"the dimension {dimension} has no list of values.",
                f"Write `{dimension}: [VALUE, ...]`, or put a single value under fixed.",
            )
        parsed[dimension] = tuple(parse_value(dimension, value) for value in values)
        for value in parsed[dimension]:
            if parsed[dimension].count(value) > 1:
                raise explained(
                    f"the dimension {dimension} has the value {value} twice.", "Leave one out."
                )
    return parsed


# Some values, in order, for each of some dimensions.
Values = Annotated[Mapping[str, tuple[Value, ...]], BeforeValidator(_parse_values)]


class Dataset(Frozen):
    """What is loaded and how it is reached, in all cells.

    `tables` and `distribution` are of databases; `block_bytes` is the size of an operation on
    pools, images and volumes.
    """

    tables: Annotated[int, Field(strict=True, ge=1, le=1000)] = 4
    distribution: Distribution = "uniform"
    block_bytes: Size = 4096


class Exclusion(Frozen):
    """Cells that agree with all of `when` are left out, `because`; of `scales` alone, if given."""

    when: Annotated[Values, Field(min_length=1)]
    because: Sentence
    scales: Annotated[tuple[ScaleName, ...], Field(min_length=1)] | None = None


class Scale(Frozen):
    """How long and how large; `only` and `fixed` narrow the matrix.

    With a `first_look`, `rounds` are the most that are made: from so many on the run ends when each
    conclusion has its answer. `dataset_bytes` is what is written to each database, volume or client
    before the load.
    `environment_s` is what bringing up one environment with its data takes (an estimate).
    `environments`: whether what cells stand on is made once and kept, or anew for each round.
    Two sets of OSDs that are alike differ by a few percent. Where arms stand on OSDs of their own
    that difference is one of the arms as long as the OSDs are kept, however many rounds there are.
    """

    warmup_s: Annotated[int, Field(strict=True, ge=0, le=86400)]
    measure_s: Annotated[int, Field(strict=True, ge=1, le=86400)]
    rounds: Annotated[int, Field(strict=True, ge=1, le=99)]
    first_look: Annotated[int, Field(strict=True, ge=2, le=98)] | None = None
    dataset_bytes: Size
    environment_s: Annotated[int, Field(strict=True, ge=0, le=86400)]
    environments: Environments = "kept"
    only: Values = Field(default_factory=dict)
    fixed: PartialPoint = Field(default_factory=dict)

    @model_validator(mode="after")
    def _looks_before_its_last_round(self) -> Scale:
        if self.first_look is not None and self.first_look >= self.rounds:
            raise explained(
                f"a scale of {self.rounds} rounds has its first look after {self.first_look}.",
                "Look before the last round, or leave first_look out.",
            )
        return self


class MatrixSuite(Frozen):
    """A suite: `dimensions` times one another without `exclusions`, under `fixed` conditions.

    `source` and `experiment` name an entry of the catalog; a suite of a user's own has neither.
    `arms` are what is compared, `baseline` that with which. `conclusions` say what is tested.
    """

    kind: Literal["matrix"]
    name: Annotated[str, Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$", max_length=60)]
    source: LowerKebab | None = None
    experiment: LowerKebab | None = None
    title: Sentence
    question: Sentence
    remarks: tuple[Sentence, ...] = ()
    dimensions: Annotated[Values, Field(min_length=1)]
    fixed: PartialPoint = Field(default_factory=dict)
    dataset: Dataset = Dataset()
    versions: Mapping[Component, Annotated[str, Field(pattern=r"^\d+(\.\d+)*$")]] = Field(
        default_factory=dict
    )
    exclusions: tuple[Exclusion, ...] = ()
    arms: Mapping[LowerKebab, PartialPoint] = Field(default_factory=dict)
    baseline: LowerKebab | None = None
    conclusions: Annotated[tuple[Conclusion, ...], Field(min_length=1)]
    scales: Mapping[ScaleName, Scale]

    @model_validator(mode="after")
    def _is_named_after_its_experiment(self) -> MatrixSuite:
        if (self.source is None) != (self.experiment is None):
            raise explained(
                "source and experiment do not stand together.",
                "Name both, or neither for a suite of your own.",
            )
        if self.source is not None and self.name != f"{self.source}-{self.experiment}":
            raise explained(
                f"the name '{self.name}' is not that of its source and experiment.",
                f"Call it {self.source}-{self.experiment}.",
            )
        return self

    @model_validator(mode="after")
    def _varies_and_fixes_different_things(self) -> MatrixSuite:
        for name in self.fixed:
            if name in self.dimensions:
                raise explained(
                    f"{name} is both a dimension and fixed.", "Leave it out of one of them."
                )
        if "workload" not in self.dimensions and "workload" not in self.fixed:
            raise explained("no workload is named.", "Add it to the dimensions, or under fixed.")
        if missing := [scale for scale in SCALES if scale not in self.scales]:
            raise explained(f"there is no scale {missing[0]}.", "Add it under scales.")
        for scale_name, scale in self.scales.items():
            for name in scale.fixed:
                if name in self.dimensions:
                    raise explained(
                        f"the scale {scale_name} fixes {name}, which is a dimension.",
                        f"Narrow it there with `only: {{{name}: [VALUE]}}`.",
                    )
            self._require_values(f"the scale {scale_name}", scale.only)
        return self

    @model_validator(mode="after")
    def _compares_what_it_varies(self) -> MatrixSuite:
        for exclusion in self.exclusions:
            self._require_values("an exclusion", exclusion.when)
        varied = {frozenset(setting) for setting in self.arms.values()}
        if len(varied) > 1:
            raise explained(
                "the arms do not set the same dimensions.",
                "Give each arm a value in each dimension that another one has.",
            )
        settings = [dict(setting) for setting in self.arms.values()]
        for name, setting in self.arms.items():
            self._require_values(f"the arm {name}", {key: (v,) for key, v in setting.items()})
            if settings.count(dict(setting)) > 1:
                raise explained(f"the arm {name} is the same as another one.", "Leave one out.")
        if self.arms and self.baseline not in self.arms:
            raise explained(
                f"the baseline is {self.baseline or 'not named'}, which is not an arm.",
                f"Set it to one of {', '.join(self.arms)}.",
            )
        return self

    @model_validator(mode="after")
    def _tests_what_it_compares(self) -> MatrixSuite:
        names = [conclusion.name for conclusion in self.conclusions]
        for conclusion in self.conclusions:
            what = f"the conclusion {conclusion.name}"
            if names.count(conclusion.name) > 1:
                raise explained(f"{what} is there twice.", "Give one of them another name.")
            self._require_values(what, {key: (v,) for key, v in conclusion.at.items()})
            first = [one.name for one in self.conclusions if one.repeats is None]
            if conclusion.repeats is not None and conclusion.repeats not in first:
                raise explained(
                    f"{what} repeats {conclusion.repeats}, and the suite has no separate "
                    "conclusion of that name.",
                    f"The separate ones are {', '.join(first) or 'none'}.",
                )
            if conclusion.test == "ratio":
                for arm in (conclusion.arm, conclusion.against or self.baseline):
                    if arm not in self.arms:
                        raise explained(
                            f"{what} names the arm {arm}, which there is not.",
                            f"The arms are {', '.join(self.arms) or 'none; add them'}.",
                        )
                if conclusion.arm == (conclusion.against or self.baseline):
                    raise explained(
                        f"{what} compares {conclusion.arm} with itself.",
                        "Name another arm in against.",
                    )
            elif conclusion.along not in self.dimensions:
                raise explained(
                    f"{what} goes along {conclusion.along}, which the suite does not vary.",
                    f"It varies {', '.join(self.dimensions)}.",
                )
            elif conclusion.test != "trend":
                self._require_values(what, {conclusion.along: conclusion.expected})
        return self

    def _require_values(self, what: str, values: Mapping[str, tuple[Value, ...]]) -> None:
        for name, wanted in values.items():
            if name not in self.dimensions:
                raise explained(
                    f"{what} names {name}, which is not a dimension of the suite.",
                    f"The suite varies {', '.join(self.dimensions)}.",
                )
            for value in wanted:
                if value not in self.dimensions[name]:
                    shown = ", ".join(str(one) for one in self.dimensions[name])
                    raise explained(
                        f"{what} names {value} of {name}, which the suite does not have.",
                        f"It has {shown}.",
                    )
