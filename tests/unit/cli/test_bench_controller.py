"""A controller beside the load of a benchmark."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from grampus.cli.composition import bench_controller
from grampus.cli.composition.bench_controller import controller_serving, running_beside
from grampus.core.errors import GrampusError
from tests.system.machine import wait_for

# Counts who asks for its metrics, and notes that it was ended.
SERVE = """
import http.server, pathlib, signal, sys
notes = pathlib.Path(sys.argv[1])
class Metrics(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        with notes.open("a") as file:
            file.write(f"{self.path}\\n")
        self.send_response(200)
        self.end_headers()
    def log_message(self, *_):
        print("x" * 100_000, flush=True)  # more than a pipe holds
def end(*_):
    with notes.open("a") as file:
        file.write("ended\\n")
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
server = http.server.HTTPServer(("127.0.0.1", int(sys.argv[2])), Metrics)
print("started", flush=True)
server.serve_forever()
"""


# Not before the load: it would not have begun then.
END_UNDER_LOAD = """
import pathlib, sys, time
print("started", flush=True)
while not pathlib.Path(sys.argv[1]).exists():
    time.sleep(0.01)
print("No MON answers.")
"""


def test_it_runs_and_is_asked_for_its_metrics_for_as_long_as_the_load_lasts(
    tmp_path: Path,
) -> None:
    notes, port = tmp_path / "notes", bench_controller.find_free_port()
    argv = (sys.executable, "-c", SERVE, str(notes), str(port))
    address = f"http://127.0.0.1:{port}/metrics"
    with running_beside(argv, "started", address, every_s=0.01):
        wait_for(
            lambda: notes.exists() and notes.read_text().count("/metrics") > 2, "reading metrics"
        )
    lines = notes.read_text().splitlines()
    assert lines[-1] == "ended"
    assert set(lines[:-1]) == {"/metrics"}


@pytest.mark.parametrize(
    ("program", "said"),
    [("print('error: It is busy.')", "error: It is busy."), ("pass", "it said nothing")],
)
def test_one_that_does_not_begin_is_an_error(program: str, said: str) -> None:
    beside = running_beside((sys.executable, "-c", program), "started", "", every_s=60)
    with pytest.raises(GrampusError, match=said) as caught, beside:
        pytest.fail("It has not begun.")
    assert caught.value.code == "no-controller"


def test_one_that_ends_under_the_load_spoils_it(tmp_path: Path) -> None:
    load = tmp_path / "load"
    argv = (sys.executable, "-c", END_UNDER_LOAD, str(load))

    def has_ended() -> bool:
        load.touch()
        # Of a process that has ended the kernel keeps no command line.
        found = subprocess.run(["pgrep", "--full", str(tmp_path)], capture_output=True, check=False)
        return not found.stdout

    with (
        pytest.raises(GrampusError, match="ended before the load: No MON answers"),
        running_beside(argv, "started", "", every_s=60),
    ):
        wait_for(has_ended, "the end of the controller")


def test_a_lab_that_is_not_there_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAMPUS_HOME", str(tmp_path))
    with pytest.raises(GrampusError, match="did not begin"), controller_serving("nowhere"):
        pytest.fail("There is no such lab.")
