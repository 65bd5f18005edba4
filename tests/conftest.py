"""Fixtures of all tests."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.system.command_line import TEST_HOME, CommandLine
from tests.system.exclusive_tests import LOCKS_VARIABLE, lock_of_test
from tests.system.exerciser import build_exerciser
from tests.system.logged_events import LoggedEvents, describe_unexpected, select_unexpected
from tests.system.places import ON_SITE, Place, own_place

# Started in the background of a shell, we ignore Ctrl-C, and so would every process that a test
# starts and interrupts.
signal.signal(signal.SIGINT, signal.default_int_handler)

# How long one example takes says nothing on a machine that is shared.
settings.register_profile("shared-machine", deadline=None)
settings.load_profile("shared-machine")


@pytest.hookimpl(wrapper=True, tryfirst=True)  # to wait is no part of the time that a test may take
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """One lane waits for the other when a test is to be alone."""
    locks = os.environ.get(LOCKS_VARIABLE)
    if locks is None:
        return (yield)
    with lock_of_test(Path(locks), alone=item.get_closest_marker("alone") is not None):
        return (yield)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """On a site, only the tests that take a `place` are run: the others are of the lab."""
    if ON_SITE:
        left = [item for item in items if "place" not in getattr(item, "fixturenames", ())]
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if item not in left]


@pytest.fixture(autouse=True)
def nothing_unexpected_is_logged(request: pytest.FixtureRequest) -> Iterator[None]:
    """By the commands of a test with a lab; those of other tests have homes of their own."""
    logged = LoggedEvents(TEST_HOME)
    yield
    marks = request.node.iter_markers("logs")
    unexpected = select_unexpected(logged.read(), {name for mark in marks for name in mark.args})
    assert not unexpected, describe_unexpected(unexpected)


def make_lab(name: str, *options: str) -> Iterator[CommandLine]:
    """A lab for one module of tests, new, and gone afterwards whatever happened."""
    command_line = CommandLine(name)
    command_line.run("lab", "down", "--yes")  # of a test run that was ended
    command_line.ok("lab", "up", *options, timeout_s=600)
    try:
        yield command_line
    finally:
        command_line.ok("lab", "down", "--yes")


@pytest.fixture(scope="session")
def lab() -> Iterator[CommandLine]:
    """The lab that the system tests share."""
    yield from make_lab("test-main")


@pytest.fixture(scope="session")
def place(lab: CommandLine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """The lab, or a site on its cluster with GRAMPUS_TESTS_ON=site."""
    with own_place(lab, tmp_path_factory.mktemp("place")) as place:
        yield place


@pytest.fixture(scope="session")
def exerciser_program() -> Path:
    """The data plane's exerciser, built from this checkout."""
    return build_exerciser()
