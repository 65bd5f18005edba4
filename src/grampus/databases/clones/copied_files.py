"""Files of a database copied to a volume of another layout, for the steps of a clone.

Where the log of a file system is, is settled when it is made (ADR 60). So a database of an earlier
release gets an external log by a copy of its files: a clone of its volume is mounted beside a new
volume, and is removed when all is copied.
"""

from __future__ import annotations

import contextlib

from grampus.core.errors import NotFoundError
from grampus.core.names import MAX_NAME_LENGTH
from grampus.core.units import format_bytes
from grampus.databases.database_work import DatabaseWork
from grampus.databases.model import DatabaseSpec
from grampus.databases.step_ports import StepPorts
from grampus.volumes.decide_identity import is_same_volume
from grampus.volumes.model import CloneSource, VolumeSpec

_SUFFIX = "-files"
# Copies what is in $1 to $2. Once a second it prints how many bytes are in use on both, in a record
# of this length.
RECORD_BYTES = 42
COPY_FILES = """
cp -a -- "$1/." "$2" &
copy=$!
while kill -0 "$copy" 2> /dev/null; do
    set -- "$1" "$2" $(df --output=used -B1 "$1" "$2" | tail -n +2)
    printf '%20s %20s\\n' "$3" "$4"
    sleep 1
done
wait "$copy"
"""


def name_of_files(database: str) -> str:
    """The volume with the files, while they are copied for a database of that name. Pure."""
    return database[: MAX_NAME_LENGTH - len(_SUFFIX)].rstrip("-") + _SUFFIX


def parse_used(record: str) -> tuple[int, int] | None:
    """Bytes in use where files are copied from and to, from a record of COPY_FILES; None: none."""
    words = record.split()
    if len(words) != 2 or not all(word.isdigit() for word in words):
        return None
    whole, copied = (int(word) for word in words)
    return (whole, copied) if whole > 0 else None


class CopiedFiles:
    """What the steps of one copy do; every method is idempotent."""

    def __init__(self, ports: StepPorts, spec: DatabaseSpec, source: CloneSource) -> None:
        self._ports = ports
        self._spec = spec
        self._source = source
        self._work = DatabaseWork(ports, spec)

    @property
    def name(self) -> str:
        """The volume with the files."""
        return name_of_files(self._spec.name)

    def clone(self) -> None:
        self._ports.volumes.ensure_cloned(self._files(), self._source)

    def copy(self) -> None:
        volumes, spec = self._ports.volumes, self._spec
        files = volumes.ensure_attached(self.name, spec.host)
        target = volumes.ensure_attached(spec.name, spec.host)
        self._copy(files.mount_path, target.mount_path)
        volumes.ensure_detached(self.name)

    def _copy(self, source: str, target: str) -> None:
        argv = ["sh", "-c", COPY_FILES, "copy-files", source, target]
        with self._ports.fleet.host(self._spec.host).reading(argv) as output:
            while record := output.read(RECORD_BYTES):
                found = parse_used(record.decode(errors="replace"))
                if found is not None:
                    whole, copied = found
                    said = f"{format_bytes(copied)} of {format_bytes(whole)}"
                    self._ports.progress.detail(said, fraction=min(1.0, copied / whole))

    def detach(self) -> None:
        for meant in (self._files(), self._work.volume_spec()):
            with contextlib.suppress(NotFoundError):
                if is_same_volume(self._ports.volumes.get(meant.name).spec, meant):
                    self._ports.volumes.ensure_detached(meant.name)

    def remove_clone(self) -> None:
        self._ports.volumes.ensure_absent(self.name, self._files())

    def _files(self) -> VolumeSpec:
        return VolumeSpec(
            name=self.name,
            pool=self._source.pool,
            image=self.name,
            size_bytes=self._spec.size_bytes,
            encryption=self._spec.encryption,
            identity=self._ports.identity,
        )
