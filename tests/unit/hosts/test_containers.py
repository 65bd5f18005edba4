"""Containers of daemons whose files belong to somebody else on disk: runc is a script here."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from grampus.core.errors import GrampusError
from grampus.hosts.containers import Containers
from grampus.hosts.port import Bind, DaemonSpec
from tests.fakes.clock import FakeClock
from tests.fakes.programs import put_first_in_path

# As runc does, it runs the hooks of a container before the container, and fails if they do. A
# hook says of a machine without idmapped mounts what is in the file `answer`.
RUNC = """#!/bin/sh
shift; root=$1; verb=$2; shift 2
case $verb in
    state)
        if test -e "$FAKE/being-made"; then
            rm "$FAKE/being-made"; echo running > "$root/$1/status"; touch "$root/$1/state.json"
            echo "container does not exist" >&2; exit 1
        fi
        printf '{"status": "%s", "pid": 1}' "$(cat "$root/$1/status")" ;;
    run)
        id=$4; bundle=$3
        if grep -q createContainer "$bundle/config.json" && test -e "$FAKE/answer"; then
            mkdir -p "$root/$id"; echo stopped > "$root/$id/status"; touch "$root/$id/state.json"
            cat "$FAKE/answer" > "$bundle/owners-not-mapped"
            echo "error running hook" >&2; exit 1
        fi
        echo started >> "$FAKE/starts"
        test ! -e "$FAKE/broken" || { echo "no such program" >&2; exit 1; }
        mkdir -p "$root/$id"; echo running > "$root/$id/status" ;;
    kill) test "$2" != KILL || echo stopped > "$root/$1/status" ;;
    delete) rm -r "$root/$2" ;;
esac
"""
SERVER = DaemonSpec(
    name="mysqld-shop",
    argv=("mysqld",),
    binds=(Bind("/srv/shop", "/var/lib/mysql", owner=64050),),
    uid=2027225445,
    gid=2027225445,
)


class Machine:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.clock = FakeClock()
        self.containers = Containers(
            directory=directory / "daemons",
            runc_root=directory / "runc",
            prefix="h1",
            hostname="h1",
            network_namespace="/run/netns/grampus-none-h1",
            cgroup_path="/grampus/none",
            image_root=lambda _image: directory / "root",
            clock=self.clock,
        )

    def config(self) -> Any:
        return json.loads((self.directory / "daemons/mysqld-shop/bundle/config.json").read_text())

    def starts(self) -> int:
        file = self.directory / "starts"
        return len(file.read_text().splitlines()) if file.exists() else 0


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    programs = {"runc": RUNC, "mount": "#!/bin/sh\n"}
    put_first_in_path(tmp_path, programs, monkeypatch)
    return Machine(tmp_path)


def test_a_daemon_runs_as_its_own_user_and_so_do_commands_in_it(machine: Machine) -> None:
    machine.containers.ensure_running(SERVER)
    assert machine.config()["process"]["user"] == {"uid": SERVER.uid, "gid": SERVER.gid}
    assert f"{SERVER.uid}:{SERVER.gid}" in machine.containers.exec_argv(SERVER.name, ["mysql"])


def test_a_machine_without_idmapped_mounts_still_starts_it(machine: Machine) -> None:
    (machine.directory / "answer").write_text("22 mount_setattr: Invalid argument\n")
    machine.containers.ensure_running(SERVER)
    config = machine.config()
    assert config["process"]["user"] == {"uid": 64050, "gid": 64050}
    assert "hooks" not in config
    assert "64050:64050" in machine.containers.exec_argv(SERVER.name, ["mysql"])
    assert "mount_setattr: Invalid argument" in machine.containers.log(SERVER.name, last_lines=1)
    assert machine.starts() == 1
    # Asked again once it has ended: the machine may have a newer kernel by then.
    (machine.directory / "runc/h1.mysqld-shop/status").write_text("stopped")
    (machine.directory / "answer").unlink()
    machine.containers.ensure_running(SERVER)
    assert machine.config()["process"]["user"]["uid"] == SERVER.uid


@pytest.mark.parametrize(("given_s", "waited_s"), [(1.0, 2.0), (4.0, 4.0)])
def test_a_daemon_has_the_time_to_end_that_it_was_started_with(
    machine: Machine, given_s: float, waited_s: float
) -> None:
    """A server that writes gigabytes before it ends is not killed meanwhile."""
    machine.containers.ensure_running(replace(SERVER, stop_timeout_s=given_s))
    machine.containers.stop(SERVER.name, kill=False, stop_signal="TERM", timeout_s=2)
    assert waited_s <= machine.clock.monotonic_s() < waited_s + 1
    assert not machine.containers.is_running(SERVER.name)


@pytest.mark.parametrize("answer", ["5 open_tree: Input/output error\n", "", None])
def test_whatever_else_fails_is_no_reason_to_run_as_another_user(
    machine: Machine, answer: str | None
) -> None:
    (machine.directory / "broken").touch()
    if answer is not None:
        (machine.directory / "answer").write_text(answer)
    with pytest.raises(GrampusError, match="could not be started on h1"):
        machine.containers.ensure_running(SERVER)
    assert machine.config()["process"]["user"]["uid"] == SERVER.uid
    assert machine.starts() == (1 if answer is None else 0)


def test_a_daemon_that_is_being_started_is_no_error(machine: Machine) -> None:
    """runc writes down what it starts while somebody asks for it."""
    machine.containers.ensure_running(SERVER)
    (machine.directory / "being-made").touch()
    seen = machine.containers.observe_one(SERVER.name)
    assert seen is not None
    assert seen.state == "running"
    assert not (machine.directory / "being-made").exists()
