"""What systemd hears of the controller."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from grampus.cli.service_manager import LOOK_HANGS_AFTER_S, ServiceManager
from grampus.core.errors import GrampusError
from grampus.databases.controller.due_jobs import ControllerEvent, DueJob
from tests.fakes.clock import FakeClock


class Systemd:
    """The socket at which systemd listens."""

    def __init__(self, address: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(address.replace("@", "\0", 1))
        self._socket.settimeout(10)
        self.environment = {"NOTIFY_SOCKET": address, "HOME": "/root"}

    def next(self) -> str:
        return self._socket.recv(4096).decode()

    def close(self) -> None:
        self._socket.close()


@pytest.fixture(params=["path", "abstract"])
def systemd(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Systemd]:
    name = f"@grampus-test-{os.getpid()}" if request.param == "abstract" else str(tmp_path / "s")
    listening = Systemd(name)
    yield listening
    listening.close()


def job(run: object) -> DueJob[str]:
    return DueJob("failover", 1.0, run)  # type: ignore[arg-type]


def test_it_hears_that_the_service_is_ready_works_and_ends(systemd: Systemd) -> None:
    systemd.environment["WATCHDOG_USEC"] = "60000"  # 60 ms
    manager = ServiceManager(systemd.environment, FakeClock())
    with manager.serving("Serving."):
        assert systemd.next() == "READY=1\nSTATUS=Serving."
        assert [systemd.next() for _ in range(3)] == ["WATCHDOG=1"] * 3
    while (message := systemd.next()) == "WATCHDOG=1":
        pass
    assert message == "STOPPING=1"


@pytest.mark.parametrize(
    "watchdog", [{}, {"WATCHDOG_USEC": "0"}, {"WATCHDOG_USEC": "9000", "WATCHDOG_PID": "1"}]
)
def test_without_a_watchdog_it_hears_of_begin_and_end_alone(
    systemd: Systemd, watchdog: dict[str, str]
) -> None:
    systemd.environment.update(watchdog)
    with ServiceManager(systemd.environment, FakeClock()).serving("Serving."):
        pass
    assert [systemd.next(), systemd.next()] == ["READY=1\nSTATUS=Serving.", "STOPPING=1"]


def test_who_stands_by_is_ready_and_does_not_end(systemd: Systemd) -> None:
    manager = ServiceManager(systemd.environment, FakeClock())
    with manager.serving("Standing by.", is_last=False):
        pass
    with manager.serving("Serving."):
        pass
    said = [systemd.next() for _ in range(3)]
    assert said == ["READY=1\nSTATUS=Standing by.", "READY=1\nSTATUS=Serving.", "STOPPING=1"]


def test_commands_do_not_inherit_its_variables(systemd: Systemd) -> None:
    systemd.environment.update({"WATCHDOG_USEC": "9000", "WATCHDOG_PID": "1"})
    ServiceManager(systemd.environment, FakeClock())
    assert systemd.environment == {"HOME": "/root"}


def test_a_look_that_hangs_is_not_well_and_one_that_failed_is() -> None:
    clock = FakeClock()
    manager = ServiceManager({}, clock)
    seen: list[bool] = []

    def look(session: str) -> list[ControllerEvent]:
        clock.sleep(LOOK_HANGS_AFTER_S - 1)
        seen.append(manager.is_well())
        clock.sleep(1)
        seen.append(manager.is_well())
        raise GrampusError("No answer.")

    with pytest.raises(GrampusError):
        manager.watch(job(look)).run("")
    assert seen == [True, False]
    assert manager.is_well()


def test_without_systemd_nothing_is_said() -> None:
    with ServiceManager({"WATCHDOG_USEC": "1000"}, FakeClock()).serving("Serving."):
        pass


def test_a_systemd_that_does_not_listen_holds_nothing_up(tmp_path: Path) -> None:
    with ServiceManager({"NOTIFY_SOCKET": str(tmp_path / "gone")}, FakeClock()).serving("Hm."):
        pass
