"""Files that come with Grampus are found in a checkout and in an installed package."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from grampus.core.installation import (
    DATA_DIRECTORIES,
    INSTALLATION,
    PACKAGE,
    Installation,
    find_installation,
)
from tests.system.command_line import CHECKOUT

SOURCE = CHECKOUT / "src" / "grampus"
# A path that is derived from a module's own place.
_OWN_PLACE = re.compile(r"__file__|\.parents\[")


def test_the_tests_run_from_this_checkout() -> None:
    volumed = CHECKOUT / "dataplane" / "target" / "release" / "volumed"
    assert Installation(CHECKOUT, volumed) == INSTALLATION


@pytest.mark.parametrize("packages", ["src", "lib/python3.11/site-packages"])
def test_what_is_no_checkout_is_the_package(tmp_path: Path, packages: str) -> None:
    directory = tmp_path / packages
    directory.mkdir(parents=True)
    assert find_installation(directory) == PACKAGE
    (directory.parent / "pyproject.toml").touch()
    assert find_installation(directory).data == directory.parent


def test_a_checkout_has_the_data() -> None:
    assert [name for name in DATA_DIRECTORIES if not any((CHECKOUT / name).iterdir())] == []


def test_no_other_module_derives_a_path_from_its_own() -> None:
    found = {
        str(file.relative_to(SOURCE))
        for file in SOURCE.rglob("*.py")
        if _OWN_PLACE.search(file.read_text())
    }
    assert found == {"core/installation.py"}
