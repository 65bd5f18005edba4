"""What a run will do: arms, orders, times."""

from __future__ import annotations

from pathlib import Path

import pytest

from grampus.bench.paths.blocks import ARM_TITLES, decide_groups
from grampus.bench.paths.plan import (
    PathsOptions,
    PathsPlan,
    decide_fio_seed,
    decide_measures,
    decide_plan,
    decide_runtime_ms,
    decide_write_path_rounds,
    describe_arms,
    describe_steps,
)
from grampus.bench.paths.suite import Measure, PathsSuite
from grampus.bench.quick_suite import load_suite
from grampus.core.errors import UsageError
from tests.unit.bench.paths.test_fio_jobs import measure as made_measure


def suite() -> PathsSuite:
    loaded = load_suite(Path(__file__).parents[4] / "suites", "paths")
    assert isinstance(loaded, PathsSuite)
    return loaded


def plan(seed: int = 1, **options: object) -> PathsPlan:
    return decide_plan(suite(), PathsOptions(**options), host="h1", seed=seed)  # type: ignore[arg-type]


def points_of(made: PathsPlan) -> set[tuple[str, str]]:
    """Arms and measures of the plan."""
    return {
        (arm, measure.name)
        for block in made.blocks
        for arm, measures in (
            (block.raw_arm, block.raw),
            (block.xfs_arm, (*block.xfs, *block.database, *block.costs)),
        )
        for measure in measures
    }


@pytest.mark.parametrize("scale", ["tiny", "small", "full"])
def test_every_scale_measures_every_target_often_enough(scale: str) -> None:
    made = plan(scale=scale)
    points = points_of(made)
    sustained = {one.name for one in suite().measures if one.sustained or one.after}
    for target in suite().targets:
        for measure in target.measures:
            if scale == "tiny" and measure in sustained:
                assert (target.arms[0], measure) not in points, "too short to say anything"
                continue
            assert (target.arms[0], measure) in points
            assert (target.against, measure) in points
    assert made.rounds >= 5
    assert made.write_path_rounds >= (5 if scale == "full" else 1)
    assert len(points) == sum(block.points for block in made.blocks)


def test_the_sustained_scale_is_of_writes_alone() -> None:
    made = plan(scale="sustained")
    assert [block.name for block in made.blocks] == ["direct", "journal", "cache"]
    assert not made.database
    assert (made.rounds, made.write_path_rounds, made.scale.judged_from_rounds) == (3, 3, 3)
    assert made.estimated_s < made.scale.budget_s
    judged = {
        (target.arms[0], target.measures[0])
        for target in suite().targets
        if target.measures[0].startswith("16k") and target.arms[0] in ("journal", "cache")
    }
    assert len(judged) == 6
    assert judged <= points_of(made)


def test_tiny_keeps_what_only_a_short_run_can_show() -> None:
    arms = {arm for arm, _ in points_of(plan())}
    assert arms == set(ARM_TITLES) - {"volumed-classic-xfs", "journal-one-device"}


@pytest.mark.parametrize("scale", ["small", "full"])
def test_a_whole_run_leaves_nothing_out(scale: str) -> None:
    made = plan(scale=scale)
    volume = {measure.name for measure in suite().measures if measure.part == "volume"}
    for block in made.blocks:
        if block.kind == "volume":
            assert {measure.name for measure in block.raw} == volume
            assert {measure.name for measure in block.xfs} == volume
    assert len(volume) == 15


@pytest.mark.parametrize(
    ("scale", "at_most_s"),
    [("tiny", 600), ("small", 2100), ("full", 6600), ("sustained", 6900)],
)
def test_a_scale_takes_about_what_it_says(scale: str, at_most_s: float) -> None:
    estimated_s = plan(scale=scale).estimated_s
    assert 0.7 * at_most_s < estimated_s <= at_most_s


