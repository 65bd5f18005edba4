"""What a host says of a file or directory, and of a mount; a host that cannot say is no answer."""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest

from grampus.hosts.mounts import observe_mounted_source
from grampus.hosts.port import CommandFailedError, CommandResult
from grampus.hosts.presence import is_there

from .fakes import AnsweringHost

PATH = PurePosixPath("/data/cache/demo")


def _host(returncode: int, stdout: str = "", stderr: str = "") -> AnsweringHost:
    return AnsweringHost("h1", lambda argv: CommandResult(tuple(argv), returncode, stdout, stderr))


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        (_host(0, "directory\n"), True),
        (_host(1, "", f"stat: cannot statx '{PATH}': No such file or directory"), False),
        (_host(1, "", f"stat: cannot statx '{PATH}': Not a directory"), False),
    ],
)
def test_a_name_is_there_or_not(host: AnsweringHost, expected: bool) -> None:
    assert is_there(host, PATH) is expected  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "host",
    [
        _host(1, "", f"stat: cannot statx '{PATH}': Input/output error"),
        _host(1, "", f"stat: cannot statx '{PATH}': Transport endpoint is not connected"),
        _host(127, "", "stat: not found"),
        _host(137),
    ],
)
def test_a_host_that_cannot_say_is_an_error(host: AnsweringHost) -> None:
    with pytest.raises(CommandFailedError):
        is_there(host, PATH)  # type: ignore[arg-type]


def test_a_mount_is_there_or_not() -> None:
    assert observe_mounted_source(_host(0, "/dev/loop3\n"), PATH) == "/dev/loop3"  # type: ignore[arg-type]
    assert observe_mounted_source(_host(1), PATH) is None  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "host", [_host(127, "", "findmnt: not found"), _host(137), _host(1, "", "no")]
)
def test_a_mount_that_cannot_be_looked_for_is_not_taken_for_none(host: AnsweringHost) -> None:
    with pytest.raises(CommandFailedError):
        observe_mounted_source(host, PATH)  # type: ignore[arg-type]
