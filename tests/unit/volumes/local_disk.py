"""A host's own disk, as far as the write path `cache` uses it: a directory a volume, with a log.

The log is a file that says its owner's epoch, and how many frames it alone holds. It fails the
test on what a real one loses silently: a log removed that the volume still needs.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from tests.fakes.hosts import FakeFile

from .cluster import Image

Path = PurePosixPath
Files = MutableMapping[Path, FakeFile]


@dataclass(frozen=True)
class Log:
    epoch: int
    frames: int  # that the cluster lacks


def read_log(files: Files, directory: Path) -> Log | None:
    """The log in a volume's directory, if there is one."""
    if directory / "log" not in files:
        return None
    epoch, frames = files[directory / "log"].content.split()
    return Log(int(epoch), int(frames))


def write_log(files: Files, directory: Path, log: Log) -> None:
    files[directory / "log"] = FakeFile(f"{log.epoch} {log.frames}", 0o600)


def open_log(files: Files, directory: Path, image: Image) -> None:
    """As volumed: a log of the image's own epoch is shipped, another set aside."""
    log = read_log(files, directory)
    if log is None:
        return
    if log.epoch == image.epoch:
        image.frames += log.frames
    elif log.frames:
        files[directory / f"log.aside-{log.epoch}-1"] = files[directory / "log"]
    del files[directory / "log"]


def drain_log(files: Files, directory: Path) -> None:
    log = read_log(files, directory)
    if log is not None:
        write_log(files, directory, Log(log.epoch, 0))


def list_asides(files: Files, directory: Path) -> str:
    """What `find DIRECTORY -name 'log.aside-*'` prints."""
    names = [path for path in files if path.parent == directory and "log.aside-" in path.name]
    return "".join(f"{path}\n" for path in names)


def require_removable(files: Files, directory: Path, image: Image | None) -> None:
    log = read_log(files, directory)
    if image is None or log is None or log.epoch != image.epoch:
        return
    assert not (log.frames and image.is_journal_open), "a log removed that the volume needs"