def test_each_round_holds_each_block_once_in_an_order_of_its_own() -> None:
    made = plan(rounds=20)
    names = sorted(block.name for block in made.blocks)
    assert all(sorted(order) == names for order in made.order)
    assert len(set(made.order)) > 5
    # What is compared with each other only stands side by side, each first about as often as not.
    assert all({order[-1], order[-2]} == {"memory-uring", "memory-classic"} for order in made.order)
    write_paths = {"direct", "journal", "cache", "local"}
    assert all(set(order[4:8]) == write_paths for order in made.order)
    assert {order[4] for order in made.order} == write_paths
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
        (
            "update-index",
            ["volumed-uring", "qsd", "direct", "journal", "cache", "local"],
            ["volumed-uring-xfs", "qsd-xfs", "direct", "journal", "cache", "local"],
        ),
        (
            "4k-burst, point-select",
            ["direct", "journal", "cache", "local"],
            ["direct", "journal", "cache", "local"],
        ),
        (
            "16k-randread-qd16",
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
    assert made.database == (pattern != "transport-*" and "16k" not in pattern)


def test_arms_can_be_chosen() -> None:
    made = plan(arms="journal,direct", measures="update-index,4k-burst")
    assert points_of(made) == {
        (arm, measure)
        for arm in ("direct", "journal")
        for measure in ("update-index", "4k-burst", "rados-writes-per-update")
    }
    assert {arm for arm, _ in points_of(plan(arms="*-raw"))} == {
        "volumed-uring-raw",
        "volumed-classic-raw",
        "qsd-raw",
    }


def test_what_a_measure_follows_is_measured_too() -> None:
    made = plan(scale="small", measures="*-full", arms="cache")
    assert [one.name for one in made.block("cache").xfs] == [
        "16k-randwrite-uniform",
        "16k-randwrite-qd64-full",
    ]
    cost = plan(measures="rados-*", arms="cache,local")
    assert points_of(cost) == {
        ("cache", "update-index"),
        ("cache", "rados-writes-per-update"),
        ("local", "update-index"),
    }


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["b", "full", "a"], [["b"], ["a", "full"]]),
        (["full", "b"], [["full"], ["b"]]),
        (["c", "full", "a"], [["c"], ["a", "full"]]),
        ([], []),
    ],
)
def test_measures_are_cut_where_a_volume_must_rest(
    names: list[str], expected: list[list[str]]
) -> None:
    def made(name: str) -> Measure:
        return made_measure(name, after="a" if name == "full" else None)

    groups = decide_groups([made(name) for name in names])
    assert [[one.name for one in group] for group in groups] == expected


@pytest.mark.parametrize(
    ("available_s", "round_s", "expected"),
    [(1000.0, 100.0, 5), (350.0, 100.0, 3), (50.0, 100.0, 1), (-10.0, 100.0, 1), (1.0, 0.0, 5)],
)
def test_the_write_paths_are_measured_as_often_as_there_is_time(
    available_s: float, round_s: float, expected: int
) -> None:
    assert decide_write_path_rounds(5, available_s=available_s, round_s=round_s) == expected


def test_who_chooses_gets_all_rounds() -> None:
    assert plan().write_path_rounds < plan().rounds
    assert plan().is_bounded
    for chosen in ({"rounds": 5}, {"measures": "*"}, {"arms": "*"}):
        made = plan(**chosen)
        assert made.write_path_rounds == made.rounds == 5
        assert not made.is_bounded


def test_every_arm_has_a_title() -> None:
    assert {arm.name for arm in describe_arms(plan(scale="small"))} == set(ARM_TITLES)


@pytest.mark.parametrize(
    ("options", "problem", "remedy"),
    [
        ({"scale": "smal"}, "There is no scale 'smal'.", "Did you mean 'small'?"),
        ({"rounds": 0}, "--rounds 0 is out of range.", "Use 1 to 99."),
        ({"rounds": 100}, "--rounds 100 is out of range.", "Use 1 to 99."),
        ({"measures": "64k-*"}, "no measure that fits '64k-*'", "16k-randread-qd1"),
        ({"measures": "4k-randread-qd32"}, "Scale tiny has no measure", "The measures are"),
        ({"arms": "jurnal"}, "on an arm that fits 'jurnal'", "journal"),
        ({"scale": "sustaned"}, "There is no scale 'sustaned'.", "Did you mean 'sustained'?"),
    ],
)
def test_wrong_options_are_explained(options: dict[str, object], problem: str, remedy: str) -> None:
    with pytest.raises(UsageError) as caught:
        plan(**options)
    assert problem in caught.value.problem
    assert remedy in caught.value.remedy


@pytest.mark.parametrize(
    ("remaining_s", "fixed_s", "factor", "expected"),
    [
        (1000.0, 100.0, 200.0, 300),  # 900 s for 200 jobs: as long as the scale says
        (200.0, 150.0, 200.0, 250),  # 50 s for 200 jobs
        (200.0, 180.0, 200.0, 150),  # 100 ms would be too short
        (-50.0, 60.0, 100.0, 150),  # late already: the rounds are measured all the same
        (1.0, 0.0, 0.0, 300),  # nothing to run
    ],
)
def test_jobs_are_shortened_to_end_in_time(
    remaining_s: float, fixed_s: float, factor: float, expected: int
) -> None:
    runtime_ms = decide_runtime_ms(
        suite().scales["tiny"],
        remaining_s=remaining_s,
        fixed_s=fixed_s,
        time_factor=factor,
    )
    assert runtime_ms == expected


def test_the_plan_can_be_read() -> None:
    steps = describe_steps(plan(rounds=2, keep_data=True))
    assert "2 rounds at scale tiny, seed 1" in steps[0]
    assert any(step.startswith("Round 2 of 2: ") for step in steps)
    assert steps[-1] == "Keep the volumes"
    assert any("h1's own disk" in step for step in steps)
    short = describe_steps(plan(measures="16k-*-qd1"))
    assert not any("MySQL" in step or "own disk" in step for step in short)
