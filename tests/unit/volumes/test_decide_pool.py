"""Pools that can take a volume, and what is said of others."""

from __future__ import annotations

import pytest

from grampus.core.errors import NotFoundError
from grampus.volumes.decide_pool import require_pool

POOLS = ["databases", "fast"]


@pytest.mark.parametrize(
    ("pool", "of_site", "problem", "remedy"),
    [
        ("fsat", False, "does not exist", "Did you mean 'fast'? Available pools: databases, fast."),
        ("images", False, "does not exist", "`ceph osd pool create`"),
        ("images", True, "is not one of the site", "`grampus site adopt NAME` with one more"),
    ],
)
def test_another_pool(pool: str, of_site: bool, problem: str, remedy: str) -> None:
    with pytest.raises(NotFoundError) as refused:
        require_pool(pool, POOLS, of_site=of_site)
    assert problem in refused.value.problem
    assert remedy in refused.value.remedy


def test_a_pool_of_the_cluster() -> None:
    require_pool("fast", POOLS)
    require_pool("fast", POOLS, of_site=True)
