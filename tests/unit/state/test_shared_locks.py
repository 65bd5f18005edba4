"""Locks between machines: one holds, the others wait; who is silent is fenced, and nobody else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from secrets import token_hex

import pytest

from grampus.core.errors import GrampusError, RefusedError
from grampus.state.home import Home
from grampus.state.locks import hold_lock
from grampus.state.log_port import StateUnansweredError
from grampus.state.replicated import ReplicatedStore
from grampus.state.shared_locks import (
    BEAT_EVERY_S,
    LOOK_WITHIN_S,
    SILENT_S,
    HeldElsewhereError,
    SharedLocks,
    Silence,
    find_machine_at,
)
from tests.fakes.clock import FakeClock
from tests.fakes.state_log import FakeStateLog

LOCK = "db.prod.shop"


class Site:
    """Machines that work on one site; the time passes for all of them at once."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.log = FakeStateLog()
        self.log.create("log-1")
        self.clock = FakeClock()
        self.fenced: list[str] = []
        self.told: list[str] = []

    def copy(self, machine: str) -> ReplicatedStore:
        store = ReplicatedStore(self.directory / machine, "prod", self.log, clock=self.clock)
        store.join("log-1")
        store.catch_up()
        return store

    def locks(self, machine: str, *, copy_tag: str = "") -> SharedLocks:
        """Those of one command on a machine."""
        store = self.copy(machine)

        def fence(why: str) -> None:
            self.fenced.append(why)
            store.change(lambda connection: connection.execute("DELETE FROM held"))

        return SharedLocks(
            *(store, "prod", self.log, self.clock),
            machine=machine,
            what="db create",
            fence=fence,
            tell=self.told.append,
            silence=Silence(),
            process=token_hex(4),
            copy_tag=copy_tag,
        )

    def silence(self, machine: str) -> None:
        """A command on a machine took the lock, and was killed."""
        locks = self.locks(machine)
        self.log.beat(locks.id, "last")
        locks._take(LOCK, shared=False, timeout_s=0)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


@contextmanager
def held(locks: SharedLocks, *, shared: bool = False, timeout_s: float = 10.0) -> Iterator[None]:
    with locks.hold(LOCK, shared=shared, timeout_s=timeout_s):
        yield


@pytest.mark.parametrize(
    ("first_shared", "second_shared", "is_refused"),
    [(False, False, True), (True, False, True), (False, True, True), (True, True, False)],
)
def test_two_machines(
    site: Site, first_shared: bool, second_shared: bool, is_refused: bool
) -> None:
    a, b = site.locks("a"), site.locks("b")
    with ExitStack() as stack:
        stack.enter_context(held(a, shared=first_shared))
        # Its heartbeat comes while the other one waits.
        site.clock.on_sleep = lambda: site.log.beat(a.id, str(site.clock.slept_s))
        if is_refused:
            with pytest.raises(RefusedError) as refused, held(b, shared=second_shared):
                pass
            assert refused.value.code == "busy"
            assert "`db create` on a is working on the database 'shop'" in refused.value.problem
            assert site.clock.slept_s == pytest.approx(10.0, abs=1.0)
        else:
            stack.enter_context(held(b, shared=second_shared))
    with held(b):
        pass
    assert (site.fenced, site.log.alive) == ([], {})


def test_who_waits_gets_the_lock_when_it_is_released(site: Site) -> None:
    a, b = site.locks("a"), site.locks("b")
    with ExitStack() as stack:
        stack.enter_context(held(a))
        site.clock.on_sleep = stack.close
        with held(b):
            assert find_machine_at(site.copy("a"), "prod", "shop", "db.create") == "b"
    assert site.fenced == []


def test_on_one_machine_the_file_decides(site: Site) -> None:
    """Whoever has it alone knows that rows of this machine are of ended processes."""
    site.silence("a")
    again = site.locks("a")
    with held(again, timeout_s=0):
        assert find_machine_at(site.copy("b"), "prod", "shop", "db.create") == "a"
        assert find_machine_at(site.copy("a"), "prod", "shop", "db.create") is None
    assert find_machine_at(site.copy("b"), "prod", "shop", "db.create") is None


def test_a_copy_of_a_machine_is_another_one(site: Site) -> None:
    """Somebody copied GRAMPUS_HOME, or the virtual machine. Both have the same id."""
    a, copy = site.locks("a", copy_tag="111111"), site.locks("a", copy_tag="222222")
    with held(a), pytest.raises(RefusedError), held(copy, timeout_s=0):
        pass
    with held(copy, timeout_s=0):
        pass


def test_a_silent_holder_is_fenced_after_a_while(site: Site) -> None:
    site.silence("a")
    b = site.locks("b")
    with held(b):
        assert SILENT_S <= site.clock.slept_s < SILENT_S + 2
        assert site.fenced == ["`db create` on a sent no heartbeat"]
        (told,) = site.told
        assert "`db create` on a holds a lock and sends no heartbeat" in told


def test_who_does_not_wait_finds_it_out_by_trying_again(site: Site) -> None:
    site.silence("a")
    b = site.locks("b")
    for _ in range(int(SILENT_S / BEAT_EVERY_S)):
        with pytest.raises(RefusedError), held(b, timeout_s=0):
            pass
        site.clock.sleep(BEAT_EVERY_S)
    with held(b, timeout_s=0):
        assert len(site.fenced) == 1


