"""A host at the port that answers commands from a table, and a fleet of such hosts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import PurePosixPath
from typing import Any

from grampus.core.errors import NotFoundError
from grampus.hosts.port import CommandFailedError, CommandResult, HostUnreachableError

Answer = Callable[[Sequence[str]], CommandResult | str]


class FakeHost:
    """Answers each command by `answer`; `asked` are the commands, in order."""

    data_dir = PurePosixPath("/data")

    def __init__(self, name: str, answer: Answer) -> None:
        self.name = name
        self.address = "10.0.0.1"
        self.asked: list[list[str]] = []
        self.options: list[dict[str, Any]] = []
        self._answer = answer

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: str | None = None,
        timeout_s: float = 60.0,
        check: bool = True,
        daemon: str | None = None,
    ) -> CommandResult:
        self.asked.append(list(argv))
        self.options.append({"stdin": stdin, "timeout_s": timeout_s, "check": check})
        answer = self._answer(argv)
        if isinstance(answer, str):
            answer = CommandResult(tuple(argv), 0, answer, "")
        if check and answer.returncode != 0:
            raise CommandFailedError(self.name, answer)
        return answer


class FakeFleet:
    """Hosts of which some cannot be reached."""

    def __init__(self, hosts: Iterable[FakeHost], *, down: Iterable[str] = ()) -> None:
        self._hosts = {host.name: host for host in hosts}
        self._down = set(down)

    def hosts(self) -> list[Any]:
        return [self._hosts[name] for name in sorted(self._hosts)]

    def host(self, name: str) -> Any:
        if name not in self._hosts:
            raise NotFoundError(f"There is no host named '{name}'.")
        return self._hosts[name]

    def is_reachable(self, name: str) -> bool:
        return name not in self._down

    def reaches_cluster(self, name: str) -> bool:
        return self.is_reachable(name)

    def database_addresses(self) -> Sequence[str]:
        return ()


def unreachable(_argv: Sequence[str]) -> CommandResult | str:
    """The answer of a host that was cut off after it was asked whether it can be reached."""
    raise HostUnreachableError("The host is down.")
