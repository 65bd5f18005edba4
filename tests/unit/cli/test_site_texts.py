"""What `grampus site` says."""

from __future__ import annotations

import pytest

from grampus.cli.site import removal_of


@pytest.mark.parametrize(
    ("user", "said"),
    [
        ("grampus", "`ceph auth rm client.grampus`"),
        ("admin.shops", "`ceph auth rm client.admin.shops`"),
    ],
)
def test_the_user_of_a_forgotten_site_can_be_removed(user: str, said: str) -> None:
    assert said in removal_of(user)


def test_nobody_is_told_to_remove_the_administrator_of_the_cluster() -> None:
    assert removal_of("admin") == ""
