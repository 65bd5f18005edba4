"""Transactions that a replica holds alone, written to a file from its own logs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from grampus.core.errors import GrampusError, RefusedError, UsageError
from grampus.core.units import MIB
from grampus.databases.administrator import administrator_of
from grampus.databases.database_work import DatabaseWork
from grampus.databases.layout import MYSQL_GID, MYSQL_UID, RUN_IN_DAEMON, VOLUME_IN_DAEMON
from grampus.databases.model import DatabaseSpec
from grampus.databases.replicas.binlog_reading import DIRECTORY, READERS, observe_logs
from grampus.databases.replicas.comparing import Comparison, ReplicaComparing
from grampus.databases.replicas.gtid_sets import (
    GtidSet,
    count,
    parse_gtid_set,
    parse_rendered,
    render_gtid_set,
    subtract,
)
from grampus.databases.replicas.replica_work import observe_position
from grampus.databases.replicas.replicas import DatabaseReplicas
from grampus.databases.step_ports import StepPorts

EXTRACT_TIMEOUT_S = 3600.0
_DIRECTORY, _FILE = "errant", "errant.sql"
# Answers with the number of transactions that it wrote. Arguments: the file to write, the reader,
# the transactions, and the logs that hold them. The statement that would give a transaction its
# former GTID is a comment: a server that has another transaction of that GTID would skip it.
_SCRIPT = r"""
set -o pipefail
umask 077
file=$1 reader=$2 transactions=$3
shift 3
"$reader" --verbose --include-gtids="$transactions" "$@" </dev/null |
  LC_ALL=C sed "/^SET @@SESSION.GTID_NEXT= '[0-9a-fA-F]*-/{
