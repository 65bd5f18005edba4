"""A host that answers commands from a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from grampus.hosts.port import CommandFailedError, CommandResult
from tests.fakes.hosts import FakeHost

Answer = Callable[[Sequence[str]], CommandResult | str]


class AnsweringHost(FakeHost):
    """Answers each command by `answer`; `commands` are those, in order, and `options` theirs."""

    def __init__(self, name: str, answer: Answer, *, up: bool = True) -> None:
        super().__init__(name)
        self.up = up
        self.options: list[dict[str, Any]] = []
        self._answer = answer

    def run(
        self, argv: Sequence[str], *, check: bool = True, daemon: str | None = None, **options: Any
    ) -> CommandResult:
        self.require_up()
        self.commands.append(tuple(argv))
        self.options.append({**options, "check": check})
        answer = self._answer(argv)
        if isinstance(answer, str):
            answer = CommandResult(tuple(argv), 0, answer, "")
        if check and answer.returncode != 0:
            raise CommandFailedError(self.name, answer)
        return answer
