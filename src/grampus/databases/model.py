"""What a database is: as asked for, and as it stands."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import ConfigDict, Field, SecretStr

from grampus.core.models import Model
from grampus.databases.backup.decide_schedule import BackupSchedule, BackupState
from grampus.databases.growth.growth_rule import GrowthRule, GuardState
from grampus.databases.snapshots.decide_retention import SnapshotSchedule
from grampus.databases.verify.model import VerificationSummary
from grampus.volumes.model import DEFAULT_MAX_LAG_MS, EncryptionName, VolumeRecord, WritePath
from grampus.volumes.trash import TrashedVolume

FlavourName = Literal["mysql", "mariadb"]
DatabaseStatus = Literal[
    "creating",
    "running",
    "starting",  # a command is at it
    "stopped",
    "failed",  # it is to run, and its server has ended
    "volume-lost",
    "host-down",  # nobody knows
    "deleting",
]
DatabasePhase = Literal["creating", "ready", "deleting"]
# Of a new database, where its host can serve it: nothing acknowledged is lost with `direct` and
# with `journal` (docs/proof), and this one is faster.
DEFAULT_WRITE_PATH: WritePath = "journal"
FALLBACK_WRITE_PATH: WritePath = "direct"  # every driver serves it
DesiredState = Literal["running", "stopped"]
# Bare: without limits and namespaces of its own, for comparisons alone.
ServerRuntime = Literal["container", "bare"]
# Who decides that the database leaves a lost host: the controller, or its user.
FailoverMode = Literal["automatic", "manual"]
MYSQL_PORT = 3306
# An address of its own, which moves with the database; or that of whatever host it runs on, with a
# port that no other database of the site has.
AddressKind = Literal["floating", "host"]


# `read-only`: the endpoint that leads to whichever replicas can be read.
AnnouncedRole = Literal["primary", "replica", "read-only"]


def held_port(port: int) -> str:
    """A port of the site among the addresses that are held, such as `:13300`."""
    return f":{port}"


class DatabaseSpec(Model):
    """A database as asked for, with everything decided that its steps need."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    flavour: FlavourName
    size_bytes: int
    memory_bytes: int
    cpus: float
    pool: str
    host: str  # where its instance runs
    address: str  # the IPv4 address that the instance listens at now
    port: int = MYSQL_PORT
    address_kind: AddressKind = "floating"
    image_id: str | None = None  # host image that holds the server; None: the host's own
    server_id: int
    protected: bool = False
    write_path: WritePath = "direct"  # of its volume
    max_lag_ms: int = DEFAULT_MAX_LAG_MS  # of its volume, with the write path `cache` alone
    journal_memory_bytes: int | None = None  # of its volume; None: the default
    journal_pool: str | None = None  # of its volume; None: that of the image
    encryption: EncryptionName | None = None  # of its volume, from its creation on
    external_log_bytes: int | None = None  # of its volume, from its creation on
    parameters: dict[str, str] = Field(
        default_factory=dict
    )  # the server's, as its user set them, beside Grampus's own
    labels: dict[str, str] = Field(default_factory=dict)  # whatever its user wants to find it by
    replica_of: str | None = None  # the database that it follows, read-only; None: it follows none
    renew_every_s: int | None = None  # how often a replica is made anew; None: never by schedule
    # Of a replica: the address of the read-only endpoint that it may be behind, which its
    # certificate names as well.
    endpoint_address: str | None = None
    # The same where databases have the addresses of their hosts: the port of that endpoint.
    endpoint_port: int | None = None
    runtime: ServerRuntime = "container"  # what its server runs in
    # For how long its binary logs are kept for readers; None: as long as Grampus chooses.
    binlog_retention_s: int | None = None
    # How long its server may take to recover after a crash; None: its redo log is as big as its
    # memory and its volume allow.
    recovery_goal_s: int | None = None
    failover: FailoverMode = "automatic"
    # When `grampus serve` may restart its server for what waits for that (`core/weekly_window.py`);
    # None: never.
    maintenance_window: str | None = None

    @property
    def shares_address(self) -> bool:
        """Whether its address is its host's, which other servers have as well."""
        return self.address_kind == "host"

    @property
    def held_address(self) -> str:
        """What nothing else in the site may have: its address, or its port (`held_port`)."""
        return held_port(self.port) if self.shares_address else self.address

    @property
    def held_endpoint(self) -> str | None:
        """The same of the read-only endpoint that it may be behind; None: it can be behind none."""
        return (
            self.endpoint_address if self.endpoint_port is None else held_port(self.endpoint_port)
        )


