"""What a run of `paths` will do: which ways, in which order, for how long. Pure."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from grampus.bench.paths.suite import (
    DATABASE_MEASURE,
    SCALES,
    Measure,
    PathsSuite,
    Scale,
    ScaleName,
    matches_any,
)
from grampus.core.errors import UsageError, closest_name
from grampus.state.runs import PathsArm

BlockName = Literal[
    "rbd", "volumed-uring", "volumed-classic", "qsd", "memory-uring", "memory-classic"
]
BlockKind = Literal["rbd", "volume", "memory"]
Transport = Literal["uring", "classic"]
VolumeDriver = Literal["volumed", "qsd"]

# Measured on two cores: what fio takes for each job beside its running time, and what it takes
# to set a block up and to take it down.
FIO_JOB_OVERHEAD_S = 0.33
FIO_START_S = 0.5
BLOCK_OVERHEAD_S: dict[BlockKind, float] = {"rbd": 0.2, "volume": 3.0, "memory": 1.5}
DATABASE_OVERHEAD_S = 7.0
PREPARE_S = 40.0
# What is left to do after the last round: take everything down, and write.
CLEAN_UP_S = 15.0
# The two threads that the classic transport gets where it is held against the rings: as many as
# a file server of that kind usually starts with.
CLASSIC_THREADS = 2

ARM_TITLES: dict[str, str] = {
    "rbd": "fio's rbd engine",
    "volumed-uring-raw": "volumed, io_uring",
    "volumed-classic-raw": "volumed, classic FUSE",
    "qsd-raw": "qemu-storage-daemon",
    "volumed-uring-xfs": "volumed, io_uring; loop and XFS",
    "volumed-classic-xfs": "volumed, classic FUSE; loop and XFS",
    "qsd-xfs": "qemu-storage-daemon; loop and XFS",
    "memory-uring": "memory device and loop, io_uring",
    "memory-classic": f"memory device and loop, classic FUSE with {CLASSIC_THREADS} threads",
}


@dataclass(frozen=True)
class PathsOptions:
    """What the user asked for; None keeps the suite's own value."""

    scale: str = "tiny"
    host: str | None = None
    rounds: int | None = None
    measures: str | None = None
    seed: int | None = None
    keep_data: bool = False


@dataclass(frozen=True)
class Block:
    """What is set up once a round; its arms are measured one after the other while it stands.

    `raw` goes to the image (or to the memory device), `xfs` to a file of the file system.
    """

    name: BlockName
    kind: BlockKind
    driver: VolumeDriver | None
    transport: Transport | None
    raw: tuple[Measure, ...]
    xfs: tuple[Measure, ...]
    has_database: bool

    @property
    def raw_arm(self) -> str:
        """The name of the arm without a file system."""
        return f"{self.name}-raw" if self.kind == "volume" else self.name

    @property
    def xfs_arm(self) -> str:
        """The name of the arm with a file system."""
        return f"{self.name}-xfs"

    @property
    def points(self) -> int:
        """How many figures it gives a round."""
        return len(self.raw) + len(self.xfs) + self.has_database

    @property
    def time_factor(self) -> float:
        """The running time of its fio jobs, in running times of an ordinary one."""
        return sum(measure.time_factor for measure in (*self.raw, *self.xfs))


@dataclass(frozen=True)
class PathsPlan:
    """A run as it will be. `order` holds the blocks of each round, in order."""

    scale_name: ScaleName
    scale: Scale
    host: str
    seed: int
    blocks: tuple[Block, ...]
    order: tuple[tuple[BlockName, ...], ...]
    database: bool
    keep_data: bool
    estimated_s: float

    @property
    def rounds(self) -> int:
        return len(self.order)

    @property
    def image_bytes(self) -> int:
        """The file system, and behind it the region for raw I/O."""
        return self.scale.filesystem_bytes + self.scale.region_bytes

    @property
    def points(self) -> int:
        """How many figures the whole run gives."""
        return self.rounds * sum(block.points for block in self.blocks)

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
    pattern = options.measures or "*"
    chosen = [measure for measure in suite.measures if matches_any(measure.name, (pattern,))]
    has_database = matches_any(DATABASE_MEASURE.name, (pattern,))
    blocks = _decide_blocks(scale, chosen, has_database=has_database)
    if not blocks:
        names = ", ".join([*(measure.name for measure in suite.measures), DATABASE_MEASURE.name])
        raise UsageError(
            f"Scale {scale_name} has no measure that fits '{pattern}'.",
            f"The measures are: {names}. A pattern may hold * and ?.",
        )
    chosen_seed = seed if options.seed is None else options.seed
    fixed_s, time_factor = fixed_round_s(blocks, scale), sum(block.time_factor for block in blocks)
    runtime_ms = decide_runtime_ms(
        scale,
        remaining_s=scale.budget_s - PREPARE_S - CLEAN_UP_S,
        rounds_left=rounds,
        round_fixed_s=fixed_s,
        time_factor=time_factor,
    )
    return PathsPlan(
        scale_name=scale_name,
        scale=scale,
        host=host,
        seed=chosen_seed,
        blocks=blocks,
        order=_decide_order(blocks, rounds, chosen_seed),
        database=any(block.has_database for block in blocks),
        keep_data=options.keep_data,
        estimated_s=PREPARE_S + CLEAN_UP_S + rounds * (time_factor * runtime_ms / 1000 + fixed_s),
    )


