"""INV-75: an interrupted operation never acts on the host that its database was taken from."""

from __future__ import annotations

from typing import Any

import pytest

from grampus.databases.failover.decide_rehoming import rehome


def _spec(name: str, host: str) -> dict[str, Any]:
    return {"name": name, "host": host, "address": "10.0.0.5"}


def _at_host(host: str, address: str) -> dict[str, Any]:
    return {"name": "shop", "host": host, "address": address, "address_kind": "host"}


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (_spec("shop", "h1"), _spec("shop", "h2")),
        (_spec("shop", "h3"), _spec("shop", "h3")),
        (_spec("other", "h1"), _spec("other", "h1")),
        ({"spec": _spec("shop", "h1")}, {"spec": _spec("shop", "h2")}),
        (
            {"members": [_spec("shop", "h1"), _spec("other", "h1")], "port": 3306},
            {"members": [_spec("shop", "h2"), _spec("other", "h1")], "port": 3306},
        ),
        (_at_host("h1", "10.0.0.1"), _at_host("h2", "10.0.0.2")),
        (_at_host("h3", "10.0.0.3"), _at_host("h3", "10.0.0.3")),
        # A volume of that name has no address, and a backup's host is no database's.
        ({"name": "shop", "host": "h1"}, {"name": "shop", "host": "h1"}),
        ({"database": "shop", "host": "h1"}, {"database": "shop", "host": "h1"}),
    ],
)
def test_the_database_is_where_it_is_now(
    document: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert rehome(document, "shop", {"h1"}, "h2", "10.0.0.2") == expected
