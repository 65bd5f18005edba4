"""Data of volumes as streams: out of a snapshot, and into the image of a new volume."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING

from grampus.ceph.ports import CommandRunner
from grampus.core.errors import RefusedError
from grampus.core.progress import Progress
from grampus.core.streams import ByteReader, ByteWriter
from grampus.core.units import MIB, format_bytes
from grampus.volumes.journals import require_detached
from grampus.volumes.records import VolumeRecords

if TYPE_CHECKING:
    from grampus.ceph.diffs import RbdDiffs

# How much may pass before the user is told again.
_TOLD_EVERY_BYTES = 32 * MIB


class Transfers:
    """Streams from and to the volumes of one lab or cluster.

    They take no lock: a snapshot does not change, and an image that is being filled belongs to
    the operation that made it.
    """

    def __init__(self, records: VolumeRecords, runner: CommandRunner, progress: Progress) -> None:
        self._records = records
        self._runner = runner
        self._progress = progress

    @contextmanager
    def exporting(
        self, name: str, snapshot: str, *, since: str | None = None
    ) -> Iterator[ByteReader]:
        """What a snapshot holds, or what is new in it after the snapshot `since`, as a stream.

        All of it was read only when the block ends without an error. Raises NotFoundError, and
        GrampusError at the end of the block when rbd failed.
        """
        spec = self._records.get(name).spec
        with self._diffs().exporting(spec.pool, spec.image, snapshot, since=since) as source:
            yield _ToldReader(source, self._progress)

    @contextmanager
    def importing(self, name: str) -> Iterator[ByteWriter]:
        """What brings such a stream into a volume that was made and never attached.

        The image then has a snapshot of the name that the stream was exported from, which a
        stream since it needs. Raises NotFoundError, RefusedError with code `attached` or
        `not-empty`, and GrampusError at the end of the block when the stream was not whole.
        """
        record = self._records.get(name)
        require_detached(record, "a transfer needs a detached volume")
        if record.is_formatted:
            raise RefusedError(
                f"The volume '{name}' already has data.",
                "Restore the backup to a new volume.",
                code="not-empty",
            )
        with self._diffs().importing(record.spec.pool, record.spec.image) as sink:
            yield _ToldWriter(sink, self._progress)

    def _diffs(self) -> RbdDiffs:
        # Few commands move data: the others go without its module.
        diffs: RbdDiffs = import_module("grampus.ceph.diffs").RbdDiffs(self._runner)
        return diffs


class _Told:
    """Tells now and then how much has passed."""

    def __init__(self, progress: Progress, verb: str) -> None:
        self._progress = progress
        self._verb = verb
        self._passed_bytes = 0
        self._told_bytes = 0

    def count(self, size_bytes: int) -> None:
        self._passed_bytes += size_bytes
        if self._passed_bytes - self._told_bytes >= _TOLD_EVERY_BYTES:
            self._told_bytes = self._passed_bytes
            self._progress.detail(f"{format_bytes(self._passed_bytes)} {self._verb}")


class _ToldReader:
    def __init__(self, source: ByteReader, progress: Progress) -> None:
        self._source = source
        self._told = _Told(progress, "read")

    def read(self, size_bytes: int, /) -> bytes:
        data = self._source.read(size_bytes)
        self._told.count(len(data))
        return data


class _ToldWriter:
    def __init__(self, sink: ByteWriter, progress: Progress) -> None:
        self._sink = sink
        self._told = _Told(progress, "written")

    def write(self, data: bytes, /) -> object:
        self._told.count(len(data))
        return self._sink.write(data)
