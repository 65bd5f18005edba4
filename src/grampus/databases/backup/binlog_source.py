"""The binary logs of a running server as files, on the volume that is mounted on its host."""

from __future__ import annotations

from pathlib import PurePosixPath

from grampus.core.errors import GrampusError
from grampus.core.units import MIB
from grampus.databases.backup.binlog_links import LogHead, read_head
from grampus.databases.backup.binlogs import BinlogFile, Piece
from grampus.databases.model import DatabaseSpec
from grampus.databases.step_ports import StepPorts
from grampus.hosts.port import Host

_BINLOGS_IN_VOLUME = "binlog"


class BinlogSource:
    """Those of one database, which runs. Raises GrampusError with code `not-running`."""

    def __init__(self, ports: StepPorts, spec: DatabaseSpec) -> None:
        self._host: Host = ports.fleet.host(spec.host)
        self._directory = binlog_directory(ports, spec)

    def head(self, file: BinlogFile) -> LogHead:
        """What the log begins with, without its transactions.

        Raises GrampusError with code `binlog-encrypted`, and what `read` raises.
        """
        for size_bytes in (64 * 1024, 16 * MIB):
            content = self.read(file.name, 0, min(size_bytes, file.size_bytes))
            head = read_head(file.name, [content])
            if head is not None:
                return head
        raise GrampusError(
            f"The binary log {file.name} does not list its previous transactions.",
            "`grampus db restart NAME` starts a new binary log. Then try again.",
            code="archive-short",
        )

    def tail(self, piece: Piece) -> bytes:
        """What the file holds now where the piece's end was read from; errors as `read`."""
        return self.read(piece.file, piece.tail_start_bytes, piece.end_bytes)

    def read(self, file: str, start_bytes: int, end_bytes: int) -> bytes:
        """Exactly these bytes, at most a piece. Raises GrampusError when they are not all there."""
        size_bytes = end_bytes - start_bytes
        command = [
            "dd",
            f"if={self._directory / file}",
            f"bs={MIB}",
            "iflag=skip_bytes,count_bytes",
            f"skip={start_bytes}",
            f"count={size_bytes}",
            "status=none",
        ]
        parts: list[bytes] = []
        with self._host.reading(command) as source:
            while data := source.read(MIB):
                parts.append(data)
        content = b"".join(parts)
        if len(content) != size_bytes:
            raise GrampusError(
                f"{file} has {len(content)} bytes after byte {start_bytes}, not {size_bytes}.",
                "Try again. If it fails again, the server's files were changed by hand.",
                code="archive-short",
            )
        return content


def binlog_directory(ports: StepPorts, spec: DatabaseSpec) -> PurePosixPath:
    """Where they are on the host. Raises GrampusError with code `not-running`."""
    attachment = ports.volumes.get(spec.name).attachment
    if attachment is None:
        raise GrampusError(
            f"The volume of {spec.name} is not attached.",
            f"`grampus db start {spec.name}` repairs it.",
            code="not-running",
        )
    return PurePosixPath(attachment.mount_path) / _BINLOGS_IN_VOLUME
