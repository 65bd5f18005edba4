"""What a command's session keeps while the command runs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from grampus.cli.composition.lab import LabSession
from grampus.cli.housekeeping import telling_of_space
from grampus.core.errors import NotFoundError, RefusedError
from grampus.lab.model import LAB_RECORD
from tests.unit.databases.fake_progress import RecordingProgress
from tests.unit.lab.test_model import make_spec


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> LabSession:
    monkeypatch.setenv("GRAMPUS_HOME", str(tmp_path))
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


@pytest.fixture
def full(session: LabSession, monkeypatch: pytest.MonkeyPatch) -> RecordingProgress:
    """What the session says, whose home has no room left."""
    progress = RecordingProgress()
    monkeypatch.setattr(session, "progress", progress)
    filled = os.statvfs_result((4096, 4096, 262144, 0, 0, 1000, 1000, 1000, 0, 255))
    monkeypatch.setattr(os, "statvfs", lambda _: filled)
    return progress


def test_a_full_home_is_warned_of_once(session: LabSession, full: RecordingProgress) -> None:
    with telling_of_space(session):
        assert session.store is not None
    [warning] = full.notes
    assert "is full: Grampus begins no new operation" in warning


def test_a_command_that_a_full_home_refuses_says_it_in_its_error_alone(
    session: LabSession, full: RecordingProgress
) -> None:
    with pytest.raises(RefusedError, match="is full") as refused, telling_of_space(session):
        session.journal.begin("db.create", "test", "shop", {})
    assert refused.value.code == "home-full"
    assert full.notes == []


def test_a_full_home_is_warned_of_beside_another_error(
    session: LabSession, full: RecordingProgress
) -> None:
    with pytest.raises(NotFoundError), telling_of_space(session):
        session.fleet()
    assert len(full.notes) == 1
