"""Suite files read, checked as a whole, and held against the catalog."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from grampus.bench.catalog import Catalog
from grampus.bench.declared import parse_declared, read_text, require_file_name
from grampus.bench.matrix.conclusions import OF_DATABASES
from grampus.bench.matrix.dimensions import concerns, count_hosts_needed
from grampus.bench.matrix.expansion import compared_cells, expand_cells
from grampus.bench.matrix.suite import SCALES, MatrixSuite
from grampus.bench.matrix.workloads import WORKLOADS
from grampus.core.errors import UsageError
from grampus.core.units import MIB, format_bytes

_NOUN = "suite"
# The least that innodb_buffer_pool_size takes; the server would use it instead without a word.
MIN_BUFFER_POOL_BYTES = 5 * MIB


def parse_matrix_suite(text: str, *, source: str) -> MatrixSuite:
    """The suite in the YAML `text`; `source` names the file in errors.

    Raises UsageError that says what is wrong, where, and what is known there.
    """
    return _require_whole(parse_declared(text, MatrixSuite, source=source, noun=_NOUN), source)


def read_matrix_suite(file: Path) -> tuple[MatrixSuite, str]:
    """The suite in `file`, and its text.

    Raises UsageError when it cannot be read, is not valid, or has another name than the file.
    """
    text = read_text(file, noun=_NOUN)
    suite = parse_matrix_suite(text, source=file.name)
    require_file_name(file, suite.name, noun=_NOUN)
    return suite, text


def load_matrix_suites(directory: Path) -> list[MatrixSuite]:
    """All suites of `directory`, sorted by file name. Raises UsageError on an invalid file."""
    return [read_matrix_suite(file)[0] for file in sorted(directory.glob("*.yaml"))]


def require_catalogued(suites: Sequence[MatrixSuite], catalog: Catalog) -> None:
    """Raises UsageError when a suite names an experiment that the catalog does not have, or one
    that it says no suite can repeat."""
    for suite in suites:
        if suite.source is None or suite.experiment is None:
            continue
        _, experiment = catalog.find(suite.source, suite.experiment)
        if experiment.no_suite is not None:
            raise UsageError(
                f"The suite {suite.name} repeats an experiment of which the catalog says that "
                "no suite can.",
                "Take no_suite out of the catalog, or the suite away.",
                code="invalid-suite",
            )


def find_fault(suite: MatrixSuite) -> tuple[str, str] | None:
    """The first thing wrong with the matrix as a whole: problem and remedy, or None."""
    for scale in SCALES:
        cells = expand_cells(suite, scale)
        if not cells:
            return (f"the scale {scale} has no cell left.", "Exclude less, or narrow it less.")
        for cell in cells:
            workload = cell.point.workload
            if cell.point.rate != "none" and WORKLOADS[workload].target != "database":
                return (
                    f"the workload {workload} has a rate, and its load generator knows none: it "
                    "would be measured in a closed loop and be called an open one.",
                    "Leave rate out, or take it to a workload of a database (sysbench).",
                )
            hosts, copies = cell.point.osd_hosts, count_hosts_needed(cell.point)
            if isinstance(hosts, int) and copies > hosts:
                return (
                    f"a cell uses {hosts} of the hosts with OSDs (osd_hosts) and needs {copies}, "
                    "one for each copy or chunk.",
                    "Raise osd_hosts, or take fewer copies.",
                )
            pool_bytes = cell.dataset_bytes / cell.point.buffer_ratio
            if cell.tables is not None and pool_bytes < MIN_BUFFER_POOL_BYTES:
                return (
                    f"at the scale {scale}, a buffer_ratio of {cell.point.buffer_ratio:g} makes a "
                    f"buffer pool of {format_bytes(pool_bytes)}, which InnoDB does not take.",
                    f"It takes {format_bytes(MIN_BUFFER_POOL_BYTES)} at least: raise dataset_bytes "
                    "there, or lower the ratio.",
                )
        compared_of = {one.name: compared_cells(suite, scale, one) for one in suite.conclusions}
        for conclusion in suite.conclusions:
            compared = compared_of[conclusion.name]
            if not compared and (scale == "full" or not any(compared_of.values())):
                return (
                    f"the conclusion {conclusion.name} compares nothing at the scale {scale}.",
                    "Give that scale the cells that differ, or change what is compared.",
                )
            if not compared:
                continue  # a smaller scale may leave it out: what it stands on takes too long
            if any(len({cell.point.rate == "none" for cell in one}) > 1 for one in compared):
                return (
                    f"the conclusion {conclusion.name} compares an open loop with a closed one.",
                    "Their latencies mean different things: choose one with `at`.",
                )
            targets = {WORKLOADS[cell.point.workload].target for one in compared for cell in one}
            if conclusion.quantity in OF_DATABASES and targets != {"database"}:
                return (
                    f"the conclusion {conclusion.name} asks for {conclusion.quantity} where there "
                    "is no database.",
                    "Ask for iops or mb-per-s, or choose cells with `at`.",
                )
    workloads = {cell.point.workload for cell in expand_cells(suite, "full")}
    for dimension in suite.dimensions:
        if not any(concerns(workload, dimension) for workload in workloads):
            return (
                f"none of its workloads feels the dimension {dimension}.",
                "Leave it out, or add a workload that does.",
            )
    return None


def _require_whole(suite: MatrixSuite, source: str) -> MatrixSuite:
    fault = find_fault(suite)
    if fault is not None:
        problem, remedy = fault
        raise UsageError(f"In {source}, {problem}", remedy, code="invalid-suite")
    return suite
