"""Each fake has the methods of its port, with the same parameters."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from grampus.bench import measured_ports
from grampus.bench.environments import environment_ports
from grampus.bench.environments.layouts import LayoutPort
from grampus.bench.environments.monitors import Monitors
from grampus.bench.environments.profiles import TuningPort
from grampus.bench.paths import paths_ports
from grampus.bench.trials.place import CellPlace
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
from tests.fakes.migrations import FakeKeyRotation, FakeMigrations
from tests.fakes.mysql_host import MysqlHost
from tests.fakes.pools_and_images import FakeCluster, FakeImages
from tests.fakes.progress import RecordedProgress
from tests.fakes.stepped_journal import SteppedJournal
from tests.fakes.sysbench_host import FakeDatabases, FakeDevices, FakeFacts, SysbenchHost
from tests.fakes.takeovers import FakeTakeovers
from tests.fakes.trash import FakeTrash
from tests.fakes.volumes import FakeEncryption, FakeVolumes
from tests.unit.bench.environments.fake_guests import FakeEnvironmentGuests
from tests.unit.bench.environments.fake_hosts import FakeLayout, FakeTuning
from tests.unit.bench.environments.osd_sets import FakeEnvironmentOsdSets
from tests.unit.bench.environments.world import (
    FakeEnvironmentCluster,
    FakeEnvironmentDatabases,
    FakeEnvironmentPools,
    FakeEnvironmentVolumes,
    FakeMonitors,
)
from tests.unit.bench.paths.fakes import FakePathsCluster, FakePathsVolumes, NoServerImage
from tests.unit.bench.trials.made_place import MadePlace
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
    (ports.EncryptionPort, FakeEncryption),
    (ports.MigrationPort, FakeMigrations),
    (ports.KeyRotationPort, FakeKeyRotation),
    (ports.TakeoverPort, FakeTakeovers),
    (ports.TrashPort, FakeTrash),
    (ports.ClusterPort, FakeCluster),
    (ports.ImagePort, FakeImages),
    (measured_ports.DatabasePort, FakeDatabases),
    (measured_ports.DevicesPort, FakeDevices),
    (measured_ports.FactsPort, FakeFacts),
    (paths_ports.VolumesPort, FakePathsVolumes),
    (paths_ports.ClusterPort, FakePathsCluster),
    (paths_ports.ServerImagePort, NoServerImage),
    (environment_ports.EnvironmentDatabases, FakeEnvironmentDatabases),
    (environment_ports.EnvironmentGuests, FakeEnvironmentGuests),
    (environment_ports.EnvironmentVolumes, FakeEnvironmentVolumes),
    (environment_ports.EnvironmentPools, FakeEnvironmentPools),
    (environment_ports.EnvironmentOsdSets, FakeEnvironmentOsdSets),
    (environment_ports.EnvironmentCluster, FakeEnvironmentCluster),
    (LayoutPort, FakeLayout),
    (TuningPort, FakeTuning),
    (Monitors, FakeMonitors),
    (CellPlace, MadePlace),
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
