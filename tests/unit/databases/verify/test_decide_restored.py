from __future__ import annotations

from datetime import UTC, datetime

import pytest

from grampus.core.errors import NotFoundError, RefusedError
from grampus.databases.backup.decide_schedule import BackupSchedule, BackupState
from grampus.databases.backup.decide_tested import RestoreTest
from grampus.databases.backup.places import TargetPlace
from grampus.databases.verify.decide_restored import (
    RestoredBackup,
    classify_tested,
    decide_place,
    describe_restored,
)
from grampus.databases.verify.decide_verified import Verification

NOW = datetime(2026, 11, 22, tzinfo=UTC)
SHELF = TargetPlace(url="/srv/backups")
BUCKET = TargetPlace(url="s3://b/one", credentials="/etc/keys")


def schedule(place: TargetPlace) -> BackupSchedule:
    return BackupSchedule(place=place, every_s=3600)


def state(url: str, last_id: str | None = "shop/1") -> BackupState:
    return BackupState(created_at=NOW, place=url, last_id=last_id)


@pytest.mark.parametrize(
    ("by_schedule", "known", "expected"),
    [
        (None, state("/srv/backups"), SHELF),
        (BUCKET, state("s3://b/one"), BUCKET),
        (BUCKET, state("/srv/backups"), SHELF),  # taken by hand, later
        (BUCKET, state("/srv/backups", last_id=None), BUCKET),
        (SHELF, None, SHELF),
    ],
)
def test_the_newest_backup_is_where_the_last_one_was_put(
    by_schedule: TargetPlace | None, known: BackupState | None, expected: TargetPlace
) -> None:
    found = decide_place("shop", None if by_schedule is None else schedule(by_schedule), known)
    assert found == expected


def test_what_is_not_known_is_told() -> None:
    for known in (None, state("/srv/backups", last_id=None)):
        with pytest.raises(NotFoundError) as missing:
            decide_place("shop", None, known)
        assert missing.value.code == "no-backup"
    with pytest.raises(RefusedError) as refused:
        decide_place("shop", schedule(SHELF), state("s3://b/one"))
    assert refused.value.code == "no-credentials"
    assert "--from s3://b/one" in refused.value.remedy


@pytest.mark.parametrize(
    ("compared", "problem", "outcome", "said"),
    [
        (True, None, "good", "backup shop/1: 39 tables restored, rows equal to its snapshot"),
        (
            False,
            None,
            "good",
            "backup shop/1: 39 tables restored, nothing to compare with (its snapshot is deleted)",
        ),
        (True, "shop.t differs.", "broken", "backup shop/1 is broken: shop.t differs"),
    ],
)
def test_a_restore_test_is_a_part_of_a_verification(
    compared: bool, problem: str | None, outcome: str, said: str
) -> None:
    test = RestoreTest(at=NOW, tables=39, compared=compared, problem=problem)
    restored = classify_tested(SHELF, "shop/1", test)
    assert (restored.outcome, describe_restored(restored)) == (outcome, said)
    verified = Verification("shop", NOW, None, None, restored)
    assert (verified.is_sound, verified.summary.said) == (problem is None, said)


def test_one_that_could_not_be_tried_is_not_called_sound() -> None:
    untried = RestoredBackup(place="/srv/backups", outcome="untried", said="No host has room.")
    assert describe_restored(untried) == "backup not restored: No host has room"
    assert not Verification("shop", NOW, None, (), untried).is_sound
