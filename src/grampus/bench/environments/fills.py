"""OSDs filled to a share before a load begins, with objects of a pool that is there for that."""

from __future__ import annotations

import math

from grampus.bench.drivers.outcome import DriverFailure
from grampus.bench.drivers.rados_command import RadosLoad, rados_bench_argv
from grampus.bench.drivers.rados_result import parse_rados_bench
from grampus.bench.environments.clients import ClientLoad, run_together
from grampus.bench.environments.environment_ports import EnvironmentPorts
from grampus.bench.environments.fitness import MIN_FREE_SHARE
from grampus.bench.environments.osd_needs import (
    OsdFill,
    OsdNeeds,
    decide_fill_bytes,
    require_disk_room,
)
from grampus.bench.environments.pools import SLOWEST_BYTES_PER_S, began_at
from grampus.core.clock import wait_until
from grampus.core.errors import GrampusError
from grampus.core.units import MIB, format_bytes

OBJECT_BYTES = 4 * MIB
CONCURRENCY = 16
# A second writing mends what the first one missed.
WRITINGS = 3
TOLERANCE_PERCENT = 1.0
REPORT_TIMEOUT_S = 30.0
# OSDs report to the MGR every 5 s (`mgr_stats_period`), it to the MONs every 2 s
# (`mgr_tick_period`), and both later on a busy machine. What was loaded just before is seen that
# late, and would be written once more. There is a limit, since OSDs go on compacting.
SETTLED_S = 12.0
SETTLE_TIMEOUT_S = 120.0
SETTLED_PERCENT = 0.25


def fill_pool(needs: OsdNeeds) -> str:
    """The pool that holds what the OSDs are filled with."""
    return f"{needs.name}-fill"


class Fills:
    """Fills OSD sets."""

    def __init__(self, ports: EnvironmentPorts) -> None:
        self._ports = ports

    def ensure(self, needs: OsdNeeds) -> None:
        """The set's OSDs as full as asked for, all that stands on them counted.

        The pool is there, with a copy on each host: so all OSDs are filled alike. Raises
        GrampusError, RefusedError (`too-full`, `disk-too-small`).
        """
        ports = self._ports
        hosts = ports.osd_sets.place_osds().hosts
        for writing in range(1, WRITINGS + 1):
            fill = self._observe_settled(needs)
            missing_bytes = decide_fill_bytes(fill, needs.fill_percent)
            if missing_bytes <= fill.total_bytes * TOLERANCE_PERCENT / 100:
                return
            require_disk_room(missing_bytes, *ports.disk_room(), MIN_FREE_SHARE)
            ports.progress.phase(
                f"Fill the OSDs of {needs.name} to {needs.fill_percent}% "
                f"({format_bytes(missing_bytes)})"
            )
            self._write(needs, missing_bytes // hosts, writing)
            self._await_report(needs, fill.used_bytes + missing_bytes // 2)
        raise GrampusError(
            f"The OSDs of {needs.name} could not be filled to {needs.fill_percent}%.",
            "See with `grampus lab osd-set list` and `grampus lab status` how they do.",
            code="not-filled",
        )

    def _write(self, needs: OsdNeeds, data_bytes: int, writing: int) -> None:
        host = self._ports.fleet.hosts()[0]
        load = RadosLoad(
            client=self._ports.client,
            pool=fill_pool(needs),
            mode="write",
            run_name=f"fill-{writing}",
            duration_s=max(60, math.ceil(data_bytes / SLOWEST_BYTES_PER_S)),
            concurrency=CONCURRENCY,
            op_bytes=OBJECT_BYTES,
            max_objects=max(1, data_bytes // OBJECT_BYTES),
        )
        client = ClientLoad("fill", host, rados_bench_argv(load), began_at)
        (end,) = run_together([client], self._ports.clock)
        outcome = parse_rados_bench(end.output)
        if isinstance(outcome, DriverFailure):
            raise GrampusError(
                f"The OSDs of {needs.name} could not be filled: {outcome.reason}",
                "See with `grampus lab status` how the cluster does.",
                code="not-filled",
            )

    def _observe_settled(self, needs: OsdNeeds) -> OsdFill:
        """How full the OSDs are, once all of it has been told; at the latest after two minutes."""
        ports, clock = self._ports, self._ports.clock
        fill = ports.osd_sets.observe_fill(needs.name)
        since_s = began_s = clock.monotonic_s()
        while clock.monotonic_s() < min(since_s + SETTLED_S, began_s + SETTLE_TIMEOUT_S):
            clock.sleep(1.0)
            found = ports.osd_sets.observe_fill(needs.name)
            if abs(found.percent - fill.percent) > SETTLED_PERCENT:
                since_s, fill = clock.monotonic_s(), found
        return fill

    def _await_report(self, needs: OsdNeeds, used_bytes: int) -> None:
        wait_until(
            self._ports.clock,
            lambda: self._ports.osd_sets.observe_fill(needs.name).used_bytes >= used_bytes,
            what=f"the OSDs of {needs.name} to tell how full they are",
            timeout_s=REPORT_TIMEOUT_S,
            interval_s=1.0,
        )
