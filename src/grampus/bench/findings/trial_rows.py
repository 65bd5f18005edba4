"""The trials of a run as rows of plain values, for tables of whoever reads them."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence

from grampus.bench.latency.histogram import PERCENTS
from grampus.bench.latency.histogram_documents import parse_histogram
from grampus.state.matrix_layers import LAYERS
from grampus.state.matrix_runs import Figures, MatrixRun, Trial

Value = str | int | float | bool | None
# Of a trial's figures, those that are a single value.
_FIGURES = (
    "loop",
    "measured_s",
    "operations",
    "operations_per_s",
    "queries_per_s",
    "moved_bytes_per_s",
    "errors",
    "reconnects",
    "client_bound",
    "steady",
    "unsteady_reason",
    "osd_device_busy_share",
    "osd_device_latency_ms",
    "volume_iops",
    "provisioned_bytes",
)


def trial_rows(run: MatrixRun, trials: Sequence[Trial]) -> list[dict[str, Value]]:
    """One row a trial, in the order of the trials, all with the same keys.

    Every dimension of the cell is a column, and of each percentile the two bounds between which
    it is known to lie, in microseconds: they differ where a driver tells no more. `marked` says why
    the figures are empty.

    Raises GrampusError with code `latency-document` for a latency that cannot be read.
    """
    cells = {cell.cell_id: cell for cell in run.cells}
    return [
        {
            "run_id": run.run_id,
            "suite": run.suite,
            "scale": run.scale,
            "place": run.place,
            "shape_only": run.shape_only,
            "cell_id": trial.cell_id,
            "arm": cells[trial.cell_id].arm,
            **cells[trial.cell_id].point,
            "round": trial.round,
            "started_at_s": trial.started_at_s,
            "ended_at_s": trial.ended_at_s,
            **_figures(trial.figures),
            **_layers(trial.figures),
            "marked": trial.marked,
        }
        for trial in trials
    ]


def render_csv(rows: Sequence[Mapping[str, Value]]) -> str:
    """`rows` as CSV (RFC 4180), with a line of names; what is not known is empty."""
    text = io.StringIO()
    if rows:
        writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\r\n")
        writer.writeheader()
        writer.writerows(rows)
    return text.getvalue()


def _layers(figures: Figures | None) -> dict[str, Value]:
    """The bottleneck, and of each layer its share of an operation's time, and what was used of its
    limit on average."""
    why = None if figures is None else figures.why
    uses = {} if why is None else {use.layer: use.share for use in why.layers}
    shares: dict[str, Value] = {
        f"{layer.replace('-', '_')}_share": uses.get(layer) for layer in LAYERS
    }
    times = {} if why is None else {one.layer: one.share for one in why.times}
    return {
        "bottleneck": None if why is None else why.bottleneck,
        "bottleneck_confidence": None if why is None else why.confidence,
        **{f"{layer.replace('-', '_')}_time_share": times.get(layer) for layer in LAYERS},
        **shares,
    }


def _figures(figures: Figures | None) -> dict[str, Value]:
    found: dict[str, Value] = {
        name: None if figures is None else getattr(figures, name) for name in _FIGURES
    }
    latency = figures.latency if figures is not None else None
    histogram = None if latency is None else parse_histogram(latency)
    supported = () if histogram is None else histogram.supported()
    for percent in PERCENTS:
        known = None
        if histogram is not None and percent in supported:
            known = histogram.percentile(percent)
        document = None if known is None else known.to_document()
        name = f"latency_p{percent:g}".replace(".", "")
        found[f"{name}_low_us"] = None if document is None else document["low_us"]
        found[f"{name}_high_us"] = None if document is None else document["high_us"]
    return found
