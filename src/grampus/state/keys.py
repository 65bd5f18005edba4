"""Secret keys of one home or site: made once for a purpose, exported by hand.

The keys of a home are kept apart from any lab: what they open may outlive the labs. Those of a site
are secrets that its machines share, so each of them can open what another one has sealed. An
earlier release kept them in each home: a home still reads with its own keys there, and shares each
of them with the site when it is used.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Generic, Self, TypeVar

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from grampus.core.errors import GrampusError, NotFoundError, UsageError
from grampus.state.home import Home, SharedPart
from grampus.state.secret_files import SecretFiles, write_secret

KEY_BYTES = 32
KEY_ID_BYTES = 8
_CURRENT = "current"
_NEXT = "next"
_KEY_FILES = "*.key"


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
    """The keys of one kind: files of mode 0600 in a directory of mode 0700.

    Those of a site are `shared` with other machines; `home` has those of the home then, which are
    only read.
    """

    def __init__(
        self,
        directory: Path,
        key_type: type[KeyT],
        shared: SharedPart | None = None,
        home: KeptKeys[KeyT] | None = None,
    ) -> None:
        self.directory = directory
        self._key_type = key_type
        self._shared = shared
        self._home = home
        self._files = SecretFiles(directory if shared is None else directory.parent, shared)

    @property
    def kind(self) -> KeyKind:
        """What these keys are called."""
        return self._key_type.KIND

    @property
    def option(self) -> str:
        """What a command needs to find the same keys, such as ` --site prod`."""
        return "" if self._shared is None else f" --site {self._shared.site}"

    def ensure_current(self) -> KeyT:
        """The key that is used for what is new, made when there is none."""
        current = self.find_current()
        if current is not None:
            return current
        key = self._key_type.make()
        self.add(key)
        # Another process or machine may have been first: then its key counts.
        self._files.write_first(self.directory / _CURRENT, key.id)
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
            self._files.write(self.directory / _NEXT, key.render())
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
        self._files.write(self.directory / _CURRENT, following.id)
        self._files.remove(self.directory / _NEXT)

    def get(self, key_id: str) -> KeyT:
        """The key to use. Raises NotFoundError with the kind's code when it is not here."""
        keys = self.keys_with(key_id)
        found = keys._read(key_id)
        if keys is not self:
            # The key can be used without that. It is shared at a later use if this fails.
            with contextlib.suppress(GrampusError):
                self.add(found)
        return found

    def keys_with(self, key_id: str) -> KeptKeys[KeyT]:
        """The ones that have it: those of the home if only they do, or else these."""
        home = self._home
        if home is None or self._file(key_id).exists() or not home._file(key_id).exists():
            return self
        return home

    def _read(self, key_id: str) -> KeyT:
        kind = self.kind
        try:
            text = self._file(key_id).read_text(encoding="ascii", errors="replace")
        except FileNotFoundError:
            raise NotFoundError(
                f"The {kind.what} {key_id} is not in {self.directory}.",
                f"Import it: `{kind.command} import FILE{self.option}`, with the file from "
                f"`{kind.command} export` {kind.made_where}.",
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
        self._files.write(self._file(key.id), key.render())

    def all(self) -> list[KeyT]:
        """The keys that are here, by id. Raises what `get` raises of one that was changed."""
        return [self.keys_with(key_id)._read(key_id) for key_id in self.ids()]

    def ids(self) -> list[str]:
        """The keys that are here, sorted: for a site, those that only this home has, too."""
        of_home = [] if self._home is None else self._home.ids()
        return sorted({*of_home, *self.own_ids()})

    def own_ids(self) -> list[str]:
        """The keys of the site, which all machines have, or else of the home; sorted."""
        return sorted(path.stem for path in self.directory.glob(_KEY_FILES))

    def _file(self, key_id: str) -> Path:
        return self.directory / f"{key_id}.key"


def open_keys(home: Home, name: str, key_type: type[KeyT]) -> KeptKeys[KeyT]:
    """The keys of a home, or of the site that it shares with other machines.

    `name` is that of their directory, among those of labs: no lab has a dot in its name.
    """
    own = KeptKeys(_directory(home, name), key_type)
    if home.shared is None:
        return own
    return KeptKeys(home.secrets_dir(home.shared.site) / name, key_type, home.shared, own)


def keep_keys_of_site(home: Home, site: str) -> list[Path]:
    """Keep the keys of a site that this home forgets: backups and volumes outlive it. Other secrets
    go with it, whatever their files are called.

    Returns the files in the home. Raises OSError.
    """
    kept = []
    for file in sorted(home.secrets_dir(site).glob(f"*.keys/{_KEY_FILES}")):
        directory = _directory(home, file.parent.name)
        write_secret(directory, directory / file.name, file.read_text())
        kept.append(directory / file.name)
    return kept


def _directory(home: Home, name: str) -> Path:
    return home.root / "secrets" / name
