"""Which pool of a lab holds images with so many copies."""

from __future__ import annotations

import pytest

from grampus.ceph.cluster import CephCluster
from grampus.core.errors import RefusedError
from grampus.lab.copies_pools import CopiesPools
from grampus.lab.model import LabSpec
from tests.fakes.clock import FakeClock
from tests.fakes.commands import FakeRunner

SPEC = LabSpec(
    name="t",
    tag="00000",
    image_id="sid-0",
    image_name="sid",
    host_count=3,
    osds_per_host=1,
    media="nvme",
    osd_size_bytes=2**30,
    subnet="10.213.0.0/24",
    fsid="00000000-0000-0000-0000-000000000000",
)


def pools(runner: FakeRunner) -> CopiesPools:
    return CopiesPools(SPEC, CephCluster(runner), FakeClock())


@pytest.mark.parametrize(
    ("copies", "pool"), [(1, "databases-1-copy"), (2, "databases-2-copies"), (3, "databases")]
)
def test_each_number_of_copies_has_a_pool(copies: int, pool: str) -> None:
    assert pools(FakeRunner({})).pool_of(copies) == pool


def test_more_copies_than_the_lab_keeps_are_refused() -> None:
    with pytest.raises(RefusedError) as caught:
        pools(FakeRunner({})).pool_of(4)
    assert caught.value.code == "too-many-copies"


@pytest.mark.parametrize("pool", ["databases", "somebodys"])
def test_no_other_pool_is_ever_removed(pool: str) -> None:
    runner = FakeRunner({})
    pools(runner).tidy(pool)
    assert runner.asked == []


def test_the_pool_of_databases_is_there_already() -> None:
    runner = FakeRunner({})
    assert pools(runner).ensure(3) == "databases"
    assert runner.asked == []


def test_each_chunk_needs_a_host_with_osds() -> None:
    wide = SPEC.model_copy(update={"host_count": 5, "osd_host_count": 3})
    made = CopiesPools(wide, CephCluster(FakeRunner({})), FakeClock())
    made.require_chunks_fit("k2m1")
    with pytest.raises(RefusedError, match="OSDs on 3 hosts, and k2m2 needs 4 hosts") as caught:
        made.require_chunks_fit("k2m2")
    assert caught.value.code == "too-few-hosts"
