"""The JSON schemas of suites and of archived runs."""

from __future__ import annotations

import json

from pydantic import BaseModel

from grampus.bench.matrix.schema import suite_schema
from grampus.state.matrix_layers import SeriesPoint
from grampus.state.matrix_runs import MatrixRun, Trial


def render_schemas() -> dict[str, str]:
    """What editors check suites with, and what a reader of the archive can rely on."""
    models: dict[str, tuple[type[BaseModel], str]] = {
        "run.schema.json": (MatrixRun, "run.json of a published experiment's run"),
        "visits.schema.json": (Trial, "A line of visits.jsonl of a published experiment's run"),
        "series.schema.json": (SeriesPoint, "A line of series/CELL_ID/ROUND.jsonl of such a run"),
    }
    pages = {name: _render_model(model, title) for name, (model, title) in models.items()}
    return {"suite.schema.json": json.dumps(suite_schema(), indent=2) + "\n", **pages}


def _render_model(model: type[BaseModel], title: str) -> str:
    schema = model.model_json_schema()
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = title
    return json.dumps(schema, indent=2) + "\n"
