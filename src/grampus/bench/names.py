"""Words that suites of every kind are made of."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

Distribution = Literal["uniform", "gaussian", "special", "pareto"]
LowerKebab = Annotated[str, Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$", max_length=40)]
