"""Where binary logs lead on from a backup, as manifests and states of databases keep it."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class BinlogPlace(BaseModel):
    """The binary log that a server was writing at a moment."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    server_uuid: str
    file: str


class LeadingBackup(BaseModel):
    """A backup that binary logs lead on from: the newest that was taken of a running server."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    binlog: BinlogPlace