class _AddressOrPort(Model):
    """What listens beside a database: at an address of its own, or at a port of its host's."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    address: str
    port: int | None = None  # its own, at the address of its host; None: that of the database

    @property
    def shares_address(self) -> bool:
        """Whether its address is its host's, which other servers have as well."""
        return self.port is not None

    @property
    def held_address(self) -> str:
        """What nothing else in the site may have, as of a database."""
        return self.address if self.port is None else held_port(self.port)


class ReadEndpoint(_AddressOrPort):
    """The read-only endpoint of a database: one address, whichever replicas are behind it.

    At the address of its host, its port alone stays the same.
    """

    # Its address, or its port, is the same from the first replica on, and for as long as the
    # database is there.
    host: str | None = None  # where it is served; None: nowhere, for want of replicas or of hosts
    members: tuple[str, ...] = ()  # the replicas behind it, sorted
    # Hosts that could not be told to serve it no longer.
    left_hosts: tuple[str, ...] = ()
    # The address that all certificates of replicas were seen to name, where it is that of a host.
    named: str = ""

    def port_beside(self, database_port: int) -> int:
        """Where it listens, beside a database with this port."""
        return database_port if self.port is None else self.port


class Entry(Model):
    """The hosts that serve it, and the ports for databases, of which each has one.

    `left_hosts` are those that still have to end it. `directed` is a digest of where each host was
    made to lead last, by host: what differs from what is wanted is to be done.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    first_port: int
    last_port: int
    hosts: tuple[str, ...] = ()
    left_hosts: tuple[str, ...] = ()
    directed: dict[str, str] = Field(default_factory=dict)

    @property
    def ports(self) -> range:
        """All ports, in order."""
        return range(self.first_port, self.last_port + 1)


class EntryPort(Model):
    """The port of a database at the entry; it stays the same as long as the database is there."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    port: int


class PrimaryStart(Model):
    """A start of a primary: what it committed first after it, as its binary log tells."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    begun: str  # in UTC, such as `261127 3:51:17`
    firsts: tuple[tuple[str, int, str], ...]  # source, number and stamp, as `histories.Commit`


class NotedEvent(Model):
    """A scheduled event of a primary, as it was seen."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    event: str  # SCHEMA.NAME
    altered: str  # its version: when it was altered last, in UTC
    is_enabled: bool


class PromotedEvents(Model):
    """Scheduled events of a database that was promoted, by what its primary had done with them."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    filled: str = ""  # when the replica was made or renewed, as in its history
    enabled: tuple[str, ...] = ()  # SCHEMA.NAME; they run here now
    disabled: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()  # still disabled, since nobody knows whether they ran there


class ReplicaHistory(Model):
    """What comparisons of a replica with its primary found, since it was last filled."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    filled: str  # when the replica was made or renewed: what was found before is of other data
    # Transactions that it holds and its primary lacks, or has under the same names with another
    # content. They stay noted: the primary may reuse their numbers, and then no set shows them.
    ahead: str = ""
    seen_to: str = ""  # the newest binary log of its primary up to which all starts were noted
    # Starts of its primary that were not compared yet, since the replica could not be asked.
    starts: tuple[PrimaryStart, ...] = ()
    # Its primary started then or later, and the binary logs of that time were deleted uncompared.
    unseen_since: str = ""
    events: tuple[NotedEvent, ...] = ()  # of its primary, when that was asked last


