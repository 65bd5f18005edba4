"""What changed in an image between two snapshots, as a stream of bytes (rbd's diff format)."""

from __future__ import annotations

from contextlib import AbstractContextManager

from grampus.ceph.ports import CommandRunner
from grampus.ceph.rbd import GENTLY
from grampus.core.streams import ByteReader, ByteWriter


class RbdDiffs:
    """Diffs out of images and into images, never held as a whole."""

    def __init__(self, runner: CommandRunner) -> None:
        self._runner = runner

    def exporting(
        self, pool: str, image: str, snapshot: str, *, since: str | None = None
    ) -> AbstractContextManager[ByteReader]:
        """All that `snapshot` holds, or what is new in it after the snapshot `since`.

        Raises GrampusError at the end of the block when rbd failed; what was read until then is
        no diff.
        """
        start = ("--from-snap", since) if since is not None else ()
        return self._runner.reading(
            [
                *("rbd", "export-diff", "--no-progress", *GENTLY, *start),
                *(f"{pool}/{image}@{snapshot}", "-"),
            ]
        )

    def importing(self, pool: str, image: str) -> AbstractContextManager[ByteWriter]:
        """What brings a diff into an image.

        The image gets the size that the diff says, and a snapshot of the same name as the one
        that it was exported from; a diff since a snapshot needs that one on the image. Raises
        GrampusError at the end of the block when rbd failed.
        """
        return self._runner.writing(
            ["rbd", "import-diff", "--no-progress", *GENTLY, "-", f"{pool}/{image}"]
        )
