"""Read-only endpoints of databases, as documents and for people; they hold no secret."""

from __future__ import annotations

from typing import Any

from grampus.databases.endpoints.read_endpoints import EndpointChange
from grampus.databases.model import ReadEndpoint


def read_endpoint_document(
    primary: str, port: int, endpoint: ReadEndpoint, problem: str | None = None
) -> dict[str, Any]:
    """Where the replicas of a database are read, and which ones they are; `port` is its own."""
    return {
        "name": primary,
        "address": endpoint.address,
        "port": endpoint.port_beside(port),
        "address_kind": "host" if endpoint.shares_address else "floating",
        "host": endpoint.host,
        "members": list(endpoint.members),
        "problem": problem,
    }


def place_of_endpoint(port: int, endpoint: ReadEndpoint) -> str:
    """Where it is reached, such as `10.213.1.108:3306`; `port` is the primary's."""
    return f"{endpoint.address}:{endpoint.port_beside(port)}"


def describe_endpoint(port: int, endpoint: ReadEndpoint) -> str:
    """`10.213.1.108:3306 (shop-r1, shop-r2)`."""
    led_to = ", ".join(endpoint.members) or "no readable replica"
    return f"{place_of_endpoint(port, endpoint)} ({led_to})"


def describe_change(port: int, change: EndpointChange) -> str:
    """As `describe_endpoint`, or why it is not served."""
    where = describe_endpoint(port, change.endpoint)
    return where if change.problem is None else f"{where}, not available: {change.problem}"
