"""The published schema knows every key of every suite, and every value of every dimension."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from grampus.bench.matrix.dimensions import DIMENSIONS
from grampus.bench.matrix.schema import suite_schema

SUITES = sorted((Path(__file__).parents[4] / "suites" / "sources").glob("*.yaml"))
SCHEMA = suite_schema()


def _references(content: Any) -> list[str]:
    if isinstance(content, dict):
        found = [content["$ref"]] if isinstance(content.get("$ref"), str) else []
        return found + [one for value in content.values() for one in _references(value)]
    if isinstance(content, list):
        return [one for value in content for one in _references(value)]
    return []


def _keys_known(schema: dict[str, Any], content: dict[str, Any], where: str) -> None:
    assert schema.get("additionalProperties") is False, where
    assert set(content) <= set(schema["properties"]), where


def test_the_schema_is_json_and_refers_only_to_itself() -> None:
    assert json.loads(json.dumps(SCHEMA)) == SCHEMA
    for reference in _references(SCHEMA):
        assert reference.removeprefix("#/$defs/") in SCHEMA["$defs"], reference


def test_every_dimension_is_spelled_out() -> None:
    values = SCHEMA["$defs"]["Values"]
    assert list(values["properties"]) == list(DIMENSIONS)
    assert values["properties"]["media"]["items"]["enum"] == ["nvme", "ssd", "hdd", "own"]
    assert "default: nvme" in values["properties"]["media"]["description"]
    setting = SCHEMA["$defs"]["Setting"]["properties"]
    assert setting["threads"]["maximum"] == 1024
    for place in ("dimensions", "fixed"):
        assert "$ref" in SCHEMA["properties"][place], place


def test_sizes_may_be_words() -> None:
    kinds = SCHEMA["$defs"]["Scale"]["properties"]["dataset_bytes"]["anyOf"]
    assert [kind["type"] for kind in kinds] == ["integer", "string"]


@pytest.mark.parametrize("file", SUITES, ids=lambda file: file.stem)
def test_the_schema_knows_all_keys_of_the_suite(file: Path) -> None:
    content = yaml.safe_load(file.read_text(encoding="utf-8"))
    definitions = SCHEMA["$defs"]
    _keys_known(SCHEMA, content, "suite")
    _keys_known(definitions["Values"], content["dimensions"], "dimensions")
    for scale in content["scales"].values():
        _keys_known(definitions["Scale"], scale, "scale")
    for conclusion in content["conclusions"]:
        model = definitions[f"{conclusion['test'].capitalize()}Conclusion"]
        _keys_known(model, conclusion, conclusion["name"])
        assert set(model["required"]) <= set(conclusion)
