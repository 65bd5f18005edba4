"""Data of volumes as streams, at the wire to rbd."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from grampus.core.errors import NotFoundError, RefusedError
from grampus.core.streams import ByteReader, ByteWriter

from .world import World


class Streams:
    """What rbd says and takes, put in place of the fake cluster's."""

    def __init__(self, world: World) -> None:
        self.asked: list[str] = []
        self.written = io.BytesIO()
        world.cluster.reading = self._reading  # type: ignore[attr-defined]
        world.cluster.writing = self._writing  # type: ignore[attr-defined]

    @contextmanager
    def _reading(self, argv: Sequence[str]) -> Iterator[ByteReader]:
        self.asked.append(argv[1])
        yield io.BytesIO(b"diff")

    @contextmanager
    def _writing(self, argv: Sequence[str]) -> Iterator[ByteWriter]:
        self.asked.append(argv[1])
        yield self.written


@pytest.fixture
def streams(world: World) -> Streams:
    return Streams(world)


def test_snapshot_is_read_whoever_uses_the_volume(world: World, streams: Streams) -> None:
    world.create()
    world.attach()
    with world.service().exporting("demo", "b") as source:
        assert source.read(9) == b"diff"
    assert streams.asked == ["export-diff"]


def test_new_volume_is_filled_and_then_known_as_formatted(world: World, streams: Streams) -> None:
    world.create()
    with world.service().importing("demo") as sink:
        sink.write(b"diff")
    assert streams.written.getvalue() == b"diff"
    world.service().note_formatted("demo")
    with pytest.raises(RefusedError) as caught, world.service().importing("demo"):
        pass
    assert caught.value.code == "not-empty"


def test_attached_volume_is_never_written_under_its_user(world: World, streams: Streams) -> None:
    world.create()
    world.attach()
    with pytest.raises(RefusedError) as caught, world.service().importing("demo"):
        pass
    assert caught.value.code == "attached"
    assert streams.asked == []


def test_volume_that_is_not_there(world: World, streams: Streams) -> None:
    with pytest.raises(NotFoundError), world.service().exporting("demo", "b"):
        pass
    with pytest.raises(NotFoundError), world.service().importing("demo"):
        pass
