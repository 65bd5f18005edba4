"""What a run will do: arms, orders, times."""

from __future__ import annotations

from pathlib import Path

import pytest

from grampus.bench.paths.plan import (
    ARM_TITLES,
    PathsOptions,
    PathsPlan,
    decide_fio_seed,
    decide_measures,
    decide_plan,
    decide_runtime_ms,
    describe_arms,
    describe_steps,
)
from grampus.bench.paths.suite import PathsSuite
from grampus.bench.suite import load_suite
from grampus.core.errors import UsageError


def suite() -> PathsSuite:
    loaded = load_suite(Path(__file__).parents[4] / "suites", "paths")
    assert isinstance(loaded, PathsSuite)
    return loaded


def plan(seed: int = 1, **options: object) -> PathsPlan:
    return decide_plan(suite(), PathsOptions(**options), host="h1", seed=seed)  # type: ignore[arg-type]


@pytest.mark.parametrize("scale", ["tiny", "small", "full"])
def test_every_scale_measures_every_target_often_enough(scale: str) -> None:
    made = plan(scale=scale)
    points = {
        (arm, measure.name)
        for block in made.blocks
        for arm, measures in ((block.raw_arm, block.raw), (block.xfs_arm, block.xfs))
        for measure in measures
    } | {(block.xfs_arm, "update-index") for block in made.blocks if block.has_database}
    for target in suite().targets:
        for measure in target.measures:
            assert (target.arms[0], measure) in points
            assert (target.against, measure) in points
    assert made.rounds >= 5


def test_small_leaves_nothing_out() -> None:
    made = plan(scale="small")
    volume = {measure.name for measure in suite().measures if measure.part == "volume"}
    for block in made.blocks:
        if block.kind == "volume":
            assert {measure.name for measure in block.raw} == volume
            assert {measure.name for measure in block.xfs} == volume
    assert len(volume) == 15


@pytest.mark.parametrize(("scale", "at_most_s"), [("tiny", 600), ("small", 2100), ("full", 7800)])
def test_a_scale_takes_about_what_it_says(scale: str, at_most_s: float) -> None:
    estimated_s = plan(scale=scale).estimated_s
    assert 0.7 * at_most_s < estimated_s <= at_most_s


def test_each_round_holds_each_block_once_in_an_order_of_its_own() -> None:
    made = plan(rounds=20)
    names = sorted(block.name for block in made.blocks)
    assert all(sorted(order) == names for order in made.order)
    assert len(set(made.order)) > 5
    # The memory devices side by side, and each first about as often as not.
    assert all({order[-1], order[-2]} == {"memory-uring", "memory-classic"} for order in made.order)
    firsts = {order[0] for order in made.order}
    assert firsts == {"rbd", "volumed-uring", "volumed-classic", "qsd"}


def test_the_seed_decides_everything() -> None:
    assert plan(seed=5) == plan(seed=5)
    assert plan(seed=5).order != plan(seed=6).order
    assert plan(seed=5, **{"scale": "tiny"}).seed == 5
    assert decide_plan(suite(), PathsOptions(seed=9), host="h1", seed=5).seed == 9
    assert decide_fio_seed(1, 1) == decide_fio_seed(1, 1)
    assert len({decide_fio_seed(1, number) for number in range(50)}) == 50


def test_an_arm_with_fewer_measures_has_them_in_the_same_order() -> None:
    measures = suite().measures
    for number in range(1, 6):
        order = [one.name for one in decide_measures(measures, seed=3, round_number=number)]
        some = [one for one in measures if "16k" in one.name]
        partial = [one.name for one in decide_measures(some, seed=3, round_number=number)]
        assert partial == [name for name in order if name in partial]
    orders = {
        tuple(one.name for one in decide_measures(measures, seed=3, round_number=number))
        for number in range(1, 6)
    }
    assert len(orders) == 5


@pytest.mark.parametrize(
    ("pattern", "blocks", "arms"),
    [
        ("transport-*", ["memory-uring", "memory-classic"], ["memory-uring", "memory-classic"]),
        ("update-index", ["volumed-uring", "qsd"], ["volumed-uring-xfs", "qsd-xfs"]),
        (
            "16k-randread-qd1",
            ["rbd", "volumed-uring", "volumed-classic", "qsd"],
            ["rbd", "volumed-uring-raw", "volumed-classic-raw", "qsd-raw"],
        ),
    ],
)
def test_a_pattern_leaves_out_what_it_does_not_name(
    pattern: str, blocks: list[str], arms: list[str]
) -> None:
    made = plan(measures=pattern)
    assert [block.name for block in made.blocks] == blocks
    assert [arm.name for arm in describe_arms(made)] == arms
    assert made.database == (pattern == "update-index")


def test_every_arm_has_a_title() -> None:
    assert {arm.name for arm in describe_arms(plan())} == set(ARM_TITLES)


@pytest.mark.parametrize(
    ("options", "problem", "remedy"),
    [
        ({"scale": "smal"}, "There is no scale 'smal'.", "Did you mean 'small'?"),
        ({"rounds": 0}, "--rounds 0 is out of range.", "Use 1 to 99."),
        ({"rounds": 100}, "--rounds 100 is out of range.", "Use 1 to 99."),
        ({"measures": "64k-*"}, "no measure that fits '64k-*'", "16k-randread-qd1"),
        ({"measures": "4k-randread-qd32"}, "Scale tiny has no measure", "The measures are"),
    ],
)
def test_wrong_options_are_explained(options: dict[str, object], problem: str, remedy: str) -> None:
    with pytest.raises(UsageError) as caught:
        plan(**options)
    assert problem in caught.value.problem
    assert remedy in caught.value.remedy


@pytest.mark.parametrize(
    ("remaining_s", "rounds_left", "fixed_s", "factor", "expected"),
    [
        (1000.0, 2, 50.0, 100.0, 400),  # 450 s for 100 jobs: as long as the scale says
        (200.0, 2, 70.0, 100.0, 300),  # 30 s for 100 jobs
        (200.0, 2, 90.0, 100.0, 200),  # 100 ms would be too short
        (-50.0, 1, 60.0, 100.0, 200),  # late already: the rounds are measured all the same
        (1.0, 1, 0.0, 0.0, 400),  # nothing to run
    ],
)
def test_jobs_are_shortened_to_end_in_time(
    remaining_s: float, rounds_left: int, fixed_s: float, factor: float, expected: int
) -> None:
    runtime_ms = decide_runtime_ms(
        suite().scales["tiny"],
        remaining_s=remaining_s,
        rounds_left=rounds_left,
        round_fixed_s=fixed_s,
        time_factor=factor,
    )
    assert runtime_ms == expected


def test_the_plan_can_be_read() -> None:
    steps = describe_steps(plan(rounds=2, keep_data=True))
    assert "2 rounds at scale tiny, seed 1" in steps[0]
    assert any(step.startswith("Round 2 of 2: ") for step in steps)
    assert steps[-1] == "Keep the volume"
    assert not any("MySQL" in step for step in describe_steps(plan(measures="16k-*")))
