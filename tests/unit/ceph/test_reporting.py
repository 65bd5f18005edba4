"""Long commands that are watched while they say nothing."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from grampus.ceph.reporting import Watch, run_reporting
from grampus.core.errors import GrampusError
from grampus.core.streams import ByteReader
from tests.fakes.clock import FakeClock
from tests.fakes.commands import FakeRunner

SCARCE = GrampusError("There is no room.", code="scarce")


class _Silent(FakeRunner):
    """A command that says nothing until its cluster answers, or until it is ended."""

    def __init__(self) -> None:
        super().__init__({})
        self.goes_on = threading.Event()
        self.was_ended = False

    @contextmanager
    def reading(self, argv: Sequence[str]) -> Iterator[ByteReader]:  # type: ignore[override]
        said = io.BytesIO(b"100% complete")

        class Output:
            def read(_, size_bytes: int, /) -> bytes:  # noqa: N805
                self.goes_on.wait()
                return b"" if self.was_ended else said.read(size_bytes)

        try:
            yield Output()
        except BaseException:
            self.was_ended = True
            raise
        finally:
            self.goes_on.set()


def _run(runner: _Silent, watch: Watch) -> list[float]:
    reported: list[float] = []
    run_reporting(
        runner,
        ["migration", "execute"],
        reported.append,
        lambda said: GrampusError(said),
        watch=watch,
    )
    return reported


def test_a_command_that_says_nothing_is_ended_by_its_watch() -> None:
    runner, looks = _Silent(), iter([None, None, SCARCE])
    watch = Watch(lambda: next(looks), 0.001, FakeClock().monotonic_s)
    with pytest.raises(GrampusError) as ended:
        _run(runner, watch)
    assert ended.value is SCARCE
    assert runner.was_ended


def test_a_command_that_says_something_again_goes_on() -> None:
    runner = _Silent()

    def look() -> None:
        runner.goes_on.set()

    assert _run(runner, Watch(look, 0.001, FakeClock().monotonic_s)) == [1.0]
    assert not runner.was_ended


def test_what_a_watch_meets_ends_the_command_too() -> None:
    runner = _Silent()

    def look() -> GrampusError | None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        _run(runner, Watch(look, 0.001, FakeClock().monotonic_s))
    assert runner.was_ended