s/^/# /
a\\
SET @@SESSION.GTID_NEXT= 'AUTOMATIC'/*!*/;
}" >>"$file" || exit
LC_ALL=C grep -c "^# SET @@SESSION.GTID_NEXT= '" "$file" || true
"""


@dataclass(frozen=True)
class Extract:
    """What was written."""

    comparison: Comparison
    transactions: int
    size_bytes: int


class ErrantTransactions:
    """Shows and saves what replicas hold that their primaries lack."""

    def __init__(self, ports: StepPorts, replicas: DatabaseReplicas) -> None:
        self._ports = ports
        self._replicas = replicas

    def show(self, name: str) -> Comparison:
        """Ask both servers. Raises NotFoundError, RefusedError with code `no-replica`."""
        self._replicas.require_replica(name)
        return ReplicaComparing(self._ports, is_patient=True).compare(name)

    def write(self, name: str, output: Path) -> Extract:
        """Write them to a new file of the user's, which is whole or not there.

        Raises as `show`, UsageError when the file is there, RefusedError with code `not-ahead`, and
        GrampusError with code `errant-incomplete` when the replica's logs lack some of them.
        """
        if output.exists():
            raise UsageError(f"The file {output} exists.", "Choose another file, or remove it.")
        spec = self._replicas.require_replica(name).spec
        compared = self.show(name)
        ahead = parse_rendered(compared.ahead)
        if not count(ahead):
            unknown = f" {compared.unknown}" if compared.unknown else ""
            raise RefusedError(
                f"{name} has no known transaction that {spec.replica_of} lacks.{unknown}",
                f"`grampus db replica list {spec.replica_of}` shows the state of its replicas.",
                code="not-ahead",
            )
        if spec.flavour != "mysql":
            raise RefusedError(
                f"Grampus cannot extract single transactions from binary logs of {spec.flavour}.",
                f"Keep them: `grampus db replica promote {name}`.",
                code="not-mysql",
            )
        with self._extracted(spec, ahead) as path:
            size_bytes = self._fetch(spec, path, output, _render_head(spec, compared.ahead))
        return Extract(compared, count(ahead), size_bytes)

    @contextmanager
    def _extracted(self, spec: DatabaseSpec, ahead: GtidSet) -> Iterator[PurePosixPath]:
        """A file of theirs on the replica's host, which the server's container writes."""
        host = self._ports.fleet.host(spec.host)
        plan = DatabaseWork(self._ports, spec).plan()
        # The container may write to the socket's directory, and to the volume. The former is on the
        # host's own disk, where nothing of an encrypted database may be in clear (INV-47).
        there, seen = (plan.run_dir, RUN_IN_DAEMON)
        if spec.encryption is not None:
            there, seen = (plan.volume, VOLUME_IN_DAEMON)
        directory = there / _DIRECTORY
        owner = ["-o", str(MYSQL_UID), "-g", str(MYSQL_GID)]
        host.run(["rm", "-rf", str(directory)])
        host.run(["install", "-d", "-m", "0700", *owner, str(directory)])
        try:
            self._extract(spec, ahead, seen / _DIRECTORY / _FILE)
            yield directory / _FILE
        finally:
            host.run(["rm", "-rf", str(directory)])

    def _extract(self, spec: DatabaseSpec, ahead: GtidSet, path: PurePosixPath) -> None:
        administrator = administrator_of(self._ports, spec)
        executed = parse_gtid_set(spec.flavour, observe_position(administrator).executed)
        binlogs = [str(DIRECTORY / log.name) for log in observe_logs(administrator)]
        # What was received and not applied is in no binary log of the replica.
        waiting = subtract(ahead, executed)
        listed = administrator.host.run(
            ["ls", "-1", str(DIRECTORY)], daemon=administrator.daemon
        ).stdout.split()
        relay_logs = [str(DIRECTORY / log) for log in decide_relay_logs(listed)]
        written = 0
        for wanted, logs in ((subtract(ahead, waiting), binlogs), (waiting, relay_logs)):
            if not count(wanted) or not logs:
                continue
            result = administrator.host.run(
                [
                    *("bash", "-c", _SCRIPT, "bash", str(path), READERS[spec.flavour]),
                    *(render_gtid_set(wanted), *logs),
                ],
                timeout_s=EXTRACT_TIMEOUT_S,
                daemon=administrator.daemon,
            )
            written = int(result.stdout.strip() or 0)
        if written != count(ahead):
            raise GrampusError(
                f"The logs of {spec.name} have only {written} of the {count(ahead)} "
                "transactions that its primary lacks.",
                f"Keep them all with `grampus db replica promote {spec.name}`.",
                code="errant-incomplete",
            )

    def _fetch(self, spec: DatabaseSpec, path: PurePosixPath, output: Path, head: str) -> int:
        part = output.with_name(f"{output.name}.part")
        try:
            descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with (
                os.fdopen(descriptor, "wb") as sink,
                self._ports.fleet.host(spec.host).reading(["cat", str(path)]) as source,
            ):
                sink.write(head.encode())
                while data := source.read(MIB):
                    sink.write(data)
                sink.flush()
                os.fsync(sink.fileno())
                size_bytes = sink.tell()
            part.rename(output)
        except OSError as error:
            raise GrampusError(
                f"The file {output} cannot be written: {error.strerror or error}.",
                "Choose a file in a directory where you can write.",
            ) from error
        finally:
            part.unlink(missing_ok=True)
        return size_bytes


def decide_relay_logs(listed: Sequence[str]) -> list[str]:
    """The relay logs among the names in the directory of logs, oldest first."""
    found = [name for name in listed if name.startswith("relay.")]
    return sorted(
        (name for name in found if name.rpartition(".")[2].isdecimal()),
        key=lambda name: int(name.rpartition(".")[2]),
    )


def _render_head(spec: DatabaseSpec, ahead: str) -> str:
    return (
        f"-- Transactions of the replica {spec.name} that its primary {spec.replica_of} "
        f"lacks: {ahead}\n-- Lines that begin with ### show the rows. The BINLOG statements "
        "have the events themselves:\n-- a server applies them for an account with the "
        "privilege REPLICATION_APPLIER, under new GTIDs.\n"
    )
