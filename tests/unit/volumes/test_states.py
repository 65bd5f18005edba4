"""The states of many volumes at once."""

from __future__ import annotations

import json
import socketserver
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from grampus.volumes.drivers.volumed_states import ASK_STATES
from grampus.volumes.live import LiveVolume, is_failing

from .world import World


def states(world: World) -> dict[str, LiveVolume | Exception | None]:
    service = world.service()
    return dict(service.observe_states(service.all()))


def test_all_volumes_of_a_host_are_asked_by_one_command(world: World) -> None:
    world.build_volumed()
    for name in ("demo", "shop", "idle"):
        world.create(name)
    for name in ("demo", "shop"):
        world.service().ensure_attached(name, "h1")
    world.h1.commands.clear()
    found = states(world)
    assert sorted(found) == ["demo", "shop"], "nobody is to be asked of a detached one"
    assert all(isinstance(one, LiveVolume) and one.state == "running" for one in found.values())
    assert [argv[0] for argv in world.h1.commands] == ["python3"]


def test_who_does_not_answer_is_asked_alone(world: World) -> None:
    world.build_volumed()
    for name in ("demo", "shop"):
        world.create(name)
        world.service().ensure_attached(name, "h1")
    world.h1.kill_daemon("volumed-demo")
    found = {name: getattr(one, "state", None) for name, one in states(world).items()}
    assert found == {"demo": "dead", "shop": "running"}
    world.h1.up = False
    found = {name: getattr(one, "state", None) for name, one in states(world).items()}
    assert found == {"demo": "unknown", "shop": "unknown"}


def test_who_runs_and_gives_no_answer_is_stuck_and_can_be_replaced(world: World) -> None:
    world.build_volumed()
    for name in ("demo", "shop"):
        world.create(name)
    world.service().ensure_attached("demo", "h1")
    names = ["demo", "shop", "nobody"]
    assert world.service().find_driver_faults(names) == {}
    world.h1.is_volumed_mute = True
    assert world.service().find_driver_faults(names) == {"demo": "stuck"}
    assert world.service().find_driver_faults(["shop"]) == {}
    world.h1.up = False
    assert world.service().find_driver_faults(names) == {}, "nobody knows"
    world.h1.up = True
    world.service().end_driver("demo")
    assert world.service().find_driver_faults(names) == {"demo": "ended"}
    world.h1.is_volumed_mute = False
    former = world.image.lock
    world.service().ensure_attached("demo", "h1")
    assert world.service().find_driver_faults(names) == {}
    assert former in world.cluster.blocklist, "its client is fenced before the image is opened"


def test_another_driver_cannot_say(world: World) -> None:
    world.create()
    world.service().ensure_attached("demo", "h1", driver="qsd")
    assert states(world) == {"demo": None}


class _Daemon(socketserver.StreamRequestHandler):
    """Answers as volumed does, or as its file's name says."""

    def handle(self) -> None:
        request = json.loads(self.rfile.readline())
        assert request == {"version": 1, "command": "status"}
        answer: dict[str, object] = {"version": 1, "ok": True, "result": {"state": "running"}}
        match Path(str(self.server.server_address)).name:
            case "refuses":
                answer = {"version": 1, "ok": False, "error": {"code": "busy", "message": "Wait."}}
            case "odd":
                answer = {"version": 2, "ok": True, "result": {}}
            case "hangs":
                self.connection.recv(1)
                return
            case "ends":
                return
        self.wfile.write(json.dumps(answer).encode() + b"\n")


def test_the_program_asks_all_and_leaves_out_who_gives_no_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the path of a socket is longer than its address may be."""
    place = tmp_path / ("x" * 100)
    place.mkdir()
    monkeypatch.chdir(place)
    servers = []
    for name in ("good", "fine", "refuses", "odd", "ends", "hangs"):
        server = socketserver.ThreadingUnixStreamServer(name, _Daemon)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
    sockets = [str(place / name) for name in ("good", "fine", "refuses", "odd", "ends")]
    sockets += [str(place / "hangs"), str(place / "absent"), "/" + "x" * 200]
    done = subprocess.run(
        [sys.executable, "-c", ASK_STATES, "0.5", "2"],
        input=json.dumps(sockets),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    state = {"state": "running"}
    answered = {"good": state, "fine": state, "refuses": None, "odd": None, "ends": None}
    found = {Path(path).name: answer for path, answer in json.loads(done.stdout).items()}
    assert found == answered, "who hangs, or is not there, gives no answer"
    for server in servers:
        server.shutdown()
        server.server_close()


def test_who_was_fenced_by_somebody_fails_and_can_be_replaced(world: World) -> None:
    """Such as by `ceph osd blocklist add`: it runs, answers, and serves errors alone."""
    world.build_volumed()
    for name in ("demo", "shop"):
        world.create(name)
        world.service().ensure_attached(name, "h1")
    former = world.service().get("demo").attachment
    assert former is not None
    assert former.client_address is not None
    world.cluster.blocklist.append(former.client_address)
    assert world.service().find_driver_faults(["demo", "shop"]) == {"demo": "failing"}
    world.service().end_driver("demo")
    world.service().ensure_attached("demo", "h1")
    assert world.service().find_driver_faults(["demo", "shop"]) == {}


@pytest.mark.parametrize(
    ("answer", "fails"),
    [
        ({"state": "failed"}, True),
        ({"state": "fenced"}, True),
        ({"state": "running"}, False),
        ({"state": "stalled"}, False),
        ({"state": "stopping"}, False),  # somebody works on it
        ({}, False),
        (None, False),
        ("fenced", False),
    ],
)
def test_what_a_volumed_that_fails_says(answer: object, fails: bool) -> None:
    assert is_failing(answer) is fails
