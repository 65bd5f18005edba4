"""Ceph's programs are told which cluster is meant."""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest

from grampus.bench.drivers.command import CephClient
from grampus.ceph.access import PROGRAMS, named_argv

CLIENT = CephClient(
    PurePosixPath("/c/ceph.conf"), "u", PurePosixPath("/c/k"), ("--rbd-cache=false",)
)
NAMED = ["--conf", "/c/ceph.conf", "--id", "u", "--keyring", "/c/k"]


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_options_stand_behind_the_program(program: str) -> None:
    assert named_argv([program, "ls", "x"], CLIENT) == [program, *NAMED, "ls", "x"]


def test_without_a_keyring_the_configuration_says_where_it_is() -> None:
    plain = CephClient(PurePosixPath("/c/ceph.conf"), "u")
    assert named_argv(["ceph", "fsid"], plain) == ["ceph", *NAMED[:4], "fsid"]


def test_no_other_program_is_run_against_a_cluster_that_it_cannot_be_told() -> None:
    with pytest.raises(ValueError, match="python3"):
        named_argv(["python3", "-c", "import rados"], CLIENT)
