from __future__ import annotations

from datetime import timedelta

import pytest

from grampus.core.errors import GrampusError, NotFoundError, RefusedError, UsageError
from grampus.databases.backup.decide_chain import (
    MAX_CHAIN_LENGTH,
    decide_backup_id,
    decide_base,
    decide_chain,
    decide_dependants,
    decide_latest,
    decide_retention,
    decide_spent_snapshots,
    require_deletable,
    snapshot_name,
)
from grampus.databases.backup.model import BackupKind, BackupManifest, BaseBackup

from .made import START, TARGET_ID, by_id, made_backup, made_chain, made_database

SHOP = made_database()
FULL, SECOND, THIRD = made_chain(3)
OTHER_FULL, OTHER_SECOND = made_chain(2, first=10)
ALL = by_id(FULL, SECOND, THIRD, OTHER_FULL, OTHER_SECOND)


def test_id_is_the_second_it_was_taken_in_and_the_next_while_that_is_taken() -> None:
    taken = {"shop/20261122t010000z", "shop/20261122t010001z"}
    assert decide_backup_id("shop", START, ()) == "shop/20261122t010000z"
    assert decide_backup_id("shop", START, taken) == "shop/20261122t010002z"
    assert decide_backup_id("bar", START + timedelta(hours=1), taken) == "bar/20261122t020000z"


def test_snapshot_name_is_a_valid_name_of_at_most_32_characters() -> None:
    name = snapshot_name(TARGET_ID, "a-database-with-a-very-long-name/20261122t010000z")
    assert name == "backup-0a1b2c3d-20261122t010000z"
    assert len(name) == 32


def test_spent_are_the_snapshots_of_this_target_but_the_newest() -> None:
    newest, older = snapshot_name(TARGET_ID, SECOND.id), snapshot_name(TARGET_ID, FULL.id)
    elsewhere = snapshot_name("ffffffff", FULL.id)
    snapshots = [newest, older, elsewhere, "before-upgrade", "backup-by-hand"]
    assert decide_spent_snapshots(snapshots, TARGET_ID, newest) == (older,)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (FULL, [FULL]),
        (SECOND, [FULL, SECOND]),
        (THIRD, [FULL, SECOND, THIRD]),
        (OTHER_SECOND, [OTHER_FULL, OTHER_SECOND]),
    ],
)
def test_chain_begins_with_the_full_backup(
    wanted: BackupManifest, expected: list[BackupManifest]
) -> None:
    assert list(decide_chain(ALL, wanted.id)) == expected


def rebuilt(backup: BackupManifest) -> BackupManifest:
    """A backup of the same name that holds something else."""
    data = backup.data.model_copy(update={"plain_sha256": "something else"})
    return backup.model_copy(update={"data": data})


def standing_on_itself(backup: BackupManifest) -> BackupManifest:
    base = BaseBackup(id=backup.id, plain_sha256=backup.data.plain_sha256)
    return backup.model_copy(update={"base": base})


@pytest.mark.parametrize(
    ("backups", "problem"),
    [
        (by_id(FULL, THIRD), "missing"),
        (by_id(SECOND, THIRD), "missing"),
        (by_id(rebuilt(FULL), SECOND, THIRD), "not its original base"),
        (by_id(FULL, rebuilt(SECOND), THIRD), "not its original base"),
        (by_id(standing_on_itself(THIRD)), "not its original base"),
    ],
)
def test_broken_chain_is_never_restored(backups: dict[str, BackupManifest], problem: str) -> None:
    with pytest.raises(GrampusError, match=problem) as caught:
        decide_chain(backups, THIRD.id)
    assert caught.value.code == "chain-broken"


def test_unknown_backup_suggests_one_that_is_there() -> None:
    with pytest.raises(NotFoundError, match=r"Did you mean 'shop/20261122t010000z'\?"):
        decide_chain(ALL, "shop/20261122t01000z")


@pytest.mark.parametrize(
    ("backups", "snapshots", "wanted", "expected"),
    [
        ([], [], None, None),
        ([FULL], [FULL.snapshot], None, FULL),
        ([FULL, SECOND], [FULL.snapshot, SECOND.snapshot], None, SECOND),
        ([FULL, SECOND], [SECOND.snapshot], "incremental", SECOND),
        ([FULL, SECOND], [SECOND.snapshot], "full", None),
        # Only the newest counts, and only with its snapshot.
        ([FULL, SECOND], [FULL.snapshot], None, None),
        ([FULL], [], None, None),
        # A chain that could not be restored is not made longer.
        ([SECOND], [SECOND.snapshot], None, None),
        ([rebuilt(FULL), SECOND], [SECOND.snapshot], None, None),
        # Another database's backups are none of its own.
        (made_chain(1, database="bar"), [FULL.snapshot], None, None),
        (made_chain(MAX_CHAIN_LENGTH - 1), "all", None, made_chain(MAX_CHAIN_LENGTH - 1)[-1]),
        (made_chain(MAX_CHAIN_LENGTH), "all", None, None),
        (made_chain(MAX_CHAIN_LENGTH), "all", "incremental", made_chain(MAX_CHAIN_LENGTH)[-1]),
    ],
)
def test_base_is_the_newest_backup_while_it_can_be_built_on(
    backups: list[BackupManifest],
    snapshots: list[str] | str,
    wanted: BackupKind | None,
    expected: BackupManifest | None,
) -> None:
    if isinstance(snapshots, str):
        snapshots = [backup.snapshot for backup in backups]
    base = decide_base(by_id(*backups), SHOP, TARGET_ID, snapshots, wanted=wanted)
    assert base.backup == expected
    assert base.why


