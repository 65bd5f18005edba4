"""A database at a glance, as `db show` says it: server, copies, snapshots, history."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from grampus.cli.db_replica import replica_document
from grampus.cli.endpoint_documents import describe_endpoint, read_endpoint_document
from grampus.cli.event_documents import describe_event, event_document
from grampus.cli.journal_details import (
    details_of_counts,
    details_of_journal,
    details_of_read_cache,
)
from grampus.core.clock import format_duration, format_moment
from grampus.core.intervals import format_interval
from grampus.core.units import format_bytes, format_cpus
from grampus.databases.growth.decide_growth import FileSystem, describe_room
from grampus.databases.growth.growth_rule import details_of_growth
from grampus.databases.live.decide_recovery_goal import describe_recovery_goal
from grampus.databases.model import DatabaseSpec
from grampus.databases.names.events import DatabaseEvent
from grampus.databases.overview import Overview
from grampus.databases.records import render_labels
from grampus.databases.replicas.decide_replicas import ReplicaStanding, format_lag
from grampus.databases.replicas.replica_looks import ReplicaView
from grampus.databases.server_end import explain_end
from grampus.databases.snapshots.decide_retention import SnapshotSchedule
from grampus.databases.view import DatabaseView, explain_address_kind, explain_server_user
from grampus.volumes.live import LiveVolume
from grampus.volumes.write_paths import describe_safety


def overview_document(view: DatabaseView, seen: Overview, now: datetime) -> dict[str, Any]:
    """The fields of `db show --format json` that an overview fills; it holds no secret."""
    spec, server = view.record.spec, seen.server
    own = endpoint_document(spec)
    read_only = _reading_document(spec, seen)
    return {
        "uptime_s": server.uptime_s if server else None,
        "connections": server.connections if server else None,
        "max_connections": server.max_connections if server else None,
        "server_problem": seen.server_problem,
        "pending_restart": list(seen.waiting),
        "endpoints": {
            "read_write": None if spec.replica_of else own,
            "read_only": own if spec.replica_of else read_only,
        },
        "replication": _replication_document(seen),
        "replica_states": [replica_document(replica) for replica in seen.replicas],
        "clones": list(seen.lineage.children) if seen.lineage else [],
        "snapshots": _snapshots_document(view, seen, now),
        "warnings": [event_document(event) for event in seen.warnings],
        "last_event": event_document(seen.last_event) if seen.last_event else None,
    }


def _reading_document(spec: DatabaseSpec, seen: Overview) -> dict[str, Any] | None:
    """Where to read: the read-only endpoint, or the healthy replica that is the least behind."""
    if seen.reader is None:
        return None
    endpoint = seen.read_endpoint
    if endpoint is not None and endpoint.members:
        return read_endpoint_document(spec.name, spec.port, endpoint)
    return endpoint_document(seen.reader.record.spec)


def endpoint_document(spec: DatabaseSpec) -> dict[str, Any]:
    """Where a database is reached."""
    return {
        "name": spec.name,
        "address": spec.address,
        "port": spec.port,
        "address_kind": spec.address_kind,
    }


def pairs_of_condition(view: DatabaseView, seen: Overview) -> dict[str, str]:
    """For people: what is warned of, how the server does, and what waits for its next start."""
    name, pairs = view.record.spec.name, {}
    if view.status == "host-down":
        pairs["host lost"] = f"`grampus db failover {name}` runs it on another host"
    if seen.warnings:
        pairs["warnings"] = "\n".join(map(_describe_warning, seen.warnings))
    if seen.server is not None:
        pairs["up"] = f"{format_duration(seen.server.uptime_s)}, {_connections(seen)}"
    if seen.server_problem is not None:
        pairs["up"] = f"not known: {seen.server_problem}"
    if seen.waiting:
        waiting = ", ".join(seen.waiting)
        pairs["pending"] = f"{waiting}: `grampus db restart {name}` applies it"
    return pairs


def pairs_of_reading(view: DatabaseView, seen: Overview) -> dict[str, str]:
    """For people: where to read from, of a database with replicas."""
    name = view.record.spec.name
    if seen.reader is None:
        return {"read-only": "none: no replica is healthy"} if seen.replicas else {}
    spec, endpoint = seen.reader.record.spec, seen.read_endpoint
    where = f"{spec.address}:{spec.port} ({spec.name})"
    if endpoint is not None and endpoint.members:
        where = describe_endpoint(view.record.spec.port, endpoint)
    return {"read-only": f"{where}, or `grampus db connect {name} --read-only`"}


def pairs_of_copies(view: DatabaseView, seen: Overview) -> dict[str, str]:
    """For people: what it follows, what follows it, and what was cloned from it."""
    pairs, spec = {}, view.record.spec
    if spec.replica_of is not None:
        source = seen.primary.spec if seen.primary else None
        where = f"{spec.replica_of} ({source.address}:{source.port})" if source else spec.replica_of
        standing = f", {describe_standing(seen.standing)}" if seen.standing else ""
        pairs["replica of"] = f"{where}{standing}"
    if seen.replicas:
        pairs["replicas"] = "\n".join(_describe_replica(replica) for replica in seen.replicas)
    followers = {replica.record.spec.name for replica in seen.replicas}
    children = seen.lineage.children if seen.lineage else ()
    clones = [child for child in children if child not in followers]
    if clones:
        pairs["clones"] = ", ".join(clones)
    return pairs


def pairs_of_snapshots(view: DatabaseView, seen: Overview, now: datetime) -> dict[str, str]:
    """For people: how many there are, the newest, their size, and when the next one is due."""
    schedule = view.record.snapshot_schedule
    if seen.cluster_problem is not None:
        return {"snapshots": f"not known: {seen.cluster_problem}"}
    if seen.snapshots is None or (view.record.spec.replica_of and not seen.snapshots.snapshots):
        return {}  # a replica has none of its own
    pairs = {"snapshots": "none"}
    if seen.snapshots.snapshots:
        newest = seen.snapshots.snapshots[-1]
        age = format_duration((now - newest.created_at).total_seconds())
        since_bytes = seen.snapshots.since_last_bytes or 0
        pairs["snapshots"] = (
            f"{len(seen.snapshots.snapshots)}, with {format_bytes(_used_bytes(seen))}; the "
            f"newest is {newest.name}, {age} old, {format_bytes(since_bytes)} written since"
        )
    if schedule is not None and seen.next_snapshot_at is not None:
        pairs["next snapshot"] = _describe_next(schedule, seen.next_snapshot_at, now)
    return pairs


def pairs_of_history(seen: Overview) -> dict[str, str]:
    """For people: what was done last."""
    return {"last event": describe_event(seen.last_event)} if seen.last_event else {}


def describe_standing(standing: ReplicaStanding) -> str:
    """How a replica is, in a line."""
    lag = "" if standing.lag_ms is None else f", {format_lag(standing.lag_ms)} behind"
    problem = f": {standing.problem}" if standing.problem else ""
    return f"{standing.state}{lag}{problem}"


def _describe_warning(event: DatabaseEvent) -> str:
    return f"{event.reason} (since {format_moment(event.at)}, from `{event.actor}`)"


def _describe_replica(replica: ReplicaView) -> str:
    spec = replica.record.spec
    where = f"{spec.name} at {spec.address}:{spec.port} on {spec.host}"
    return f"{where}, {describe_standing(replica.standing)}"


def _connections(seen: Overview) -> str:
    server = seen.server
    return f"{server.connections} of {server.max_connections} connections" if server else ""


def _describe_next(schedule: SnapshotSchedule, at: datetime, now: datetime) -> str:
    every = f"every {format_interval(schedule.every_s)}"
    if at <= now:
        return f"due ({every}): `grampus serve` or `grampus db snapshot due` takes it"
    return f"{format_moment(at)} ({every})"


def _used_bytes(seen: Overview) -> int:
    found = seen.snapshots.snapshots if seen.snapshots else ()
    return sum(info.used_bytes or 0 for info in found)


def _snapshots_document(view: DatabaseView, seen: Overview, now: datetime) -> dict[str, Any]:
    schedule, found = view.record.snapshot_schedule, seen.snapshots
    newest = found.snapshots[-1] if found and found.snapshots else None
    return {
        "count": len(found.snapshots) if found else None,
        "newest": {
            "name": newest.name,
            "created_at": newest.created_at.isoformat(),
            "age_s": round((now - newest.created_at).total_seconds(), 1),
        }
        if newest
        else None,
        "used_bytes": _used_bytes(seen) if found else None,
        "since_last_bytes": found.since_last_bytes if found else None,
        "schedule": schedule.model_dump(mode="json") if schedule else None,
        "next_at": seen.next_snapshot_at.isoformat() if seen.next_snapshot_at else None,
        "problem": seen.cluster_problem,
    }


def _replication_document(seen: Overview) -> dict[str, Any] | None:
    """How a replica is; None: it is none."""
    if seen.standing is None:
        return None
    standing = seen.standing
    return {
        "source": endpoint_document(seen.primary.spec) if seen.primary else None,
        "state": standing.state,
        "lag_s": None if standing.lag_ms is None else standing.lag_ms / 1000,
        "transactions_behind": standing.behind,
        "transactions_ahead": standing.ahead_count,
        "ahead": standing.ahead,
        "problem": standing.problem,
    }


def pairs_of_server(
    view: DatabaseView, condition: Mapping[str, str], reading: Mapping[str, str]
) -> dict[str, str]:
    """A database and its server as names and values, for people.

    `condition` is how it does, `reading` where to read from.
    """
    spec = view.record.spec
    return {
        "database": spec.name,
        "status": view.status,
        **({"reason": explain_end(view.end)} if view.end else {}),
        **condition,
        "server": f"{spec.flavour} {view.record.server_version}",
        **(
            {"runs as": explain_server_user(view.server_uid)} if view.server_uid is not None else {}
        ),
        "address": f"{spec.address}:{spec.port}",
        "address kind": explain_address_kind(spec.address_kind),
        **reading,
        "user": view.record.user,
        "host": spec.host,
        "limits": f"{format_cpus(spec.cpus)}, {format_bytes(spec.memory_bytes)} memory",
        "buffer pool": format_bytes(view.record.buffer_pool_bytes),
        "protected": "yes" if spec.protected else "no",
        **({"recovery goal": goal} if (goal := describe_recovery_goal(spec)) else {}),
        **({"failover": "manual"} if spec.failover == "manual" else {}),
        **(
            {"maintenance window": f"{spec.maintenance_window} UTC"}
            if spec.maintenance_window
            else {}
        ),
        **({"labels": render_labels(spec.labels)} if spec.labels else {}),
        "created": format_moment(view.record.created_at),
    }


def pairs_of_volume(
    view: DatabaseView, live: LiveVolume | None, room: FileSystem | None
) -> dict[str, str]:
    """The volume of a database as names and values, for people."""
    spec, volume = view.record.spec, view.volume
    attachment = volume.attachment if volume else None
    seen = view.record.last_verification
    image = f"{volume.spec.pool}/{volume.spec.image}" if volume else None
    return {
        **({"volume": f"{image}, {format_bytes(spec.size_bytes)}"} if image else {}),
        **({"space": describe_room(room)} if room else {}),
        **({"driver": f"{attachment.driver} ({attachment.driver_reason})"} if attachment else {}),
        "write path": describe_safety(spec),
        **({"encryption": spec.encryption} if spec.encryption else {}),
        **details_of_growth(view.record.growth, view.record.guard),
        **(details_of_journal(live.journal) if live else {}),
        **(details_of_counts(live.journal_counts) if live else {}),
        **(details_of_read_cache(live.read_cache) if live else {}),
        **({"verified": f"{format_moment(seen.at)}: {seen.said}"} if seen else {}),
    }
