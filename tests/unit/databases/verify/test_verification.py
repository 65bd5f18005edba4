from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from grampus.ceph.scrubs import DamagedCopy, DamagedObject
from grampus.core.errors import GrampusError, NotFoundError, RefusedError
from grampus.databases.administrator import administrator_of
from grampus.databases.clones.cloning import DatabaseClones
from grampus.databases.clones.decide_clone import CloneRequest
from grampus.databases.verify.decide_scratch import CLONE_LABEL, scratch_name
from grampus.databases.verify.decide_tables import LIST_TABLES, render_check
from grampus.databases.verify.decide_verified import Verification
from grampus.databases.verify.table_checks import TableChecks, check_tables
from grampus.databases.verify.verification import DatabaseVerification
from grampus.databases.verify.verify_steps import VERIFY, VerifiedOrder
from grampus.hosts.port import CommandResult
from grampus.operations.runner import OperationRunner
from grampus.state.locks import hold_lock
from grampus.volumes.decide_scrub import ScrubReport
from grampus.volumes.model import VolumeRecord
from tests.fakes.client_words import with_statement
from tests.unit.operation_runner import planned

from ..world import World, database_events

DAMAGED = DamagedObject(
    group="1.0",
    name="rbd_data.aa.0000000000000000",
    snapshot="head",
    errors=(),
    damaged=(DamagedCopy(osd=1, errors=("read_error",)),),
    good_osds=(0, 2),
)
CLONE = scratch_name(CLONE_LABEL, "demo")
TABLES = [("mysql", "user"), ("shop", "orders"), ("shop", "zones")]


class FakeScrubs:
    """A cluster with some damage, which a repair puts right."""

    def __init__(self, runner: OperationRunner | None = None) -> None:
        self._runner = runner
        self.damaged: tuple[DamagedObject, ...] = ()
        self.scrubbed: list[tuple[str, bool]] = []

    def scrub(self, volume: VolumeRecord, *, repair: bool) -> ScrubReport:
        if self._runner is not None:
            self._runner.propose(lambda: [f"Deep-scrub {volume.spec.image}"])
        self.scrubbed.append((volume.spec.name, repair))
        report = ScrubReport(groups=4, objects=9, damaged=self.damaged)
        if not repair or not self.damaged:
            return report
        return report.model_copy(update={"is_repaired": True})


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    world.create()
    for host in world.hosts.values():
        host.admin_answers[LIST_TABLES] = "".join(
            f"{schema.encode().hex()}\t{name.encode().hex()}\t16384\n" for schema, name in TABLES
        )
        for table in TABLES:
            host.admin_answers[render_check(table)] = f"{'.'.join(table)}\tcheck\tstatus\tOK\n"
    return world


def verification(world: World, scrubs: FakeScrubs | None = None) -> DatabaseVerification:
    service = world.service()
    checks = TableChecks(service, DatabaseClones(service.operations, service.planner))
    return DatabaseVerification(service.operations, scrubs or FakeScrubs(), checks)


def names(world: World) -> list[str]:
    return [view.record.spec.name for view in world.service().list()]


def watch_checks(
    world: World, monkeypatch: pytest.MonkeyPatch, refuse: tuple[int, str] | None = None
) -> list[str]:
    """The databases whose servers are asked to check a table, in order; `shop.orders` is answered
    with `refuse`."""
    asked: list[str] = []
    for host in world.hosts.values():
        answering = host.run

        def run(argv: Sequence[str], answering: Any = answering, **options: Any) -> CommandResult:
            argv, options["stdin"] = with_statement(argv, options.get("stdin"))
            if "CHECK TABLE" in argv[-1]:
                asked.append(str(options["daemon"]))
            if refuse is not None and argv[-1] == render_check(("shop", "orders")):
                return CommandResult(tuple(argv), refuse[0], "", refuse[1])
            answered: CommandResult = answering(argv, **options)
            return answered

        monkeypatch.setattr(host, "run", run)
    return asked


