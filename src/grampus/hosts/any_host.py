"""Commands that any host can run, such as those of the cluster: run on the first that answers."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager

from grampus.core.streams import ByteReader, ByteWriter
from grampus.hosts.port import COMMAND_TIMEOUT_S, CommandResult, Fleet, Host, HostUnreachableError


class AnyReachableHost:
    """Runs commands on the first reachable host of a fleet."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: str | None = None,
        timeout_s: float = COMMAND_TIMEOUT_S,
        check: bool = True,
    ) -> CommandResult:
        """As `Host.run`. Raises HostUnreachableError when no host can be reached."""
        return self._any().run(argv, stdin=stdin, timeout_s=timeout_s, check=check)

    def reading(self, argv: Sequence[str]) -> AbstractContextManager[ByteReader]:
        """As `Host.reading`; errors as `run`."""
        return self._any().reading(argv)

    def writing(self, argv: Sequence[str]) -> AbstractContextManager[ByteWriter]:
        """As `Host.writing`; errors as `run`."""
        return self._any().writing(argv)

    def _any(self) -> Host:
        for host in self._fleet.hosts():
            if self._fleet.reaches_cluster(host.name):
                return host
        raise HostUnreachableError(
            "No host of the cluster can be reached.",
            "`grampus host list` shows the state of the hosts.",
        )
