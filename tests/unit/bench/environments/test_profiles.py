"""Tuning profiles: what they set, how arms take turns, and how all of it goes again."""

from __future__ import annotations

from pathlib import Path

import pytest

from grampus.bench.environments.environment_plan import decide_environment
from grampus.bench.environments.environment_records import BenchProfile
from grampus.bench.environments.profiles import (
    PROFILES,
    changes_cluster,
    decide_options,
    has_same_cluster,
    kernel_names,
    option_names,
)
from grampus.bench.environments.settings import decide_parameters
from grampus.bench.matrix.dimensions import choices
from tests.fakes.interruption import stopped_runs
from tests.unit.bench.environments.fake_hosts import KERNEL, OPTIONS_OF_USER
from tests.unit.bench.environments.world import EnvironmentWorld, make_cell

UNTUNED = make_cell(workload="update-index", profile="defaults")
TUNED = make_cell(workload="update-index", profile="redhat-2016")
OWN = make_cell(workload="update-index")
BUFFERS = "10240 87380 125829120"


def _measure(world: EnvironmentWorld, *cells: object) -> None:
    for cell in cells:
        world.place().measure(cell, warmup_s=2, measure_s=6)  # type: ignore[arg-type]


def test_each_profile_of_the_dimension_is_one() -> None:
    assert set(PROFILES) == set(choices("profile"))


@pytest.mark.parametrize("name", PROFILES)
def test_a_profile_sets_no_dimension_and_nothing_of_the_whole_machine(name: str) -> None:
    profile = PROFILES[name]
    assert not {"innodb_flush_log_at_trx_commit", "innodb_doublewrite"} & set(profile.server)
    # What a network namespace has of its own.
    assert all(key.startswith("net.ipv4.") for key in profile.kernel)


def test_the_arms_of_the_source_have_the_same_server() -> None:
    assert PROFILES["defaults"].server == PROFILES["redhat-2016"].server
    assert not changes_cluster("defaults")
    assert changes_cluster("redhat-2016")
    assert has_same_cluster("defaults", "intel-optane")


def test_the_server_has_what_its_profile_sets() -> None:
    parameters = decide_parameters(UNTUNED, decide_environment(UNTUNED))
    assert parameters["innodb_io_capacity"] == "10000"
    assert "innodb_io_capacity" not in decide_parameters(OWN, decide_environment(OWN))
    optane = make_cell(profile="intel-optane")
    assert decide_parameters(optane, decide_environment(optane))["performance_schema"] == "OFF"


def test_a_profile_is_set_for_its_trial_and_the_osds_restarted(tmp_path: Path) -> None:
    world = EnvironmentWorld(tmp_path)
    world.place().prepare([UNTUNED, TUNED])
    tuning = world.tuning
    _measure(world, UNTUNED)
    assert (tuning.restarts, tuning.is_as_made) == (0, True)
    _measure(world, TUNED)
    assert tuning.restarts == 1
    assert tuning.running["osd_op_num_shards"] == "5"
    assert tuning.running["osd_max_backfills"] == "3", "it is the user's"
    assert {host["net.ipv4.tcp_rmem"] for host in tuning.kernel.values()} == {BUFFERS}
    _measure(world, TUNED)
    assert tuning.restarts == 1, "nothing is to be changed"
    _measure(world, UNTUNED)
    assert (tuning.restarts, tuning.is_as_made) == (2, True)
    # The servers of both are the same.
    assert len(world.databases.restarts) == 1


def test_no_profile_outlasts_its_run(tmp_path: Path) -> None:
    world = EnvironmentWorld(tmp_path)
    world.place().prepare([TUNED])
    with world.place().quiet():
        _measure(world, TUNED)
        assert not world.tuning.is_as_made
    assert world.tuning.is_as_made


def test_a_host_that_lost_its_kernels_settings_gets_its_former_ones(tmp_path: Path) -> None:
    world = EnvironmentWorld(tmp_path)
    world.place().prepare([TUNED])
    _measure(world, TUNED)
    # Made anew, as after `lab down --keep` and `up`.
    world.tuning.kernel["h2"] = dict(KERNEL)
    world.place().dismantle()
    assert world.is_empty


def test_a_kill_at_any_moment_of_a_change_is_gone_on_from(tmp_path: Path) -> None:
    def start(point: int) -> EnvironmentWorld:
        world = EnvironmentWorld(tmp_path)
        world.place().prepare([TUNED, UNTUNED])
        _measure(world, UNTUNED if point % 2 else TUNED)
        return world

    def change(world: EnvironmentWorld) -> None:
        _measure(world, TUNED, UNTUNED, TUNED)

    for point, world in stopped_runs(start, change, more_than=50):
        if point % 3 == 0:
            _measure(world, TUNED)
            assert world.tuning.running["osd_op_num_shards"] == "5", point
            assert world.tuning.running == world.tuning.options, point
        world.place().dismantle()
        assert world.tuning.running == OPTIONS_OF_USER, point
        assert world.is_empty, point


def test_what_was_cut_off_sets_all_options_again() -> None:
    found = BenchProfile(
        profile="redhat-2016", applied=False, options={"osd_op_num_shards": "4"}, kernel={}
    )
    assert decide_options(found, "redhat-2016") == PROFILES["redhat-2016"].osd
    back = decide_options(found, "grampus")
    assert set(back) == set(option_names())
    assert {key: value for key, value in back.items() if value is not None} == {
        "osd_op_num_shards": "4"
    }
    whole = found.model_copy(update={"applied": True})
    assert decide_options(whole, "redhat-2016") == {}
    assert set(kernel_names()) >= set(KERNEL)
