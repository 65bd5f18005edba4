"""The dimensions of the matrix: what a cell can be asked to be, each with type and default."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import Field, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from grampus.bench.declared import explained, word_list
from grampus.bench.matrix.workloads import WORKLOADS, Target, WorkloadName
from grampus.core.errors import closest_name
from grampus.hosts.media import MediaName, WalDbMediaName
from grampus.state.runs import Frozen

# What must be made anew when a value changes: the cluster, the attached volume, the server, or
# nothing but the load itself.
Scope = Literal["cluster", "volume", "database", "load"]
Value = str | int | float
_SCOPES: Mapping[Target, frozenset[Scope]] = {
    "pool": frozenset({"cluster", "load"}),
    "image": frozenset({"cluster", "load"}),
    "volume": frozenset({"cluster", "load", "volume"}),
    "database": frozenset({"cluster", "load", "volume", "database"}),
}


@dataclass(frozen=True)
class Dimension:
    """What a field of `Point` means. `takes` completes "It takes ..." for those without a list."""

    scope: Scope
    meaning: str
    takes: str = ""


def _whole(low: int, high: int) -> Any:
    return Field(strict=True, ge=low, le=high)


class Point(Frozen):
    """One point of the matrix. Each field is a dimension; the defaults are for those not named.

    A default is part of what a cell's id stands for: who changes one raises `cells.SCHEMA`.
    """

    workload: Annotated[
        WorkloadName, Dimension("load", "the load; rados-*, rbd-* and fio-* need no database")
    ] = "point-select"
    threads: Annotated[
        int,
        _whole(1, 1024),
        Dimension(
            "load",
            "threads of a client, or operations that it has under way (rados, rbd, fio)",
            "a whole number from 1 to 1024",
        ),
    ] = 8
    rate: Annotated[
        Literal["none"] | Annotated[float, Field(strict=True, gt=0, le=1e7, allow_inf_nan=False)],
        Dimension(
            "load",
            "requested transactions a second (open loop); none: as fast as answers come (closed)",
            "none or a number of transactions a second",
        ),
    ] = "none"
    databases: Annotated[
        int,
        _whole(1, 1000),
        Dimension(
            "database",
            "databases under load at once, each on its own volume",
            "a whole number from 1 to 1000",
        ),
    ] = 1
    volumes: Annotated[
        int,
        _whole(1, 1000),
        Dimension(
            "volume",
            "volumes under load at once, for loads without a database",
            "a whole number from 1 to 1000",
        ),
    ] = 1
    clients: Annotated[
        int,
        _whole(1, 64),
        Dimension("load", "load generators that start together", "a whole number from 1 to 64"),
    ] = 1
    buffer_ratio: Annotated[
        float,
        Field(strict=True, ge=0.1, le=100, allow_inf_nan=False),
        Dimension(
            "database",
            "size of the data set over that of the InnoDB buffer pool (4: a buffer of 25%)",
            "a number from 0.1 to 100, such as 15 for a buffer of a fifteenth of the data",
        ),
    ] = 2.5
    copies: Annotated[
        int,
        _whole(1, 5),
        Dimension("cluster", "copies of the pool", "a whole number from 1 to 5"),
    ] = 3
    erasure_code: Annotated[
        str,
        Field(pattern=r"^(none|k([2-9]|1[0-6])m[1-4])$"),
        Dimension(
            "cluster",
            "erasure code of the data pool; the pool of the images' metadata has `copies`",
            "none, or data and coding chunks such as k2m1 or k4m2",
        ),
    ] = "none"
    objectstore: Annotated[
        Literal["bluestore", "filestore", "own"],
        Dimension("cluster", "where OSDs store objects; own: as those that the place has"),
    ] = "bluestore"
    media: Annotated[
        Literal[MediaName, "own"],
        Dimension("cluster", "the OSDs' data devices; own: those that the place has"),
    ] = "nvme"
    wal_db_device: Annotated[
        Literal["none", WalDbMediaName, "own"],
        Dimension(
            "cluster",
            "device of WAL and DB (or FileStore's journal); none: with the data; own: as the place "
            "has it",
        ),
    ] = "none"
    osds_per_device: Annotated[
        int, _whole(1, 16), Dimension("cluster", "OSDs on a device", "a whole number from 1 to 16")
    ] = 1
    osd_devices_per_host: Annotated[
        int,
        _whole(1, 60),
        Dimension("cluster", "data devices of an OSD host", "a whole number from 1 to 60"),
    ] = 1
    osd_cores_per_host: Annotated[
        Literal["all"] | Annotated[int, Field(strict=True, ge=1, le=512)],
        Dimension(
            "cluster",
            "cores that the OSDs of a host may use",
            "all, or a whole number from 1 to 512",
        ),
    ] = "all"
    osd_thread_cache_mib: Annotated[
        int,
        _whole(1, 4096),
        Dimension(
            "cluster",
            "TCMalloc's cache of all threads of an OSD, in MiB",
            "a whole number from 1 to 4096",
        ),
    ] = 128
    osd_memory_target_mib: Annotated[
        int,
        _whole(896, 65536),
        Dimension(
            "cluster",
            "osd_memory_target of an OSD in MiB, which BlueStore sizes its caches by",
            "a whole number from 896 to 65536",
        ),
    ] = 1024
    osd_hosts: Annotated[
        Literal["all"] | Annotated[int, Field(strict=True, ge=1, le=1000)],
        Dimension(
            "cluster",
            "hosts with OSDs that the cell uses: all, or the first so many",
            "all, or a whole number from 1 to 1000",
        ),
    ] = "all"
    fill_percent: Annotated[
        int,
        _whole(0, 95),
        Dimension(
            "cluster",
            "share of the cluster's usable space that is written before the load begins",
            "a whole number from 0 to 95",
        ),
    ] = 0
    layout: Annotated[
        Literal["decoupled", "hyperconverged"],
        Dimension("cluster", "databases on separate hosts, or on those of the OSDs"),
    ] = "decoupled"
    runtime: Annotated[
        Literal["bare", "container", "vm"], Dimension("volume", "what the server runs in")
    ] = "container"
    driver: Annotated[
        Literal["auto", "krbd", "volumed", "nbd", "qsd", "librbd"],
        Dimension(
            "volume",
            "how the image becomes a device; auto: the best of the host; librbd: QEMU's own",
        ),
    ] = "auto"
    write_path: Annotated[
        Literal["direct", "journal", "cache"], Dimension("volume", "write path of the volume")
    ] = "direct"
    journal_pool: Annotated[
        Literal["with-data", "own"],
        Dimension(
            "volume",
            "pool of a volume's journal; with-data: that of its image; own: the pool for databases "
            "that the place has",
        ),
    ] = "with-data"
    profile: Annotated[
        Literal["defaults", "grampus", "redhat-2016", "intel-optane"],
        Dimension("cluster", "tuning of kernel, Ceph and server"),
    ] = "grampus"
    trx_commit: Annotated[
        int,
        _whole(0, 2),
        Dimension(
            "database",
            "innodb_flush_log_at_trx_commit; the binary log is flushed at each commit with 1 alone",
            "0, 1 or 2",
        ),
    ] = 1
    doublewrite: Annotated[
        Literal["default", "disabled", "detect-only", "single", "parallel"],
        Dimension(
            "database",
            "InnoDB's doublewrite: the server's default, without, detecting torn pages alone, "
            "one file for all threads, or a file for each",
        ),
    ] = "default"
    caches: Annotated[
        Literal["keep", "osd", "all"],
        Dimension(
            "load",
            "what is dropped before each trial: nothing, the caches of OSDs and of their hosts' "
            "kernels, or the servers' buffer pools too",
        ),
    ] = "keep"
    monitors: Annotated[
        Literal["all", "none"],
        Dimension("load", "whether every layer is watched; none shows what watching costs"),
    ] = "all"
    controller: Annotated[
        Literal["none", "serving"],
        Dimension(
            "load",
            "whether the benchmark runs a controller (`grampus serve --metrics`) beside the load; "
            "serving shows what that costs",
        ),
    ] = "none"


# Their order is that of `Point`.
DIMENSIONS: Mapping[str, Dimension] = {
    name: next(one for one in field.metadata if isinstance(one, Dimension))
    for name, field in Point.model_fields.items()
}
_DEFAULTS: Mapping[str, Value] = {name: field.default for name, field in Point.model_fields.items()}


def _adapter(field: FieldInfo) -> TypeAdapter[Any]:
    # Put together at run time, which mypy cannot follow.
    form: Any = Annotated[field.annotation, *field.metadata]
    return TypeAdapter(form)


_ADAPTERS = {name: _adapter(field) for name, field in Point.model_fields.items()}


def parse_dimension(name: object) -> str:
    """`name`, if it is a dimension's; raises an explained error with a suggestion otherwise."""
    if isinstance(name, str) and name in DIMENSIONS:
        return name
    suggestion = closest_name(str(name), DIMENSIONS)
    hint = f"Did you mean '{suggestion}'? " if suggestion else ""
    raise explained(
        f"there is no dimension '{name}'.", f"{hint}The dimensions are {', '.join(DIMENSIONS)}."
    )


