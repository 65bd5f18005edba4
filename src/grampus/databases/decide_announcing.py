"""What the address hook of a site was told, and what it must be told now. All pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from grampus.databases.model import Announced, AnnouncedRole, Announcement, ReadEndpoint
from grampus.databases.records import RunningPlace


def announcements_of(
    servers: Mapping[str, RunningPlace],
    primaries: Mapping[str, str | None],
    endpoints: Mapping[str, ReadEndpoint],
) -> list[Announcement]:
    """What there is to tell of databases that run; `primaries` are those that replicas follow."""
    found = []
    for name, place in sorted(servers.items()):
        address, _, port = place.place.rpartition(":")
        role: AnnouncedRole = "replica" if primaries.get(name) else "primary"
        found.append(
            Announcement(database=name, role=role, host=place.host, address=address, port=int(port))
        )
        endpoint = endpoints.get(name)
        if endpoint is not None and endpoint.host is not None:
            found.append(
                Announcement(
                    database=name,
                    role="read-only",
                    host=endpoint.host,
                    address=endpoint.address,
                    port=endpoint.port_beside(int(port)),
                )
            )
    return found


def decide_owed(
    present: list[Announcement],
    told: Mapping[str, Announced],
    now: datetime,
    *,
    rests_s: float = 0.0,
) -> list[Announcement]:
    """What the hook was not told yet; what failed less than `rests_s` seconds ago waits."""
    owed = []
    for one in present:
        known = told.get(one.database, Announced())
        is_resting = known.failed_at is not None and now - known.failed_at < timedelta(
            seconds=rests_s
        )
        if known.last(one.role) != one and not is_resting:
            owed.append(one)
    return owed


def announcement_document(
    site: str, one: Announcement, former: Announcement | None
) -> dict[str, str | int | None]:
    """What the hook reads on its standard input."""
    return {
        "site": site,
        "database": one.database,
        "role": one.role,
        "host": one.host,
        "address": one.address,
        "port": one.port,
        "former_address": None if former is None else former.address,
        "former_port": None if former is None else former.port,
    }
