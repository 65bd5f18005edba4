"""Fixtures of the integration tests."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.command_line import CommandLine
from tests.system.forked_commands import forked_commands


@pytest.fixture(scope="package", autouse=True)
def commands_are_forked() -> Iterator[None]:
    """Commands need not import Grampus each: acceptance tests run the program as users do."""
    environment = CommandLine("none").environment("")
    with (
        tempfile.TemporaryDirectory() as directory,
        forked_commands(Path(directory), environment) as forked,
    ):
        CommandLine.all_forked = forked
        try:
            yield
        finally:
            CommandLine.all_forked = None