def fixed_round_s(blocks: Sequence[Block], scale: Scale) -> float:
    """What a round takes beside the running times of its fio jobs, as far as it is known ahead."""
    return sum(_fixed_block_s(block, scale) for block in blocks)


def decide_runtime_ms(
    scale: Scale,
    *,
    remaining_s: float,
    rounds_left: int,
    round_fixed_s: float,
    time_factor: float,
) -> int:
    """How long an ordinary fio job runs in the next round, so that all rounds fit.

    `time_factor` is the sum over the round's jobs. Rounds matter more than long jobs: a run that
    is late shortens its jobs, down to the scale's least, and never leaves a round out.
    """
    if time_factor <= 0:
        return scale.runtime_ms
    available_s = remaining_s / rounds_left - round_fixed_s
    fitting_ms = int(1000 * available_s / time_factor)
    return max(min(scale.runtime_ms, fitting_ms), min(scale.min_runtime_ms, scale.runtime_ms))


def decide_measures(measures: Sequence[Measure], *, seed: int, round_number: int) -> list[Measure]:
    """The measures in the order of that round: the same on all arms, another one each round."""

    def draw(measure: Measure) -> float:
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
            (block.xfs_arm, bool(block.xfs) or block.has_database),
        )
        if wanted
    ]
    return [PathsArm(name=name, title=ARM_TITLES[name], detail="") for name in names]


def describe_steps(plan: PathsPlan) -> list[str]:
    """What `--dry-run` shows."""
    blocks = ", ".join(block.name for block in plan.blocks)
    steps = [
        f"Make a volume of {plan.image_bytes:,} bytes on {plan.host}: a file system in its first "
        f"{plan.scale.filesystem_bytes:,} bytes, raw I/O in the rest",
        "Fill what will be read",
    ]
    if plan.database:
        steps.append("Load a scratch MySQL instance, and put its data on the volume")
    steps += [
        f"Round {number} of {plan.rounds}: {', then '.join(order)}"
        for number, order in enumerate(plan.order, start=1)
    ]
    steps.append("Keep the volume" if plan.keep_data else "Remove the volume and all that was made")
    return [
        f"Measure {blocks} in {plan.rounds} rounds at scale {plan.scale_name}, seed {plan.seed}: "
        f"{plan.points} points, about {plan.estimated_s / 60:.0f} min",
        *steps,
    ]


def _decide_scale(asked: str) -> ScaleName:
    for scale in SCALES:
        if scale == asked:
            return scale
    suggestion = closest_name(asked, SCALES)
    hint = f"Did you mean '{suggestion}'? " if suggestion else ""
    raise UsageError(f"There is no scale '{asked}'.", f"{hint}Use one of {', '.join(SCALES)}.")


def _decide_blocks(
    scale: Scale, chosen: Sequence[Measure], *, has_database: bool
) -> tuple[Block, ...]:
    volume = [measure for measure in chosen if measure.part == "volume"]
    raw = tuple(measure for measure in volume if matches_any(measure.name, scale.raw))
    xfs = tuple(measure for measure in volume if matches_any(measure.name, scale.xfs))
    memory = tuple(measure for measure in chosen if measure.part == "transport")
    blocks = (
        Block("rbd", "rbd", None, None, raw, (), False),
        Block("volumed-uring", "volume", "volumed", "uring", raw, xfs, has_database),
        Block("volumed-classic", "volume", "volumed", "classic", raw, xfs, False),
        Block("qsd", "volume", "qsd", None, raw, xfs, has_database),
        Block("memory-uring", "memory", None, "uring", memory, (), False),
        Block("memory-classic", "memory", None, "classic", memory, (), False),
    )
    return tuple(block for block in blocks if block.points)


def _decide_order(
    blocks: Sequence[Block], rounds: int, seed: int
) -> tuple[tuple[BlockName, ...], ...]:
    # The two memory devices are compared with each other only: side by side, the machine has
    # less time to change between them.
    groups = [
        [block.name for block in blocks if block.kind != "memory"],
        [block.name for block in blocks if block.kind == "memory"],
    ]
    order = []
    for number in range(1, rounds + 1):
        draw = random.Random(f"{seed}/{number}/order")  # noqa: S311
        names: list[BlockName] = []
        for group in groups:
            shuffled = list(group)
            draw.shuffle(shuffled)
            names += shuffled
        order.append(tuple(names))
    return tuple(order)


def _fixed_block_s(block: Block, scale: Scale) -> float:
    jobs = len(block.raw) + len(block.xfs)
    fio_runs = bool(block.raw) + bool(block.xfs)
    seconds = BLOCK_OVERHEAD_S[block.kind] + fio_runs * FIO_START_S
    seconds += jobs * (FIO_JOB_OVERHEAD_S + scale.ramp_ms / 1000)
    if block.has_database:
        seconds += DATABASE_OVERHEAD_S + scale.warmup_s + scale.measure_s
    return seconds
