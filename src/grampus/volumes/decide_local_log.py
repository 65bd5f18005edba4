"""Which host's log a volume depends on: decided from its record alone.

With the write path `cache`, what was flushed last is in a log on the host's own disk before it is
in the cluster. After a volumed that ended in good order the log holds nothing of worth; after one
that was killed, the volume must be opened where the log is, or what the log alone holds is lost.
"""

from __future__ import annotations

from grampus.core.errors import RefusedError
from grampus.volumes.model import LocalLog, LocalLogState, VolumeRecord


def find_current_log(record: VolumeRecord) -> LocalLog | None:
    """The log that may hold what the cluster lacks, if the volume was not drained since."""
    return next((log for log in record.local_logs if log.state == "current"), None)


def note_opened(record: VolumeRecord, host: str, *, has_log: bool) -> VolumeRecord:
    """The record of a volume that is to be opened on `host`.

    With `has_log` there is a log there that volumed is told of. That of any other host must be
    drained or fenced by now (`require_log_at_hand`).
    """
    logs = [
        log if log.state != "current" else LocalLog(host=log.host, state="drained")
        for log in record.local_logs
        if not (has_log and log.host == host)
    ]
    if has_log:
        logs.append(LocalLog(host=host))
    return record.model_copy(update={"local_logs": tuple(logs)})


def note_current_log(record: VolumeRecord, state: LocalLogState) -> VolumeRecord:
    """The record, its current log being `state` from now on; unchanged when it has none."""
    logs = tuple(
        LocalLog(host=log.host, state=state) if log.state == "current" else log
        for log in record.local_logs
    )
    return record.model_copy(update={"local_logs": logs})


def decide_replay_hosts(record: VolumeRecord) -> list[str]:
    """Where a replay finds a log to bring in, the best first; anywhere else will do after them.

    A fenced host's log is still good when nobody has opened the volume since; else volumed sets
    it aside.
    """
    return [log.host for log in reversed(record.local_logs) if log.state == "fenced"]


def require_log_at_hand(record: VolumeRecord, host: str, *, is_unapplied: bool) -> None:
    """Raise RefusedError with code `local-log` when only another host's log makes it whole.

    `is_unapplied` says that the volume was not drained.
    """
    log = find_current_log(record)
    if log is None or log.host == host or not is_unapplied:
        return
    name = record.spec.name
    raise RefusedError(
        f"The log of the volume '{name}' on {log.host} may have commits that the cluster lacks.",
        f"Apply the log: `grampus volume replay {name}`, or attach the volume to {log.host}. "
        f"If {log.host} is lost, discard the log: `grampus volume fence {name}`.",
        code="local-log",
    )


def is_current_log(record: VolumeRecord, host: str) -> bool:
    """Whether the volume was last attached to `host` with a log there."""
    log = find_current_log(record)
    return log is not None and log.host == host


def local_log_is_broken(record: VolumeRecord, host: str, *, why: str) -> RefusedError:
    """The log on `host` may be all that has some commits, and its disk does not work."""
    name = record.spec.name
    return RefusedError(
        f"The log of the volume '{name}' on {host} may have commits that the cluster lacks, "
        f"and the disk of the host does not work. {why}",
        f"Repair the disk, then attach the volume again: `grampus volume attach {name} --host "
        f"{host}`. If the disk is lost, discard the log: `grampus volume fence {name}`.",
        code="local-log",
    )
