"""The directories of volumes on hosts, for the write path `cache`: made, looked at and removed.

volumed keeps its log in such a directory (`log`, `log.lock`), sets logs of earlier owners aside
there (`log.aside-...`), and has its read cache in a file without a name. The decisions are in
`decide_local_log`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath

from grampus.core.errors import GrampusError
from grampus.core.progress import Progress
from grampus.hosts.port import CommandFailedError, Fleet, Host
from grampus.hosts.presence import is_there, require_answer
from grampus.volumes.model import LocalLog, VolumeRecord
from grampus.volumes.records import VolumeRecords

ASIDE_PATTERN = "log.aside-*"


@dataclass(frozen=True)
class Aside:
    """A log set aside: it may hold acknowledged writes that the volume lacks."""

    host: str
    path: str


class LocalLogs:
    """The directories of the volumes of one lab or cluster."""

    def __init__(self, records: VolumeRecords, fleet: Fleet, progress: Progress) -> None:
        self._records = records
        self._fleet = fleet
        self._progress = progress

    def observe_asides(self, record: VolumeRecord) -> list[Aside]:
        """Logs set aside on hosts that can be reached; a note names a disk that does not answer."""
        found: list[Aside] = []
        for log in record.local_logs:
            if not self._fleet.is_reachable(log.host):
                continue
            try:
                paths = _observe_asides(self._fleet.host(log.host), record.spec.name)
            except CommandFailedError as error:
                # A look shows everything else all the same: above all how the volume is.
                self._progress.note(
                    f"{log.host} cannot report whether it has logs of '{record.spec.name}' "
                    f"that were set aside: {error.problem}"
                )
                continue
            found += [Aside(log.host, path) for path in paths]
        return found

    def ensure_drained_absent(self, record: VolumeRecord) -> None:
        """Remove drained directories, where it can be done now, and note it.

        The volume is attached nowhere. Of a directory with a log that was set aside, that stays.
        """
        for log in record.local_logs:
            if log.state != "drained" or not self._fleet.is_reachable(log.host):
                continue
            host = self._fleet.host(log.host)
            directory = local_directory(host, record.spec.name)
            try:
                asides = _observe_asides(host, record.spec.name)
            except CommandFailedError as error:
                # A disk that fails must not keep the volume from being detached. What is there may
                # be a log that was set aside, so it stays.
                self._progress.note(f"{directory} stays on {host.name}: {error.problem}")
                continue
            if asides:
                host.run(["rm", "-f", str(directory / "log"), str(directory / "log.lock")])
            else:
                record = self._remove(record, log, host)

    def ensure_absent(self, name: str, *, says: bool = True) -> None:
        """Remove all directories of a volume that is to go; on hosts that are away they stay.

        That is said, unless the caller has noted it.
        """
        record = self._records.find(name)
        if record is None:
            return
        for log in record.local_logs:
            host = self._fleet.host(log.host)
            if self._fleet.is_reachable(log.host):
                record = self._remove(record, log, host)
            elif says:
                self._progress.note(
                    f"{log.host} cannot be reached, and still has the log of '{name}': remove "
                    f"{local_directory(host, name)} on it once it is back."
                )

    def _remove(self, record: VolumeRecord, log: LocalLog, host: Host) -> VolumeRecord:
        directory = local_directory(host, record.spec.name)
        try:
            host.run(["rm", "-rf", "--one-file-system", str(directory)])
        except GrampusError as error:
            # A disk that fails must not keep the volume from being detached or deleted.
            self._progress.note(f"{directory} stays on {host.name}: {error.problem}")
            return record
        kept = tuple(other for other in record.local_logs if other != log)
        record = record.model_copy(update={"local_logs": kept})
        self._records.put(record)
        return record


def local_directory(host: Host, name: str) -> PurePosixPath:
    """The directory of the volume `name` on the host, for the write path `cache`."""
    return host.data_dir / "cache" / name


def is_local_directory(host: Host, name: str) -> bool:
    """Whether the volume has its directory there: then it may have a log.

    Raises CommandFailedError when the host cannot say: what is in the log is nowhere else.
    """
    return is_there(host, local_directory(host, name))


def ensure_local_directory(host: Host, name: str) -> PurePosixPath:
    """The directory, for nobody but root, and durable: volumed sees nothing of what is above it."""
    directory = local_directory(host, name)
    host.run(["mkdir", "-p", "-m", "700", str(directory)])
    # A disk that fails this is met by volumed, which then goes on without a log.
    host.run(["sync", str(directory.parent), str(directory.parent.parent)], check=False)
    return directory


def _observe_asides(host: Host, name: str) -> list[str]:
    """Raises CommandFailedError when the host cannot say."""
    argv = ["find", str(local_directory(host, name)), "-maxdepth", "1", "-name", ASIDE_PATTERN]
    found = host.run(argv, check=False)
    require_answer(host, found)
    return sorted(found.stdout.splitlines())
