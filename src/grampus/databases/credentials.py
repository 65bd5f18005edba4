"""Passwords of a database: generated, kept under GRAMPUS_HOME, written as option files."""

from __future__ import annotations

import secrets
import string
from pathlib import Path

from pydantic import BaseModel, ConfigDict, SecretStr, field_serializer

from grampus.core.errors import GrampusError
from grampus.databases.accounts import decide_user_name
from grampus.state.home import write_atomically

PASSWORD_LENGTH = 28  # of 62 characters each: 166 bits
# Needs no escape in SQL, a URL, an option file or a shell.
_PASSWORD_ALPHABET = string.ascii_letters + string.digits


class Credentials(BaseModel):
    """The accounts of one database."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    user: str
    password: SecretStr
    admin_password: SecretStr
    root_password: SecretStr

    @field_serializer("password", "admin_password", "root_password", when_used="json")
    def _reveal(self, value: SecretStr) -> str:
        return value.get_secret_value()


class CredentialFiles:
    """The credentials of the databases of one lab, in one directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def option_file(self, database: str) -> Path:
        """Client options for whoever works on this machine; mode 0600."""
        return self._directory / f"{database}.cnf"

    def ca_file(self, database: str) -> Path:
        """The certificate authority made for this database."""
        return self._directory / f"{database}.ca.pem"

    def ensure(self, database: str) -> Credentials:
        """The credentials of `database`, made if there are none yet."""
        if self._file(database).exists():
            return self.load(database)
        made = Credentials(
            user=decide_user_name(database),
            password=_new_password(),
            admin_password=_new_password(),
            root_password=_new_password(),
        )
        self._ensure_private_directory()
        write_atomically(self._file(database), made.model_dump_json().encode(), mode=0o600)
        return made

    def load(self, database: str) -> Credentials:
        """The credentials of `database`. Raises GrampusError with code `secrets-missing`."""
        try:
            return Credentials.model_validate_json(self._file(database).read_bytes())
        except FileNotFoundError:
            raise GrampusError(
                f"The password of the database {database} is not in {self._directory}.",
                "Restore that directory from a backup of GRAMPUS_HOME.",
                code="secrets-missing",
            ) from None

    def write_client_files(self, database: str, option_file: str, ca: str) -> None:
        """Write the option file and the CA that a client on this machine reads."""
        self._ensure_private_directory()
        write_atomically(self.ca_file(database), ca.encode(), mode=0o600)
        write_atomically(self.option_file(database), option_file.encode(), mode=0o600)

    def ensure_absent(self, database: str) -> None:
        """Forget the credentials of `database`."""
        for file in (self.option_file(database), self.ca_file(database), self._file(database)):
            file.unlink(missing_ok=True)

    def _file(self, database: str) -> Path:
        return self._directory / f"{database}.json"

    def _ensure_private_directory(self) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        self._directory.chmod(0o700)


def _new_password() -> SecretStr:
    return SecretStr("".join(secrets.choice(_PASSWORD_ALPHABET) for _ in range(PASSWORD_LENGTH)))


def render_option_file(credentials: Credentials, *, address: str, port: int, ca_file: str) -> str:
    """Client options for `mysql` and `mariadb` alike.

    `ssl-ca` alone makes both verify the server: MySQL's client takes it as `ssl-mode=VERIFY_CA`,
    MariaDB's verifies by default since 11.4.
    """
    return "\n".join(
        [
            "[client]",
            f"host={address}",
            f"port={port}",
            f"user={credentials.user}",
            f"password={credentials.password.get_secret_value()}",
            f"ssl-ca={ca_file}",
            "",
        ]
    )
