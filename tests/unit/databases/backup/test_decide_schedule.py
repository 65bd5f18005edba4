from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from grampus.core.errors import UsageError
from grampus.databases.backup.decide_schedule import (
    BackupSchedule,
    decide_due,
    decide_spent_pieces,
    require_backup_schedule,
)
from grampus.databases.backup.places import TargetPlace, parse_place, split_s3_url

HOUR = 3600
NOON = datetime(2026, 11, 22, 12, 0, 0, tzinfo=UTC)


def schedule(**changes: object) -> BackupSchedule:
    whole = {"place": TargetPlace(url="/srv/backups"), "every_s": HOUR, **changes}
    return BackupSchedule.model_validate(whole)


@pytest.mark.parametrize(
    ("last_minutes_ago", "due"),
    [(None, True), (0, False), (1, True), (59, True), (61, True), (-59, False), (-61, True)],
)
def test_each_interval_has_a_backup(last_minutes_ago: int | None, due: bool) -> None:
    """Intervals begin with the hour: 1 minute ago was the former one."""
    last = None if last_minutes_ago is None else NOON - timedelta(minutes=last_minutes_ago)
    assert decide_due(HOUR, last, NOON) is due


@pytest.mark.parametrize(
    "changes",
    [
        {"every_s": 60},
        {"every_s": 40 * 86400},
        {"full_every_s": 60},
        {"full_every_s": 400 * 86400},
        {"test_every_s": 60},
        {"test_every_s": 400 * 86400},
        {"keep": 0},
    ],
)
def test_schedules_that_nobody_can_carry_out(changes: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        require_backup_schedule(schedule(**changes))


def test_schedule_with_everything() -> None:
    whole = schedule(full_every_s=7 * 86400, keep=28, archives=True)
    assert require_backup_schedule(whole) is whole
    assert BackupSchedule.model_validate_json(whole.model_dump_json()) == whole


def log(number: int) -> str:
    return f"binlog.{number:06d}"


PIECES = [
    ("needed from the third on", {"0001": [1, 2, 3, 4]}, {"0001": [3]}, {"0001": [1, 2]}),
    ("the oldest backup counts", {"0001": [1, 2, 3]}, {"0001": [3, 2]}, {"0001": [1]}),
    ("all needed", {"0001": [1, 2]}, {"0001": [1]}, {}),
    ("none needed: the last stays", {"0001": [1, 2]}, {}, {"0001": [1]}),
    ("the last stays, whatever is needed", {"0001": [1, 2]}, {"0001": [9]}, {"0001": [1]}),
    (
        "a stretch that none needs goes",
        {"0001": [1, 2], "0002": [7, 8]},
        {"0002": [7]},
        {"0001": [1, 2]},
    ),
    ("a million and more", {"0001": [999999, 1000000]}, {"0001": [1000000]}, {"0001": [999999]}),
    ("nothing archived", {}, {}, {}),
]


@pytest.mark.parametrize(("files", "needed", "spent"), [p[1:] for p in PIECES])
def test_logs_that_no_backup_needs(
    files: dict[str, list[int]], needed: dict[str, list[int]], spent: dict[str, list[int]]
) -> None:
    found = decide_spent_pieces(
        {s: [log(n) for n in numbers] for s, numbers in files.items()},
        {s: [log(n) for n in numbers] for s, numbers in needed.items()},
    )
    assert found == {s: tuple(log(n) for n in numbers) for s, numbers in spent.items()}


@pytest.mark.parametrize(
    ("text", "bucket", "prefix"),
    [
        ("s3://backups", "backups", ""),
        ("s3://backups/", "backups", ""),
        ("s3://backups/labs/one/", "backups", "labs/one/"),
    ],
)
def test_buckets(text: str, bucket: str, prefix: str) -> None:
    place = parse_place(text, credentials="/etc/keys")
    assert split_s3_url(place.url) == (bucket, prefix)
    assert place.options("--to") == f"--to {place.url} --credentials /etc/keys"


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("s3://", {"credentials": "k"}),
        ("s3://A", {"credentials": "k"}),
        ("s3://backups//x", {"credentials": "k"}),
        ("s3://backups", {}),
        ("s3://backups", {"credentials": "k", "endpoint": "host:1"}),
        ("/srv/backups", {"endpoint": "https://host"}),
    ],
)
def test_places_that_are_none(text: str, options: dict[str, str]) -> None:
    with pytest.raises(UsageError):
        parse_place(text, **options)
