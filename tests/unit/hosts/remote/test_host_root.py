"""Commands in a daemon, as its user: the real shell and nsenter, on this process."""

from __future__ import annotations

import os
import subprocess

import pytest

from grampus.hosts.remote.host_root import daemon_argv

USER = 65534


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")
@pytest.mark.parametrize("read", [["cat"], ["cat", "/dev/stdin"], ["cat", "/dev/fd/0"]])
def test_the_user_of_a_daemon_may_open_its_stdin_by_name(read: list[str]) -> None:
    argv = daemon_argv(os.getpid(), USER, read, has_stdin=True)
    said = subprocess.run(argv, input="options", capture_output=True, text=True, check=True)
    assert said.stdout == "options"
    without = daemon_argv(os.getpid(), USER, ["id", "-u"], has_stdin=False)
    said = subprocess.run(without, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert said.stdout.strip() == str(USER)
