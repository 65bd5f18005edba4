"""How the cluster's own commands are run: a port, so that ceph/ need not know any host."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from grampus.core.streams import ByteReader, ByteWriter


class CommandOutput(Protocol):
    """How a command ended."""

    @property
    def returncode(self) -> int: ...

    @property
    def stdout(self) -> str: ...

    @property
    def stderr(self) -> str: ...


class CommandRunner(Protocol):
    """Runs `ceph` and `rbd` where ceph.conf and the administrator's keyring are."""

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: str | None = None,
        timeout_s: float = 60.0,
        check: bool = True,
    ) -> CommandOutput:
        """Run a command to its end; raises GrampusError on a non-zero code, when `check`."""
        ...

    def reading(self, argv: Sequence[str]) -> AbstractContextManager[ByteReader]:
        """The bytes that a command writes to stdout, read while it runs.

        Raises GrampusError at the end of the block when the command failed.
        """
        ...

    def writing(self, argv: Sequence[str]) -> AbstractContextManager[ByteWriter]:
        """What takes bytes for a command's stdin; errors as `reading`."""
        ...
