"""What runs `ceph` and `rbd` for tests: fakes of a cluster, and one that answers by a table."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

from grampus.ceph.reporting import REPORT
from grampus.core.errors import GrampusError
from grampus.core.streams import ByteReader, ByteWriter
from tests.fakes.mon_commands import as_ceph_command, asks_parents, follow_parents

PREFIX = "ceph --connect-timeout 20 "


@dataclass(frozen=True)
class Output:
    """How a command ended."""

    returncode: int = 0
    stdout: str = ""
    stderr: str = ""


ENOENT = Output(2, "", "error: (2) No such file or directory")
Reply = Output | str | list[Any] | dict[str, Any]


class PlayedCommands:
    """A `CommandRunner`: `play` is what the cluster does, and replies; a document is JSON."""

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: str | None = None,
        timeout_s: float = 60.0,
        check: bool = True,
    ) -> Output:
        made = (
            self._play_parents(argv)
            if asks_parents(argv)
            else self.play(as_ceph_command(argv), stdin)
        )
        if isinstance(made, Output):
            output = made
        else:
            output = Output(stdout=made if isinstance(made, str) else json.dumps(made))
        if check and output.returncode != 0:
            raise GrampusError(output.stderr or "It failed.", code="command-failed")
        return output

    def play(self, argv: list[str], stdin: str | None) -> Reply:
        raise AssertionError(f"a command that no cluster was told of: {argv}")

    def _play_parents(self, argv: Sequence[str]) -> Reply:
        """From what is played of `rbd info`; the first failure is that of the script."""
        failed: list[Output] = []

        def ask(asked: list[str]) -> Any:
            made = self.play(asked, None)
            if isinstance(made, Output) and made.returncode != 0:
                failed.append(made)
                return {}
            return json.loads(made.stdout) if isinstance(made, Output) else made

        found = follow_parents(argv, ask)
        return failed[0] if failed else found

    def reading(self, argv: Sequence[str]) -> AbstractContextManager[ByteReader]:
        raise AssertionError(f"a command that no cluster was told of: {argv}")

    def writing(self, argv: Sequence[str]) -> AbstractContextManager[ByteWriter]:
        raise AssertionError(f"a command that no cluster was told of: {argv}")


class FakeRunner(PlayedCommands):
    """Answers each command line from `table`; an answer may be a function, for one that changes.

    `asked` are the command lines in order, without what every `ceph` call begins with. A command
    that is not in the table fails the test.
    """

    def __init__(self, table: Mapping[str, Reply | Callable[[], Reply]]) -> None:
        self.table = dict(table)
        self.asked: list[str] = []
        self.timeouts_s: list[float] = []

    def run(self, argv: Sequence[str], *, timeout_s: float = 60.0, **options: Any) -> Output:
        self.timeouts_s.append(timeout_s)
        return super().run(argv, timeout_s=timeout_s, **options)

    def play(self, argv: list[str], stdin: str | None) -> Reply:
        line = " ".join(argv)
        line = f"ceph {line.removeprefix(PREFIX)}" if line.startswith(PREFIX) else line
        self.asked.append(line)
        if line not in self.table:
            raise AssertionError(f"not in the table: {line}")
        reply = self.table[line]
        return reply() if callable(reply) else reply

    @contextmanager
    def reading(self, argv: Sequence[str]) -> Iterator[io.BytesIO]:
        """What a reporting command says, in the table as the command without its shell."""
        assert tuple(argv[:3]) == ("sh", "-c", REPORT), argv
        output = self.run(argv[3:], check=False)
        yield io.BytesIO((output.stdout + output.stderr).encode())
        if output.returncode != 0:
            raise GrampusError("It failed.", code="command-failed")

    def changes(self) -> list[str]:
        """What was asked that only a change needs: no query of a document."""
        return [line for line in self.asked if "--format json" not in line]
