"""What has happened to a database: its operations, and those on its volume, as they were journaled,
and what the controller warned of.

It is followed through renaming, and through the trash under another name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from grampus.core.units import format_bytes
from grampus.databases.catalogue import KIND_PREFIX, find_operation_type
from grampus.databases.failover.decide_failover import describe_phases
from grampus.databases.names.naming_steps import RENAME
from grampus.databases.names.trash_steps import RESTORE
from grampus.databases.records import DatabaseRecords, render_labels
from grampus.state.history import JournaledOperation, OperationHistory
from grampus.state.warnings import KeptWarning, WarningHistory
from grampus.volumes.model import DEFAULT_MAX_LAG_MS
from grampus.volumes.write_paths import describe_write_path

VOLUME_PREFIX = "volume."
_SECRET_WORDS = ("password", "passphrase", "secret", "key", "token")
# `cut off`: its process is gone or at it now; the next command finishes or undoes it.
# Of warnings: `lasts`, as far as the controller knew when it last ran, or `over`.
Outcome = Literal["done", "undone", "cut off", "lasts", "over"]
CONTROLLER = "grampus serve"


@dataclass(frozen=True)
class DatabaseEvent:
    """One operation, or one warning, in words."""

    at: datetime
    database: str  # its name at that time
    kind: str
    what: str  # such as `resize: 20 GiB`
    actor: str  # who asked for it; empty: not known
    outcome: Outcome
    reason: str  # why it was undone, what it is at, or what was warned of; else empty
    duration_s: float  # until it was over, or until it was last heard of; of what lasts: until now
    # Of a failover: when each phase was over, from the first sign of the loss on.
    phases_ms: Mapping[str, int] = field(default_factory=dict)


class DatabaseEvents:
    """The histories of the databases of one lab or cluster."""

    def __init__(
        self, records: DatabaseRecords, history: OperationHistory, warnings: WarningHistory
    ) -> None:
        self._records = records
        self._history = history
        self._warnings = warnings

    def of(self, name: str, *, last: int | None = None) -> list[DatabaseEvent]:
        """What happened to `name`, oldest first; of a deleted database as well.

        Raises NotFoundError when there is no such database and never was.
        """
        renamed = self._history.of_kinds([RENAME.kind, RESTORE.kind])
        names = decide_former_names(name, renamed)
        # Those of databases and of their volumes, and no lab's of the same name.
        prefixes = (KIND_PREFIX, VOLUME_PREFIX)
        operations = self._history.of_subjects(names, kind_prefixes=prefixes, last=last)
        events = [classify_event(operation) for operation in operations]
        warnings = self._warnings.of_subjects(names, last=last)
        # Stable: operations that began at once stay as they are in the journal.
        events = sorted([*events, *map(classify_warning, warnings)], key=lambda event: event.at)
        if not events:
            self._records.get(name)
        return events if last is None else events[-last:] if last else []

    def lasting(self, name: str) -> list[DatabaseEvent]:
        """What the controller warned of and has not seen the end of. Raises NotFoundError.

        Not what it warned of a former database of that name, which ends when it looks again.
        """
        since = self._records.get(name).created_at
        found = self._warnings.lasting(name)
        return [classify_warning(one) for one in found if one.began_last_at >= since]


def decide_former_names(name: str, operations: Sequence[JournaledOperation]) -> list[str]:
    """`name` and what the database was called before, the newest first."""
    names = [name]
    for operation in reversed(operations):
        former, new = names_in(operation.spec)
        if operation.status == "done" and new == names[-1] and former not in names:
            names.append(former)
    return names


def classify_event(operation: JournaledOperation) -> DatabaseEvent:
    """An operation in words. It holds no secret: the journal has none."""
    outcome: Outcome = "cut off"
    reason = f"at the step '{operation.step}'" if operation.step else "before its first step"
    if operation.status == "done":
        outcome, reason = "done", describe_phases(operation.outcome.get("phases_ms", {}))
    elif operation.status == "undone":
        outcome, reason = "undone", operation.error
    detail = _describe(operation.spec, operation.kind)
    if operation.kind.startswith(VOLUME_PREFIX):
        what = f"{operation.kind.removeprefix(VOLUME_PREFIX)} of its volume"
    else:
        found = find_operation_type(operation.kind)
        what = operation.kind if found is None else found.what.removesuffix(" the database")
        what = what.removesuffix(" of").removesuffix(" in")
    return DatabaseEvent(
        at=operation.started_at,
        database=operation.subject,
        kind=operation.kind,
        what=f"{what}: {detail}" if detail else what,
        actor=operation.actor,
        outcome=outcome,
        reason=reason,
        duration_s=max(0.0, (operation.changed_at - operation.started_at).total_seconds()),
        phases_ms=operation.outcome.get("phases_ms", {}),
    )


def classify_warning(warning: KeptWarning) -> DatabaseEvent:
    """A warning in words."""
    warned = warning.warned
    # What only failed has no kind that says more than the job does.
    what = f"{warned.level}: {warning.job if warned.kind == warned.level else warned.kind}"
    times = "" if warning.times == 1 else f" ({warning.times} times)"
    return DatabaseEvent(
        at=warning.began_at,
        database=warned.subject,
        kind=f"serve.{warned.kind}",
        what=f"{what}{times}",
        actor=CONTROLLER,
        outcome="lasts" if warning.ended_at is None else "over",
        reason=warned.text,
        duration_s=max(0.0, (warning.until - warning.began_at).total_seconds()),
    )


def names_in(spec: Mapping[str, Any]) -> tuple[str, str]:
    """What a database was called before and after a renaming, or a way through the trash."""
    if "trashed" in spec:
        return spec["trashed"]["record"]["spec"]["name"], spec["spec"]["name"]
    return spec["spec"]["name"], spec["new_name"]


def _describe_written(spec: Mapping[str, Any], changed: Mapping[str, Any]) -> str:
    """A change of the write path; of what bounds it, where the path stays."""
    former = spec["former"]
    if former != changed["write_path"]:
        return f"{former} to {changed['write_path']}"
    was = describe_write_path(
        former,
        spec.get("former_max_lag_ms", DEFAULT_MAX_LAG_MS),
        spec.get("former_journal_memory_bytes"),
        spec.get("former_journal_pool"),
    )
    now = describe_write_path(
        former,
        changed.get("max_lag_ms", DEFAULT_MAX_LAG_MS),
        changed.get("journal_memory_bytes"),
        changed.get("journal_pool"),
    )
    return f"{was}; now {now}"


def _describe(spec: Mapping[str, Any], kind: str) -> str:
    """What there is to say of an operation beyond its kind; nothing of what cannot be read."""
    inner = spec.get("spec")
    asked = inner if isinstance(inner, Mapping) else spec
    match kind:
        case "db.resize" | "volume.resize" | "db.create" if "size_bytes" in asked:
            return format_bytes(asked["size_bytes"])
        case "db.protect" if "protected" in asked:
            return "on" if asked["protected"] else "off"
        case "db.failover-mode" if "failover" in asked:
            return str(asked["failover"])
        case "db.maintenance-window" if "maintenance_window" in asked:
            return str(asked["maintenance_window"] or "none")
        case "db.label" if "labels" in asked:
            return render_labels(asked["labels"]) or "none"
        case "db.rename" if "name" in asked and "new_name" in spec:
            return f"{asked['name']} to {spec['new_name']}"
        case "db.trash" if "expires_at" in spec:
            return f"to the trash until {spec['expires_at'][:10]}"
        case "db.set" if "changed" in spec and "former" in spec:
            return _describe_written(spec, spec["changed"])
        case "db.snapshot" | "volume.snapshot" | "db.rollback" | "volume.rollback" if (
            "snapshot" in spec
        ):
            return str(spec["snapshot"])
        case "db.move" | "db.failover" if "changed" in spec and "former_host" in spec:
            return f"{spec['former_host']} to {spec['changed']['host']}"
        case "db.clone" if "database" in spec:
            return f"of {spec['database']}"
        case "db.parameter" if "parameter" in spec and "changed" in spec:
            return _describe_parameter(spec["parameter"], spec["changed"].get("parameters", {}))
        case "volume.migrate" if "from_pool" in spec and "to_pool" in spec:
            return f"{spec['from_pool']} to {spec['to_pool']}"
        case "db.role-grant" | "db.role-revoke" if "role" in spec and "user" in spec:
            return f"{spec['role']} {'to' if kind == 'db.role-grant' else 'from'} {spec['user']}"
        case "db.role-add" | "db.role-change" | "db.role-remove" if "role" in spec:
            return str(spec["role"])
        case "db.verify" if "verified" in spec:
            return str(spec["verified"]["said"])
    if "summary" in spec:  # such operations say it themselves
        return str(spec["summary"])
    return str(spec.get("user", "")) if kind.startswith("db.user-") else ""


def _describe_parameter(name: str, values: Mapping[str, str]) -> str:
    """A parameter as it was set. Its value is left out where it may be a secret."""
    if any(word in name for word in _SECRET_WORDS):
        return name
    return f"{name} = {values[name]}" if name in values else f"{name} back to its default"
