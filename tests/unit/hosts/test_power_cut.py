"""A lab host that loses power, and containers whose runc root is gone: runc is a script here."""

from __future__ import annotations

from pathlib import Path

import pytest

from grampus.hosts.lab_host import LabHost, LabHostPlace
from grampus.hosts.port import DaemonStatus
from tests.fakes.clock import FakeClock
from tests.fakes.programs import put_first_in_path

# State is a file `status` below ROOT/ID, as runc's own is a file below its root.
RUNC = """#!/bin/sh
shift; root=$1; verb=$2; shift 2
echo "$verb $*" >> "$FAKE/calls"
case $verb in
    state)
        test -e "$root/$1/status" || { echo "container $1 does not exist" >&2; exit 1; }
        printf '{"status": "%s", "pid": 1}' "$(cat "$root/$1/status")" ;;
    list) echo "stat $root/h1.gone: no such file or directory" >&2; exit 1 ;;
    kill) test "$2" != TERM || exit 0; echo stopped > "$root/$1/status" ;;
esac
"""

# The host has its own address and that of a database.
IP = """#!/bin/sh
shift 2  # -netns NAME
case "$1" in
    -json) echo '[{"addr_info": [
        {"family": "inet", "local": "10.0.0.1", "prefixlen": 24},
        {"family": "inet", "local": "10.0.0.100", "prefixlen": 24},
        {"family": "inet6", "local": "fe80::1", "prefixlen": 64}]}]' ;;
    *) echo "ip $*" >> "$FAKE/calls" ;;
esac
"""


class Machine:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.runc_root = directory / "run" / "runc"
        self.host_dir = directory / "hosts" / "h1"
        self.host = LabHost(
            LabHostPlace(
                name="h1",
                address="10.0.0.1",
                prefix_length=24,
                directory=self.host_dir,
                network_namespace="grampus-none-h1",
                link="gr-none-h1",
                runc_root=self.runc_root,
                cgroup_path="/grampus/none",
            ),
            lambda _image: directory / "root",
            FakeClock(),
        )

    def run_container(self, name: str, status: str = "running") -> None:
        state = self.runc_root / f"h1.{name}"
        state.mkdir(parents=True)
        (state / "status").write_text(status)
        (self.host_dir / "daemons" / name).mkdir(parents=True)

    def calls(self, verb: str) -> list[str]:
        file = self.directory / "calls"
        lines = file.read_text().splitlines() if file.exists() else []
        return [line for line in lines if line.startswith(f"{verb} ")]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    programs = {"runc": RUNC, "ip": IP}
    put_first_in_path(tmp_path, programs, monkeypatch)
    return Machine(tmp_path)


def test_power_cut_kills_the_daemons_then_the_host_and_keeps_the_data(machine: Machine) -> None:
    for name in ("host", "mon-h1", "osd-0", "qsd-demo"):
        machine.run_container(name)
    machine.run_container("mysql-old", "stopped")
    data = machine.host_dir / "data" / "osd" / "0.img"
    data.parent.mkdir(parents=True)
    data.write_text("precious")
    machine.host.cut_power()
    kills = machine.calls("kill")
    assert sorted(kills[:-1]) == [
        "kill h1.mon-h1 KILL",
        "kill h1.osd-0 KILL",
        "kill h1.qsd-demo KILL",
    ]
    assert kills[-1] == "kill h1.host KILL"
    assert machine.calls("ip") == ["ip address delete 10.0.0.100/24 dev eth0"]
    assert not machine.host.is_up()
    assert data.read_text() == "precious"
    assert {status.state for status in machine.host.observe_daemons()} == {"stopped"}


def test_power_cut_again_does_nothing(machine: Machine) -> None:
    machine.run_container("host")
    machine.host.cut_power()
    machine.host.cut_power()
    assert len(machine.calls("kill")) == 1


def test_one_daemon_that_does_not_end_keeps_no_other_from_being_stopped(machine: Machine) -> None:
    for number in range(12):
        machine.run_container(f"osd-{number}")
    machine.host.stop_all(kill=False)  # TERM is not enough for any of them
    killed = {line for line in machine.calls("kill") if line.endswith("KILL")}
    assert len(killed) == 12


@pytest.mark.parametrize("kill", [True, False])
def test_emulated_disks_end_after_what_stands_on_them(machine: Machine, kill: bool) -> None:
    for name in ("disk-0", "disk-set.1", "mon-h1", "osd-0", "osd-1"):
        machine.run_container(name)
    machine.host.stop_all(kill=kill)
    ended = [line.split()[1] for line in machine.calls("kill") if line.endswith("KILL")]
    assert sorted(ended[:3]) == ["h1.mon-h1", "h1.osd-0", "h1.osd-1"]
    assert sorted(ended[3:]) == ["h1.disk-0", "h1.disk-set.1"]


def test_looking_at_a_host_without_runc_state_makes_none(machine: Machine) -> None:
    """After `lab down` or a reboot, `lab status` must leave nothing on the machine."""
    (machine.host_dir / "daemons" / "osd-0").mkdir(parents=True)
    assert machine.host.observe_daemons() == [DaemonStatus("osd-0", "stopped")]
    assert not machine.host.is_up()
    machine.host.stop_all(kill=True)
    assert not machine.runc_root.exists()
    assert not (machine.directory / "calls").exists()


def test_looking_at_a_host_while_a_container_is_removed(machine: Machine) -> None:
    """runc fails as a whole when it lists containers of which one goes away meanwhile."""
    machine.run_container("osd-0")
    machine.run_container("volumed-shop", "stopped")
    machine.run_container("volumed-gone")
    (machine.runc_root / "h1.volumed-gone" / "status").unlink()
    assert machine.host.observe_daemons() == [
        DaemonStatus("osd-0", "running", 1, uid=0),
        DaemonStatus("volumed-gone", "stopped"),
        DaemonStatus("volumed-shop", "stopped"),
    ]
