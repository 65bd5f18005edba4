from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.system.command_line import CHECKOUT
from tests.system.lanes import (
    INTEGRATION,
    LANES,
    Lane,
    decide_code,
    must_stop,
    select_failures,
    share_images,
)

# Lanes of tests that are given here, run as the program is.
PROGRAM = """
import sys
from pathlib import Path
from tests.system.lanes import Lane, run
lanes = [Lane(name, name, (f"{sys.argv[1]}/test_{name}.py",)) for name in ("one", "two")]
print(run(lanes, (), Path(sys.argv[1])))
"""


def test_every_module_that_needs_a_lab_is_in_one_lane() -> None:
    paths = [path for lane in LANES for path in lane.paths]
    there = {str(path.relative_to(CHECKOUT)) for path in (CHECKOUT / INTEGRATION).glob("test_*.py")}
    assert sorted(paths) == sorted({"tests/acceptance", *there})


def test_homes_differ_and_their_paths_are_equally_long() -> None:
    assert len({lane.home_name for lane in LANES}) == len(LANES)
    assert len({len(lane.home_name) for lane in LANES}) == 1


@pytest.mark.parametrize(
    ("codes", "expected"),
    [([0, 0], 0), ([0, 1], 1), ([1, 0], 1), ([1, 2], 2), ([0, 5], 5), ([-9, 0], 9), ([0, -15], 15)],
)
def test_all_passed_or_none_did(codes: list[int], expected: int) -> None:
    assert decide_code(codes) == expected


def test_each_test_that_did_not_pass_is_named_at_the_end() -> None:
    summary = ["FAILED tests/a.py::b - AssertionError", "ERROR tests/c.py::d - OSError"]
    log = "\n".join(["tests/a.py::b FAILED [ 1%]", "== summary ==", *summary, "== 2 failed =="])
    assert select_failures(log) == summary


@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        ([None, None], False),
        ([0, None], False),
        ([1, None], False),
        ([2, None], True),
        ([None, 4], True),
        ([-9, None], True),
    ],
)
def test_a_failed_test_stops_no_lane_and_a_lane_that_cannot_go_on_does(
    codes: list[int | None], expected: bool
) -> None:
    assert must_stop(codes) is expected


def test_homes_share_their_images(tmp_path: Path) -> None:
    images, homes = tmp_path / "first" / "images", [tmp_path / "first", tmp_path / "second"]
    for _ in range(2):
        share_images(homes, images)
    (images / "sid").touch()
    assert [(home / "images" / "sid").exists() for home in homes] == [True, True]


def start(tmp_path: Path, first: str, second: str) -> subprocess.Popen[str]:
    (tmp_path / "test_one.py").write_text(first)
    (tmp_path / "test_two.py").write_text(second)
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        cwd=CHECKOUT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_lanes_run_side_by_side_and_one_failure_fails_all(tmp_path: Path) -> None:
    meets = """
import pathlib, time
here = pathlib.Path(__file__).parent
def test_{name}():
    (here / "{name}").touch()
    deadline = time.monotonic() + 200
    while not (here / "{other}").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert {holds}
"""
    running = start(
        tmp_path,
        meets.format(name="a", other="b", holds="True"),
        meets.format(name="b", other="a", holds="1 == 2"),
    )
    said, _ = running.communicate(timeout=240)
    assert said.splitlines()[-1] == "1", said
    assert any(line.startswith("one ") and "test_a PASSED" in line for line in said.splitlines())
    assert any(line.startswith("two ") and "test_b FAILED" in line for line in said.splitlines())
    assert "assert 1 == 2" in (tmp_path / "test-logs" / "two.log").read_text()


def test_ctrl_c_lets_each_lane_take_its_lab_down_once(tmp_path: Path) -> None:
    waits = """
import pathlib, time
import pytest
here = pathlib.Path(__file__).parent
@pytest.fixture(scope="session")
def lab():
    yield
    time.sleep({takes_s})
    (here / "{name}-down").touch()
def test_{name}(lab):
    (here / "{name}-begun").touch()
    time.sleep(900)
"""
    running = start(tmp_path, waits.format(name="a", takes_s=0), waits.format(name="b", takes_s=3))
    deadline = time.monotonic() + 200
    while not all((tmp_path / f"{name}-begun").exists() for name in "ab"):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    said, _ = running.communicate(timeout=240)
    assert said.splitlines()[-1] == "2", said
    assert all((tmp_path / f"{name}-down").exists() for name in "ab")


def test_a_lane_that_cannot_begin_ends_the_others(tmp_path: Path) -> None:
    running = start(tmp_path, "import time\ndef test_a():\n    time.sleep(900)\n", "no python")
    said, _ = running.communicate(timeout=240)
    assert said.splitlines()[-1] == "2", said


def test_a_lane_knows_where_its_modules_are() -> None:
    assert Lane("x", "y", ("tests/acceptance", "clones")).paths == [
        "tests/acceptance",
        f"{INTEGRATION}/test_clones.py",
    ]


def test_a_test_that_is_alone_has_nothing_beside_it(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("from tests.conftest import pytest_runtest_protocol\n")
    text = """
import pathlib, time
import pytest
here = pathlib.Path(__file__).parent
{marker}
@pytest.mark.parametrize("turn", range(3))
def test_{name}(turn):
    (here / "{name}").touch()
    for _ in range(10):
        time.sleep(0.05)
        assert not (here / "{other}").exists()
    (here / "{name}").unlink()
"""
    running = start(
        tmp_path,
        text.format(name="a", other="b", marker=""),
        text.format(name="b", other="a", marker="@pytest.mark.alone"),
    )
    said, _ = running.communicate(timeout=240)
    assert said.splitlines()[-1] == "0", said
