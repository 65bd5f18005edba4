"""Interrupted operations on a database whose host was lost: carried out where it is now. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

# Given up by a failover: it does all that they would do, or makes it pointless.
GIVEN_UP = ("db.start", "db.move", "db.failover")


def rehome(
    document: Mapping[str, Any], name: str, former_hosts: Collection[str], host: str
) -> dict[str, Any]:
    """A journaled document, in which the database `name` is on `host` and on no former host.

    A specification of the database is known by its fields: name, host and address.
    """

    def moved(value: Any) -> Any:
        if isinstance(value, Mapping):
            found = {key: moved(inner) for key, inner in value.items()}
            is_spec = found.get("name") == name and "address" in found
            return (
                found | {"host": host} if is_spec and found.get("host") in former_hosts else found
            )
        return [moved(inner) for inner in value] if isinstance(value, list) else value

    return dict(moved(document))
