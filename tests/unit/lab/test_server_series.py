"""Whether an image has the database servers of another one."""

from __future__ import annotations

import pytest

from grampus.lab.images.server_series import has_other_servers, server_series

SID = {"ceph-osd": "20.2.4-1", "mysql-server-core": "9.7.4-1"}


@pytest.mark.parametrize(
    ("former", "new", "expected"),
    [
        (SID, SID, False),
        (SID, {"mysql-server-core": "9.7.5-2"}, False),
        (SID, {"mysql-server-core": "10.0.0-1"}, True),
        (SID, {"mariadb-server-core": "1:11.8.6-0+deb13u1"}, True),
        ({"mariadb-server-core": "1:11.8.6-1"}, {"mariadb-server-core": "1:11.8.9-1"}, False),
        ({"mariadb-server-core": "1:10.11.8-1"}, {"mariadb-server-core": "1:11.8.9-1"}, True),
        ({"ceph-osd": "20.2.4-1"}, SID, False),
        (None, SID, True),
    ],
)
def test_servers_of_images_are_compared_by_series(
    former: dict[str, str] | None, new: dict[str, str], expected: bool
) -> None:
    assert has_other_servers(former, new) is expected


def test_the_series_of_a_server() -> None:
    assert server_series({**SID, "mariadb-server-core": "1:11.8.6-1"}) == {
        "mysql-server-core": "9.7",
        "mariadb-server-core": "11.8",
    }
