"""What a clone of a database is made from, and when it is refused: pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from grampus.ceph.namespaces import split_image
from grampus.core.errors import RefusedError
from grampus.core.names import MAX_NAME_LENGTH
from grampus.core.units import format_bytes
from grampus.databases.clones.decide_golden import GOLDEN_PREFIX
from grampus.databases.database_work import IMAGE_PREFIX
from grampus.databases.model import DatabaseSpec
from grampus.databases.request import CreateRequest
from grampus.volumes.decide_external_log import decide_external_log
from grampus.volumes.model import CloneSource, WritePath

# A read of what was never written goes through every image below it, one after the other.
MAX_DEPTH = 5
_OWN_SNAPSHOT = "for-"  # taken for one clone: nobody sees it later


@dataclass(frozen=True)
class CloneRequest:
    """A clone as the user asks for it; what is None is as in the source."""

    source: str
    name: str
    snapshot: str | None = None  # None: as it is now
    size_bytes: int | None = None
    memory_bytes: int | None = None
    cpus: float | None = None
    host: str | None = None  # None: the least busy one
    write_path: WritePath | None = None
    max_lag_ms: int | None = None
    journal_memory_bytes: int | None = None
    journal_pool: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    external_log: bool = False  # files are copied to a volume that has one, unlike the source's


def decide_clone_request(
    request: CloneRequest, source: DatabaseSpec, *, snapshot_bytes: int | None
) -> CreateRequest:
    """The clone as a database to be created; `snapshot_bytes` is the size of a named snapshot.

    Raises RefusedError with code `shrink`.
    """
    least_bytes = source.size_bytes if snapshot_bytes is None else snapshot_bytes
    size_bytes = request.size_bytes or max(source.size_bytes, least_bytes)
    if size_bytes < least_bytes:
        raise RefusedError(
            f"A clone of {source.name} has at least {format_bytes(least_bytes)}, not "
            f"{format_bytes(size_bytes)}.",
            "Remove --size, or choose a larger size.",
            code="shrink",
        )
    write_path = request.write_path or source.write_path
    kept_ms = source.max_lag_ms if write_path == source.write_path == "cache" else None
    keeps = write_path != "direct"
    return CreateRequest(
        name=request.name,
        size_bytes=size_bytes,
        memory_bytes=request.memory_bytes or source.memory_bytes,
        cpus=request.cpus or source.cpus,
        flavour=source.flavour,
        host=request.host,
        write_path=write_path,
        max_lag_ms=request.max_lag_ms or kept_ms,
        journal_memory_bytes=request.journal_memory_bytes
        or (source.journal_memory_bytes if keeps else None),
        journal_pool=request.journal_pool or (source.journal_pool if keeps else None),
    )


def decide_new_layout(spec: DatabaseSpec, source: DatabaseSpec) -> DatabaseSpec:
    """The copy of `source`, as it is planned, with an external log. Pure.

    Raises RefusedError with code `external-log` when it cannot have one, or `source` has one.
    """
    if source.external_log_bytes is not None:
        raise RefusedError(
            f"The volume of {source.name} has an external log already.",
            "Remove --external-log: the clone has one, too.",
            code="external-log",
        )
    log_bytes = decide_external_log(spec.write_path, spec.size_bytes)
    if log_bytes is None:
        raise RefusedError(
            f"An external log gains nothing with the write path {spec.write_path}.",
            "Choose the write path journal or cache, or remove --external-log.",
            code="external-log",
        )
    return spec.model_copy(update={"external_log_bytes": log_bytes})


def require_depth(source: str, depth: int) -> None:
    """Raise RefusedError with code `too-deep` when no clone may stand on `source` any more.

    `depth` is how many images are below the source's own.
    """
    if depth >= MAX_DEPTH:
        raise RefusedError(
            f"The volume of {source} already has a chain of {depth} parents, and reads of "
            "unchanged data go through all of them.",
            f"Make the volume independent first: `grampus db flatten {source}`.",
            code="too-deep",
        )


def decide_snapshot_name(clone: str, taken: Collection[str]) -> str:
    """A name for the snapshot that is taken for `clone` alone, and that nobody has taken."""
    for number in range(1, len(taken) + 2):
        tail = "" if number == 1 else f"-{number}"
        name = f"{_OWN_SNAPSHOT}{clone}"[: MAX_NAME_LENGTH - len(tail)].rstrip("-") + tail
        if name not in taken:
            return name
    raise AssertionError("more names are tried than there are snapshots")


def describe_origin(source: CloneSource, depth: int) -> str:
    """Where a volume comes from, for people; `depth` 0: it stands alone by now."""
    name = split_image(source.image)[1]
    if name.startswith(GOLDEN_PREFIX):
        origin = f"the golden volume {name}"
    else:
        origin = name.removeprefix(IMAGE_PREFIX)
        if not source.snapshot.startswith(_OWN_SNAPSHOT):
            origin += f"@{source.snapshot}"
    return f"{origin}, {f'depth {depth}' if depth else 'flattened since'}"
