"""The fakes have what their ports ask for: the same methods, which can be called the same way."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from grampus.ceph.ports import CommandRunner
from grampus.core.clock import Clock
from grampus.core.progress import Progress
from grampus.databases import ports
from grampus.hosts.port import Fleet, Host
from grampus.state.operations import OperationJournal
from tests.fakes.clock import FakeClock
from tests.fakes.commands import FakeRunner
from tests.fakes.hosts import FakeFleet, FakeHost
from tests.fakes.lab_host import FakeLabFleet, FakeLabHost
from tests.fakes.mysql_host import MysqlHost
from tests.fakes.pools_and_images import FakeCluster, FakeImages
from tests.fakes.progress import RecordedProgress
from tests.fakes.stepped_journal import SteppedJournal
from tests.fakes.sysbench_host import SysbenchHost
from tests.fakes.volumes import FakeVolumes
from tests.unit.volumes.cluster import RbdCluster
from tests.unit.volumes.machine import VolumeHost

PORTS: list[tuple[type, type]] = [
    (Clock, FakeClock),
    (Progress, RecordedProgress),
    (OperationJournal, SteppedJournal),
    (CommandRunner, FakeRunner),
    (CommandRunner, RbdCluster),
    (Fleet, FakeFleet),
    (Fleet, FakeLabFleet),
    *((Host, host) for host in (FakeHost, FakeLabHost, MysqlHost, SysbenchHost, VolumeHost)),
    (ports.VolumePort, FakeVolumes),
    (ports.ClusterPort, FakeCluster),
    (ports.ImagePort, FakeImages),
]


def _arguments(method: Any) -> list[str]:
    return [name for name in inspect.signature(method).parameters if name != "self"]


def _takes(fake: Any, port: Any) -> bool:
    """Whether whatever the port's method is called with can be given to the fake's."""
    there = inspect.signature(fake).parameters.values()
    if any(one.kind is inspect.Parameter.VAR_KEYWORD for one in there):
        return True
    return _arguments(fake)[: len(_arguments(port))] == _arguments(port)


@pytest.mark.parametrize(("port", "fake"), PORTS, ids=lambda one: one.__name__)
def test_a_fake_is_called_as_its_port_is(port: type, fake: type) -> None:
    methods = {
        name: method
        for name, method in inspect.getmembers(port, inspect.isfunction)
        if not name.startswith("_")
    }
    assert methods
    missing = [name for name in methods if not hasattr(fake, name)]
    assert not missing
    other = [name for name, method in methods.items() if not _takes(getattr(fake, name), method)]
    assert not other
