"""The keys that seal backups: made once per home, kept apart from any lab, exported by hand."""

from __future__ import annotations

import base64
import binascii
import contextlib
import os
import secrets
import tempfile
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from grampus.core.errors import GrampusError, NotFoundError, UsageError
from grampus.state.home import write_atomically

KEY_BYTES = 32
KEY_ID_BYTES = 8
_FILE_WORD = "grampus-backup-key-1"
_CURRENT = "current"


@dataclass(frozen=True)
class BackupKey:
    """A secret of 32 bytes, never used itself: every use derives a key of its own from it."""

    secret: bytes

    def __repr__(self) -> str:
        return f"BackupKey({self.id})"

    @property
    def id(self) -> str:
        """16 hexadecimal digits that name the key and tell nothing of it."""
        return self.derive("grampus backup key id", size_bytes=KEY_ID_BYTES).hex()

    def derive(self, purpose: str, *, salt: bytes = b"", size_bytes: int = KEY_BYTES) -> bytes:
        """A key for one purpose (HKDF with SHA-256, RFC 5869)."""
        kdf = HKDF(algorithm=SHA256(), length=size_bytes, salt=salt, info=purpose.encode())
        return kdf.derive(self.secret)


def make_key() -> BackupKey:
    """A new key, from the system's random numbers."""
    return BackupKey(secrets.token_bytes(KEY_BYTES))


def render_key(key: BackupKey) -> str:
    """The key as the one line of its file: a word for the format, its id, its secret."""
    secret = base64.urlsafe_b64encode(key.secret).decode("ascii")
    return f"{_FILE_WORD} {key.id} {secret}\n"


def parse_key(text: str) -> BackupKey:
    """The key in `text`. Raises UsageError with code `no-backup-key` when there is none."""
    words = text.split()
    if len(words) == 3 and words[0] == _FILE_WORD:
        with contextlib.suppress(binascii.Error, ValueError):
            key = BackupKey(base64.urlsafe_b64decode(words[2].encode("ascii")))
            if len(key.secret) == KEY_BYTES and key.id == words[1]:
                return key
    raise UsageError(
        "That is no backup key, or it was cut off or changed.",
        "Take the file that `grampus db backup key export` wrote.",
        code="no-backup-key",
    )


class BackupKeys:
    """The backup keys of one home: files of mode 0600 in a directory of mode 0700."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def ensure_current(self) -> BackupKey:
        """The key that new backups are sealed with, made when there is none."""
        current = self.find_current()
        if current is not None:
            return current
        key = make_key()
        self.add(key)
        with tempfile.TemporaryDirectory(dir=self._directory) as scratch:
            made = Path(scratch) / _CURRENT
            write_atomically(made, key.id.encode("ascii"), mode=0o600)
            # Another process may have been first: then its key counts.
            with contextlib.suppress(FileExistsError):
                os.link(made, self._directory / _CURRENT)
        return self.find_current() or key

    def find_current(self) -> BackupKey | None:
        """The key that new backups are sealed with, if one was made."""
        try:
            return self.get((self._directory / _CURRENT).read_text(encoding="ascii").strip())
        except FileNotFoundError:
            return None

    def get(self, key_id: str) -> BackupKey:
        """Raises NotFoundError with code `no-backup-key` when this home does not have it."""
        try:
            text = self._file(key_id).read_text(encoding="ascii", errors="replace")
        except FileNotFoundError:
            raise NotFoundError(
                f"The backup key {key_id} is not in {self._directory}.",
                "Bring it here: `grampus db backup key import FILE`, with the file that "
                "`grampus db backup key export` wrote where the backup was taken.",
                code="no-backup-key",
            ) from None
        key = parse_key(text)
        if key.id != key_id:
            raise GrampusError(
                f"{self._file(key_id)} holds the key {key.id} instead of the one in its name.",
                f"Rename it to {key.id}.key, and import the right one.",
                code="no-backup-key",
            )
        return key

    def add(self, key: BackupKey) -> None:
        """Keep a key, beside those that are there."""
        self._directory.mkdir(parents=True, exist_ok=True)
        self._directory.chmod(0o700)
        write_atomically(self._file(key.id), render_key(key).encode("ascii"), mode=0o600)

    def ids(self) -> list[str]:
        """The keys that are here, sorted."""
        return sorted(path.stem for path in self._directory.glob("*.key"))

    def _file(self, key_id: str) -> Path:
        return self._directory / f"{key_id}.key"