def test_all_is_looked_at_and_kept(world: World) -> None:
    scrubs = FakeScrubs()
    verified = verification(world, scrubs).verify("demo", scrub=True, tables=True, repair=False)
    assert scrubs.scrubbed == [("demo", False)]
    assert verified.is_sound
    said = "all copies of 9 objects are good; tables: 3 sound"
    assert verified.summary.said == said
    assert world.service().get("demo").last_verification == verified.summary
    events = database_events(world).of("demo")
    assert events[-1].what == f"verification: {said}"


@pytest.mark.parametrize(
    ("scrub", "tables", "said"),
    [
        (True, False, "all copies of 9 objects are good"),
        (False, True, "tables: 3 sound"),
    ],
)
def test_one_of_the_two_is_enough(world: World, scrub: bool, tables: bool, said: str) -> None:
    verified = verification(world).verify("demo", scrub=scrub, tables=tables, repair=False)
    assert (verified.summary.said, verified.is_sound) == (said, True)


@pytest.mark.parametrize(
    ("repair", "sound", "said"),
    [
        (False, False, "1 of 9 objects damaged"),
        (True, True, "1 of 9 objects damaged and repaired"),
    ],
)
def test_damage_counts_until_it_is_repaired(
    world: World, repair: bool, sound: bool, said: str
) -> None:
    scrubs = FakeScrubs()
    scrubs.damaged = (DAMAGED, DAMAGED.model_copy(update={"snapshot": "4"}))
    verified = verification(world, scrubs).verify("demo", scrub=True, tables=False, repair=repair)
    assert (verified.is_sound, verified.summary.said) == (sound, said)


def test_a_broken_table_is_named_and_the_others_are_checked(world: World) -> None:
    for host in world.hosts.values():
        host.admin_answers[render_check(("shop", "orders"))] = (
            "shop.orders\tcheck\terror\tCorrupt\n"
        )
    verified = verification(world).verify("demo", scrub=False, tables=True, repair=False)
    assert [check.table for check in verified.broken_tables] == ["shop.orders"]
    assert verified.summary.said == "tables: 1 broken, 2 sound"
    assert not verified.is_sound


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (1, "ERROR 2013 (HY000) at line 1: Lost connection to MySQL server during query"),
        (137, ""),  # the client goes with the server's container
    ],
)
def test_a_server_that_ends_at_a_table_is_not_asked_again(
    world: World, monkeypatch: pytest.MonkeyPatch, code: int, said: str
) -> None:
    world.create("small", cpus=1)
    asked = watch_checks(world, monkeypatch, (code, said))
    verified = verification(world).verify("small", scrub=False, tables=True, repair=False)
    assert verified.tables is not None
    assert [check.outcome for check in verified.tables] == ["sound", "broken", "unchecked"]
    assert "shop.orders" in verified.tables[2].said
    assert len(asked) == 2
    assert names(world) == ["demo", "small"]


def answer_checks(
    world: World, monkeypatch: pytest.MonkeyPatch, answer: Callable[[str], tuple[int, str] | None]
) -> None:
    """`answer` is what a server says to a check, by its statement; None: what it always says."""
    for host in world.hosts.values():
        answering = host.run

        def run(argv: Sequence[str], answering: Any = answering, **options: Any) -> CommandResult:
            argv, options["stdin"] = with_statement(argv, options.get("stdin"))
            if "CHECK TABLE" in argv[-1] and (said := answer(argv[-1])) is not None:
                return CommandResult(tuple(argv), said[0], "", said[1])
            answered: CommandResult = answering(argv, **options)
            return answered

        monkeypatch.setattr(host, "run", run)


LOST = (1, "ERROR 2013 (HY000) at line 1: Lost connection to MySQL server during query")
USER, ORDERS, ZONES = (render_check(table) for table in TABLES)


