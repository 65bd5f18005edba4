"""What a command's session keeps while the command runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from grampus.cli.composition.lab import LabSession
from grampus.core.errors import NotFoundError
from grampus.lab.model import LAB_RECORD
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
