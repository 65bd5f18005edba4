"""The ways to the image: blocks that are set up once a round, and the arms that they give. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from grampus.bench.paths.suite import (
    DRIVERS_DATABASE_MEASURE,
    Cost,
    DatabaseMeasure,
    Measure,
    PathsScale,
    PathsSuite,
    matches_any,
)
from grampus.volumes.model import WritePath

BlockName = Literal[
    "rbd",
    "volumed-uring",
    "volumed-classic",
    "qsd",
    "memory-uring",
    "memory-classic",
    "direct",
    "journal",
    "cache",
    "journal-one-device",
    "local",
]
# A `volume` block compares drivers, a `write-path` block what volumed does with a write.
BlockKind = Literal["rbd", "volume", "write-path", "local", "memory"]
Transport = Literal["uring", "classic"]
VolumeDriver = Literal["volumed", "qsd"]

# The two threads that the classic transport gets where it is held against the rings: as many as
# a file server of that kind usually starts with.
CLASSIC_THREADS = 2
WRITE_PATH_KINDS: frozenset[BlockKind] = frozenset({"write-path", "local"})

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
    "direct": "volumed, write path direct; loop and XFS",
    "journal": "volumed, write path journal; loop and XFS with an external log",
    "cache": "volumed, write path cache; loop and XFS with an external log",
    "journal-one-device": "volumed, write path journal; loop and XFS with its log inside",
    "local": "this host's own disk; loop and XFS",
}


@dataclass(frozen=True)
class Block:
    """What is set up once a round; its arms are measured one after the other while it stands.

    `raw` goes to the image (or to the memory device), `xfs` to a file of the file system.
    `costs` are of what it measures. Without a `transport` volumed takes the best one. With an
    `external_log` the log of the file system is on a device of its own, as databases have it.
    """

    name: BlockName
    kind: BlockKind
    driver: VolumeDriver | None = None
    transport: Transport | None = None
    write_path: WritePath = "direct"
    external_log: bool = False
    raw: tuple[Measure, ...] = ()
    xfs: tuple[Measure, ...] = ()
    database: tuple[DatabaseMeasure, ...] = ()
    costs: tuple[Cost, ...] = ()

    @property
    def raw_arm(self) -> str:
        """The name of the arm without a file system."""
        return f"{self.name}-raw" if self.kind == "volume" else self.name

    @property
    def xfs_arm(self) -> str:
        """The name of the arm with a file system."""
        return f"{self.name}-xfs" if self.kind == "volume" else self.name

    @property
    def is_write_path(self) -> bool:
        """Whether it is one of those that are compared as write paths."""
        return self.kind in WRITE_PATH_KINDS

    @property
    def is_of_cluster(self) -> bool:
        """Whether what it measures is on an RBD image."""
        return self.kind in ("rbd", "volume", "write-path")

    @property
    def points(self) -> int:
        """How many figures it gives a round."""
        return len(self.raw) + len(self.xfs) + len(self.database) + len(self.costs)

    @property
    def time_factor(self) -> float:
        """The running time of its fio jobs, in running times of an ordinary one.

        Jobs whose time does not depend on that are left out.
        """
        return sum(
            measure.time_factor
            for measure in (*self.raw, *self.xfs)
            if not measure.sustained and measure.total_bytes is None
        )


def decide_blocks(
    suite: PathsSuite, scale: PathsScale, *, measures: Sequence[str], arms: Sequence[str]
) -> tuple[Block, ...]:
    """The blocks that have something to measure.

    `measures` and `arms` are patterns of what the user wants; what a wanted measure follows
    without a pause, and what a wanted cost is a cost of, are measured too.
    """
    wanted = _decide_wanted(suite, measures)

    def chooser(arm: str, of_scale: Sequence[str]) -> Callable[[str], bool]:
        def is_chosen(measure: str) -> bool:
            return (
                measure in wanted
                and matches_any(arm, arms)
                and matches_any(measure, of_scale)
                and not matches_any(f"{arm}/{measure}", scale.left_out)
            )

        return is_chosen

    def fio(part: str, arm: str, of_scale: Sequence[str]) -> tuple[Measure, ...]:
        is_chosen = chooser(arm, of_scale)
        return _complete(
            suite.measures, [m for m in suite.measures if m.part == part and is_chosen(m.name)]
        )

    def drivers_database(arm: str) -> tuple[DatabaseMeasure, ...]:
        is_chosen = chooser(arm, (DRIVERS_DATABASE_MEASURE,))
        return tuple(one for one in suite.database.measures if is_chosen(one.name))

    def volume(
        name: BlockName, driver: VolumeDriver, transport: Transport | None, *, database: bool
    ) -> Block:
        xfs_arm = f"{name}-xfs"
        return Block(
            name,
            "volume",
            driver,
            transport,
            raw=fio("volume", f"{name}-raw", scale.raw),
            xfs=fio("volume", xfs_arm, scale.xfs),
            database=drivers_database(xfs_arm) if database else (),
        )

    def write_path(
        name: BlockName, kind: BlockKind, path: WritePath, *, external_log: bool = False
    ) -> Block:
        is_chosen = chooser(name, scale.write_paths)
        files = _complete(
            suite.measures,
            [m for m in suite.measures if m.part in ("volume", "file") and is_chosen(m.name)],
        )
        database = tuple(one for one in suite.database.measures if is_chosen(one.name))
        has = {one.name for one in files} | {one.name for one in database}
        return Block(
            name,
            kind,
            "volumed" if kind == "write-path" else None,
            write_path=path,
            external_log=external_log,
            xfs=files,
            database=database,
            # A local disk costs the cluster nothing.
            costs=tuple(
                one
                for one in suite.costs
                if one.of in has and (kind == "write-path" or not one.is_of_cluster)
            ),
        )

    def memory(name: BlockName, transport: Transport) -> Block:
        return Block(name, "memory", transport=transport, raw=fio("transport", name, ("*",)))

    blocks = (
        Block("rbd", "rbd", raw=fio("volume", "rbd", scale.raw)),
        volume("volumed-uring", "volumed", "uring", database=True),
        volume("volumed-classic", "volumed", "classic", database=False),
        volume("qsd", "qsd", None, database=True),
        write_path("direct", "write-path", "direct"),
        write_path("journal", "write-path", "journal", external_log=True),
        write_path("cache", "write-path", "cache", external_log=True),
        write_path("journal-one-device", "write-path", "journal"),
        # A disk of its own promises no more about the order of writes than `direct` does.
        write_path("local", "local", "direct"),
        memory("memory-uring", "uring"),
        memory("memory-classic", "classic"),
    )
    return tuple(block for block in blocks if block.points)


def decide_groups(measures: Sequence[Measure]) -> list[tuple[Measure, ...]]:
    """The measures cut before each that needs a volume at rest; those that follow another stay."""
    names = {measure.name for measure in measures}
    heads = [measure for measure in measures if measure.after not in names]
    groups = []
    for head in heads:
        group = [head]
        while following := [one for one in measures if one.after == group[-1].name]:
            group += following[:1]
        groups.append(tuple(group))
    return groups


def _decide_wanted(suite: PathsSuite, patterns: Sequence[str]) -> set[str]:
    wanted = {one.name for one in suite.all_measures if matches_any(one.name, patterns)}
    return wanted | {cost.of for cost in suite.costs if cost.name in wanted}


def _complete(known: Sequence[Measure], chosen: Sequence[Measure]) -> tuple[Measure, ...]:
    """`chosen` with what each of them follows, in the order of `known`."""
    by_name = {measure.name: measure for measure in known}
    names: set[str] = set()
    for measure in chosen:
        name: str | None = measure.name
        while name is not None and name not in names:
            names.add(name)
            name = by_name[name].after
    return tuple(measure for measure in known if measure.name in names)
