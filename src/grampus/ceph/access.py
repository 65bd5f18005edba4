"""Ceph's own programs run against a cluster that is named on their command lines.

The programs on a lab's hosts find their cluster in /etc/ceph; on somebody's machine there may be
several, or one in another place. Nothing but the programs is needed there: no Python bindings.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from grampus.ceph.ports import CommandOutput, CommandRunner
from grampus.core.streams import ByteReader, ByteWriter

PROGRAMS = ("ceph", "rados", "rbd")


class NamedCluster(Protocol):
    """Which cluster, and as whom."""

    @property
    def options(self) -> Sequence[str]:
        """Options for each of `PROGRAMS`; no key is among them."""
        ...


class AccessRunner:
    """A `CommandRunner` whose `ceph`, `rados` and `rbd` are told which cluster is meant."""

    def __init__(self, runner: CommandRunner, cluster: NamedCluster) -> None:
        self._runner = runner
        self._cluster = cluster

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: str | None = None,
        timeout_s: float = 60.0,
        check: bool = True,
    ) -> CommandOutput:
        """See `CommandRunner`."""
        return self._runner.run(
            named_argv(argv, self._cluster), stdin=stdin, timeout_s=timeout_s, check=check
        )

    def reading(self, argv: Sequence[str]) -> AbstractContextManager[ByteReader]:
        """See `CommandRunner`."""
        return self._runner.reading(named_argv(argv, self._cluster))

    def writing(self, argv: Sequence[str]) -> AbstractContextManager[ByteWriter]:
        """See `CommandRunner`."""
        return self._runner.writing(named_argv(argv, self._cluster))


def named_argv(argv: Sequence[str], cluster: NamedCluster) -> list[str]:
    """The command with the cluster's options behind its program.

    Raises ValueError for another program: it would ask whatever cluster it finds by itself.
    """
    program, *arguments = argv
    if program not in PROGRAMS:
        raise ValueError(f"{program} has no option to select a cluster")
    return [program, *cluster.options, *arguments]
