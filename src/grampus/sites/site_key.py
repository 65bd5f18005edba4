"""The key of a site: what seals the secrets in its shared state. It is never in the cluster.

Who has the cluster's key alone cannot read a password. `grampus site key` writes a file with all
that another machine needs to join the site; it is as secret as the passwords.
"""

from __future__ import annotations

import base64
import re
from pathlib import Path
from typing import ClassVar

from cryptography.fernet import Fernet, InvalidToken
from pydantic import ConfigDict, ValidationError

from grampus.core.errors import GrampusError, UsageError
from grampus.core.models import Model
from grampus.state.home import Home, read_if_there, write_atomically
from grampus.state.keys import KeptKey, KeyKind

_PURPOSE = "grampus site secrets 1"
_FILE = "site.key"


class SiteKey(KeptKey):
    """What seals secrets (Fernet: AES-128-CBC with an HMAC)."""

    KIND: ClassVar[KeyKind] = KeyKind(
        file_word="grampus-site-key-1",
        id_purpose="grampus site key id",
        what="site key",
        code="no-site-key",
        command="grampus site key",
        made_where="on a machine that works on the site",
    )

    def seal(self, content: str) -> str:
        """The content as it may be kept anywhere."""
        return self._cipher().encrypt(content.encode()).decode("ascii")

    def unseal(self, sealed: str) -> str:
        """The content. Raises GrampusError with code `bad-secret`."""
        try:
            return self._cipher().decrypt(sealed.encode("ascii")).decode()
        except InvalidToken as error:
            raise GrampusError(
                "A secret in the state of the site cannot be read with the site key of this "
                "machine.",
                "Write a file with the present key on a machine that works on the site (`grampus "
                "site key SITE --to FILE`), and join the site again with it.",
                code="bad-secret",
            ) from error

    def _cipher(self) -> Fernet:
        return Fernet(base64.urlsafe_b64encode(self.derive(_PURPOSE)))


class JoinFile(Model):
    """What another machine needs to join a site: a file of mode 0600."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: str = "grampus-site-join-1"
    site: str
    fsid: str
    user: str
    pool: str
    image: str  # the name of the host image's definition
    conf: str  # ceph.conf
    keyring: str
    key: str  # as `SiteKey.render`


def parse_join_file(text: str) -> JoinFile:
    """Raises UsageError with code `bad-join-file`."""
    try:
        found = JoinFile.model_validate_json(text)
        SiteKey.parse(found.key)
    except (ValidationError, UsageError) as error:
        raise UsageError(
            "The file does not describe a site.",
            "Use the file from `grampus site key SITE --to FILE`.",
            code="bad-join-file",
        ) from error
    return found


def site_key_file(directory: Path) -> Path:
    """Where the key is, in the `site_directory` of a site."""
    return directory / _FILE


def ensure_site_key(directory: Path) -> SiteKey:
    """The key of the site on this machine, made if there is none."""
    found = find_site_key(directory)
    if found is not None:
        return found
    made = SiteKey.make()
    write_site_key(directory, made)
    return made


def find_site_key(directory: Path) -> SiteKey | None:
    """The key; None: there is none here. Raises UsageError when the file was changed."""
    text = read_if_there(site_key_file(directory))
    return None if text is None else SiteKey.parse(text)


def write_site_key(directory: Path, key: SiteKey) -> None:
    """Keep the key on this machine."""
    write_atomically(site_key_file(directory), key.render().encode("ascii"), mode=0o600)


def require_site_key(directory: Path, site: str) -> SiteKey:
    """The key. Raises GrampusError with code `no-site-key`."""
    found = find_site_key(directory)
    if found is None:
        raise GrampusError(
            f"The key of the site '{site}' is missing: {site_key_file(directory)}.",
            f"`grampus site key {site} --to FILE`, on another machine that works on the site, "
            f"writes it to a file. `grampus site join --from FILE` then restores it.",
            code="no-site-key",
        )
    return found


def render_secret(content: str, home: Home) -> str:
    """The content as it is shared: files name other files by their paths on this machine.

    A path that only contains that of the home, such as that of a directory beside it, stays.
    """
    own = rf"(?<![\w./-]){re.escape(str(home.root))}(?![\w.-])"
    return re.sub(own, _HOME, content)


def place_secret(content: str, home: Home) -> str:
    """The content as it is on this machine."""
    return content.replace(_HOME, str(home.root))


_HOME = "@GRAMPUS_HOME@"
