"""Archived binary logs applied to a restored server, up to a moment."""

from __future__ import annotations

import itertools
from datetime import UTC
from pathlib import Path, PurePosixPath

from grampus.databases.administrator import administrator_of, render_admin_options
from grampus.databases.backup.archive import BinlogArchive
from grampus.databases.backup.binlogs import require_contiguous
from grampus.databases.backup.catalogue import BackupCatalogue
from grampus.databases.backup.keys import BackupKeys
from grampus.databases.backup.model import ReplayOrder, RestoreOrder
from grampus.databases.backup.opening import open_target
from grampus.databases.database_work import DatabaseWork
from grampus.databases.layout import MYSQL_GID, MYSQL_UID
from grampus.databases.step_ports import StepPorts

# As much as a database writes in days.
REPLAY_TIMEOUT_S = 48 * 3600.0
_DIRECTORY = "replayed-binlogs"
# What the server has executed already it skips by its GTID. Clients stay out meanwhile. The
# administrator's option file comes on stdin, and is handed on as another descriptor, because the
# client's stdin is the statements.
_SCRIPT = """\
exec 3<&0
moment=$1
shift
{
  echo 'SET GLOBAL offline_mode = ON;'
  TZ=UTC mysqlbinlog --stop-datetime="$moment" "$@" </dev/null
} | mysql --defaults-file=/dev/fd/3 --binary-mode --max-allowed-packet=1G
"""


class ReplayWork:
    """What the steps of a replay do; every method is idempotent."""

    def __init__(self, ports: StepPorts, order: RestoreOrder, replay: ReplayOrder) -> None:
        self._ports = ports
        self._order = order
        self._replay = replay
        self._work = DatabaseWork(ports, order.database)

    def fetch(self) -> None:
        """The archived files on the host's own disk, where the server's container sees them."""
        host = self._work.host()
        directory = str(self._directory())
        self.remove()
        host.run(["install", "-d", "-m", "0700", directory])
        archive = self._archive()
        stretch = next(s for s in archive.stretches() if s.id == self._replay.stretch)
        pieces = require_contiguous(stretch.pieces, self._replay.first_file)
        for file, of_file in itertools.groupby(pieces, key=lambda piece: piece.file):
            with host.writing(["dd", f"of={directory}/{file}", "bs=1M", "status=none"]) as sink:
                for chunk in archive.read_log(stretch.id, list(of_file)):
                    sink.write(chunk)
        host.run(["chown", "-R", f"{MYSQL_UID}:{MYSQL_GID}", directory])

    def apply(self) -> None:
        """Every transaction that was committed before the moment and is not there yet."""
        host, plan = self._work.host(), self._work.plan()
        listed = host.run(["ls", "-1", str(self._directory())]).stdout.split()
        moment = self._replay.moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")
        host.run(
            [
                *("bash", "-o", "pipefail", "-ec", _SCRIPT, "bash", moment),
                *(str(self._directory() / name) for name in sorted(listed)),
            ],
            stdin=render_admin_options(
                administrator_of(self._ports, self._order.database).password
            ),
            timeout_s=REPLAY_TIMEOUT_S,
            daemon=plan.daemon,
        )

    def remove(self) -> None:
        """The fetched files gone."""
        self._work.host().run(["rm", "-rf", str(self._directory())])

    def _directory(self) -> PurePosixPath:
        return self._work.plan().directory / _DIRECTORY

    def _archive(self) -> BinlogArchive:
        target = open_target(self._order.target)
        keys = BackupKeys(Path(self._order.key_directory))
        database, _, _ = self._order.chain[-1].partition("/")
        manifest = BackupCatalogue(target, keys).observe(database).backups[self._order.chain[-1]]
        return BinlogArchive(target, keys.get(manifest.key_id), database, others=keys.all())
