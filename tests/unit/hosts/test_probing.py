"""Which places answer: the script is run, on this machine's loopback device."""

from __future__ import annotations

import socket
import subprocess
from contextlib import ExitStack

import pytest

from grampus.hosts.probing import (
    has_heard,
    hears_most,
    parse_probe,
    probe_argv,
)


@pytest.mark.parametrize(
    ("heard", "expected"),
    [((), False), (("a",), False), (("a", "b"), True), (("a", "b", "c"), True)],
)
def test_most_mons_can_have_a_quorum(heard: tuple[str, ...], expected: bool) -> None:
    answers = dict.fromkeys(heard, "listens")
    assert hears_most(answers, ["a", "b", "c"]) == expected  # type: ignore[arg-type]
    assert not hears_most(answers, [])  # type: ignore[arg-type]
    assert not hears_most({"a": "refused", "b": "refused", "c": "listens"}, ["a", "b", "c"])


def test_a_greeting_is_told_from_a_connection_that_is_silent() -> None:
    with ExitStack() as stack:
        greeting, hung, closed, full = (stack.enter_context(socket.socket()) for _ in range(4))
        for one in (greeting, hung, closed, full):
            one.bind(("127.0.0.1", 0))
        for one in (greeting, hung):
            one.listen()
        full.listen(0)
        places = [f"127.0.0.1:{one.getsockname()[1]}" for one in (greeting, hung, closed, full)]
        stack.enter_context(socket.create_connection(full.getsockname()))
        program = stack.enter_context(
            subprocess.Popen(probe_argv(places, 1.0), stdout=subprocess.PIPE, text=True)
        )
        connection, _ = greeting.accept()
        connection.sendall(b"J\0\0\0")
        stack.enter_context(connection)
        said, _ = program.communicate(timeout=30)
    answers = parse_probe(said)
    assert answers == dict(zip(places, ("greets", "listens", "refused", "silent"), strict=True))
    heard = [has_heard(answers, [place]) for place in places]
    assert heard == [True, True, True, False]


def test_a_silent_place_is_asked_again_with_packets_of_its_own() -> None:
    """Its queue was full at first, as a host is that comes back."""
    with ExitStack() as stack:
        (listens, full) = (stack.enter_context(socket.socket()) for _ in range(2))
        for one in (listens, full):
            one.bind(("127.0.0.1", 0))
            one.listen(0)
        places = [f"127.0.0.1:{one.getsockname()[1]}" for one in (listens, full)]
        stack.enter_context(socket.create_connection(full.getsockname()))
        argv = probe_argv(places, 0.3, rounds=100)
        program = stack.enter_context(subprocess.Popen(argv, stdout=subprocess.PIPE, text=True))
        stack.enter_context(listens.accept()[0])  # the first round has begun
        stack.enter_context(full.accept()[0])
        said, _ = program.communicate(timeout=30)
    assert parse_probe(said) == dict.fromkeys(places, "listens")


def test_where_one_answer_is_enough_nobody_waits_for_the_others() -> None:
    with ExitStack() as stack:
        closed, full = (stack.enter_context(socket.socket()) for _ in range(2))
        for one in (closed, full):
            one.bind(("127.0.0.1", 0))
        full.listen(0)
        places = [f"127.0.0.1:{one.getsockname()[1]}" for one in (full, closed)]
        stack.enter_context(socket.create_connection(full.getsockname()))
        argv = probe_argv(places, 600.0, rounds=3, one_is_enough=True)
        ended = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60)
    assert parse_probe(ended.stdout) == dict(zip(places, ("silent", "refused"), strict=True))


def test_an_answer_that_is_none_is_left_out() -> None:
    assert parse_probe("10.0.0.1:1 listens\n10.0.0.2:1 what\n10.0.0.3:1") == {
        "10.0.0.1:1": "listens",
    }
