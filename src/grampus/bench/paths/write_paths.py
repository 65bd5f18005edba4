"""One write path measured on its mounted file system: fio on a file there, then MySQL."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from grampus.bench.calm import await_calm
from grampus.bench.drivers.fio_command import Device
from grampus.bench.paths.blocks import Block, decide_groups
from grampus.bench.paths.costs import decide_cost_figures
from grampus.bench.paths.database import Ground, ScratchDatabase
from grampus.bench.paths.load import Figure, LoadGenerator, Region, Timing
from grampus.bench.paths.plan import PathsPlan, decide_measures
from grampus.core.clock import Clock
from grampus.hosts.port import Host

SYNC_TIMEOUT_S = 600.0

# Takes the figures of an arm as they come, so that what follows them may fail.
Keep = Callable[[str, Sequence[Figure]], None]


@dataclass(frozen=True)
class RoundSettings:
    """What is the same for all arms of a round."""

    number: int
    timing: Timing
    fio_seed: int


class WritePathLoad:
    """Measures the blocks that are compared as write paths, once they are mounted."""

    def __init__(self, host: Host, clock: Clock, plan: PathsPlan, load: LoadGenerator) -> None:
        self._host = host
        self._clock = clock
        self._plan = plan
        self._load = load

    def measure_files(
        self, block: Block, ground: Ground, file: PurePosixPath, settings: RoundSettings, keep: Keep
    ) -> None:
        """fio's measures, each on a volume at rest unless it follows another one.

        Raises DriverError, and GrampusError with code `timeout` when the volume does not come to
        rest.
        """
        region = Region(0, self._plan.scale.region_bytes)
        ordered = decide_measures(block.xfs, seed=self._plan.seed, round_number=settings.number)
        for group in decide_groups(ordered):
            self._come_to_rest(ground)
            figures = self._load.measure(
                Device(file),
                region,
                group,
                settings.timing,
                seed=settings.fio_seed,
                name=f"round-{settings.number:02}.{block.xfs_arm}.{group[0].name}",
                daemon=ground.driver_daemon,
                osd_hosts=ground.osd_hosts,
            )
            keep(block.xfs_arm, [*figures, *decide_cost_figures(block.costs, figures)])

    def measure_database(
        self,
        block: Block,
        ground: Ground,
        database: ScratchDatabase,
        settings: RoundSettings,
        keep: Keep,
    ) -> None:
        """sysbench's measures, on one instance. Raises GrampusError and DriverError."""
        if block.is_write_path:
            self._come_to_rest(ground)

        def keep_with_costs(figure: Figure) -> None:
            keep(block.xfs_arm, [figure, *decide_cost_figures(block.costs, [figure])])

        database.measure(
            ground,
            decide_measures(block.database, seed=self._plan.seed, round_number=settings.number),
            name=f"round-{settings.number:02}.{block.xfs_arm}",
            counting_writes=[one.of for one in block.costs if one.counts == "rados-writes"],
            keep=keep_with_costs,
        )

    def _come_to_rest(self, ground: Ground) -> None:
        argv = ["sync", "--file-system", str(ground.mount_path)]
        self._host.run(argv, timeout_s=SYNC_TIMEOUT_S)
        await_calm(self._clock, ground.is_drained, what="the volume")