def test_a_short_wait_lasts_until_the_holder_is_known_to_live(site: Site) -> None:
    """Else the next command of a dead machine's site would be refused for ever."""
    site.silence("a")
    with held(site.locks("b"), timeout_s=1.0):
        assert len(site.fenced) == 1
    a, b = site.locks("a"), site.locks("b")
    with held(a):
        site.clock.on_sleep = lambda: site.log.beat(a.id, str(site.clock.slept_s))
        before_s = site.clock.slept_s
        with pytest.raises(HeldElsewhereError), held(b, timeout_s=1.0):
            pass
        assert site.clock.slept_s - before_s == pytest.approx(1.0, abs=0.5)
        site.clock.on_sleep = lambda: None


def test_after_an_outage_nobody_counts_as_silent(site: Site) -> None:
    """Nobody could send a heartbeat, and nobody could look."""
    a, b = site.locks("a"), site.locks("b")
    with held(a):
        with pytest.raises(RefusedError), held(b, timeout_s=0):
            pass
        site.clock.sleep(SILENT_S * 2)
        with pytest.raises(RefusedError), held(b, timeout_s=0):
            pass
    assert site.fenced == []


def test_silence_is_measured_by_looks_close_together() -> None:
    silence = Silence()
    assert silence.observe("a", "1", 0.0) == 0.0
    assert silence.observe("a", "1", 9.0) == 9.0
    assert silence.observe("a", "2", 10.0) == 0.0
    assert silence.observe("a", "2", 19.0) == 9.0
    assert silence.observe("a", "2", 19.0 + LOOK_WITHIN_S + 1) == 0.0
    assert silence.observe("b", "", 31.0) == 0.0


def test_a_lock_that_cannot_be_released_ends_the_command_in_its_own_way(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    a = site.locks("a")
    with held(a):
        site.log.is_down = True
    assert [record.message for record in caplog.records if record.levelname == "WARNING"] == [
        "lock.kept"
    ]


def test_without_the_cluster_no_lock_is_taken(site: Site) -> None:
    a = site.locks("a")
    site.log.is_down = True
    with pytest.raises(StateUnansweredError), held(a):
        pass


def test_an_outage_is_waited_out_before_a_lock_and_while_one_is_waited_for(site: Site) -> None:
    a, b = site.locks("a"), site.locks("b")
    site.log.is_down = True

    def answer_again() -> None:
        site.log.is_down = False

    site.clock.on_sleep = answer_again
    with ExitStack() as stack:
        stack.enter_context(held(a))
        beats = site.log.beats

        def fail_once() -> dict[str, str]:
            site.log.beats = beats  # type: ignore[method-assign]
            stack.close()
            raise StateUnansweredError("The cluster does not answer.")

        site.log.beats = fail_once  # type: ignore[method-assign]
        with held(b):
            pass
    assert site.fenced == []


class Shared:
    """A `SharedPart` that notes which locks it is asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, bool, float]] = []

    @contextmanager
    def hold(self, name: str, *, shared: bool, timeout_s: float) -> Iterator[None]:
        self.asked.append((name, shared, timeout_s))
        yield

    @property
    def site(self) -> str:
        return "prod"

    def keep_secret(self, name: str, content: str, *, replaces: bool = True) -> None:
        raise GrampusError(f"{name}{content}")

    def forget_secret(self, name: str) -> None:
        raise GrampusError(name)


def test_locks_of_a_site_are_held_against_other_machines(tmp_path: Path) -> None:
    shared = Shared()
    home, clock = Home(tmp_path, shared), FakeClock()
    asked = [
        ("db.prod.shop", False),
        ("lab.prod", True),
        ("lab.prod", False),
        ("volume-keys", False),
        ("bench.prod", False),
        ("serve.prod", True),
        ("backups.f", False),
    ]
    for name, is_shared in asked:
        with hold_lock(home, name, clock, shared=is_shared, timeout_s=3.0):
            pass
    assert shared.asked == [
        ("db.prod.shop", False, 3.0),
        ("lab.prod", False, 3.0),
        ("volume-keys", False, 3.0),
        ("serve.prod", True, 3.0),
        ("backups.f", False, 3.0),
    ]


def test_who_holds_the_whole_site_waits_for_all_others_and_keeps_them_out(site: Site) -> None:
    """Such as the removal of a host, while another machine creates a database there."""
    a, b = site.locks("a"), site.locks("b")
    whole = partial(b.hold, "lab.prod", shared=False, timeout_s=0)
    with held(a), pytest.raises(HeldElsewhereError) as refused, whole():
        pass
    assert "`db create` on a is working on the lab or site 'prod'" in refused.value.problem
    with whole(), pytest.raises(HeldElsewhereError), held(a, timeout_s=0):
        pass
    # A controller that runs takes the locks of its jobs.
    with a.hold("serve.prod", shared=False, timeout_s=0), whole(), held(b, timeout_s=0):
        pass
    with held(a, timeout_s=0):
        pass


def test_an_operation_on_a_host_is_at_work_where_the_hosts_are_held(site: Site) -> None:
    a = site.locks("a")
    with a.hold("hosts.prod", shared=False, timeout_s=0):
        assert find_machine_at(site.copy("b"), "prod", "db1", "host.upgrade") == "a"
        assert find_machine_at(site.copy("b"), "prod", "shop", "db.create") is None
