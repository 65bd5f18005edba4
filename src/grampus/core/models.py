"""The base of Grampus's pydantic models."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Model(BaseModel):
    """A pydantic model whose validator is built when the model is used for the first time.

    Grampus has 160 models, and a command uses a dozen of them. To build all took a quarter of the
    time in which a command starts. Pydantic builds one at a time from 2.14 on, whichever threads
    use it.
    """

    model_config = ConfigDict(defer_build=True)
