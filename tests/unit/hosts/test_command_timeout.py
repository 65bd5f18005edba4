"""A disk that stalls for minutes delays a command, and fails none."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from grampus.hosts.any_host import AnyReachableHost
from grampus.hosts.lab_host import LabHost
from grampus.hosts.port import COMMAND_TIMEOUT_S
from grampus.hosts.process import run_command
from grampus.hosts.this_machine import ThisMachine


@pytest.mark.parametrize("run", [AnyReachableHost.run, LabHost.run, ThisMachine.run, run_command])
def test_a_command_that_says_nothing_else_is_waited_for_as_long_as_any(
    run: Callable[..., Any],
) -> None:
    assert inspect.signature(run).parameters["timeout_s"].default == COMMAND_TIMEOUT_S
    assert COMMAND_TIMEOUT_S >= 300.0
