"""One home controls a site: epochs are held, taken over, and known to be superseded."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from grampus.core.errors import GrampusError, RefusedError
from grampus.sites.controller_epoch import Machine, SiteController, decide_control
from grampus.sites.model import ControllerEpoch
from grampus.state.store import Store
from tests.fakes.clock import NEW_YEAR, FakeClock
from tests.fakes.epoch_objects import FakeEpochObjects

HERE, THERE = Machine("admin1", "aaaa"), Machine("admin2", "bbbb")


def epoch(number: int, holder: str, machine: Machine = HERE) -> ControllerEpoch:
    return ControllerEpoch(
        number=number, id=holder, machine=machine.name, machine_id=machine.id, since=NEW_YEAR
    )


@pytest.mark.parametrize(
    ("own", "last", "expected"),
    [
        (None, None, "free"),
        (None, epoch(1, "x"), "other"),
        (epoch(1, "x"), epoch(1, "x"), "own"),
        (epoch(1, "x"), epoch(1, "y"), "other"),
        (epoch(1, "x"), epoch(2, "y"), "other"),
        (epoch(2, "x"), None, "gone"),
        # A copy of the state of another machine.
        (epoch(1, "x", THERE), epoch(1, "x", THERE), "other"),
    ],
)
def test_who_controls_a_site(
    own: ControllerEpoch | None, last: ControllerEpoch | None, expected: str
) -> None:
    assert decide_control(own, last, HERE) == expected


class Cluster(FakeEpochObjects):
    """Homes on one cluster, each with a clock of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0
        self.before_create: Callable[[], object] = lambda: None

    def home(self, machine: Machine = HERE, store: Store | None = None) -> SiteController:
        return SiteController(
            store or Store(None),
            "prod",
            lambda: self,
            FakeClock(),
            machine,
            monotonic_s=lambda: self.now_s,
        )

    def create(self, number: int, text: str) -> bool:
        self.before_create()
        return super().create(number, text)


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def test_the_first_home_controls_a_new_site_and_a_second_one_is_refused(cluster: Cluster) -> None:
    first, second = cluster.home(), cluster.home(THERE)
    assert first.ensure_held().sentence == "This GRAMPUS_HOME controls the site (epoch 1)."
    assert second.ensure_held().verdict == "warning"
    first.require()
    with pytest.raises(RefusedError) as refused:
        second.require()
    assert refused.value.code == "superseded"
    assert "controlled from admin1 (epoch 1, since 2026-01-01 00:00:00 UTC)" in str(refused.value)
    assert "grampus state rebuild --site prod" in refused.value.remedy
    assert second.is_other()
    assert not first.is_other()


def test_a_site_that_nobody_controls_is_controlled_by_the_first_operation(cluster: Cluster) -> None:
    home = cluster.home()
    assert home.check().verdict == "ok"
    assert home.own() is None
    home.require()
    assert (home.own() or epoch(0, "")).number == 1


def test_whoever_was_taken_over_from_knows_it(cluster: Cluster) -> None:
    first, second = cluster.home(), cluster.home(THERE)
    first.require()
    assert second.take_over().number == 2
    with pytest.raises(RefusedError, match="controlled from admin2"):
        first.require()
    # And takes it over again.
    assert first.take_over().number == 3
    first.require()
    with pytest.raises(RefusedError, match="controlled from admin1"):
        second.require()


def test_a_look_counts_for_as_long_as_the_caller_says(cluster: Cluster) -> None:
    home = cluster.home()
    home.require()
    looks = cluster.looks
    cluster.now_s += 2.0
    home.require(3.0)
    assert cluster.looks == looks
    home.require(2.0)
    assert cluster.looks == looks + 1
    home.require()
    assert cluster.looks == looks + 2


def test_another_home_on_the_same_machine_is_called_so(cluster: Cluster) -> None:
    cluster.home().require()
    with pytest.raises(RefusedError, match="another GRAMPUS_HOME on this machine"):
        cluster.home().require()


def test_a_copy_of_a_state_on_another_machine_controls_nothing(cluster: Cluster) -> None:
    store = Store(None)
    cluster.home(HERE, store).require()
    with pytest.raises(RefusedError, match="controlled from admin1"):
        cluster.home(THERE, store).require()
    cluster.home(THERE, store).take_over()
    cluster.home(THERE, store).require()


def test_of_two_that_take_over_at_once_the_later_number_counts(cluster: Cluster) -> None:
    first, second = cluster.home(), cluster.home(THERE)
    first.require()

    def overtake() -> None:
        cluster.before_create = lambda: None
        assert second.take_over().number == 2

    cluster.before_create = overtake
    assert first.take_over().number == 3
    first.require()
    with pytest.raises(RefusedError):
        second.require()


def test_takeovers_without_end_are_given_up(cluster: Cluster) -> None:
    home = cluster.home()

    def overtake() -> None:
        other = FakeEpochObjects.create
        number = len(cluster.objects) + 1
        other(cluster, number, epoch(number, f"other-{number}", THERE).model_dump_json())

    cluster.before_create = overtake
    with pytest.raises(GrampusError, match="at the same time"):
        home.take_over()
    assert home.own() is None


def test_a_site_that_was_forgotten_elsewhere_is_controlled_after_its_adoption(
    cluster: Cluster,
) -> None:
    home = cluster.home()
    home.take_over()
    home.take_over()
    home.forget()
    with pytest.raises(RefusedError, match="forgotten on another machine"):
        home.require()
    # Hosts have seen the epochs before it.
    assert home.ensure_held().sentence == "This GRAMPUS_HOME controls the site (epoch 3)."
    home.require()


def test_an_epoch_of_which_only_the_cluster_knows_is_taken_over(cluster: Cluster) -> None:
    home = cluster.home()
    # The command was killed before it recorded it.
    cluster.create(1, epoch(1, "lost").model_dump_json())
    with pytest.raises(RefusedError):
        home.require()
    assert home.take_over().number == 2


def test_a_damaged_epoch_is_told(cluster: Cluster) -> None:
    cluster.objects["grampus.prod.controller.1"] = json.dumps({"number": "x"})
    with pytest.raises(GrampusError, match="damaged") as error:
        cluster.home().require()
    assert error.value.code == "epoch-damaged"
