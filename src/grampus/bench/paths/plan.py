"""What a run of `paths` will do: which ways, in which order, for how long. Pure."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from grampus.bench.paths.blocks import (
    ARM_TITLES,
    Block,
    BlockKind,
    BlockName,
    decide_blocks,
    decide_groups,
)
from grampus.bench.paths.suite import (
    SCALES,
    DatabaseMeasure,
    Measure,
    PathsScale,
    PathsScaleName,
    PathsSuite,
)
from grampus.bench.quick_plan import DATA_BYTES_PER_ROW
from grampus.core.errors import UsageError, closest_name
from grampus.core.units import MIB
from grampus.state.runs import PathsArm

MeasureT = TypeVar("MeasureT", Measure, DatabaseMeasure)

# Measured on two cores: what fio takes for each job beside its running time, and what it takes
# to set a block up and to take it down.
FIO_JOB_OVERHEAD_S = 0.33
FIO_START_S = 0.5
BLOCK_OVERHEAD_S: dict[BlockKind, float] = {
    "rbd": 0.2,
    "volume": 3.0,
    "write-path": 3.0,
    "local": 0.3,
    "memory": 1.5,
}
DATABASE_OVERHEAD_S = 7.0
SYSBENCH_OVERHEAD_S = 0.5
# What is left in the server and in a journal goes to the image before its cost is counted: a
# journal waits for five seconds, in case that it is written again.
COST_OVERHEAD_S = 8.0
# Taken for what the jobs and passes do whose time is not known ahead.
ASSUMED_BURST_IOPS = 2500
# A journal that comes to rest after a load that it took in faster than the image takes it.
DRAIN_S = 5.0
ASSUMED_PASS_BYTES_PER_S = 50 * MIB
PREPARE_S = 40.0
# The local disk's own file system and its data.
PREPARE_LOCAL_S = 8.0
# What is left to do after the last round: take everything down, and write.
CLEAN_UP_S = 15.0


@dataclass(frozen=True)
class PathsOptions:
    """What the user asked for; None keeps the suite's own value."""

    scale: str = "tiny"
    host: str | None = None
    rounds: int | None = None
    measures: str | None = None
    arms: str | None = None
    seed: int | None = None
    keep_data: bool = False


@dataclass(frozen=True)
class PathsPlan:
    """A run as it will be. `order` holds the blocks of each round, in order.

    `is_bounded`: the write paths are left out of rounds when the scale's time would not do.
    """

    scale_name: PathsScaleName
    scale: PathsScale
    host: str
    seed: int
    blocks: tuple[Block, ...]
    order: tuple[tuple[BlockName, ...], ...]
    database: bool
    keep_data: bool
    is_bounded: bool
    estimated_s: float

    @property
    def rounds(self) -> int:
        return len(self.order)

    @property
    def on_one_device(self) -> tuple[Block, ...]:
        """What is measured on the volume with one device."""
        return tuple(
            block for block in self.blocks if block.is_of_cluster and not block.external_log
        )

    @property
    def with_external_log(self) -> tuple[Block, ...]:
        """What is measured on the volume whose file system has an external log."""
        return tuple(block for block in self.blocks if block.external_log)

    @property
    def image_bytes(self) -> int:
        """The file system, and behind it the region for raw I/O."""
        return self.scale.filesystem_bytes + self.scale.region_bytes

    @property
    def points(self) -> int:
        """How many figures the whole run gives."""
        return sum(self.block(name).points for order in self.order for name in order)

    @property
    def write_path_rounds(self) -> int:
        """In how many rounds the write paths are measured."""
        names = {block.name for block in self.blocks if block.is_write_path}
        return sum(not names.isdisjoint(order) for order in self.order)

    def block(self, name: BlockName) -> Block:
        return next(block for block in self.blocks if block.name == name)


