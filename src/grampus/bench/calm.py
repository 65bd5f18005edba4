"""Waiting until servers and volumes have written out what they still hold.

What a server flushes after its turn would be charged to the next one's. So each arm begins when all
servers are calm, or when the bound is reached: no server is stopped for it, since a cold buffer
pool would be a worse difference.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from grampus.bench.counters import CALM_CPU_CORES, classify_calm
from grampus.core.clock import Clock, wait_until
from grampus.core.errors import GrampusError
from grampus.hosts.port import Fleet, Usage
from grampus.volumes.live import LiveVolume

POLL_S = 0.3
# A journal that nobody adds to is brought into the image after a second; a full one takes a while.
REST_TIMEOUT_S = 600.0
REST_POLL_S = 0.25
# A file system at rest still writes a block now and then, so never all of it is applied.
REST_BYTES = 256 * 1024


@dataclass(frozen=True)
class Settled:
    """How long was waited, and whether all instances were calm in the end."""

    waited_s: float
    calm: bool


def wait_until_calm(
    fleet: Fleet,
    daemons: Sequence[tuple[str, str]],
    *,
    clock: Clock,
    max_s: float,
    idle_cores: Mapping[tuple[str, str], float] | None = None,
) -> Settled:
    """Poll the (host, daemon) pairs until all are calm or `max_s` seconds have passed.

    `idle_cores` are for those that take more than others when they do nothing. With `max_s` zero
    nothing is read and nothing is known. Raises what the hosts raise.
    """
    if max_s <= 0:
        return Settled(waited_s=0.0, calm=False)
    began_s = clock.monotonic_s()
    before, before_s = _observe(fleet, daemons), began_s
    while True:
        clock.sleep(POLL_S)
        after, after_s = _observe(fleet, daemons), clock.monotonic_s()
        elapsed_s = after_s - before_s
        calm = all(
            key in before
            and key in after
            and classify_calm(
                *(before[key], after[key], elapsed_s),
                idle_cores=(idle_cores or {}).get(key, CALM_CPU_CORES),
            )
            for key in daemons
        )
        if calm or after_s - began_s >= max_s:
            return Settled(waited_s=after_s - began_s, calm=calm)
        before, before_s = after, after_s


def _observe(fleet: Fleet, daemons: Sequence[tuple[str, str]]) -> dict[tuple[str, str], Usage]:
    found: dict[tuple[str, str], Usage] = {}
    for host in sorted({host for host, _ in daemons}):
        for daemon, usage in fleet.host(host).observe_usage().items():
            found[(host, daemon)] = usage
    return found


def is_drained(live: LiveVolume | None) -> bool:
    """Whether a volume holds next to nothing that its image does not.

    True without a journal. A volume that cannot be asked is not.
    """
    if live is None or live.state != "running":
        return False
    journal = live.journal
    if journal is None:
        return True
    if journal.lag_bytes > REST_BYTES:
        return False
    return journal.applied >= journal.sealed or journal.held_bytes <= REST_BYTES


def await_calm(clock: Clock, is_calm: Callable[[], bool], *, what: str) -> None:
    """Wait for it. Raises GrampusError with code `timeout`."""
    wait_until(
        clock,
        is_calm,
        what=f"{what} to come to rest",
        remedy="`grampus volume show` says what its journal does.",
        timeout_s=REST_TIMEOUT_S,
        interval_s=REST_POLL_S,
    )


def is_calm_in_time(clock: Clock, is_calm: Callable[[], bool], *, what: str) -> bool:
    """Whether it came to rest before the waiting was given up."""
    try:
        await_calm(clock, is_calm, what=what)
    except GrampusError as error:
        if error.code != "timeout":
            raise
        return False
    return True
