"""What a command's session keeps while the command runs."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any, cast

import pytest

from grampus.cli.app import command, make_noun
from grampus.cli.composition.lab import LabSession
from grampus.cli.housekeeping import telling_of_space
from grampus.cli.noting import note_records
from grampus.cli.noun import Noun
from grampus.core.errors import NotFoundError, RefusedError, UsageError
from grampus.core.processes import OperationProcess, parse_process
from grampus.databases.rebuild.noting import RecordsNoting
from grampus.lab.model import LAB_RECORD
from grampus.operations.watching import CONTROLLER_COMMAND
from grampus.sites.model import (
    SITE_HOST_RECORD,
    SITE_RECORD,
    SiteHostSpec,
    site_directory,
)
from grampus.sites.shared_state import SharedState, found_state, join_state
from grampus.sites.site_key import find_site_key, write_site_key
from grampus.state.generation import StateGeneration
from grampus.state.history import OperationHistory
from grampus.state.home import Home
from grampus.state.locks import hold_lock
from tests.fakes.progress import RecordedProgress
from tests.fakes.specs import site_spec
from tests.fakes.state_log import FakeStateLog
from tests.unit.lab.test_model import make_spec


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> LabSession:
    monkeypatch.setenv("GRAMPUS_HOME", str(tmp_path))
    monkeypatch.setattr("grampus.sites.model.RUN_DIRECTORY", tmp_path / "run")
    return LabSession("test", makes_lab=True)


def test_a_session_has_one_fleet(session: LabSession) -> None:
    """Each fleet starts processes of its own on the hosts: a long command must not gather them."""
    with pytest.raises(NotFoundError):
        session.fleet()
    session.store.put(LAB_RECORD, "test", "test", make_spec())
    fleet = session.fleet()
    assert session.fleet() is fleet
    assert [host.name for host in fleet.hosts()] == make_spec().host_names


def test_another_lab_of_that_name_has_another_fleet(session: LabSession) -> None:
    session.store.put(LAB_RECORD, "test", "test", make_spec())
    fleet = session.fleet()
    session.store.put(LAB_RECORD, "test", "test", make_spec(subnet="10.213.8.0/24"))
    assert session.fleet() is not fleet
    session.close()
    session.close()


SITE = site_spec(name="test", pool="shops")


def site_host(name: str, *, is_ready: bool) -> SiteHostSpec:
    return SiteHostSpec(
        name=name, address="10.0.5.11", ssh_user="root", ssh_address=name, is_ready=is_ready
    )


@pytest.fixture
def log(session: LabSession, monkeypatch: pytest.MonkeyPatch) -> FakeStateLog:
    """That of the site `test`, which the session works on."""
    log: Any = FakeStateLog()
    found_state(session.home, SITE, log, session.clock, session.home_store).close()
    session.home_store.put(SITE_RECORD, "test", "test", SITE)
    monkeypatch.setattr("grampus.sites.shared_state.state_log", lambda *_: log)
    return cast(FakeStateLog, log)


def elsewhere(session: LabSession, log: FakeStateLog) -> SharedState:
    """The same site in another home."""
    home = Home(session.home.root / "other")
    key = find_site_key(site_directory(session.home, "test"))
    assert key is not None
    write_site_key(site_directory(home, "test"), key)
    return join_state(home, "test", cast(Any, log), session.clock)


def test_a_site_has_the_hosts_that_are_ready_and_refuses_the_work_of_labs(
    session: LabSession, log: FakeStateLog
) -> None:
    for host in (site_host("db1", is_ready=True), site_host("db2", is_ready=False)):
        session.store.put(SITE_HOST_RECORD, "test", host.name, host)
    assert session.require_place() == SITE
    assert [host.name for host in session.fleet().hosts()] == ["db1"]
    assert [host.name for host in session.unready_hosts()] == ["db2"]
    for refused in (session.require_lab, session.lab_fleet):
        with pytest.raises(UsageError) as caught:
            refused()
        assert caught.value.code == "not-a-lab"


def test_a_wrong_name_is_looked_for_among_labs_and_sites(session: LabSession) -> None:
    session.store.put(LAB_RECORD, "tests", "tests", make_spec(name="tests"))
    session.home_store.put(SITE_RECORD, "prod", "prod", SITE.model_copy(update={"name": "prod"}))
    with pytest.raises(NotFoundError) as caught:
        session.require_place()
    assert "tests" in str(caught.value)


def test_what_changes_on_a_site_is_noted_as_on_a_lab(
    session: LabSession, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """A lost state is rebuilt from it: nothing says that it is missing until then."""
    noted: list[str] = []
    monkeypatch.setattr(RecordsNoting, "ensure_noted", lambda _: noted.append("noted"))
    monkeypatch.setattr(LabSession, "cluster", lambda _: None)
    note_records(session)
    assert noted == [], "there is neither"
    session.close()
    request.getfixturevalue("log")
    note_records(session)
    assert noted == ["noted"]


def test_operations_on_a_site_need_its_last_epoch(session: LabSession, log: FakeStateLog) -> None:
    session.journal.begin("db.create", "test", "shop", {})
    elsewhere(session, log).epochs.begin("this was silent")
    with pytest.raises(RefusedError, match="began the controller epoch 2") as refused:
        session.journal.begin("db.create", "test", "other", {})
    assert refused.value.code == "superseded"
    session.renew_epoch()
    session.journal.begin("db.create", "test", "other", {})
    assert len(session.journal.unfinished("test")) == 2


def test_what_another_machine_changed_is_seen_by_the_next_session(
    session: LabSession, log: FakeStateLog
) -> None:
    session.store.put(SITE_HOST_RECORD, "test", "db1", site_host("db1", is_ready=True))
    session.close()
    other = elsewhere(session, log)
    other.store.put(SITE_HOST_RECORD, "test", "db2", site_host("db2", is_ready=True))
    assert [host.name for host in session.fleet().hosts()] == ["db1", "db2"]


def test_hosts_get_commands_in_the_epoch_of_the_session(
    session: LabSession, log: FakeStateLog
) -> None:
    session.store.put(SITE_HOST_RECORD, "test", "db1", site_host("db1", is_ready=True))
    place = session.fleet().host("db1")._place
    assert place.epoch().number == 1
    session.take_over("a test")
    assert place.epoch().number == 2


def test_the_generation_of_a_site_says_nothing_of_labs(
    session: LabSession, log: FakeStateLog
) -> None:
    labs = StateGeneration(session.home_store, session.home.root)
    labs.confirm("default")
    session.state_generation().advance()
    assert labs.is_known("default")


def test_locks_of_a_site_are_held_against_other_machines(
    session: LabSession, log: FakeStateLog
) -> None:
    assert session.require_place() == SITE
    other = elsewhere(session, log)
    assert other.home.shared is not None
    with (
        hold_lock(session.home, "db.test.shop", session.clock),
        pytest.raises(RefusedError) as refused,
        other.home.shared.hold("db.test.shop", shared=False, timeout_s=0),
    ):
        pass
    assert refused.value.code == "busy"


def test_a_superseded_session_notes_nothing_on_images(
    session: LabSession, log: FakeStateLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    progress = RecordedProgress()
    monkeypatch.setattr(session, "progress", progress)
    monkeypatch.setattr(LabSession, "cluster", lambda _: None)
    session.store.put("database", "test", "shop", SITE)  # whatever it is, it is not noted yet
    elsewhere(session, log).epochs.begin("this was silent")
    monkeypatch.setattr(
        "grampus.databases.rebuild.noting.decide_unwritten", lambda *_: {"shop": SITE}
    )
    note_records(session)
    [said] = progress.notes
    assert "began the controller epoch 2" in said


def test_without_the_cluster_the_state_is_shown_as_it_was(
    session: LabSession, log: FakeStateLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    progress = RecordedProgress()
    monkeypatch.setattr(session, "progress", progress)
    log.is_down = True
    assert session.require_place() == SITE
    assert progress.notes == ["The cluster does not answer. Grampus shows what it knew last."]


def test_the_epochs_of_a_lab_are_nobodys_business(session: LabSession) -> None:
    session.store.put(LAB_RECORD, "test", "test", make_spec())
    session.require_controller()
    session.take_over("a test")
    assert session.own_epoch() is None


@pytest.fixture
def full(session: LabSession, monkeypatch: pytest.MonkeyPatch) -> RecordedProgress:
    """What the session says, whose home has no room left."""
    progress = RecordedProgress()
    monkeypatch.setattr(session, "progress", progress)
    filled = os.statvfs_result((4096, 4096, 262144, 0, 0, 1000, 1000, 1000, 0, 255))
    monkeypatch.setattr(os, "statvfs", lambda _: filled)
    return progress


def test_a_full_home_is_warned_of_once(session: LabSession, full: RecordedProgress) -> None:
    with telling_of_space(session):
        assert session.store is not None
    [warning] = full.notes
    assert "is full: Grampus starts no new operation" in warning


def test_a_command_that_a_full_home_refuses_says_it_in_its_error_alone(
    session: LabSession, full: RecordedProgress
) -> None:
    with pytest.raises(RefusedError, match="is full") as refused, telling_of_space(session):
        session.journal.begin("db.create", "test", "shop", {})
    assert refused.value.code == "home-full"
    assert full.notes == []


def test_a_full_home_is_warned_of_beside_another_error(
    session: LabSession, full: RecordedProgress
) -> None:
    with pytest.raises(NotFoundError), telling_of_space(session):
        session.fleet()
    assert len(full.notes) == 1


def test_operations_know_the_command_that_works_on_them(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`operation cancel` spares those of `grampus serve`, which it knows by this."""
    monkeypatch.setenv("GRAMPUS_BACKGROUND", "a1b2")
    noun = Noun("program", "A program.")
    below = make_noun("below", "Below.", under=make_noun("noun", "A noun.", under=noun))
    seen: list[OperationProcess | None] = []

    def verb() -> None:
        session = LabSession("test", makes_lab=True)
        number = session.journal.begin("db.stop", "test", "shop", {}).id
        found = OperationHistory(session.store, "test").find(number)
        seen.append(None if found is None else parse_process(found.process))
        session.close()

    def in_a_thread() -> None:
        thread = threading.Thread(target=verb)
        thread.start()
        thread.join()

    command(below, "verb", "an example")(verb)()
    command(noun, CONTROLLER_COMMAND, "an example")(in_a_thread)()
    commands = [(one.command, one.token) for one in seen if one is not None]
    assert commands == [("noun below verb", "a1b2"), ("serve", "a1b2")]
