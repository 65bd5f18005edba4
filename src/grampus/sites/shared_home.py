"""What a home shares with other machines that work on the same site: locks and secrets."""

from __future__ import annotations

import sqlite3
from contextlib import AbstractContextManager

from grampus.core.errors import GrampusError
from grampus.sites.site_key import SiteKey, place_secret, render_secret
from grampus.state.home import Home, require_below
from grampus.state.replicated import ReplicatedStore
from grampus.state.secret_files import remove_secret, write_secret
from grampus.state.shared_locks import SharedLocks

_KEEP = (
    "INSERT INTO secrets (lab, name, sealed) VALUES (?, ?, ?) "
    "ON CONFLICT (lab, name) DO UPDATE SET sealed = excluded.sealed"
)
_FORGET = "DELETE FROM secrets WHERE lab = ? AND name = ?"
_GET = "SELECT sealed FROM secrets WHERE lab = ? AND name = ?"


class SharedHome:
    """A `SharedPart`: the files are written by the store when it gets them (`SecretPlace`)."""

    def __init__(
        self, home: Home, site: str, store: ReplicatedStore, key: SiteKey, locks: SharedLocks
    ) -> None:
        self._home = home
        self._site = site
        self._store = store
        self._key = key
        self._locks = locks

    def hold(self, name: str, *, shared: bool, timeout_s: float) -> AbstractContextManager[None]:
        """See `SharedPart`."""
        return self._locks.hold(name, shared=shared, timeout_s=timeout_s)

    @property
    def site(self) -> str:
        """See `SharedPart`."""
        return self._site

    def keep_secret(self, name: str, content: str, *, replaces: bool = True) -> None:
        """See `SharedPart`."""
        text, place = render_secret(content, self._home), (self._site, name)

        def write(connection: sqlite3.Connection) -> None:
            known = connection.execute(_GET, place).fetchone()
            if known is None or (replaces and not self._is_same(known["sealed"], text)):
                connection.execute(_KEEP, (*place, self._key.seal(text)))

        self._store.change(write)

    def _is_same(self, sealed: str, text: str) -> bool:
        try:
            return self._key.unseal(sealed) == text
        except GrampusError:  # of a key that was lost
            return False

    def forget_secret(self, name: str) -> None:
        """See `SharedPart`."""
        place = (self._site, name)
        self._store.change(lambda connection: connection.execute(_FORGET, place))


class SecretPlace:
    """Writes the secrets of a site to the files of this machine."""

    def __init__(self, home: Home, site: str, key: SiteKey) -> None:
        self._home = home
        self._directory = home.secrets_dir(site)
        self._key = key

    def put(self, name: str, sealed: str | None) -> None:
        """The file has this content; None: it is gone. Raises GrampusError."""
        file = require_below(self._directory / name, self._directory, "the site's secrets")
        if sealed is None:
            remove_secret(self._directory, file)
            return
        write_secret(self._directory, file, place_secret(self._key.unseal(sealed), self._home))
