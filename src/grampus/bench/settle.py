"""Waiting until the instances have written out what they still hold.

Two instances share the machine. What one flushes after its turn would be charged to the
other's, so each arm begins when both are calm, or when the bound is reached: an instance is
never stopped for it, since a cold buffer pool would be a worse difference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from grampus.bench.counters import CALM_CPU_CORES, classify_calm
from grampus.core.clock import Clock
from grampus.hosts.port import Fleet, Usage

POLL_S = 0.3


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