def test_backup_with_a_new_key_stands_on_none_with_another() -> None:
    def decide(key_id: str, wanted: BackupKind | None = None) -> BackupManifest | None:
        return decide_base(
            by_id(FULL), SHOP, TARGET_ID, [FULL.snapshot], wanted=wanted, key_id=key_id
        ).backup

    assert decide(FULL.key_id) == FULL
    assert decide("ffeeddccbbaa9988") is None
    with pytest.raises(RefusedError, match="is encrypted with another key"):
        decide("ffeeddccbbaa9988", "incremental")


def test_snapshot_of_another_target_is_no_base() -> None:
    base = decide_base(by_id(FULL), SHOP, "ffffffff", [FULL.snapshot], wanted=None)
    assert base.backup is None


@pytest.mark.parametrize(
    ("backups", "snapshots"), [([], []), ([FULL], []), ([SECOND], [SECOND.snapshot])]
)
def test_increment_that_cannot_be_is_refused(
    backups: list[BackupManifest], snapshots: list[str]
) -> None:
    with pytest.raises(RefusedError) as caught:
        decide_base(by_id(*backups), SHOP, TARGET_ID, snapshots, wanted="incremental")
    assert caught.value.code == "no-base"


def test_latest_is_of_the_one_database_or_of_the_one_named() -> None:
    bar = made_backup(99, database="bar")
    assert decide_latest(ALL, None) == OTHER_SECOND
    assert decide_latest({**ALL, bar.id: bar}, "shop") == OTHER_SECOND
    with pytest.raises(UsageError, match="bar, shop"):
        decide_latest({**ALL, bar.id: bar}, None)
    with pytest.raises(NotFoundError, match="Did you mean 'shop'"):
        decide_latest(ALL, "shopp")
    with pytest.raises(NotFoundError):
        decide_latest({}, None)


@pytest.mark.parametrize(
    ("backup", "dependants"),
    [(FULL, [SECOND, THIRD]), (SECOND, [THIRD]), (THIRD, []), (OTHER_FULL, [OTHER_SECOND])],
)
def test_what_others_stand_on_is_not_deleted(
    backup: BackupManifest, dependants: list[BackupManifest]
) -> None:
    ids = tuple(dependant.id for dependant in dependants)
    assert decide_dependants(ALL, backup.id) == ids
    if not ids:
        require_deletable(ALL, backup.id)
        return
    with pytest.raises(RefusedError, match=ids[0]) as caught:
        require_deletable(ALL, backup.id)
    assert caught.value.code == "has-increments"


@pytest.mark.parametrize(
    ("keep", "gone"),
    [
        (1, [THIRD, SECOND, FULL]),  # the newest, and the full one under it, stay
        (2, [THIRD, SECOND, FULL]),
        (3, []),  # the third stands on the others
        (9, []),
        (0, [THIRD, SECOND, FULL]),  # the last one is never let go
    ],
)
def test_retention_keeps_what_the_kept_stand_on(keep: int, gone: list[BackupManifest]) -> None:
    bar = made_backup(0, database="bar")
    found = decide_retention({**ALL, bar.id: bar}, SHOP, keep=keep)
    assert found == tuple(backup.id for backup in gone)


def test_retention_lets_increments_go_that_no_kept_one_needs() -> None:
    # Two increments on one full backup: the second of a chain that was begun anew.
    again = made_backup(5, FULL)
    assert decide_retention(by_id(FULL, SECOND, again), SHOP, keep=1) == (SECOND.id,)


def test_backups_of_an_earlier_database_of_that_name_are_left_alone() -> None:
    later = SHOP.model_copy(update={"created_at": START + timedelta(days=1)})
    assert decide_retention(by_id(FULL, SECOND), later, keep=1) == ()
    snapshots = [FULL.snapshot, SECOND.snapshot]
    base = decide_base(by_id(FULL, SECOND), later, TARGET_ID, snapshots, wanted=None)
    assert base.backup is None
