from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from grampus.ceph.diffs import RbdDiffs
from grampus.core.streams import ByteReader, ByteWriter


class StreamRunner:
    """Keeps what it was asked for and what was written."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.written = io.BytesIO()

    @contextmanager
    def reading(self, argv: Sequence[str]) -> Iterator[ByteReader]:
        self.asked.append(" ".join(argv))
        yield io.BytesIO(b"diff")

    @contextmanager
    def writing(self, argv: Sequence[str]) -> Iterator[ByteWriter]:
        self.asked.append(" ".join(argv))
        yield self.written


def test_diffs_flow_out_of_snapshots_and_into_images() -> None:
    runner = StreamRunner()
    diffs = RbdDiffs(runner)  # type: ignore[arg-type]
    with diffs.exporting("databases", "db-shop", "b") as source:
        assert source.read(9) == b"diff"
    with diffs.exporting("databases", "db-shop", "c", since="b") as source:
        assert source.read(9) == b"diff"
    with diffs.importing("databases", "db-again") as sink:
        sink.write(b"diff")
    assert runner.written.getvalue() == b"diff"
    gently = "--rbd-concurrent-management-ops 2"
    assert runner.asked == [
        f"rbd export-diff --no-progress {gently} databases/db-shop@b -",
        f"rbd export-diff --no-progress {gently} --from-snap b databases/db-shop@c -",
        f"rbd import-diff --no-progress {gently} - databases/db-again",
    ]
