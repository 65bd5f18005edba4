"""The monitoring of a lab, on hosts in memory: whole, or brought to its end by the next call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

import pytest
import yaml

from grampus.core.errors import GrampusError
from grampus.hosts.port import DaemonSpec
from grampus.lab.monitoring import (
    MONITORING,
    RULES_FILE,
    MonitoringSpec,
    controller_place,
    render_alertmanager,
    render_prometheus,
)
from grampus.lab.parts import PARTS
from tests.fakes.hosts import FakeFile
from tests.unit.lab.part_world import PartCeph, PartHost, PartWorld, check_cut_off_anywhere

from .test_bootstrap import SPEC


@dataclass
class MonitoringCeph(PartCeph):
    """A cluster whose MGRs have modules."""

    modules: set[str] = field(default_factory=set)
    config: dict[str, str] = field(default_factory=dict)

    def answer(self, argv: Sequence[str], stdin: str | None) -> tuple[int, str]:
        match list(argv):
            case ["mgr", "module", "enable", name]:
                assert self.config, "it would listen where a host may have no addresses"
                self.modules.add(name)
            case ["mgr", "module", "disable", name]:
                self.modules.discard(name)
            case ["config", "set", "mgr", name, value]:
                self.config[name] = value
            case ["config", "rm", "mgr", name]:
                self.config.pop(name, None)
            case _:
                return super().answer(argv, stdin)
        return 0, ""

    def left(self) -> dict[str, object]:
        return {**super().left(), "modules": sorted(self.modules), "config": dict(self.config)}


class MonitoringHost(PartHost):
    """A host that runs what has its configuration and a directory for its data."""

    def _can_start(self, spec: DaemonSpec) -> bool:
        place = self.data_dir / "monitoring"
        program = spec.name.removesuffix(f"-{self.name}")
        return (
            place / "etc" / f"{program}.yml" in self.files
            and place / "data" / spec.name in self.files
        )

    def _file_command(self, argv: list[str]) -> tuple[int, str]:
        match argv:
            case ["mkdir", "-p", *paths]:
                for path in paths:
                    self.files.setdefault(self.path(path), FakeFile("directory"))
            case ["bash", "-c", script] if "/dev/tcp/" in script:
                port = int(script.rpartition("/")[2])
                name = {9090: "prometheus", 9093: "alertmanager"}[port]
                return (0 if self.runs(f"{name}-{self.name}") else 1), ""
            case _:
                return super()._file_command(argv)
        return 0, ""


def make_world(root: Path) -> PartWorld[MonitoringSpec]:
    return PartWorld(root, MONITORING, MonitoringCeph(), MonitoringHost)


def test_it_runs_on_one_host_with_our_rules(tmp_path: Path) -> None:
    world = make_world(tmp_path)
    spec = world.up()
    assert spec.prometheus(SPEC) == f"http://{SPEC.host_address('h3')}:9090"
    host = world.hosts[-1]
    names = [status.name for status in host.observe_daemons() if status.state == "running"]
    assert sorted(names) == ["alertmanager-h3", "prometheus-h3"]
    rules = host.read_file(host.data_dir / "monitoring" / "etc" / RULES_FILE.name)
    assert rules == RULES_FILE.read_text()
    for daemon in host.daemons.values():
        assert daemon.spec.image is not None
        assert daemon.spec.image.startswith("sid-monitoring-")
        assert daemon.spec.limits.memory_bytes is not None
    assert world.ceph.left()["modules"] == ["prometheus"]
    world.close()


def test_nothing_is_left_after_down(tmp_path: Path) -> None:
    world = make_world(tmp_path)
    empty = world.left()
    world.up()
    world.down()
    assert world.left() == empty
    world.close()


def test_cut_off_anywhere_the_next_call_ends_it(tmp_path: Path) -> None:
    check_cut_off_anywhere(make_world, tmp_path)


def test_what_ends_at_once_says_why(tmp_path: Path) -> None:
    world = make_world(tmp_path)
    world.hosts[-1]._can_start = lambda _spec: False  # type: ignore[method-assign]
    with pytest.raises(GrampusError, match="alertmanager-h3 found no store") as caught:
        world.up()
    assert caught.value.code == "monitoring-ended"
    world.close()


def test_prometheus_reads_the_controller_and_the_mgrs() -> None:
    document = yaml.safe_load(render_prometheus(SPEC, "h2"))
    targets = {
        job["job_name"]: job["static_configs"][0]["targets"] for job in document["scrape_configs"]
    }
    assert targets == {
        "grampus": [controller_place(SPEC)],
        "ceph": [f"{SPEC.host_address(host)}:9283" for host in SPEC.mgr_hosts],
    }
    (alerts,) = document["alerting"]["alertmanagers"]
    assert alerts["static_configs"][0]["targets"] == [f"{SPEC.host_address('h2')}:9093"]


def test_alertmanager_sends_to_a_receiver_that_there_is() -> None:
    document = yaml.safe_load(render_alertmanager())
    names = [receiver["name"] for receiver in document["receivers"]]
    assert document["route"]["receiver"] in names


@pytest.mark.parametrize("record", PARTS)
def test_a_part_is_found_by_its_record(record: str) -> None:
    module, _, name = PARTS[record].partition(":")
    assert getattr(import_module(module), name).record == record
