from __future__ import annotations

from pathlib import Path

import pytest

from grampus.cli.app import DEBUG_VARIABLE
from grampus.state.home import HOME_VARIABLE


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A GRAMPUS_HOME that is not there yet; no test here may touch the machine's own."""
    directory = tmp_path / "home"
    monkeypatch.setenv(HOME_VARIABLE, str(directory))
    for variable in (
        "GRAMPUS_LAB",
        "GRAMPUS_SITE",
        DEBUG_VARIABLE,
        "FORCE_COLOR",
        "NO_COLOR",
        "COLUMNS",
    ):
        # Set first, so that what a command sets itself is taken back too.
        monkeypatch.setenv(variable, "")
        monkeypatch.delenv(variable)
    return directory
