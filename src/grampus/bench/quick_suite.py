"""Suites: what a benchmark run measures, declared as data in `suites/NAME.yaml`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from grampus.bench.declared import (
    Distribution,
    LowerKebab,
    parse_mapping,
    require_file_name,
    validate_declared,
)
from grampus.bench.paths.suite import PathsSuite
from grampus.core.errors import UsageError, not_found
from grampus.state.runs import ArmName, Frozen


class QuickWorkload(Frozen):
    """One kind of load. `script` names one of sysbench's own OLTP scripts, without `.lua`."""

    name: LowerKebab
    title: Annotated[str, Field(min_length=1)]
    script: Annotated[str, Field(pattern=r"^oltp_[a-z_]+$")]


class Suite(Frozen):
    """A suite: its workloads, in order, and the conditions that they share.

    `dataset_to_buffer_pool` is the data set's size over the InnoDB buffer pool's.
    `settle_max_s` bounds the wait before each arm. `percentile` and `report_interval_s` are
    fixed, because the run archive keeps the 99th percentile and one sample a second.
    """

    kind: Literal["oltp"] = "oltp"
    name: LowerKebab
    title: Annotated[str, Field(min_length=1)]
    first_arm: ArmName
    threads: Annotated[int, Field(ge=1, le=1024)]
    tables: Annotated[int, Field(ge=1, le=64)]
    dataset_to_buffer_pool: Annotated[float, Field(gt=0, le=100)]
    distribution: Distribution
    warmup_s: Annotated[int, Field(ge=0, le=3600)]
    measure_s: Annotated[int, Field(ge=3, le=86400)]
    report_interval_s: Literal[1]
    percentile: Literal[99]
    settle_max_s: Annotated[float, Field(ge=0, le=600)]
    workloads: Annotated[tuple[QuickWorkload, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _names_differ(self) -> Suite:
        names = [workload.name for workload in self.workloads]
        if len(set(names)) != len(names):
            raise ValueError("two workloads have the same name")
        return self


AnySuite = Suite | PathsSuite
_MODELS: dict[str, type[Suite] | type[PathsSuite]] = {"oltp": Suite, "paths": PathsSuite}


def load_suite(directory: Path, name: str, *, also: Iterable[str] = ()) -> AnySuite:
    """The suite named `name` among the `*.yaml` files of `directory`.

    Raises NotFoundError with a suggestion (among the names `also` too), or UsageError when the file
    is no valid suite.
    """
    files = _suite_files(directory)
    if name not in files:
        raise not_found("suite", name, [*files, *also], list_command="grampus bench list")
    return _read_suite(files[name])


def list_suites(directory: Path) -> list[AnySuite]:
    """All suites of `directory`, sorted by name. Raises UsageError on an invalid file."""
    return [_read_suite(file) for _, file in sorted(_suite_files(directory).items())]


def parse_suite(text: str, *, source: str) -> AnySuite:
    """The suite in the YAML `text`, of the kind that it says; `source` names it in errors.

    Raises UsageError that names the first thing that is wrong; for an unknown key also the
    keys that are known at that place.
    """
    content = parse_mapping(text, source=source, noun="suite", keys=Suite.model_fields)
    kind = content.get("kind", "oltp")
    model = _MODELS.get(kind) if isinstance(kind, str) else None
    if model is None:
        raise UsageError(
            f"{source} holds a suite of the unknown kind {kind!r}.",
            f"Use one of these kinds: {', '.join(_MODELS)}.",
            code="invalid-suite",
        )
    return validate_declared(content, model, source=source, noun="suite")


def _suite_files(directory: Path) -> dict[str, Path]:
    return {file.stem: file for file in directory.glob("*.yaml")}


def _read_suite(file: Path) -> AnySuite:
    suite = parse_suite(file.read_text(encoding="utf-8"), source=file.name)
    require_file_name(file, suite.name, noun="suite")
    return suite
