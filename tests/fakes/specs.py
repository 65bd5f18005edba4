"""What a database or a site is, where a test cares for one or two of its facts."""

from __future__ import annotations

from typing import Any

from grampus.core.units import GIB
from grampus.databases.model import DatabaseSpec
from grampus.sites.model import SiteSpec

_DATABASE: dict[str, Any] = {
    "name": "shop",
    "flavour": "mysql",
    "size_bytes": 10 * GIB,
    "memory_bytes": GIB,
    "cpus": 1.0,
    "pool": "databases",
    "host": "h1",
    "address": "10.9.0.10",
    "server_id": 7,
}
_SITE: dict[str, Any] = {
    "name": "prod",
    "tag": "1a2b3",
    "fsid": "f",
    "user": "grampus",
    "pool": "databases",
    "image_name": "sid",
    "image_id": "sid-1",
    "image_digest": "1" * 64,
}


def database_spec(**facts: Any) -> DatabaseSpec:
    """A database of 10 GiB on h1, but for `facts`."""
    return DatabaseSpec(**{**_DATABASE, **facts})


def site_spec(**facts: Any) -> SiteSpec:
    """A site as it was adopted, but for `facts`."""
    return SiteSpec(**{**_SITE, **facts})
