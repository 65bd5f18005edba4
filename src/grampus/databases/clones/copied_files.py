"""Files of a database copied to a volume of another layout, as steps of a clone.

Where the log of a file system is, is settled when it is made (ADR 60). So a database of an earlier
release gets an external log by a copy of its files: a clone of its volume is mounted beside a new
volume, and is removed when all is copied.
"""

from __future__ import annotations

import contextlib

from grampus.core.errors import NotFoundError, RefusedError
from grampus.core.names import MAX_NAME_LENGTH
from grampus.core.units import format_bytes
from grampus.databases.database_work import DatabaseWork
from grampus.databases.model import DatabaseSpec
from grampus.databases.step_ports import StepPorts
from grampus.state.operations import Step
from grampus.volumes.decide_external_log import decide_external_log
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


def decide_new_layout(spec: DatabaseSpec, source: DatabaseSpec) -> DatabaseSpec:
    """The copy of `source`, as it is planned, with an external log. Pure.

    Raises RefusedError with code `external-log` when it cannot have one, or `source` has one.
    """
    if source.external_log_bytes is not None:
        raise RefusedError(
            f"The volume of {source.name} has an external log already.",
            "Remove --external-log: the clone has one, too.",
            code="external-log",
        )
    log_bytes = decide_external_log(spec.write_path, spec.size_bytes)
    if log_bytes is None:
        raise RefusedError(
            f"An external log gains nothing with the write path {spec.write_path}.",
            "Choose the write path journal or cache, or remove --external-log.",
            code="external-log",
        )
    return spec.model_copy(update={"external_log_bytes": log_bytes})


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

    def steps(self, database: str) -> list[Step]:
        """The volume of the copy, with the files of `database` on it, attached to its host."""
        spec, files = self._spec, self._files().name
        return [
            Step(
                "files-volume",
                f"Clone the volume of {database} as {files}, to copy its files",
                self.clone,
                self.remove_clone,
            ),
            Step(
                "volume",
                f"Create a volume of {format_bytes(spec.size_bytes)} with an external log in pool "
                f"{spec.pool}",
                self._work.create_volume,
                self._work.remove_volume,
            ),
            Step("copy-files", f"Copy the files of {database}", self.copy, self.detach),
            Step("files-volume-away", f"Remove the volume {files}", self.remove_clone),
        ]

    def clone(self) -> None:
        self._ports.volumes.ensure_cloned(self._files(), self._source)

    def copy(self) -> None:
        volumes, spec = self._ports.volumes, self._spec
        files = volumes.ensure_attached(self._files().name, spec.host)
        target = volumes.ensure_attached(spec.name, spec.host)
        self._copy(files.mount_path, target.mount_path)
        volumes.ensure_detached(self._files().name)

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
        self._ports.volumes.ensure_absent(self._files().name, self._files())

    def _files(self) -> VolumeSpec:
        name = name_of_files(self._spec.name)
        return VolumeSpec(
            name=name,
            pool=self._source.pool,
            image=name,
            size_bytes=self._spec.size_bytes,
            encryption=self._spec.encryption,
            identity=self._ports.identity,
        )