def decide_plan(suite: PathsSuite, options: PathsOptions, *, host: str, seed: int) -> PathsPlan:
    """The plan of `suite` on `host`; `seed` is used unless the options give one.

    Raises UsageError when an option is out of range or no measure is left.
    """
    scale_name = _decide_scale(options.scale)
    scale = suite.scales[scale_name]
    if options.rounds is not None and not 1 <= options.rounds <= 99:
        raise UsageError(f"--rounds {options.rounds} is out of range.", "Use 1 to 99.")
    rounds = options.rounds or scale.rounds
    measures, arms = _split(options.measures), _split(options.arms)
    blocks = decide_blocks(suite, scale, measures=measures, arms=arms)
    if not blocks:
        names = ", ".join(measure.name for measure in suite.all_measures)
        raise UsageError(
            f"Scale {scale_name} has no measure that fits '{','.join(measures)}' on an arm that "
            f"fits '{','.join(arms)}'.",
            f"The measures are: {names}. The arms are: {', '.join(ARM_TITLES)}. A pattern may "
            "hold * and ?.",
        )
    chosen_seed = seed if options.seed is None else options.seed
    prepare_s = PREPARE_S + PREPARE_LOCAL_S * any(block.kind == "local" for block in blocks)
    available_s = scale.budget_s - prepare_s - CLEAN_UP_S
    others = [block for block in blocks if not block.is_write_path]
    write_paths = [block for block in blocks if block.is_write_path]
    # Who chooses gets all rounds of it, and a verdict, however long that takes.
    is_bounded = (options.rounds, options.measures, options.arms) == (None, None, None)
    write_path_rounds = rounds
    if is_bounded:
        write_path_rounds = decide_write_path_rounds(
            rounds,
            available_s=available_s - rounds * _round_s(others, scale, scale.runtime_ms),
            round_s=_round_s(write_paths, scale, scale.runtime_ms),
        )
    order = _decide_order(blocks, rounds, write_path_rounds, chosen_seed)
    fixed_s = rounds * fixed_round_s(others, scale)
    fixed_s += write_path_rounds * fixed_round_s(write_paths, scale)
    time_factor = rounds * sum(block.time_factor for block in others)
    time_factor += write_path_rounds * sum(block.time_factor for block in write_paths)
    runtime_ms = decide_runtime_ms(
        scale, remaining_s=available_s, fixed_s=fixed_s, time_factor=time_factor
    )
    return PathsPlan(
        scale_name=scale_name,
        scale=scale,
        host=host,
        seed=chosen_seed,
        blocks=blocks,
        order=order,
        database=any(block.database for block in blocks),
        keep_data=options.keep_data,
        is_bounded=is_bounded,
        estimated_s=prepare_s + CLEAN_UP_S + fixed_s + time_factor * runtime_ms / 1000,
    )


def decide_write_path_rounds(rounds: int, *, available_s: float, round_s: float) -> int:
    """In how many of `rounds` the write paths can be measured, one at least."""
    if round_s <= 0:
        return rounds
    return max(1, min(rounds, int(available_s / round_s)))


def _round_s(blocks: Sequence[Block], scale: PathsScale, runtime_ms: int) -> float:
    factor = sum(block.time_factor for block in blocks)
    return fixed_round_s(blocks, scale) + factor * runtime_ms / 1000


def _split(patterns: str | None) -> tuple[str, ...]:
    if patterns is None:
        return ("*",)
    return tuple(pattern.strip() for pattern in patterns.split(",") if pattern.strip())


def fixed_round_s(blocks: Sequence[Block], scale: PathsScale) -> float:
    """What a round takes beside the running times of its fio jobs, as far as it is known ahead."""
    return sum(_fixed_block_s(block, scale) for block in blocks)


def decide_runtime_ms(
    scale: PathsScale, *, remaining_s: float, fixed_s: float, time_factor: float
) -> int:
    """How long an ordinary fio job runs from here on, so that all rounds fit.

    `fixed_s` is what the rounds that are left take beside such jobs, and `time_factor` the sum
    over their jobs. Rounds matter more than long jobs: a run that is late shortens its jobs,
    down to the scale's least.
    """
    if time_factor <= 0:
        return scale.runtime_ms
    fitting_ms = int(1000 * (remaining_s - fixed_s) / time_factor)
    return max(min(scale.runtime_ms, fitting_ms), min(scale.min_runtime_ms, scale.runtime_ms))


def decide_measures(
    measures: Sequence[MeasureT], *, seed: int, round_number: int
) -> list[MeasureT]:
    """The measures in the order of that round: the same on all arms, another one each round."""

    def draw(measure: MeasureT) -> float:
        # By name, so that an arm with fewer measures has them in the same order as the others.
        return random.Random(f"{seed}/{round_number}/{measure.name}").random()  # noqa: S311

    return sorted(measures, key=draw)


def decide_fio_seed(seed: int, round_number: int) -> int:
    """fio's own seed in a round: the same for all arms, so all touch the same blocks."""
    return random.Random(f"{seed}/{round_number}/fio").randrange(1, 2**31)  # noqa: S311


