"""The state of a site as a log of changes in its pool, for all who work on the site.

`grampus.SITE.state` is an object with the log, `grampus.SITE.state.alive` one with the heartbeats
of those who hold locks (`ceph/state_log_program.py`). RADOS appends an entry only behind the
one that its writer has seen, so all read the same changes in the same order.

Failure and recovery: an answer that is lost leaves it open whether the entry was appended; who
asked finds it in the log, or not. Why this and not libcephsqlite: docs/adr/0052.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib import resources
from typing import Any, Protocol

from grampus.ceph.ports import CommandOutput
from grampus.core.errors import GrampusError
from grampus.state.log_port import LogPart, StateUnansweredError

PROGRAM = resources.files("grampus.ceph").joinpath("state_log_program.py")
_FAILED, _DENIED = 1, 77
# The program waits 15 s for the cluster, when it connects and for a request.
_TIMEOUT_S = 40.0


class _Servers(Protocol):
    """As `CommandServers`."""

    def run(
        self, argv: list[str], *, stdin: str | None, timeout_s: float, check: bool
    ) -> CommandOutput: ...

    def close(self) -> None: ...


def state_object(site: str) -> str:
    """The name of the object with the log."""
    return f"grampus.{site}.state"


def program_argv(pool: str, site: str) -> list[str]:
    """What answers the requests, where Ceph's libraries are."""
    return ["python3", "-c", PROGRAM.read_text(encoding="utf-8"), pool, state_object(site)]


class StateLog:
    """The log of one site. All methods raise GrampusError, and StateUnansweredError.

    `servers` runs `program_argv`. Safe to be used by several threads.
    """

    def __init__(self, site: str, connect: Callable[[], _Servers]) -> None:
        self._site = site
        self._connect = connect
        self._servers: _Servers | None = None

    def read(self, after: int) -> LogPart | None:
        """The first entries behind number `after`; None: there is no log."""
        found = self._ask("read", str(after))
        if found is None:
            return None
        entries = tuple((number, text) for number, text in found["entries"])
        return LogPart(found["log"], found["base"], found["head"], entries)

    def create(self, log: str) -> bool:
        """Whether an empty log with this id was created; False: there is one."""
        return bool(self._ask("create", log))

    def append(self, log: str, head: int, text: str) -> bool:
        """Whether the entry was appended; False: `head` is not the last one of that log."""
        return bool(self._ask("append", log, str(head), stdin=text))

    def compact(self, log: str, base: int, number: int, text: str) -> bool:
        """Whether `text` stands for the entries up to `number`; False: another one does."""
        return bool(self._ask("compact", log, str(base), str(number), stdin=text))

    def snapshot(self, number: int) -> str | None:
        """The state after an entry that is a `base`; None: another one is, by now."""
        found: str | None = self._ask("snapshot", str(number))
        return found

    def beat(self, holder: str, value: str) -> None:
        """Send a heartbeat; with an empty value, the holder has ended."""
        self._ask("beat", holder, value)

    def beats(self) -> dict[str, str]:
        """The last heartbeat of each holder of locks."""
        found: dict[str, str] = self._ask("beats")
        return found

    def remove(self) -> None:
        """Remove the log, its snapshot and the heartbeats."""
        self._ask("remove")

    def close(self) -> None:
        """End what waits for requests. A later one starts it again."""
        if self._servers is not None:
            self._servers.close()

    def _ask(self, *words: str, stdin: str | None = None) -> Any:
        if self._servers is None:
            self._servers = self._connect()
        try:
            answer = self._servers.run(list(words), stdin=stdin, timeout_s=_TIMEOUT_S, check=False)
        except GrampusError as error:
            if error.code != "timeout":
                raise
            raise self._unanswered(f"no answer in {_TIMEOUT_S:g} s") from error
        if answer.returncode == 0:
            return json.loads(answer.stdout)
        said = answer.stderr.strip() or f"exit code {answer.returncode}"
        if answer.returncode == _DENIED:
            raise GrampusError(
                f"The key of the site '{self._site}' may not use the state of the site in the "
                f"cluster: {said}.",
                f"`grampus site caps {self._site}` shows the capabilities that it needs.",
                code="state-denied",
            )
        if answer.returncode == _FAILED:
            raise GrampusError(
                f"The cluster of the site '{self._site}' failed to read or change the state of "
                f"the site: {said}.",
                f"`grampus site check {self._site}` shows what is wrong with the cluster.",
                code="state-failed",
            )
        raise self._unanswered(said)

    def _unanswered(self, said: str) -> StateUnansweredError:
        return StateUnansweredError(
            f"The cluster of the site '{self._site}' does not answer: {said}.",
            f"`grampus site check {self._site}` shows what is wrong with the cluster.",
        )
