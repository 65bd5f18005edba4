"""Commands whose bytes flow: real processes, no patches."""

from __future__ import annotations

import pytest

from grampus.core.errors import GrampusError
from grampus.core.streams import ByteReader, ByteWriter
from grampus.hosts.port import CommandFailedError
from grampus.hosts.process import read_command, write_command

MANY = 3 * 1024 * 1024  # more than any pipe holds


def read_all(source: ByteReader) -> int:
    size = 0
    while data := source.read(65536):
        size += len(data)
    return size


def read_command_to_the_end(script: str) -> int:
    with read_command(["sh", "-c", script], where="host-2", shown=["rbd", "export"]) as source:
        return read_all(source)


def feed(script: str, data: bytes) -> None:
    with write_command(["sh", "-c", script], where="host-2", shown=["rbd", "import"]) as sink:
        sink.write(data)


def give_up_within(block: ByteReader | ByteWriter) -> None:
    raise KeyboardInterrupt


def test_bytes_come_as_they_are() -> None:
    with read_command(["printf", r"a\000\377b\n"]) as source:
        assert source.read(100) == b"a\0\xffb\n"


def test_more_than_a_pipe_holds() -> None:
    assert read_command_to_the_end(f"head -c {MANY} /dev/zero; echo note >&2") == MANY
    feed(f'test "$(wc -c)" = {MANY}', bytes(MANY))


@pytest.mark.parametrize("printed", [0, MANY])
def test_failure_of_a_command_that_is_read_ends_the_block(printed: int) -> None:
    with pytest.raises(CommandFailedError, match=r"`rbd export` failed on host-2.*no room"):
        read_command_to_the_end(f"head -c {printed} /dev/zero; echo no room >&2; exit 5")


def test_command_that_is_not_read_to_its_end_has_failed() -> None:
    with pytest.raises(CommandFailedError), read_command(["cat", "/dev/zero"]) as source:
        source.read(10)


@pytest.mark.parametrize(
    "script", ["cat >/dev/null; echo bad diff >&2; exit 5", "echo bad diff >&2; exit 5"]
)
def test_failure_of_a_command_that_is_written_to(script: str) -> None:
    with pytest.raises(CommandFailedError, match="bad diff"):
        feed(script, bytes(MANY))


def test_command_that_does_not_take_all_has_failed() -> None:
    with pytest.raises(GrampusError, match="before it had read its whole input"):
        feed("exit 0", bytes(MANY))


def test_command_ends_with_a_block_that_raises() -> None:
    # Each would go on for ever: the tests' own time limit would find it.
    with pytest.raises(KeyboardInterrupt), read_command(["cat", "/dev/zero"]) as source:
        give_up_within(source)
    with pytest.raises(KeyboardInterrupt), write_command(["sleep", "600"]) as sink:
        give_up_within(sink)
