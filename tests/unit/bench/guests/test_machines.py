"""Virtual machines started, left alone, started anew and removed, also from a killed process."""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest

from grampus.bench.guests.guest_plan import EMULATED_NOTE
from grampus.core.errors import GrampusError, RefusedError
from grampus.core.units import MIB
from tests.fakes.interruption import stopped_runs
from tests.unit.bench.guests.world import IMAGE, KEYRING, NAME, GuestWorld, make_spec

DAEMON = f"vm-{NAME}"
DIRECTORY = f"/data/databases/{NAME}/guest"


def _serve(world: GuestWorld) -> None:
    world.guests().ensure_serving(make_spec())


def test_a_machine_is_a_daemon_with_the_servers_programs_and_a_lent_image() -> None:
    world = GuestWorld()
    _serve(world)
    assert world.record.host == "h1"
    assert sorted(map(str, world.h1.files)) == sorted(
        [KEYRING, *(f"{DIRECTORY}/{name}" for name in ("init", "link-up.sh", "my.cnf", "start.sh"))]
    )
    daemon = world.h1.daemons[DAEMON]
    spec = daemon.spec
    assert (daemon.state, spec.image) == ("running", IMAGE)
    assert spec.argv == ("/bin/sh", f"{DIRECTORY}/start.sh")
    assert {(bind.source, bind.target, bind.read_only) for bind in spec.binds} == {
        ("/data/etc-ceph", "/etc/ceph", True),
        (f"/data/databases/{NAME}", f"/data/databases/{NAME}", True),
        ("/images/sid/root", "/guest-root", True),
    }
    assert spec.limits.memory_bytes is not None
    assert spec.limits.memory_bytes > make_spec().memory_bytes + 256 * MIB
    assert world.h1.asked > 3
    assert world.h1.files[PurePosixPath(f"{DIRECTORY}/link-up.sh")].mode & 0o111
    assert "max_connections = 30" in world.h1.text(f"{DIRECTORY}/my.cnf")


def test_one_that_runs_as_it_shall_is_left_alone() -> None:
    world = GuestWorld()
    _serve(world)
    _serve(world)
    assert world.h1.starts == 1


def test_other_parameters_take_another_start() -> None:
    world = GuestWorld()
    _serve(world)
    world.guests().ensure_serving(make_spec(parameters={"max_connections": "40"}))
    assert world.h1.starts == 2
    assert "max_connections = 40" in world.h1.text(f"{DIRECTORY}/my.cnf")


def test_one_that_ended_by_itself_is_started_again() -> None:
    world = GuestWorld()
    _serve(world)
    world.h1.daemons[DAEMON].state = "stopped"
    _serve(world)
    assert world.h1.starts == 2
    assert world.h1.runs(DAEMON)


def test_a_server_that_does_not_come_up_says_why() -> None:
    world = GuestWorld()
    world.h1.dies = True
    with pytest.raises(GrampusError, match="ended with code 1") as caught:
        _serve(world)
    assert caught.value.code == "server-stopped"


def test_a_database_that_runs_is_not_opened_twice() -> None:
    world = GuestWorld()
    world.attached = True
    with pytest.raises(RefusedError, match="is attached"):
        _serve(world)
    assert not world.h1.daemons


def test_a_host_that_can_run_none_is_refused_before_anything_is_changed() -> None:
    world = GuestWorld()
    world.h1.looks = "x86_64\nkvm\n"
    with pytest.raises(RefusedError, match="no TUN device") as caught:
        _serve(world)
    assert caught.value.code == "no-guest"
    assert not world.h1.files


@pytest.mark.parametrize(
    ("looks", "flags", "note"),
    [
        ("x86_64\ntun\n", "fpu vmx", EMULATED_NOTE),
        ("x86_64\nkvm\ntun\n", "fpu sse", EMULATED_NOTE),
        ("x86_64\nkvm\ntun\n", "fpu vmx", None),
        ("x86_64\nkvm\ntun\n", "fpu svm", None),
    ],
)
def test_figures_of_an_emulated_machine_are_marked(
    looks: str, flags: str, note: str | None
) -> None:
    world = GuestWorld()
    world.h1.looks = looks
    world.h1.put("/proc/cpuinfo", f"processor\t: 0\nflags\t\t: {flags}\n")
    assert world.guests().note("h1") == note
    _serve(world)
    accelerator = "-accel tcg" if note else "-accel kvm"
    assert accelerator in world.h1.text(f"{DIRECTORY}/start.sh")


def _is_gone(world: GuestWorld) -> bool:
    return not world.h1.daemons and not world.h1.files and world.record.host is None


def test_nothing_of_it_is_left() -> None:
    world = GuestWorld()
    world.guests().ensure_absent(NAME)
    _serve(world)
    world.guests().ensure_absent(NAME)
    assert _is_gone(world)


def test_a_kill_at_any_moment_of_a_start_is_gone_on_from() -> None:
    for point, world in stopped_runs(lambda _: GuestWorld(), _serve, more_than=10):
        _serve(world)
        assert world.h1.runs(DAEMON), point
        assert world.h1.starts == 1, point
        assert world.h1.asked > 3, point


def test_a_kill_at_any_moment_of_a_start_leaves_nothing_that_is_not_removed() -> None:
    for point, world in stopped_runs(lambda _: GuestWorld(), _serve, more_than=10):
        world.guests().ensure_absent(NAME)
        # As before a database is removed, or started in its container.
        world.ensure_detached(NAME)
        assert _is_gone(world), point


def test_a_kill_at_any_moment_of_its_removal_is_gone_on_from() -> None:
    def start(_: int) -> GuestWorld:
        world = GuestWorld()
        _serve(world)
        return world

    def remove(world: GuestWorld) -> None:
        world.guests().ensure_absent(NAME)

    for point, world in stopped_runs(start, remove, more_than=4):
        remove(world)
        world.ensure_detached(NAME)
        assert _is_gone(world), point
