from __future__ import annotations

from pathlib import Path

import pytest

from grampus.core.installation import VOLUMED_VARIABLE


@pytest.fixture(autouse=True)
def built_volumed(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A volumed, which no test here runs."""
    program = tmp_path_factory.mktemp("program") / "volumed"
    program.write_text("volumed")
    monkeypatch.setenv(VOLUMED_VARIABLE, str(program))
    return program
