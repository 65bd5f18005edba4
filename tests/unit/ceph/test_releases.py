from __future__ import annotations

import pytest

from grampus.ceph.cluster import explain_no_filestore, parse_release


@pytest.mark.parametrize(("version", "release"), [("20.2.4", 20), ("16", 16), ("dev", None)])
def test_the_release_of_a_version(version: str, release: int | None) -> None:
    assert parse_release(version) == release


@pytest.mark.parametrize("version", ["16.2.15", "17.2.9"])
def test_a_ceph_with_filestore(version: str) -> None:
    assert explain_no_filestore(version) is None


@pytest.mark.parametrize("version", ["18.2.7", "20.2.4", "dev"])
def test_a_ceph_without_filestore(version: str) -> None:
    assert (
        explain_no_filestore(version)
        == f"Ceph {version} has no FileStore: 17 was the last release with it"
    )
