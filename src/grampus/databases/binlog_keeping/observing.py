"""Binary logs on mounted volumes, which transactions each begins after, and who may need them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import PurePosixPath

from grampus.core.errors import GrampusError
from grampus.databases.administrator import Administrator
from grampus.databases.binlog_keeping.decide_purge import KeptLog, Need
from grampus.databases.model import DatabaseRecord
from grampus.databases.replicas.gtid_sets import GtidSet, parse_gtid_set
from grampus.databases.replicas.replica_rules import replicas_of
from grampus.databases.step_ports import StepPorts
from grampus.hosts.port import Host

LOGS_IN_VOLUME = "binlog"
# MariaDB keeps an index of GTIDs beside each log, whose name begins with the log's.
_LOG = re.compile(r"binlog\.\d+", re.ASCII)
_PREVIOUS = ("Previous_gtids", "Gtid_list")
_TIMEOUT_S = 5.0
# Who archives by hand, or by cron, and not by schedule: after so long it counts as given up.
ARCHIVED_LATELY = timedelta(days=7)


def observe_logs(host: Host, mounts: Iterable[PurePosixPath]) -> dict[PurePosixPath, list[KeptLog]]:
    """The binary logs of each mounted volume, in the server's order. Nothing is read but names.

    Raises HostUnreachableError, GrampusError with code `timeout`.
    """
    directories = [str(mount / LOGS_IN_VOLUME) for mount in mounts]
    if not directories:
        return {}
    # A volume that was taken away meanwhile makes its code 1; the others are printed.
    result = host.run(
        ["find", *directories, "-maxdepth", "1", "-type", "f", "-printf", r"%h\t%f\t%s\t%T@\n"],
        check=False,
        timeout_s=_TIMEOUT_S,
    )
    return parse_logs(result.stdout)


def parse_logs(text: str) -> dict[PurePosixPath, list[KeptLog]]:
    """From lines of directory, file, size and time; files that are no binary logs are left out."""
    found: dict[PurePosixPath, list[KeptLog]] = {}
    for line in text.splitlines():
        words = line.split("\t")
        if len(words) != 4 or not _LOG.fullmatch(words[1]):
            continue
        directory, name, size, changed = words
        log = KeptLog(name, int(size), datetime.fromtimestamp(float(changed), UTC))
        found.setdefault(PurePosixPath(directory).parent, []).append(log)
    return {mount: sorted(logs, key=_number) for mount, logs in found.items()}


def observe_previous(administrator: Administrator, log: str) -> GtidSet:
    """The transactions before that binary log.

    Raises what `Administrator.query` raises, and GrampusError when the log does not say it.
    """
    # Log_name, Pos, Event_type, Server_id, End_log_pos, Info
    for row in administrator.query(f"SHOW BINLOG EVENTS IN '{log}' LIMIT 4"):
        if len(row) == 6 and row[2] in _PREVIOUS:
            text = row[5].replace("\\n", "").strip("[]")
            return parse_gtid_set(administrator.flavour, text)
    raise GrampusError(
        f"The binary log {log} does not list its previous transactions.",
        "`grampus db restart NAME` starts a new binary log. Then try again.",
    )


def possible_needs(
    ports: StepPorts, every: Mapping[str, DatabaseRecord], record: DatabaseRecord
) -> list[Need]:
    """Who may need logs, when nobody was asked: each then needs all of them."""
    name = record.spec.name
    archive = [Need("archive")] if archives(ports, record) else []
    return [*archive, *(Need("replica", each, is_away=True) for each in replicas_of(every, name))]


def archives(ports: StepPorts, record: DatabaseRecord) -> bool:
    """Whether its binary logs go to an archive: by schedule, or by hand lately."""
    schedule = record.backup_schedule
    if schedule is not None and schedule.archives:
        return True
    state = ports.records.backup_state(record)
    if state is None or state.archive_end is None or state.copied_until is None:
        return False
    return ports.clock.now() - state.copied_until < ARCHIVED_LATELY


def _number(log: KeptLog) -> int:
    return int(log.name.rpartition(".")[2])
