"""LUKS2 on the images of a cluster in memory, and keys of volumes on its hosts.

It fails the test on what librbd silently does wrong: a header written over data, a resize that
whoever has the image open would take for another size, ciphertext served as data.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from grampus.ceph.encryption import FORMAT_LUKS2, STDIN
from grampus.volumes.key_files import WRITE_KEY
from tests.fakes.hosts import FakeFile

if TYPE_CHECKING:
    from .block_devices import Loop
    from .cluster import Image, RbdCluster

MARK = "grampus.encryption"
Files = dict[PurePosixPath, FakeFile]


def answer_encryption(
    cluster: RbdCluster, argv: Sequence[str], stdin: str | None
) -> tuple[int, str] | None:
    """What `rbd` answers to a command with a passphrase; None for one that is about others."""
    opened = ["--encryption-format", "luks", "--encryption-passphrase-file", STDIN]
    match list(argv):
        case ["python3", "-c", script, *place] if script == FORMAT_LUKS2:
            name = "/".join(filter(None, place))
            image = cluster.images[name]
            assert not cluster.watchers(name), "an image formatted under its client"
            assert not image.data, "a header over data"
            assert stdin is not None
            assert re.fullmatch("[0-9a-f]{64}", stdin)
            image.passphrase = stdin
            return 0, ""
        case ["rbd", "resize", "--no-progress", "--size", size, *words, name] if words == opened:
            image = cluster.images[name]
            if image.passphrase != stdin:
                return 1, "rbd: encryption load failed: (1) Operation not permitted"
            raw_bytes = int(size.removesuffix("B")) + image.header_bytes
            assert raw_bytes >= image.size_bytes, "rbd refuses to shrink"
            image.size_bytes = raw_bytes
            return 0, ""
        case ["rbd", "resize", *_, name] if name in cluster.images:
            assert cluster.images[name].passphrase is None, "an encrypted image, and no passphrase"
    return None


def data_bytes(image: Image) -> int:
    """What a client sees of the image that has its key."""
    return image.size_bytes - (image.header_bytes if image.passphrase is not None else 0)


def make_filesystem(image: Image, options: Sequence[str], log: Loop | None) -> None:
    """What mkfs.xfs makes when it is told that; `log` is the device that it names for the log."""
    words = dict(zip(options[::2], options[1::2], strict=True))
    is_encrypted, log_bytes = image.passphrase is not None, None
    assert words.pop("-s", None) == ("size=4096" if is_encrypted else None), "slow log writes"
    if log is not None:
        told = dict(word.split("=") for word in words.pop("-l").split(","))
        assert log.is_durable, "a log whose writes are not durable"
        assert log.offset_bytes == 0, "a log over the file system"
        assert told.get("sectsize") == ("4096" if is_encrypted else None), "slow log writes"
        log_bytes = int(told["size"])
        assert log_bytes == log.size_bytes
    image.has_filesystem, image.external_log_bytes = True, log_bytes
    room_bytes = data_bytes(image) - (log_bytes or 0)
    image.filesystem_bytes = int(words.get("-d", f"size={room_bytes}").removeprefix("size="))


def opening_problem(image: Image, options: Mapping[str, str], files: Files) -> str | None:
    """Why volumed does not open the image, as it says it; None: it does."""
    key_file = options.get("--encryption-key-file")
    is_marked = image.metadata.get(MARK) == "luks2"
    assert is_marked == (image.passphrase is not None), "an image that does not say what it is"
    if key_file is None:
        return "volumed: the image is encrypted, and no key file is given" if is_marked else None
    found = files[PurePosixPath(key_file)]
    content, mode = found.content, found.mode
    assert mode == 0o600, "a key that others can read"
    if not is_marked:
        return "volumed: the image is not encrypted, and a key file is given"
    return None if content == image.passphrase else "volumed: it is not the key of the image"


def write_key(files: Files, argv: Sequence[str], stdin: str | None) -> tuple[int, str] | None:
    """The command that puts a key on a host; None for another."""
    match list(argv):
        case ["sh", "-c", script, "sh", memory, _, name] if script == WRITE_KEY:
            assert stdin is not None
            files[PurePosixPath(memory) / name] = FakeFile(stdin, 0o600)
            return 0, f"{memory}/{name}"
    return None
