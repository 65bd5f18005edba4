"""Which pools are full: Ceph holds up every write in one, and with that whoever opens an image.

A client that writes to an image registers a watch and takes its lock first, and `rbd` asserts that
the image's namespace is there: all of them writes. Ceph does not refuse these, it lets them wait
until there is room again, so `rbd` waits without a word.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from json import loads
from typing import Any

from grampus.ceph.mon_commands import ASK_MONS, ask_mons
from grampus.ceph.ports import CommandOutput, CommandRunner
from grampus.core.clock import format_duration
from grampus.core.errors import GrampusError, RefusedError
from grampus.core.streams import ByteReader, ByteWriter

# Of a pool in the OSD map: an OSD that it is on takes no more writes, or its quota is reached
# (src/osd/osd_types.h in Ceph 20.2: FLAG_FULL, which also goes with FLAG_FULL_QUOTA).
FULL = "full"
# Not to delete something first: `rbd` asserts an image's namespace with what counts as a write
# (Ceph 20.2), so nothing in a namespace is deleted from a full pool either.
MAKE_ROOM = (
    "Raise its quota, if `ceph osd pool get-quota` shows one, or add OSDs. To delete data "
    "first, raise the limit of the OSDs meanwhile: `ceph osd set-full-ratio 0.97`."
)


def parse_full_pools(osd_map: Mapping[str, Any]) -> list[str]:
    """The full pools of what `ceph osd dump` says."""
    return [
        pool["pool_name"]
        for pool in osd_map["pools"]
        if FULL in str(pool.get("flags_names", "")).split(",")
    ]


def observe_full_pools(runner: CommandRunner) -> list[str]:
    """The pools that are full now. Raises GrampusError when no MON answers."""
    return parse_full_pools(loads(ask_mons(runner, "osd dump", format="json").stdout))


def require_writable(runner: CommandRunner, pool: str) -> None:
    """Raise RefusedError with code `pool-full` when Ceph holds up every write in the pool."""
    if pool in observe_full_pools(runner):
        raise RefusedError(_sentence(pool), MAKE_ROOM, code="pool-full")


def find_full_pool(argv: Sequence[str], full: Sequence[str]) -> str | None:
    """Which of the full pools a command names, as POOL or POOL/IMAGE."""
    named = {argument.partition("/")[0] for argument in argv}
    return next((pool for pool in full if pool in named), None)


class WaitExplainer:
    """A CommandRunner whose time-outs say that the pool is full, if that is why."""

    def __init__(self, runner: CommandRunner) -> None:
        self._runner = runner

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: str | None = None,
        timeout_s: float = 60.0,
        check: bool = True,
    ) -> CommandOutput:
        """As `CommandRunner.run`; GrampusError with code `pool-full` where that made it wait."""
        try:
            return self._runner.run(argv, stdin=stdin, timeout_s=timeout_s, check=check)
        except GrampusError as error:
            # What asks the MONs alone waits for no pool, and where they are away it is enough to
            # wait for them once.
            if error.code != "timeout" or argv[0] == "ceph" or ASK_MONS in argv:
                raise
            pool = find_full_pool(argv, self._full_pools())
            if pool is None:
                raise
            problem = f"{_sentence(pool)} `{argv[0]}` waited {format_duration(timeout_s)} for it."
            raise GrampusError(problem, MAKE_ROOM, code="pool-full") from error

    def reading(self, argv: Sequence[str]) -> AbstractContextManager[ByteReader]:
        """As `CommandRunner.reading`."""
        return self._runner.reading(argv)

    def writing(self, argv: Sequence[str]) -> AbstractContextManager[ByteWriter]:
        """As `CommandRunner.writing`."""
        return self._runner.writing(argv)

    def _full_pools(self) -> list[str]:
        try:
            return observe_full_pools(self._runner)
        except GrampusError:
            return []  # the time-out that is to be explained says enough


def _sentence(pool: str) -> str:
    return (
        f"The pool '{pool}' is full: Ceph blocks every write in it, and every client that "
        "opens an image."
    )