class DatabaseRecord(Model):
    """A database that exists, or is being made or removed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    spec: DatabaseSpec
    user: str  # the user made for whoever asked for the database
    server_version: str  # empty until the instance has answered for the first time
    buffer_pool_bytes: int
    created_at: datetime
    phase: DatabasePhase = "ready"
    desired: DesiredState = "running"  # what a restart of its host brings back
    last_move_pause_ms: int | None = None  # how long nobody could write while it was moved
    started_parameters: dict[str, str] = Field(
        default_factory=dict
    )  # those that its server was last started with
    snapshot_schedule: SnapshotSchedule | None = None
    backup_schedule: BackupSchedule | None = None
    last_verification: VerificationSummary | None = None
    growth: GrowthRule | None = None  # by which its volume grows
    guard: GuardState | None = None  # what the guard against a full disk did; None: nothing
    last_upgrade: str | None = None  # the last one that clients could reach, by its id
    last_rollback: str | None = None  # the last one whose volume was rolled back, by its id
    renewed_at: datetime | None = None  # a replica's data was last cloned from its primary's then
    # Whether its volume is to be let stand alone, by whoever looks after it.
    flatten_due: bool = False
    window_restart_at: datetime | None = None  # the last restart in its maintenance window
    # Its own for life, under whatever name: the same after a rename, a move, a renewal or a return
    # from the trash, and another one for a clone or a restore. Empty: the record was written by an
    # older release, and the next command fills it in.
    id: str = ""


class TrashedDatabase(Model):
    """A database in the trash, with all that it takes to have it back."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    key: str  # its name and when it was deleted: no database can be called so
    record: DatabaseRecord  # as it was
    volume: TrashedVolume
    deleted_at: datetime
    expires_at: datetime  # from then on it may be removed for good
    # What was kept beside its record. An older release let it go.
    backups: BackupState | None = None
    read_endpoint: ReadEndpoint | None = None


class ScratchSpec(_AddressOrPort):
    """The scratch instance of a database, on its host, as its steps need it."""

    database: DatabaseSpec
    server_id: int


class StartOrder(DatabaseSpec):
    """A start of a database, as its steps need it."""

    # What was wanted of it before; None: journaled before this was noted.
    former_desired: DesiredState | None = None


class ScratchOrder(ScratchSpec):
    """A start of a scratch instance, as its steps need it."""

    existed: bool = False  # it was there before, with its data

    @property
    def scratch(self) -> ScratchSpec:
        """The instance itself."""
        return ScratchSpec(**{name: getattr(self, name) for name in ScratchSpec.model_fields})


class LeftInstance(Model):
    """What a database left on a host that was lost: cleared away once the host is back."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    spec: DatabaseSpec  # as it was there
    left_at: datetime
    scratch: ScratchSpec | None = None  # its scratch instance there
    volume: VolumeRecord | None = None  # of a database that was deleted since

    @property
    def key(self) -> str:
        """What it is known by: one for each database and host."""
        return f"{self.spec.host}/{self.spec.name}"


class HostMaintenance(Model):
    """A host that is worked on: it gets no databases, and the controller takes none from it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    host: str
    since: datetime
    reason: str = ""  # as its user gave it


class OpenedReplica(Model):
    """A replica whose server lets Grampus write to it now, or did when a command was killed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    id: str  # of the database: a later one of that name is left alone


class Announcement(Model):
    """Where clients find a database; it holds no secret."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    database: str
    role: AnnouncedRole
    host: str
    address: str
    port: int


class Announced(Model):
    """What the hook was told last of one database, and why it could not be told more."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    server: Announcement | None = None
    endpoint: Announcement | None = None
    problem: str = ""  # of the last call; empty: it succeeded
    failed_at: datetime | None = None

    def last(self, role: AnnouncedRole) -> Announcement | None:
        """What it was told last of the server, or of the read-only endpoint."""
        return self.endpoint if role == "read-only" else self.server

    def with_told(self, told: Announcement) -> Announced:
        """The same once it was told this."""
        what = "endpoint" if told.role == "read-only" else "server"
        return self.model_copy(update={what: told, "problem": "", "failed_at": None})


class WritePathChange(Model):
    """A change of a database's write path, as its steps need it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    changed: DatabaseSpec  # as it shall be
    former: WritePath
    former_max_lag_ms: int = DEFAULT_MAX_LAG_MS
    former_journal_memory_bytes: int | None = None
    former_journal_pool: str | None = None
    restarts: bool  # it shall run, so it is stopped before the change and started after it


class Endpoint(Model):
    """How a client reaches an instance."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    address: str
    port: int
    address_kind: AddressKind = "floating"
    user: str
    password: SecretStr
    daemon: str  # the mysqld's daemon name on its host
    host: str
    option_file: str  # client options with the password, mode 0600; same path in the daemon