def test_a_clones_server_checks_tables_side_by_side(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.create("wide", cpus=2)
    together, asked = threading.Barrier(2), list[str]()

    def meet(statement: str) -> None:
        asked.append(statement)
        if len(asked) <= 2:
            together.wait(timeout=30)

    answer_checks(world, monkeypatch, meet)
    verified = verification(world).verify("wide", scrub=False, tables=True, repair=False)
    assert verified.tables is not None
    assert [check.table for check in verified.tables] == ["mysql.user", "shop.orders", "shop.zones"]
    assert verified.summary.said == "tables: 3 sound"


def test_its_own_server_checks_one_table_at_a_time(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.create("wide", cpus=2)
    threads: set[threading.Thread] = set()
    answer_checks(world, monkeypatch, lambda _: threads.add(threading.current_thread()))
    verification(world).verify("wide", scrub=False, tables=True, repair=False, in_place=True)
    assert threads == {threading.main_thread()}


def test_a_server_that_ends_at_one_of_several_tables_tells_at_which(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.create("wide", cpus=2)
    together, asked = threading.Barrier(2), list[str]()
    clone = scratch_name(CLONE_LABEL, "wide")

    def end(statement: str) -> tuple[int, str] | None:
        asked.append(statement)
        if len(asked) <= 2:
            together.wait(timeout=30)
            for host in world.hosts.values():
                if f"mysqld-{clone}" in host.daemons:
                    host.daemons[f"mysqld-{clone}"].state = "stopped"
            return LOST
        assert world.service().show(clone).status == "running"
        return LOST if statement == ORDERS else None

    answer_checks(world, monkeypatch, end)
    verified = verification(world).verify("wide", scrub=False, tables=True, repair=False)
    assert verified.tables is not None
    assert [check.outcome for check in verified.tables] == ["sound", "broken", "unchecked"]
    assert "shop.orders" in verified.tables[2].said
    assert sorted(asked[:2]) == sorted([USER, ORDERS])
    assert asked[2:] == [USER, ORDERS]
    assert names(world) == ["demo", "wide"]


def _refuse() -> None:
    raise GrampusError("It does not start.")


@pytest.mark.parametrize("revive", [_refuse, None])
def test_none_of_several_tables_is_called_sound_when_it_cannot_be_told(
    world: World, monkeypatch: pytest.MonkeyPatch, revive: Callable[[], None] | None
) -> None:
    together = threading.Barrier(2)

    def end(_statement: str) -> tuple[int, str]:
        together.wait(timeout=30)
        return LOST

    answer_checks(world, monkeypatch, end)
    operations = world.service().operations
    administrator = administrator_of(operations.ports, operations.ready("demo").spec)
    checks = check_tables(administrator, operations.progress, at_once=2, revive=revive)
    assert [check.outcome for check in checks] == ["broken", "broken", "unchecked"]
    assert all("one of mysql.user, shop.orders" in check.said for check in checks)


def test_what_keeps_tables_from_being_checked_is_raised(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(statement: str) -> None:
        if statement == ORDERS:
            raise GrampusError("It did not end.", code="timeout")

    answer_checks(world, monkeypatch, fail)
    with pytest.raises(GrampusError) as failed:
        verification(world).verify("demo", scrub=True, tables=True, repair=False)
    assert failed.value.code == "timeout"
    assert names(world) == ["demo"]
    kept = world.service().get("demo").last_verification
    assert kept is not None
    assert kept.said == "all copies of 9 objects are good"


def test_an_interrupt_waits_for_no_check(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.create("wide", cpus=2)
    together, released = threading.Barrier(2), threading.Event()
    interrupt = threading.main_thread().ident
    assert interrupt is not None

    def hang(_statement: str) -> tuple[int, str]:
        if together.wait(timeout=30) == 0:
            signal.pthread_kill(interrupt, signal.SIGINT)
        assert released.wait(timeout=30)
        return 137, ""  # with the clone's server

    answer_checks(world, monkeypatch, hang)
    try:
        with pytest.raises(KeyboardInterrupt):
            verification(world).verify("wide", scrub=False, tables=True, repair=False)
        assert names(world) == ["demo", "wide"]
    finally:
        released.set()


def test_tables_are_checked_on_a_clone_that_is_gone_afterwards(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, before = watch_checks(world, monkeypatch), world.inventory()
    verification(world).verify("demo", scrub=False, tables=True, repair=False)
    assert asked == [f"mysqld-{CLONE}"] * 3
    assert world.inventory() == before


def test_tables_are_checked_in_place_when_asked_for(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = watch_checks(world, monkeypatch)
    options = {"scrub": False, "tables": True, "repair": False, "in_place": True}
    steps = planned(world.runner, lambda: verification(world).verify("demo", **options))
    assert steps[0] == "Check 3 tables of demo in its own server"
    assert asked == []
    verification(world).verify("demo", **options)
    assert asked == ["mysqld-demo"] * 3


def test_tables_are_checked_in_place_where_no_clone_can_be_made(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for other in ("second", "third"):  # that is all that this world has addresses for
        world.create(other)
    asked = watch_checks(world, monkeypatch)
    options = {"scrub": False, "tables": True, "repair": False}
    (step, _) = planned(world.runner, lambda: verification(world).verify("demo", **options))
    assert step.startswith("Check 3 tables of demo in its own server: All 3 addresses")
    verified = verification(world).verify("demo", **options)
    assert verified.is_sound
    assert asked == ["mysqld-demo"] * 3


def test_a_clone_that_was_left_by_a_killed_check_goes_with_the_next(world: World) -> None:
    service = world.service()
    clones = DatabaseClones(service.operations, service.planner)
    clones.clone(CloneRequest("demo", CLONE, labels={CLONE_LABEL: "demo"}))
    verification(world).verify("demo", scrub=False, tables=True, repair=False)
    assert names(world) == ["demo"]


def test_a_database_that_has_the_name_alone_is_left_alone(world: World) -> None:
    world.create(CLONE)
    scrubs = FakeScrubs()
    with pytest.raises(RefusedError, match="needs for a temporary database") as caught:
        verification(world, scrubs).verify("demo", scrub=True, tables=True, repair=False)
    assert caught.value.code == "name-taken"
    assert names(world) == ["demo", CLONE]
    # What had been looked at before is kept all the same.
    kept = world.service().get("demo").last_verification
    assert kept is not None
    assert kept.said == "all copies of 9 objects are good"


def test_one_check_of_a_database_at_a_time(world: World) -> None:
    operations = world.service().operations
    lock = f"verify-tables.{operations.lab}.demo"
    with (
        hold_lock(operations.home, lock, operations.clock, timeout_s=0),
        pytest.raises(RefusedError) as caught,
    ):
        verification(world).verify("demo", scrub=False, tables=True, repair=False)
    assert caught.value.code == "busy"


def test_a_stopped_database_can_have_its_copies_verified_alone(world: World) -> None:
    world.service().stop("demo")
    with pytest.raises(RefusedError) as caught:
        verification(world).verify("demo", scrub=True, tables=True, repair=False)
    assert caught.value.code == "not-running"
    assert verification(world).verify("demo", scrub=True, tables=False, repair=False).is_sound


def test_a_wrong_name_gets_a_suggestion(world: World) -> None:
    with pytest.raises(NotFoundError, match="demi") as caught:
        verification(world).verify("demi", scrub=True, tables=True, repair=False)
    assert "demo" in caught.value.remedy


def test_a_plan_changes_nothing(world: World) -> None:
    scrubs, before = FakeScrubs(world.runner), world.inventory()
    checks = verification(world, scrubs)
    steps = planned(
        world.runner, lambda: checks.verify("demo", scrub=True, tables=True, repair=False)
    )
    assert world.inventory() == before
    assert steps == [
        "Deep-scrub demo.1/db-demo",
        f"Clone the current data of demo into {CLONE}",
        "Check 3 tables there",
        f"Delete {CLONE}",
        "Record the result with demo",
    ]
    assert scrubs.scrubbed == []
    assert world.service().get("demo").last_verification is None


def test_another_command_at_the_database_is_waited_for_only_at_the_end(world: World) -> None:
    scrubs = FakeScrubs()
    operations = world.service().operations
    with operations.locked("demo"), pytest.raises(GrampusError) as caught:
        verification(world, scrubs).verify("demo", scrub=True, tables=False, repair=False)
    assert caught.value.code == "busy"
    assert scrubs.scrubbed == [("demo", False)]


def test_a_result_that_was_cut_off_is_kept_by_the_next_command(world: World) -> None:
    operations = world.service().operations
    summary = Verification("demo", world.clock.now(), None, None).summary
    operations.begin(VERIFY, VerifiedOrder(database="demo", verified=summary))
    assert world.service().get("demo").last_verification is None
    assert len(world.service().converge()) == 1
    assert world.service().get("demo").last_verification == summary
    assert world.service().converge() == []
