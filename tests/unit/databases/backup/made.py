"""Backups made up for tests of what is decided about them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from grampus.databases.backup.decide_chain import snapshot_name
from grampus.databases.backup.model import BackedUpDatabase, BackupManifest, BaseBackup
from grampus.databases.backup.sealed_stream import StreamFacts

START = datetime(2026, 11, 22, 1, 0, 0, tzinfo=UTC)
TARGET_ID = "0a1b2c3d"


def made_database(name: str = "shop") -> BackedUpDatabase:
    return BackedUpDatabase(
        name=name,
        created_at=START,
        flavour="mysql",
        server_version="9.7.4",
        size_bytes=2**30,
        memory_bytes=2**29,
        cpus=0.5,
        write_path="direct",
        max_lag_ms=100,
        user=name,
    )


def made_backup(
    number: int, base: BackupManifest | None = None, *, database: str = "shop"
) -> BackupManifest:
    """The backup taken `number` hours after START."""
    moment = START + timedelta(hours=number)
    backup_id = f"{database}/{moment:%Y%m%dt%H%M%Sz}"
    return BackupManifest(
        id=backup_id,
        kind="full" if base is None else "incremental",
        base=None if base is None else BaseBackup(id=base.id, plain_sha256=base.data.plain_sha256),
        database=made_database(database),
        snapshot=snapshot_name(TARGET_ID, backup_id),
        taken_at=moment,
        finished_at=moment + timedelta(minutes=1),
        gtid_executed=None,
        data=StreamFacts(
            plain_bytes=1000,
            plain_sha256=f"{database}{number}",
            stored_bytes=100,
            stored_sha256="f0",
            chunks=1,
        ),
        key_id="00112233aabbccdd",
    )


def made_chain(length: int, *, first: int = 0, database: str = "shop") -> list[BackupManifest]:
    """A full backup and increments, an hour apart."""
    chain: list[BackupManifest] = []
    for number in range(first, first + length):
        chain.append(made_backup(number, chain[-1] if chain else None, database=database))
    return chain


def by_id(*backups: BackupManifest) -> dict[str, BackupManifest]:
    return {backup.id: backup for backup in backups}
