"""The host images of one GRAMPUS_HOME: found, built once, shared, and removed when unused.

An image is the directory `images/<id>` with `root/` and `image.json` in it. It is built as
`images/.building-<id>-<pid>` under the lock of its id and renamed when it is complete, so a
directory without a dot at its start is whole, and one with a dot whose lock is free is dead.

The locks are in `images/.locks`, so several homes may share one `images` by a symbolic link.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib import import_module
from pathlib import Path

from pydantic import ConfigDict, ValidationError

from grampus.core.clock import Clock
from grampus.core.errors import GrampusError, RefusedError, not_found
from grampus.core.failpoints import failpoint
from grampus.core.models import Model
from grampus.core.progress import Progress
from grampus.lab.images.definition import Flavour, ImageDefinition, load_definitions
from grampus.lab.images.failure import (
    decide_disk_shortage,
    decide_next_definition,
    disk_became_full,
)
from grampus.lab.images.trees import ensure_builder_ended, ensure_tree_absent, is_in_use
from grampus.lab.images.verify import parse_package_versions
from grampus.state.home import Home, write_atomically
from grampus.state.locks import hold_lock_in

RECORD_FILE = "image.json"
LOCKS_DIRECTORY = ".locks"
# Longer than any build that still moves; the one that waits shows that it waits.
LOCK_TIMEOUT_S = 3600.0
_UNFINISHED = re.compile(r"\.(?:building|removing)-(?P<id>[a-z0-9+.-]+-[0-9a-f]{12})-\d+")


@dataclass(frozen=True)
class HostImage:
    """A built host image.

    `versions` are those of its definition's main packages; `size_bytes` is what it takes on
    disk.
    """

    id: str
    definition: str
    flavours: tuple[Flavour, ...]
    root: Path
    versions: dict[str, str]
    size_bytes: int
    built_at: datetime


class _Record(Model):
    """image.json: all of an image but its place, so that GRAMPUS_HOME can be moved."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    definition: str
    flavours: tuple[Flavour, ...]
    versions: dict[str, str]
    size_bytes: int
    built_at: datetime


