"""Interrupted operations on a database whose host was lost: carried out where it is now. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

# Given up by a failover: it does all that they would do, or makes it pointless.
GIVEN_UP = ("db.start", "db.move", "db.failover")


def rehome(
    document: Mapping[str, Any],
    name: str,
    former_hosts: Collection[str],
    host: str,
    address: str,
) -> dict[str, Any]:
    """A journaled document, in which the database `name` is on `host` and on no former host.

    `address` is that of the host, which it has if it has no floating one.

    A specification of the database is known by its fields: name, host and address.
    """

    def moved(value: Any) -> Any:
        if isinstance(value, Mapping):
            found = {key: moved(inner) for key, inner in value.items()}
            is_spec = found.get("name") == name and "address" in found
            if not is_spec or found.get("host") not in former_hosts:
                return found
            follows = found.get("address_kind") == "host"
            return found | {"host": host} | ({"address": address} if follows else {})
        return [moved(inner) for inner in value] if isinstance(value, list) else value

    return dict(moved(document))
