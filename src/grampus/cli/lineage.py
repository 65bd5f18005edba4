"""Where the volume of a database comes from, as `db show` says it."""

from __future__ import annotations

from typing import Any

from grampus.databases.clones.decide_clone import describe_origin
from grampus.databases.view import DatabaseView
from grampus.volumes.model import Lineage


def lineage_document(view: DatabaseView, lineage: Lineage | None) -> dict[str, Any]:
    """JSON: `cloned_from` (null: no clone), `clone_depth` (0: it stands alone; null: unknown)."""
    source = view.volume.source if view.volume else None
    if source is None:
        return {"cloned_from": None, "clone_depth": 0}
    return {
        "cloned_from": {"image": source.image, "snapshot": source.snapshot},
        "clone_depth": lineage.depth if lineage else None,
    }


def details_of_lineage(view: DatabaseView, lineage: Lineage | None) -> dict[str, str]:
    """For people."""
    source = view.volume.source if view.volume else None
    if source is None or lineage is None:
        return {}
    return {"cloned from": describe_origin(source, lineage.depth)}