class HostImages:
    """Host images under `home`, built from the definitions in `definitions_dir`."""

    def __init__(
        self,
        home: Home,
        definitions_dir: Path,
        clock: Clock,
        *,
        effective_uid: Callable[[], int] = os.geteuid,
    ) -> None:
        self._home = home
        self._definitions_dir = definitions_dir
        self._clock = clock
        self._effective_uid = effective_uid

    def find(self, name: str) -> HostImage | None:
        """The image built from the definition `name` as it reads now, or None.

        Raises NotFoundError when there is no such definition.
        """
        return self._load(self.definition(name).image_id)

    def ensure(self, name: str, progress: Progress) -> HostImage:
        """The image of the definition `name`, built if it is not there yet.

        When another process is building it, waits for that and uses its image. Raises
        NotFoundError when there is no such definition, and GrampusError with code
        `needs-root`, `disk-full`, or one of `build_root`.
        """
        definition = self.definition(name)
        found = self._load(definition.image_id)
        if found is not None:
            return found
        if self._effective_uid() != 0:
            raise GrampusError(
                f"Building the host image '{name}' needs root.",
                "Run the command again as root (for example with sudo).",
                code="needs-root",
            )
        self._home.images_dir.mkdir(parents=True, exist_ok=True)
        with self._hold(definition.image_id, progress):
            found = self._load(definition.image_id)
            if found is not None:
                return found
            self._ensure_leftovers_absent(locked=definition.image_id)
            return self._build(definition, progress)

    def ensure_first_available(self, names: Sequence[str], progress: Progress) -> HostImage:
        """The image of the first definition among `names` that can be had.

        `progress.note` says why another than the first is taken. When none can be had, raises
        the error of the first. Only for new labs: data written by one version of Ceph or of a
        database must not be given to an older one.
        """
        first_error: GrampusError | None = None
        remaining = list(names)
        name: str | None = remaining.pop(0)
        while name is not None:
            try:
                return self.ensure(name, progress)
            except GrampusError as error:
                first_error = first_error or error
                cached = {other for other in remaining if self.find(other) is not None}
                following = decide_next_definition(error.code, remaining, cached)
                if following is None:
                    raise first_error from None
                title = self.definition(following).title
                progress.note(
                    f"The host image '{name}' is not available: {error.problem} Using "
                    f"'{following}' ({title}) instead."
                )
                remaining = remaining[remaining.index(following) + 1 :]
                name = following
        raise AssertionError("the loop is left by return or raise")

    def remove_unused(self, keep: set[str]) -> Sequence[str]:
        """Remove the images whose id is not in `keep`; returns the ids removed.

        Left alone: what another process is building, and what a mounted overlay stands on.
        """
        removed = []
        self._ensure_leftovers_absent(locked=None)
        for image in self.list():
            if image.id in keep or is_in_use(image.root):
                continue
            with contextlib.suppress(RefusedError), self._lock(image.id, timeout_s=0):
                directory = self._home.images_dir / image.id
                # Renamed first: half removed, it must not pass for an image.
                doomed = directory.with_name(f".removing-{image.id}-{os.getpid()}")
                directory.rename(doomed)
                ensure_tree_absent(doomed, self._clock)
                removed.append(image.id)
        return removed

    def list(self) -> Sequence[HostImage]:
        """All images that are there, sorted by id, also those of older definitions."""
        directories = sorted(self._home.images_dir.glob(f"[!.]*/{RECORD_FILE}"))
        images = (self._load(file.parent.name) for file in directories)
        return [image for image in images if image is not None]

    def definition(self, name: str) -> ImageDefinition:
        """The definition named `name`. Raises NotFoundError."""
        definitions = load_definitions(self._definitions_dir)
        if name not in definitions:
            raise not_found("host image", name, definitions, list_command="grampus lab up --help")
        return definitions[name]

    def _load(self, image_id: str) -> HostImage | None:
        directory = self._home.images_dir / image_id
        try:
            record = _Record.model_validate_json((directory / RECORD_FILE).read_bytes())
        except (FileNotFoundError, PermissionError, ValidationError):
            return None  # for who may not read it, it is not there: building says who may
        root = directory / "root"
        if record.id != image_id or not root.is_dir():
            return None
        return HostImage(root=root, **dict(record))

    def _build(self, definition: ImageDefinition, progress: Progress) -> HostImage:
        images_dir = self._home.images_dir
        free_bytes = shutil.disk_usage(images_dir).free
        decide_disk_shortage(definition, free_bytes, str(images_dir))
        building = images_dir / f".building-{definition.image_id}-{os.getpid()}"
        # 0700 for good: the root holds set-uid programs that are never updated.
        building.mkdir(mode=0o700)
        log_file = images_dir / f"{definition.name}-build.log"
        final = images_dir / definition.image_id
        try:
            # What builds is imported where something is built: every command on a lab is here.
            builder = import_module("grampus.lab.images.builder")
            root: Path = builder.build_root(definition, building, log_file, progress)
            record = self._describe(definition, root)
            write_atomically(building / RECORD_FILE, record.model_dump_json(indent=2).encode())
            failpoint("host-image.before-rename")
            ensure_tree_absent(final, self._clock)  # a damaged one, or it would have been found
            building.rename(final)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            raise disk_became_full() from error
        finally:
            # Gone after the rename; else what was begun, also after Ctrl-C.
            ensure_builder_ended(building, self._clock)
            ensure_tree_absent(building, self._clock)
        log_file.unlink(missing_ok=True)
        return HostImage(root=final / "root", **dict(record))

    def _describe(self, definition: ImageDefinition, root: Path) -> _Record:
        status = root / "var/lib/dpkg/status"
        return _Record(
            id=definition.image_id,
            definition=definition.name,
            flavours=definition.flavours,
            versions=parse_package_versions(
                status.read_text(encoding="utf-8"), definition.main_packages
            ),
            size_bytes=_size_bytes(root),
            built_at=self._clock.now(),
        )

    def _ensure_leftovers_absent(self, *, locked: str | None) -> None:
        """Remove what dead builders left; `locked` is the id whose lock we hold ourselves."""
        for directory in sorted(self._home.images_dir.glob(".*")):
            match = _UNFINISHED.fullmatch(directory.name)
            if match is None:
                continue
            if match["id"] == locked:
                self._remove_leftover(directory)
                continue
            with contextlib.suppress(RefusedError), self._lock(match["id"], timeout_s=0):
                self._remove_leftover(directory)

    def _remove_leftover(self, directory: Path) -> None:
        ensure_builder_ended(directory, self._clock)
        ensure_tree_absent(directory, self._clock)

    @contextlib.contextmanager
    def _hold(self, image_id: str, progress: Progress) -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(self._lock(image_id, timeout_s=0))
            except RefusedError:
                progress.phase("Wait for the host image")
                progress.detail("another grampus command is building it")
                stack.enter_context(self._lock(image_id, timeout_s=LOCK_TIMEOUT_S))
            yield

    def _lock(self, image_id: str, *, timeout_s: float) -> contextlib.AbstractContextManager[None]:
        locks = self._home.images_dir / LOCKS_DIRECTORY
        return hold_lock_in(locks, f"host-image.{image_id}", self._clock, timeout_s=timeout_s)


def _size_bytes(root: Path) -> int:
    """Bytes on disk below `root` (blocks of 512, stat(2)), each file once."""
    seen: set[int] = set()
    total_bytes = 0
    for directory, _, files in os.walk(root):
        for name in (directory, *(f"{directory}/{file}" for file in files)):
            status = os.lstat(name)
            if status.st_ino not in seen:
                seen.add(status.st_ino)
                total_bytes += status.st_blocks * 512
    return total_bytes
