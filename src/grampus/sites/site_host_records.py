"""The records of one site's hosts, and of the image that they have."""

from __future__ import annotations

from grampus.core.errors import not_found
from grampus.hosts.remote.host_parts import HostParts
from grampus.sites.model import SITE_HOST_RECORD, SITE_RECORD, SiteHostSpec, SiteSpec
from grampus.state.store import Store


def parts_of(host: SiteHostSpec, site: SiteSpec) -> HostParts:
    """What is recorded of a host's parts."""
    if not host.image_id:
        return HostParts(host.parts_format, host.version, site.image_id, site.image_digest)
    return HostParts(host.parts_format, host.version, host.image_id, host.image_digest)


def with_parts(host: SiteHostSpec, parts: HostParts) -> SiteHostSpec:
    """The record of the host once it has these parts."""
    changed = {
        "image_id": parts.image_id,
        "image_digest": parts.digest,
        "parts_format": parts.format,
        "version": parts.version,
    }
    return host.model_copy(update=changed)


class SiteHostRecords:
    """What is remembered of the hosts of one site."""

    def __init__(self, store: Store, site: str) -> None:
        self._store = store
        self._site = site

    def site(self) -> SiteSpec:
        """The site itself. Raises NotFoundError."""
        found = self._store.get(SITE_RECORD, self._site, self._site, SiteSpec)
        if found is None:
            raise not_found("site", self._site, (), list_command="grampus site list")
        return found

    def all(self) -> list[SiteHostSpec]:
        """The hosts, by name, also those that are not ready."""
        return list(self._store.all(SITE_HOST_RECORD, self._site, SiteHostSpec).values())

    def get(self, name: str) -> SiteHostSpec:
        """One of them. Raises NotFoundError."""
        found = {host.name: host for host in self.all()}
        if name not in found:
            raise not_found("host", name, found, list_command="grampus host list")
        return found[name]

    def put(self, host: SiteHostSpec) -> None:
        """Record a host, or what has changed of it."""
        self._store.put(SITE_HOST_RECORD, self._site, host.name, host)

    def remove(self, name: str) -> None:
        """Forget a host."""
        self._store.remove(SITE_HOST_RECORD, self._site, name)

    def use_image(self, parts: HostParts) -> None:
        """New hosts get this image from now on; each host keeps what it has."""
        site = self.site()
        if site.image_id == parts.image_id and site.image_digest == parts.digest:
            return
        for host in self.all():
            if not host.image_id:
                self.put(with_parts(host, parts_of(host, site)))
        changed = {"image_id": parts.image_id, "image_digest": parts.digest}
        self._store.put(SITE_RECORD, site.name, site.name, site.model_copy(update=changed))
