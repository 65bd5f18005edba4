"""Secret keys of one home: made once for a purpose, kept apart from any lab, exported by hand."""

from __future__ import annotations

import base64
import binascii
import contextlib
import os
import secrets
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Generic, Self, TypeVar

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from grampus.core.errors import GrampusError, NotFoundError, UsageError
from grampus.state.home import write_atomically

KEY_BYTES = 32
KEY_ID_BYTES = 8
_CURRENT = "current"
_NEXT = "next"


@dataclass(frozen=True)
class KeyKind:
    """What keys of one purpose are called, in their files and to users."""

    file_word: str  # begins the line in a key's file, and says its format
    id_purpose: str  # that a key's id is derived for
    what: str  # such as "backup key"
    code: str  # of errors, such as "no-backup-key"
    command: str  # that exports and imports them, such as "grampus db backup key"
    made_where: str  # where one was exported that is missing: "where the backup was taken"


@dataclass(frozen=True)
class KeptKey:
    """A secret of 32 bytes, never used itself: every use derives a key of its own from it."""

    KIND: ClassVar[KeyKind]

    secret: bytes

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id})"

    @property
    def id(self) -> str:
        """16 hexadecimal digits that name the key and tell nothing of it."""
        return self.derive(self.KIND.id_purpose, size_bytes=KEY_ID_BYTES).hex()

    def derive(self, purpose: str, *, salt: bytes = b"", size_bytes: int = KEY_BYTES) -> bytes:
        """A key for one purpose (HKDF with SHA-256, RFC 5869)."""
        kdf = HKDF(algorithm=SHA256(), length=size_bytes, salt=salt, info=purpose.encode())
        return kdf.derive(self.secret)

    @classmethod
    def make(cls) -> Self:
        """A new key, from the system's random numbers."""
        return cls(secrets.token_bytes(KEY_BYTES))

    def render(self) -> str:
        """The key as the one line of its file: a word for the format, its id, its secret."""
        secret = base64.urlsafe_b64encode(self.secret).decode("ascii")
        return f"{self.KIND.file_word} {self.id} {secret}\n"

    @classmethod
    def parse(cls, text: str) -> Self:
        """The key in `text`. Raises UsageError with the kind's code when there is none."""
        words = text.split()
        if len(words) == 3 and words[0] == cls.KIND.file_word:
            with contextlib.suppress(binascii.Error, ValueError):
                key = cls(base64.urlsafe_b64decode(words[2].encode("ascii")))
                if len(key.secret) == KEY_BYTES and key.id == words[1]:
                    return key
        raise UsageError(
            f"The file is not a {cls.KIND.what}, or it was changed.",
            f"Use the file from `{cls.KIND.command} export`.",
            code=cls.KIND.code,
        )


KeyT = TypeVar("KeyT", bound=KeptKey)


class KeptKeys(Generic[KeyT]):
    """The keys of one kind in one home: files of mode 0600 in a directory of mode 0700."""

    def __init__(self, directory: Path, key_type: type[KeyT]) -> None:
        self.directory = directory
        self._key_type = key_type

    @property
    def kind(self) -> KeyKind:
        """What these keys are called."""
        return self._key_type.KIND

    def ensure_current(self) -> KeyT:
        """The key that is used for what is new, made when there is none."""
        current = self.find_current()
        if current is not None:
            return current
        key = self._key_type.make()
        self.add(key)
        with tempfile.TemporaryDirectory(dir=self.directory) as scratch:
            made = Path(scratch) / _CURRENT
            write_atomically(made, key.id.encode("ascii"), mode=0o600)
            # Another process may have been first: then its key counts.
            with contextlib.suppress(FileExistsError):
                os.link(made, self.directory / _CURRENT)
        return self.find_current() or key

    def find_current(self) -> KeyT | None:
        """The key that is used for what is new, if one was made."""
        try:
            return self.get((self.directory / _CURRENT).read_text(encoding="ascii").strip())
        except FileNotFoundError:
            return None

    def find_next(self) -> KeyT | None:
        """The key of a rotation that was begun and has not come into use, or None."""
        try:
            return self.parse((self.directory / _NEXT).read_text(encoding="ascii"))
        except FileNotFoundError:
            return None

    def ensure_next(self) -> KeyT:
        """A new key that is used for nothing yet: that of a rotation that was cut off, if any."""
        key = self.find_next()
        if key is None:
            key = self._key_type.make()
            self._write(self.directory / _NEXT, key.render())
        return key

    def settle_next(self, key_id: str) -> None:
        """The next key, which has this id, used for what is new from now on.

        The former one stays beside it. Repeatable, and right wherever it was cut off: one that was
        settled before is left as it is, also when another has followed it since. Raises
        NotFoundError with the kind's code when there is no such key.
        """
        following = self.find_next()
        if following is None or following.id != key_id:
            self.get(key_id)
            return
        self.add(following)
        self._write(self.directory / _CURRENT, following.id)
        (self.directory / _NEXT).unlink()

    def get(self, key_id: str) -> KeyT:
        """Raises NotFoundError with the kind's code when this home does not have it."""
        kind = self.kind
        try:
            text = self._file(key_id).read_text(encoding="ascii", errors="replace")
        except FileNotFoundError:
            raise NotFoundError(
                f"The {kind.what} {key_id} is not in {self.directory}.",
                f"Import it: `{kind.command} import FILE`, with the file from `{kind.command} "
                f"export` {kind.made_where}.",
                code=kind.code,
            ) from None
        key = self._key_type.parse(text)
        if key.id != key_id:
            raise GrampusError(
                f"{self._file(key_id)} has the key {key.id}, but another id in its name.",
                f"Rename it to {key.id}.key, and import the right one.",
                code=kind.code,
            )
        return key

    def parse(self, text: str) -> KeyT:
        """The key in `text`, as an export wrote it. Raises UsageError with the kind's code."""
        return self._key_type.parse(text)

    def add(self, key: KeyT) -> None:
        """Keep a key, beside those that are there."""
        self._write(self._file(key.id), key.render())

    def all(self) -> list[KeyT]:
        """The keys that are here, by id. Raises what `get` raises of one that was changed."""
        return [self.get(key_id) for key_id in self.ids()]

    def ids(self) -> list[str]:
        """The keys that are here, sorted."""
        return sorted(path.stem for path in self.directory.glob("*.key"))

    def _write(self, file: Path, content: str) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        self.directory.chmod(0o700)
        write_atomically(file, content.encode("ascii"), mode=0o600)

    def _file(self, key_id: str) -> Path:
        return self.directory / f"{key_id}.key"
