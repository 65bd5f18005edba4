"""What the scripts for a host do, run with its sh and programs that only seem to do it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from grampus.hosts.remote.host_scripts import UNMAP_BINDS
from tests.fakes.programs import put_first_in_path

# It refuses as often as the file `refusals` has lines, each with that sentence.
UMOUNT = """#!/bin/sh
echo "$LC_ALL $1" >>"$FAKE/asked"
test -s "$FAKE/refusals" || exit 0
echo "umount: $1: $(head -n 1 "$FAKE/refusals")" >&2
sed -i 1d "$FAKE/refusals"
exit 32
"""
MOUNTPOINT = "#!/bin/sh\nexit 0\n"
BUSY = "target is busy.\n"


@pytest.mark.parametrize(
    ("refusals", "asked", "code"),
    [("", 1, 0), (BUSY, 2, 0), (BUSY * 3, 4, 0), ("must be superuser to unmount.\n" * 2, 1, 1)],
)
def test_a_bind_that_is_busy_for_a_moment_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refusals: str, asked: int, code: int
) -> None:
    programs = {"umount": UMOUNT, "mountpoint": MOUNTPOINT}
    put_first_in_path(tmp_path, programs, monkeypatch)
    (tmp_path / "refusals").write_text(refusals)
    (tmp_path / "mapped" / "0").mkdir(parents=True)
    argv = ["sh", "-ec", UNMAP_BINDS, "test", str(tmp_path / "mapped")]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == code
    lines = (tmp_path / "asked").read_text().splitlines()
    assert lines == [f"C {tmp_path}/mapped/0"] * asked
    assert ("superuser" in done.stderr) is (code != 0)