def parse_value(dimension: str, value: object) -> Value:
    """`value` as `dimension` holds it; raises an explained error that says what it takes."""
    try:
        parsed: Value = _ADAPTERS[dimension].validate_python(value)
    except ValidationError:
        words = choices(dimension)
        suggestion = closest_name(value, words) if isinstance(value, str) else None
        hint = f"Did you mean '{suggestion}'? " if suggestion else ""
        raise explained(
            f"{value!r} is not a value of the dimension {dimension}.",
            f"{hint}It takes {DIMENSIONS[dimension].takes or word_list(words)}.",
        ) from None
    return parsed


def choices(dimension: str) -> list[str]:
    """The words that `dimension` takes; for one that takes numbers, those it takes beside them."""
    return _words(Point.model_fields[dimension].annotation)


def default_of(dimension: str) -> Value:
    """The value of `dimension` where a suite does not name it."""
    return _DEFAULTS[dimension]


def value_of(point: Point, dimension: str) -> Value:
    """The value of `point` in `dimension`."""
    value: Value = getattr(point, dimension)
    return value


def value_schema(dimension: str) -> dict[str, Any]:
    """JSON schema of one value of `dimension`."""
    return _ADAPTERS[dimension].json_schema()


def concerns(workload: WorkloadName, dimension: str) -> bool:
    """Whether `dimension` can make a difference to `workload`.

    A pool under `rados bench` knows nothing of buffer pools; a database's volumes are counted as
    databases.
    """
    target = WORKLOADS[workload].target
    if dimension == "volumes":
        return target in ("image", "volume")
    return DIMENSIONS[dimension].scope in _SCOPES[target]


def parse_code(erasure_code: str) -> tuple[int, int] | None:
    """Data and coding chunks of a code such as `k2m1`; None for `none`."""
    if erasure_code == default_of("erasure_code"):
        return None
    data, coding = erasure_code.removeprefix("k").split("m")
    return int(data), int(coding)


def count_hosts_needed(point: Point) -> int:
    """Hosts that the point's pool needs: each copy, or chunk of an erasure code, has its own."""
    code = parse_code(point.erasure_code)
    return point.copies if code is None else sum(code)


def canonical_point(point: Point) -> Point:
    """`point` with the default in each dimension that its workload does not feel."""
    felt = {name: value_of(point, name) for name in DIMENSIONS if concerns(point.workload, name)}
    return Point.model_validate(felt)


def _words(annotation: object) -> list[str]:
    if get_origin(annotation) is Literal:
        return [str(word) for word in get_args(annotation)]
    if get_origin(annotation) in (Union, type(int | str)):
        return [word for part in get_args(annotation) for word in _words(part)]
    return []