def describe_arms(plan: PathsPlan) -> list[PathsArm]:
    """The arms that the plan measures, without details yet."""
    names = [
        name
        for block in plan.blocks
        for name, wanted in (
            (block.raw_arm, bool(block.raw)),
            (block.xfs_arm, bool(block.xfs or block.database)),
        )
        if wanted
    ]
    return [PathsArm(name=name, title=ARM_TITLES[name], detail="") for name in names]


def describe_steps(plan: PathsPlan) -> list[str]:
    """What `--dry-run` shows."""
    blocks = ", ".join(block.name for block in plan.blocks)
    filesystem_bytes = plan.scale.filesystem_bytes
    steps = []
    if plan.on_one_device:
        steps.append(
            f"Make a volume of {plan.image_bytes:,} bytes on {plan.host}: a file system in its "
            f"first {filesystem_bytes:,} bytes, raw I/O in the rest"
        )
    if plan.with_external_log:
        steps.append(
            f"Make a volume for a file system of {filesystem_bytes:,} bytes and its external log"
        )
    if any(block.kind == "local" for block in plan.blocks):
        steps.append(f"Make a file system of {filesystem_bytes:,} bytes on {plan.host}'s own disk")
    steps.append("Fill what will be read")
    if plan.database:
        steps.append("Load a scratch MySQL instance, and put its data on each file system")
    steps += [
        f"Round {number} of {plan.rounds}: {', then '.join(order)}"
        for number, order in enumerate(plan.order, start=1)
    ]
    steps.append(
        "Keep the volumes" if plan.keep_data else "Remove the volumes and all that was made"
    )
    return [
        f"Measure {blocks} in {plan.rounds} rounds at scale {plan.scale_name}, seed {plan.seed}: "
        f"{plan.points} points, about {plan.estimated_s / 60:.0f} min",
        *steps,
    ]


def _decide_scale(asked: str) -> PathsScaleName:
    for scale in SCALES:
        if scale == asked:
            return scale
    suggestion = closest_name(asked, SCALES)
    hint = f"Did you mean '{suggestion}'? " if suggestion else ""
    raise UsageError(f"There is no scale '{asked}'.", f"{hint}Use one of {', '.join(SCALES)}.")


def _decide_order(
    blocks: Sequence[Block], rounds: int, write_path_rounds: int, seed: int
) -> tuple[tuple[BlockName, ...], ...]:
    # What is compared with each other only is measured side by side: the machine has less time to
    # change between them.
    volumes = [block.name for block in blocks if block.kind in ("rbd", "volume")]
    write_paths = [block.name for block in blocks if block.is_write_path]
    memory = [block.name for block in blocks if block.kind == "memory"]
    order = []
    for number in range(1, rounds + 1):
        draw = random.Random(f"{seed}/{number}/order")  # noqa: S311
        names: list[BlockName] = []
        for group in (volumes, write_paths if number <= write_path_rounds else [], memory):
            shuffled = list(group)
            draw.shuffle(shuffled)
            names += shuffled
        order.append(tuple(names))
    return tuple(order)


def _fixed_block_s(block: Block, scale: PathsScale) -> float:
    measures = (*block.raw, *block.xfs)
    fio_runs = bool(block.raw) + bool(block.xfs)
    if block.is_write_path:
        fio_runs = len(decide_groups(block.xfs))
    seconds = BLOCK_OVERHEAD_S[block.kind] + fio_runs * FIO_START_S
    for measure in measures:
        seconds += FIO_JOB_OVERHEAD_S
        if measure.total_bytes is not None:
            # A journal takes the burst in at once, and then brings it into the image.
            seconds += measure.total_bytes / measure.block_bytes / ASSUMED_BURST_IOPS
        else:
            seconds += (scale.ramp_ms + measure.sustained * scale.sustained_ms) / 1000
            if block.write_path != "direct" and (measure.sustained or measure.after):
                seconds += DRAIN_S
    if block.database:
        seconds += DATABASE_OVERHEAD_S
    for database in block.database:
        seconds += scale.warmup_s + scale.measure_s + SYSBENCH_OVERHEAD_S
        if database.reads_all_first:
            # Four tables, as a rule; a guess does not have to know.
            rows = 4 * scale.rows_per_table
            seconds += rows * DATA_BYTES_PER_ROW / ASSUMED_PASS_BYTES_PER_S
    return seconds + COST_OVERHEAD_S * sum(cost.counts == "rados-writes" for cost in block.costs)
