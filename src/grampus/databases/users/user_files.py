"""The passwords of users that clients were given, kept as option files like the owner's."""

from __future__ import annotations

import re
from pathlib import Path

from pydantic import SecretStr

from grampus.core.errors import GrampusError
from grampus.databases.credentials import CredentialFiles, new_password, render_login
from grampus.databases.model import DatabaseSpec

_PASSWORD = re.compile(r"^password=(.*)$", re.MULTILINE)


class UserFiles:
    """Files of the users of one database, mode 0600, in a directory of their own."""

    def __init__(self, credentials: CredentialFiles, database: str) -> None:
        self._files = credentials.files
        self._directory = credentials.users_directory(database)
        self._ca_file = credentials.ca_file(database)

    def option_file(self, user: str) -> Path:
        """Client options with the password."""
        return self._directory / f"{user}.cnf"

    def names(self) -> list[str]:
        """Users whose password is on file, sorted."""
        return sorted(file.stem for file in self._directory.glob("*.cnf"))

    def ensure_next(self, user: str) -> SecretStr:
        """A password that is not in use yet: kept before the server is told of it."""
        file = self._next_file(user)
        if file.exists():
            return SecretStr(file.read_text())
        made = new_password()
        self._files.write(file, made.get_secret_value())
        return made

    def find(self, user: str) -> SecretStr | None:
        """The password on file, or None: the user was made in SQL."""
        try:
            found = _PASSWORD.search(self.option_file(user).read_text())
        except FileNotFoundError:
            return None
        return SecretStr(found[1]) if found else None

    def load(self, user: str) -> SecretStr:
        """The password on file. Raises GrampusError with code `secrets-missing`."""
        found = self.find(user)
        if found is None:
            raise GrampusError(
                f"The password of the user {user} is not in {self._directory}.",
                f"`grampus db user passwd DATABASE {user}` sets a new one.",
                code="secrets-missing",
            )
        return found

    def settle_next(self, spec: DatabaseSpec, user: str) -> None:
        """The next password, which the server knows by now, is the one on file from now on."""
        if self._next_file(user).exists():
            self.write(spec, user, self.ensure_next(user))
            self._files.remove(self._next_file(user))

    def write(self, spec: DatabaseSpec, user: str, password: SecretStr) -> None:
        """The option file, for the address that the database has."""
        options = render_login(
            user,
            password,
            flavour=spec.flavour,
            address=spec.address,
            port=spec.port,
            ca_file=str(self._ca_file),
        )
        self._files.write(self.option_file(user), options)

    def write_all(self, spec: DatabaseSpec) -> None:
        """Every option file anew: the database has another address or name."""
        for user in self.names():
            self.write(spec, user, self.load(user))

    def ensure_absent(self, user: str) -> None:
        """Forget the user's passwords."""
        self._files.remove(self.option_file(user))
        self._files.remove(self._next_file(user))

    def _next_file(self, user: str) -> Path:
        return self._directory / f"{user}.next"
