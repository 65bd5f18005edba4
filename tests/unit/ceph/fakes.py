"""A `CommandRunner` that answers by a table of command lines."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from grampus.ceph.reporting import REPORT
from grampus.core.errors import GrampusError
from tests.fakes.mon_commands import as_ceph_command

PREFIX = "ceph --connect-timeout 20 "


@dataclass(frozen=True)
class Output:
    """How a command ended."""

    returncode: int = 0
    stdout: str = ""
    stderr: str = ""


ENOENT = Output(2, "", "error: (2) No such file or directory")
Reply = Output | str | list[Any] | dict[str, Any]


class FakeRunner:
    """Answers each command line from `table`; an answer may be a list of replies, one a call.

    `asked` are the command lines in order, without what every `ceph` call begins with. A command
    that is not in the table fails the test.
    """

    def __init__(self, table: Mapping[str, Reply | Callable[[], Reply]]) -> None:
        self.table = dict(table)
        self.asked: list[str] = []
        self.timeouts_s: list[float] = []

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: str | None = None,
        timeout_s: float = 60.0,
        check: bool = True,
    ) -> Output:
        line = " ".join(as_ceph_command(argv))
        line = f"ceph {line.removeprefix(PREFIX)}" if line.startswith(PREFIX) else line
        self.asked.append(line)
        self.timeouts_s.append(timeout_s)
        if line not in self.table:
            raise AssertionError(f"not in the table: {line}")
        reply = self.table[line]
        made = reply() if callable(reply) else reply
        if isinstance(made, Output):
            output = made
        else:
            output = Output(stdout=made if isinstance(made, str) else json.dumps(made))
        if check and output.returncode != 0:
            raise GrampusError(output.stderr or "It failed.", code="command-failed")
        return output

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
