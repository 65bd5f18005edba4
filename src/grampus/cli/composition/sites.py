"""The composition root, of sites."""

from __future__ import annotations

from grampus.cli.composition.lab import IMAGE_DEFINITIONS, LabSession
from grampus.databases.records import DATABASE_KIND, TRASHED_KIND
from grampus.lab.images.cache import HostImages
from grampus.lab.model import LAB_RECORD, LabSpec
from grampus.sites.sites import SiteService
from grampus.volumes.records import VOLUME_RECORD

# What keeps a site from being forgotten, by the kind of its record.
_IN_USE = {"database": DATABASE_KIND, "deleted database": TRASHED_KIND, "volume": VOLUME_RECORD}


def site_service(session: LabSession) -> SiteService:
    """The sites of the session's home."""

    def is_lab(name: str) -> bool:
        return session.home_store.get(LAB_RECORD, name, name, LabSpec) is not None

    return SiteService(
        session.home,
        session.home_store,
        HostImages(session.home, IMAGE_DEFINITIONS, session.clock),
        session.clock,
        session.progress,
        in_use=_IN_USE,
        is_lab=is_lab,
    )
