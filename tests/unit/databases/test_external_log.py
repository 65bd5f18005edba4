"""Which databases have the log of their file system apart."""

from __future__ import annotations

import pytest

from grampus.databases.clones.decide_golden import GOLDEN_PREFIX
from grampus.volumes.decide_external_log import EXTERNAL_LOG_BYTES
from grampus.volumes.model import WritePath

from .world import World


def golden_logs(world: World) -> list[int | None]:
    return [
        image.record.spec.external_log_bytes
        for name, image in world.volumes.images.items()
        if name.startswith(GOLDEN_PREFIX)
    ]


@pytest.mark.parametrize(
    ("write_path", "expected"),
    [("journal", EXTERNAL_LOG_BYTES), ("cache", EXTERNAL_LOG_BYTES), ("direct", None)],
)
@pytest.mark.parametrize("encrypt", [False, True])
def test_a_new_database_with_a_journal_has_it(
    world: World, write_path: WritePath, expected: int | None, *, encrypt: bool
) -> None:
    """Whether it is cloned from a golden volume or initialised by itself."""
    record = world.create(write_path=write_path, encrypt=encrypt).record
    made = world.volumes.get("demo").spec
    assert (record.spec.external_log_bytes, made.external_log_bytes) == (expected, expected)
    assert golden_logs(world) == ([] if encrypt else [expected])


def test_each_layout_has_a_golden_volume_of_its_own(world: World) -> None:
    world.create("one", write_path="direct")
    world.create("two", write_path="journal")
    world.create("three", write_path="cache")
    assert golden_logs(world) == [None, EXTERNAL_LOG_BYTES]
