"""Models are built when they are used, and all of them can be."""

from __future__ import annotations

import subprocess
import sys

import pytest
from pydantic import BaseModel

from grampus.core.models import Model
from tests.system.fork_server import find_models, import_everything

COUNT_BUILT = """
import grampus.cli.db
from grampus.core.models import Model
from tests.system.fork_server import find_models
found = [model for model in find_models() if model is not Model]
print(len(found), sum(model.__pydantic_complete__ for model in found))
"""


def test_a_command_builds_no_model_before_it_uses_one() -> None:
    argv = [sys.executable, "-c", COUNT_BUILT]
    said = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True).stdout
    found, built = map(int, said.split())
    assert found > 50
    assert built == 0


def test_every_model_of_grampus_is_one_and_can_be_built() -> None:
    """What is wrong with a model would be seen at its first use alone."""
    import_everything()
    models = find_models()
    assert len(models) > 100
    for model in models:
        assert model.model_rebuild(raise_errors=True) in (True, None)
    others = [one for one in BaseModel.__subclasses__() if one.__module__.startswith("grampus.")]
    assert others == [Model]


def test_an_unknown_field_is_refused_by_a_model_that_was_not_built() -> None:
    class Strict(Model):
        model_config = {"extra": "forbid"}  # noqa: RUF012 - of pydantic
        number: int

    with pytest.raises(ValueError, match="extra"):
        Strict.model_validate({"number": 1, "other": 2})
