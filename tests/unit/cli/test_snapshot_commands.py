from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from grampus.cli.output import OutputFormat
from grampus.cli.volume_snapshot import details_of_snapshot, parse_source, show_snapshots
from grampus.core.errors import UsageError
from grampus.volumes.model import MeasuredSnapshots, SnapshotInfo

INFO = SnapshotInfo(
    name="before",
    size_bytes=1 << 30,
    created_at=datetime(2026, 11, 22, 1, 26, 19, tzinfo=UTC),
    used_bytes=100 << 20,
    protected=True,
)


def test_a_snapshot_is_named_with_its_volume() -> None:
    assert parse_source("scratch@before") == ("scratch", "before")


@pytest.mark.parametrize("text", ["", "scratch", "@before", "scratch@", "@"])
def test_what_names_no_snapshot(text: str) -> None:
    with pytest.raises(UsageError, match="is not a snapshot"):
        parse_source(text)


def test_listed_for_people_and_programs(capsys: pytest.CaptureFixture[str]) -> None:
    unasked = INFO.model_copy(update={"name": "later", "used_bytes": None, "protected": False})
    measured = MeasuredSnapshots(snapshots=(INFO, unasked), since_last_bytes=4 << 20)
    show_snapshots(OutputFormat.HUMAN, "There is none.", measured)
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == [
        *("before", "2026-11-22", "01:26:19", "UTC", "1", "GiB", "100", "MiB", "yes")
    ]
    assert lines[2].split()[-2:] == ["-", "no"]
    assert lines[3].split() == ["(since", "the", "last)", "-", "-", "4", "MiB", "-"]
    show_snapshots(OutputFormat.HUMAN, "There is none.", MeasuredSnapshots(snapshots=()))
    assert capsys.readouterr().out == "There is none.\n"
    show_snapshots(OutputFormat.JSON, "There is none.", measured)
    shown = json.loads(capsys.readouterr().out)
    assert SnapshotInfo.model_validate(shown["snapshots"][0]) == INFO
    assert shown["since_last_bytes"] == 4 << 20


def test_details_say_when_and_in_which_zone() -> None:
    assert details_of_snapshot("shop", INFO) == {
        "snapshot": "shop@before",
        "taken": "2026-11-22 01:26:19 UTC",
        "size": "1 GiB",
        "protected": "yes",
    }
