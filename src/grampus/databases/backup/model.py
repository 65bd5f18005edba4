"""What a backup is: its manifest, and the orders that backup and restore are journaled with."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import ConfigDict, Field

from grampus.core.models import Model
from grampus.databases.backup.decide_schedule import BinlogPlace
from grampus.databases.backup.places import TargetPlace
from grampus.databases.backup.sealed_stream import StreamFacts
from grampus.databases.model import DatabaseSpec, FlavourName
from grampus.volumes.model import EncryptionName, WritePath

BackupKind = Literal["full", "incremental"]
MANIFEST_FORMAT: Literal[1] = 1


class BackedUpDatabase(Model):
    """The database as it was, enough to make it again anywhere."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    created_at: datetime  # with the name, it tells one database from a later one of that name
    flavour: FlavourName
    server_version: str
    size_bytes: int
    memory_bytes: int
    cpus: float
    write_path: WritePath
    max_lag_ms: int
    journal_memory_bytes: int | None = None
    parameters: dict[str, str] = Field(default_factory=dict)  # the server's, as its user set them
    encryption: EncryptionName | None = None  # of its volume, and so of the data in the backup
    external_log_bytes: int | None = None  # the same: where in the data its file system is
    user: str  # the account of whoever asked for it
    # What tells it from all others, whatever they are called. Empty: an earlier release wrote this.
    database_id: str = ""
    lab: str = ""  # the lab or cluster that it was in, for people

    def is_same(self, other: BackedUpDatabase) -> bool:
        """Whether both are the same database."""
        if self.database_id and other.database_id:
            return self.database_id == other.database_id
        return (self.name, self.created_at) == (other.name, other.created_at)


class BaseBackup(Model):
    """The backup that an incremental one stands on, and what exactly it must hold."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    plain_sha256: str


class BackupManifest(Model):
    """A whole backup. Written last, so a backup without it is none."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal[1] = MANIFEST_FORMAT
    id: str  # DATABASE/TIME, such as shop/20261122t013005z
    kind: BackupKind
    base: BaseBackup | None  # None: a full one
    database: BackedUpDatabase
    snapshot: str  # of the database's image, which it was exported from
    taken_at: datetime  # of the snapshot: what was committed before is in it
    finished_at: datetime
    # Of the server right before the snapshot; the snapshot holds these transactions at least.
    # None: it did not run, or knows no GTIDs.
    gtid_executed: str | None
    # Right before that: what the snapshot lacks is in this log or a later one. MySQL alone.
    binlog: BinlogPlace | None = None
    data: StreamFacts
    key_id: str
    # Of an encrypted volume: what the data is encrypted with, sealed with a master key.
    volume_key: str | None = None
    locked_until: datetime | None = None  # nobody can delete it before, in a bucket


class BackupOrder(Model):
    """A backup as its steps need it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    database: DatabaseSpec
    facts: BackedUpDatabase
    id: str
    base: str | None  # id of the backup that it stands on; None: full
    snapshot: str
    base_snapshot: str | None
    # The base's snapshot was protected by somebody else: it stays so.
    base_is_protected: bool = False
    # That no other backup has. Empty: an earlier release began this one, and claimed nothing.
    claim: str = ""
    target: TargetPlace
    target_id: str
    key_directory: str = ""  # of an earlier release
    key_id: str
    lock_until: datetime | None = None  # None: the backup is not locked


class ReplayOrder(Model):
    """The binary logs to apply after a backup was restored."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    moment: datetime  # what was committed from then on is left out
    stretch: str
    first_file: str


class RestoreOrder(Model):
    """A restore into a new database, as its steps need it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    database: DatabaseSpec  # the new one
    source_user: str  # the account that the backup's database had
    chain: tuple[str, ...]  # ids, the full backup first
    target: TargetPlace
    key_directory: str = ""  # of an earlier release
    replay: ReplayOrder | None = None
    volume_key: str | None = None  # as in the manifests
    grows_from_bytes: int | None = None  # the backup's size, where the database is to be bigger
