"""What a run records beside the machine: versions, configuration, limits. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from configparser import ConfigParser
from configparser import Error as ConfigParserError
from typing import Any

from grampus.bench.environments.osd_needs import OWN
from grampus.bench.matrix.dimensions import Point
from grampus.core.units import format_bytes
from grampus.hosts.media import DeviceMediaName, block_limit, disk_model
from grampus.state.runs import Setting

# What they are called, and what each can have on a device of its own.
_OBJECT_STORES = {"bluestore": ("BlueStore", "WAL and DB"), "filestore": ("FileStore", "journal")}
# What cells say themselves: `describe_copies`, and `describe_osds` of those with OSDs of their own.
_OF_CELLS = ("pool", "copies")
_OF_OSDS = "media"
# Options of mgr modules can hold passwords and keys: nothing of them is worth that.
_SECRET_WORDS = ("key", "secret", "password", "passwd", "token", "cert")
# Of names of options in ceph.conf that say where something is, or which cluster it is.
_PLACE_WORDS = ("fsid", "host", "initial members", "network", "dir")


def describe_components(versions: Mapping[str, Sequence[str]]) -> list[Setting]:
    """The versions of all programs that a load may meet, as far as there are any."""
    return [
        Setting(group="versions", name=name, value=", ".join(found))
        for name, found in versions.items()
        if found
    ]


def describe_program(commit: str | None, *, is_cgroup_v2: bool) -> list[Setting]:
    """Grampus's own commit (None: not from a checkout), and by which control groups it limits."""
    return [
        Setting(group="versions", name="grampus commit", value=commit or "not from a checkout"),
        Setting(
            group="machine", name="control groups", value=f"version {2 if is_cgroup_v2 else 1}"
        ),
    ]


def describe_configuration(dump: Sequence[Mapping[str, Any]]) -> list[Setting]:
    """What `ceph config dump` says was set, without anything that may be a secret."""
    settings = []
    for option in dump:
        name, value = str(option.get("name", "")), option.get("value")
        if value is None or any(word in name.lower() for word in _SECRET_WORDS):
            continue
        mask = f" of {option['mask']}" if option.get("mask") else ""
        where = f"{option.get('section', 'global')}{mask}"
        settings.append(
            Setting(group="Ceph configuration", name=f"{where}: {name}", value=str(value))
        )
    return settings


def describe_conf(text: str) -> list[Setting]:
    """What ceph.conf sets that is not Ceph's default; left out is what only says where things are.

    Raises nothing: of a text that is none, nothing is known.
    """
    conf = ConfigParser(interpolation=None, strict=False)
    try:
        conf.read_string(text)
    except ConfigParserError:
        return []
    return [
        Setting(group="Ceph configuration", name=f"ceph.conf: {section}: {name}", value=value)
        for section in conf.sections()
        for name, value in conf.items(section)
        if not any(word in name for word in (*_SECRET_WORDS, *_PLACE_WORDS))
    ]


def describe_osds(points: Iterable[Point]) -> Setting:
    """The OSDs that cells stand on, which need not be those that the place was made with."""
    kinds = dict.fromkeys(_describe_kind(point) for point in points)
    return Setting(group="Ceph", name="OSDs of the cells", value="; ".join(kinds) or "none")


def describe_copies(points: Iterable[Point]) -> Setting:
    """How the pools of the cells keep data: none is the pool that a place has for databases."""
    kinds = dict.fromkeys(_describe_copies(point) for point in points)
    return Setting(group="Ceph", name="copies of the cells", value="; ".join(kinds) or "none")


def _describe_copies(point: Point) -> str:
    if point.erasure_code == "none":
        return f"{point.copies}, min_size {max(1, point.copies - 1)}"
    return f"erasure code {point.erasure_code}; of metadata {point.copies}"


def without_defaults(place: Iterable[Setting], points: Iterable[Point]) -> list[Setting]:
    """The facts of a place but those that the cells at `points` set for themselves: a page of cells
    with two copies on hard disks would name three copies on flash."""
    uses_place = any(point.media == OWN for point in points)
    left_out = _OF_CELLS if uses_place else (*_OF_CELLS, _OF_OSDS)
    return [one for one in place if one.name not in left_out]


def _describe_kind(point: Point) -> str:
    if OWN in (point.objectstore, point.media, point.wal_db_device):
        return "those that the place has"
    store, beside = _OBJECT_STORES[point.objectstore]
    if point.wal_db_device == "none":
        return f"{store} on {point.media}"
    return f"{store} on {point.media}, {beside} on {point.wal_db_device}"


def decide_media(points: Iterable[Point]) -> list[DeviceMediaName]:
    """The media of all devices that these OSDs have, each once."""
    found: dict[DeviceMediaName, None] = {}
    for point in points:
        # Of its own ones the place tells by itself.
        if point.media != "own":
            found[point.media] = None
        if point.wal_db_device != "none" and point.wal_db_device != "own":
            found[point.wal_db_device] = None
    return list(found)


def describe_medium(media: DeviceMediaName) -> Setting:
    """What the devices of the OSDs are limited to, or how long they take."""
    name = f"an OSD's device ({media})"
    model = disk_model(media)
    if model is not None:
        elsewhere_ms = model.service_s(0, is_elsewhere=True) * 1000
        value = (
            f"one request at a time: {elsewhere_ms:.2f} ms, or {model.command_us / 1000:.2f} ms "
            f"behind the one before, and its bytes at {format_bytes(model.bytes_per_s)}/s; "
            "OSDs that a benchmark adds do not wait for this machine's disk at a flush"
        )
        return Setting(group="limits", name=name, value=value)
    limit = block_limit(media, "")
    known = [
        (limit.read_iops, "{:,} reads/s"),
        (limit.write_iops, "{:,} writes/s"),
    ]
    words = [form.format(value) for value, form in known if value is not None]
    rates = ((limit.read_bytes_per_s, "read"), (limit.write_bytes_per_s, "written"))
    words += [f"{format_bytes(value)}/s {what}" for value, what in rates if value is not None]
    return Setting(group="limits", name=name, value=", ".join(words) or "none")
