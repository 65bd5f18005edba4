"""Failed builds: from real endings of mmdebstrap's output to what a user reads."""

from __future__ import annotations

import pytest

from grampus.core.errors import GrampusError
from grampus.lab.images.failure import (
    classify_build_failure,
    decide_disk_shortage,
    decide_next_definition,
    disk_became_full,
)

from .test_recipe import DEFINITION

END = """E: apt-get update --error-on=any -oAPT::Status-Fd=<$fd> -oDpkg::Use-Pty=false failed
I: main() received signal PIPE: waiting for setup...
E: mmdebstrap failed to run"""

CASES = [
    ("E: need to be root", "needs-root", "needs root", "as root"),
    ("unshare: unshare failed: Operation not permitted", "needs-privileges", "namespaces", "virt"),
    (
        "unshare: failed to execute mmdebstrap: No such file or directory",
        "program-missing",
        "program mmdebstrap",
        "apt-get install mmdebstrap",
    ),
    (
        "Err:1 http://nope.invalid/debian sid InRelease\n  Could not resolve 'nope.invalid'\n"
        + END,
        "archive-unreachable",
        "(Could not resolve 'nope.invalid')",
        "GRAMPUS_DEBIAN_MIRROR",
    ),
    (
        "  Temporary failure resolving 'archive.test'\n" + END,
        "archive-unreachable",
        "Temporary failure resolving",
        "name service",
    ),
    (
        "  Could not connect to 127.0.0.1:9 (127.0.0.1). - connect (111: Connection refused)\n"
        + END,
        "archive-unreachable",
        "127.0.0.1:9",
        "network",
    ),
    (
        "  Could not connect to archive.test:80 (192.0.2.1), connection timed out\n" + END,
        "archive-unreachable",
        "timed out",
        "network",
    ),
    (
        "  The following signatures couldn't be verified because the public key is not "
        "available: NO_PUBKEY 6ED0E7B82643E131\n"
        "E: The repository 'http://archive.test/debian sid InRelease' is not signed.\n" + END,
        "archive-untrusted",
        "signature",
        "debian-archive-keyring",
    ),
    (
        "E: Release file for http://archive.test/debian/dists/sid/InRelease is not valid yet "
        "(invalid for another 5h 3min 1s). Updates for this repository will not be applied.\n"
        + END,
        "clock-wrong",
        "clock is behind",
        "Set the clock",
    ),
    (
        "  404  Not Found [IP: 203.0.113.80 80]\n"
        "E: The repository 'http://archive.test/debian sid Release' does not have a Release "
        "file.\n" + END,
        "suite-gone",
        "no suite 'sid'",
        "GRAMPUS_DEBIAN_MIRROR",
    ),
    (
        "Building dependency tree...\nE: Unable to locate package definitely-bogus\n"
        "E: setup failed: E: apt-get -o Dir::Bin::dpkg=env --yes install x failed\n" + END,
        "package-gone",
        "package definitely-bogus",
        "images/sid.toml",
    ),
    (
        "E: Package 'mysql-server-core' has no installation candidate\n" + END,
        "package-gone",
        "package mysql-server-core",
        "images/sid.toml",
    ),
    (
        "The following packages have unmet dependencies:\n"
        " mariadb-server-core : Conflicts: virtual-mysql-server-core\n"
        "E: Unable to correct problems, you have held broken packages.\n" + END,
        "packages-conflict",
        "(mariadb-server-core : Conflicts: virtual-mysql-server-core)",
        "tomorrow",
    ),
    (
        "E: Failed to fetch http://archive.test/x.deb  Hash Sum mismatch\n"
        "E: Unable to fetch some archives, maybe run apt-get update\n" + END,
        "archive-inconsistent",
        "being updated",
        "few minutes",
    ),
    (
        "tar: ./usr/bin/bash: Cannot write: No space left on device\n"
        "E: tar --extract failed: 512\nE: Unable to locate package x\n" + END,
        "disk-full",
        "disk became full",
        "GRAMPUS_HOME",
    ),
    (
        "dpkg: error processing package x (--configure):\n"
        "E: Sub-process env returned an error code (1)\n"
        "E: setup failed: E: apt-get -o x failed\n" + END,
        "image-build-failed",
        "Sub-process env returned an error code (1)",
        "/images/sid-build.log",
    ),
    ("", "image-build-failed", "it wrote no message", "/images/sid-build.log"),
]


@pytest.mark.parametrize(("output", "code", "problem", "remedy"), CASES)
def test_cause(output: str, code: str, problem: str, remedy: str) -> None:
    error = classify_build_failure(output, suite="sid", log_file="/images/sid-build.log")
    assert error.code == code
    assert problem in error.problem
    assert remedy in error.remedy
    for sentence in (error.problem, error.remedy):
        assert sentence.endswith(".")
        assert "{" not in sentence


@pytest.mark.parametrize(("free_bytes", "enough"), [(1499, False), (1500, True)])
def test_disk_is_judged_beforehand(free_bytes: int, enough: bool) -> None:
    if enough:
        decide_disk_shortage(DEFINITION, free_bytes, "/images")
        return
    with pytest.raises(GrampusError, match="/images has") as caught:
        decide_disk_shortage(DEFINITION, free_bytes, "/images")
    assert caught.value.code == disk_became_full().code == "disk-full"


@pytest.mark.parametrize(
    ("code", "remaining", "cached", "following"),
    [
        ("package-gone", ["b", "c"], set(), "b"),
        ("package-gone", [], set(), None),
        ("archive-unreachable", ["b", "c"], {"c"}, "c"),
        ("archive-unreachable", ["b"], set(), None),
        ("needs-root", ["b"], {"b"}, "b"),
        ("disk-full", ["b"], set(), None),
    ],
)
def test_next_definition(
    code: str, remaining: list[str], cached: set[str], following: str | None
) -> None:
    assert decide_next_definition(code, remaining, cached) == following
