"""The JSON schema of a suite file, for editors and the documentation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from grampus.bench.matrix.dimensions import DIMENSIONS, default_of, value_schema
from grampus.bench.matrix.suite import MatrixSuite


def suite_schema() -> dict[str, Any]:
    """JSON schema (draft 2020-12) of `suites/sources/NAME.yaml`, as plain values.

    Dimensions and their values are spelled out, with meaning and default. What only the whole
    matrix shows (an arm that no dimension has, a conclusion that compares nothing) is not in it.
    """
    schema = MatrixSuite.model_json_schema()
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "A benchmark suite of Grampus: a matrix of dimensions"
    values = {
        name: {
            "description": f"{dimension.meaning} (default: {default_of(name)})",
            "type": "array",
            "minItems": 1,
            "uniqueItems": True,
            "items": value_schema(name),
        }
        for name, dimension in DIMENSIONS.items()
    }
    one = {
        name: {**value_schema(name), "description": values[name]["description"]}
        for name in DIMENSIONS
    }
    schema["$defs"]["Values"] = _closed(values)
    schema["$defs"]["Setting"] = _closed(one)
    models = schema["$defs"]
    for place in (schema["properties"], models["Scale"]["properties"]):
        place["fixed"] = {"$ref": "#/$defs/Setting"}
    schema["properties"]["dimensions"] = {"$ref": "#/$defs/Values", "minProperties": 1}
    schema["properties"]["arms"]["additionalProperties"] = {"$ref": "#/$defs/Setting"}
    models["Scale"]["properties"]["only"] = {"$ref": "#/$defs/Values"}
    models["Exclusion"]["properties"]["when"] = {"$ref": "#/$defs/Values", "minProperties": 1}
    for name, model in models.items():
        if name.endswith("Conclusion"):
            model["properties"]["at"] = {"$ref": "#/$defs/Setting"}
    return schema


def _closed(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False, "properties": dict(properties)}
