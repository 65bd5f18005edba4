"""When a server deletes binary logs by itself: a bound for the time when nobody looks after it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath

from grampus.core.errors import NotFoundError, UsageError
from grampus.core.intervals import format_interval, parse_interval_s
from grampus.databases.administrator import administrator_of, passing_over_refusals
from grampus.databases.binlog_keeping.decide_purge import (
    DEFAULT_RETENTION_S,
    MAX_RETENTION_S,
    KeptLog,
    decide_expiry_s,
    decide_unattended_s,
)
from grampus.databases.binlog_keeping.observing import observe_logs, possible_needs
from grampus.databases.instance import observe_daemon_state
from grampus.databases.layout import server_daemon_name
from grampus.databases.model import DatabaseSpec
from grampus.databases.settings import settings_of
from grampus.databases.step_ports import StepPorts

# The server's parameter. A user who sets it decides alone.
EXPIRY = "binlog_expire_logs_seconds"


def apply_expiry(
    ports: StepPorts, spec: DatabaseSpec, logs: Sequence[KeptLog], *, is_needed: bool
) -> None:
    """Tell a running server, unless its user has. Raises what `Administrator.query` raises.

    `is_needed`: somebody may need logs, or somebody looks again before long.
    """
    if EXPIRY in spec.parameters:
        return
    settings = settings_of(spec)
    share_bytes, is_replica = settings.binlog_total_bytes, spec.replica_of is not None
    expiry_s = decide_expiry_s(
        logs,
        share_bytes,
        retention_s=spec.binlog_retention_s or 0,
        unattended_s=decide_unattended_s(
            settings.binlog_expire_s, share_bytes, is_replica=is_replica
        ),
        is_needed=is_needed,
        now=ports.clock.now(),
    )
    administrator_of(ports, spec).query(f"SET GLOBAL {EXPIRY} = {expiry_s}")


def ensure_started_expiry(ports: StepPorts, spec: DatabaseSpec) -> None:
    """The same after a start, before which no server deletes anything.

    One that takes no statement is told by the controller.
    """
    record = ports.records.find(spec.name)
    if record is None or EXPIRY in spec.parameters:
        return
    is_needed = bool(possible_needs(ports, ports.records.family(spec.name), record))
    logs: Sequence[KeptLog] = ()
    if is_needed:
        try:
            attachment = ports.volumes.get(spec.name).attachment
        except NotFoundError:
            return
        if attachment is not None:
            mount = PurePosixPath(attachment.mount_path)
            logs = observe_logs(ports.fleet.host(spec.host), [mount]).get(mount, ())
    with passing_over_refusals():
        apply_expiry(ports, spec, logs, is_needed=is_needed)


def ensure_running_expiry(ports: StepPorts, spec: DatabaseSpec) -> None:
    """The same of a server that may not run: then its next start does it."""
    if not ports.fleet.is_reachable(spec.host):
        return
    host = ports.fleet.host(spec.host)
    if observe_daemon_state(host, server_daemon_name(spec.name)) == "running":
        ensure_started_expiry(ports, spec)


def parse_retention_s(text: str) -> int:
    """Seconds of a retention such as `1d`. Raises UsageError with code `invalid-interval`."""
    retention_s = parse_interval_s(text)
    if retention_s > MAX_RETENTION_S:
        raise UsageError(
            f"Binary logs cannot be kept for {format_interval(retention_s)}.",
            f"Choose at most {format_interval(MAX_RETENTION_S)}.",
            code="invalid-interval",
        )
    return retention_s


def retention_of(spec: DatabaseSpec) -> int:
    """For how long a database keeps its binary logs for readers, in seconds.

    As its user said: with `--binlog-retention`, or by the server's own parameter. A replica keeps
    its own as long as they have room: they tell which transactions its primary lost in a crash, and
    may be the only copy of these.
    """
    if spec.replica_of is not None:
        return MAX_RETENTION_S
    if spec.binlog_retention_s is not None:
        return spec.binlog_retention_s
    parameter = spec.parameters.get(EXPIRY, "")
    return int(parameter) if parameter.isdecimal() and int(parameter) else DEFAULT_RETENTION_S
