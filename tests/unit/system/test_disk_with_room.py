"""What unit tests find does not depend on how full the machine's disk is."""

from __future__ import annotations

import shutil

from grampus.lab.labs import DEFAULT_OSD_SIZE_BYTES, decide_osd_size_bytes
from tests.system.command_line import CHECKOUT

SOURCE = CHECKOUT / "src" / "grampus"
# It keeps some MiB free for the state, and its tests mount a file system of their own.
HOME_SPACE = SOURCE / "state" / "home_space.py"


def test_free_space_is_asked_where_the_tests_can_answer() -> None:
    asks = [file for file in SOURCE.rglob("*.py") if "os.statvfs(" in file.read_text("utf-8")]
    assert asks == [HOME_SPACE]


def test_a_test_has_room_for_the_largest_default() -> None:
    free_bytes = shutil.disk_usage("/proc").free  # of which the machine has nothing
    assert decide_osd_size_bytes(None, 9, free_bytes) == DEFAULT_OSD_SIZE_BYTES
