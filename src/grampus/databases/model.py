"""What a database is: as asked for, and as it stands."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, SecretStr

from grampus.volumes.model import DEFAULT_MAX_LAG_MS, WritePath

FlavourName = Literal["mysql", "mariadb"]
DatabaseStatus = Literal["creating", "running", "stopped", "volume-lost", "host-down", "deleting"]
DatabasePhase = Literal["creating", "ready", "deleting"]
DesiredState = Literal["running", "stopped"]
MYSQL_PORT = 3306


class DatabaseSpec(BaseModel):
    """A database as asked for, with everything decided that its steps need."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    flavour: FlavourName
    size_bytes: int
    memory_bytes: int
    cpus: float
    pool: str
    host: str  # where its instance runs
    address: str  # the instance's own IPv4 address
    port: int = MYSQL_PORT
    image_id: str | None = None  # host image that holds the server; None: the host's own
    server_id: int
    protected: bool = False
    write_path: WritePath = "direct"  # of its volume
    max_lag_ms: int = DEFAULT_MAX_LAG_MS  # of its volume, with the write path `cache` alone


class DatabaseRecord(BaseModel):
    """A database that exists, or is being made or removed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    spec: DatabaseSpec
    user: str  # the user made for whoever asked for the database
    server_version: str  # empty until the instance has answered for the first time
    buffer_pool_bytes: int
    created_at: datetime
    phase: DatabasePhase = "ready"
    desired: DesiredState = "running"  # what a restart of its host brings back


class ScratchSpec(BaseModel):
    """The scratch instance of a database, as its steps need it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    database: DatabaseSpec
    address: str  # its own IPv4 address, on the database's host
    server_id: int


class WritePathChange(BaseModel):
    """A change of a database's write path, as its steps need it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    changed: DatabaseSpec  # as it shall be
    former: WritePath
    former_max_lag_ms: int = DEFAULT_MAX_LAG_MS
    restarts: bool  # it shall run, so it is stopped before the change and started after it


class Endpoint(BaseModel):
    """How a client reaches an instance."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    address: str
    port: int
    user: str
    password: SecretStr
    daemon: str  # the mysqld's daemon name on its host
    host: str
    option_file: str  # client options with the password, mode 0600; same path in the daemon
