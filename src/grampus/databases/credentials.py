"""Passwords of a database: generated, kept under GRAMPUS_HOME, written as option files."""

from __future__ import annotations

import secrets
import string
from collections.abc import Callable
from pathlib import Path

from pydantic import ConfigDict, Field, SecretStr, field_serializer

from grampus.core.errors import GrampusError
from grampus.core.models import Model
from grampus.databases.accounts import decide_user_name
from grampus.databases.model import FlavourName
from grampus.state.home import SharedPart
from grampus.state.secret_files import SecretFiles

PASSWORD_LENGTH = 28  # of 62 characters each: 166 bits
# Needs no escape in SQL, a URL, an option file or a shell.
_PASSWORD_ALPHABET = string.ascii_letters + string.digits


class Credentials(Model):
    """The accounts of one database."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    user: str
    password: SecretStr
    admin_password: SecretStr
    root_password: SecretStr

    @field_serializer("password", "admin_password", "root_password", when_used="json")
    def _reveal(self, value: SecretStr) -> str:
        return value.get_secret_value()


class Authority(Model):
    """A certificate authority that goes on signing."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    certificate: str  # PEM
    key: SecretStr  # PEM

    @field_serializer("key", when_used="json")
    def _reveal(self, value: SecretStr) -> str:
        return value.get_secret_value()


class KeptCertificates(Model):
    """Copies of the files of a server's certificates, by name: its host may be lost."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tls: dict[str, SecretStr]
    next_tls: dict[str, SecretStr] = Field(
        default_factory=dict
    )  # those that are coming into use, while they rotate

    @field_serializer("tls", "next_tls", when_used="json")
    def _reveal(self, value: dict[str, SecretStr]) -> dict[str, str]:
        return {name: content.get_secret_value() for name, content in value.items()}


class CredentialFiles:
    """The credentials of the databases of one lab, in one directory."""

    def __init__(self, directory: Path, shared: SharedPart | None = None) -> None:
        """`shared` is what other machines have of them."""
        self._directory = directory
        self.files = SecretFiles(directory, shared)

    def option_file(self, database: str) -> Path:
        """Client options for whoever works on this machine; mode 0600."""
        return self._directory / f"{database}.cnf"

    def ca_file(self, database: str) -> Path:
        """The certificate authority made for this database; two while its certificates rotate."""
        return self._directory / f"{database}.ca.pem"

    def replicas_ca_file(self, database: str) -> Path:
        """The authority of all replicas of this database, which clients of its endpoint trust."""
        return self._directory / f"{database}.replicas.ca.pem"

    def users_directory(self, database: str) -> Path:
        """Where the passwords of users that clients were given are kept (`user_files`)."""
        return self._directory / f"{database}.users"

    def ensure(self, database: str, *, user: str | None = None) -> Credentials:
        """The credentials of `database`, made if there are none yet.

        `user` is its own user's name, if it is not called after the database.
        """
        if self._file(database).exists():
            return self.load(database)
        made = Credentials(
            user=user or decide_user_name(database),
            password=new_password(),
            admin_password=new_password(),
            root_password=new_password(),
        )
        self.files.write(self._file(database), made.model_dump_json())
        return made

    def are_there(self, database: str) -> bool:
        """Whether there are credentials of `database`."""
        return self._file(database).exists()

    def load(self, database: str) -> Credentials:
        """The credentials of `database`. Raises GrampusError with code `secrets-missing`."""
        try:
            return Credentials.model_validate_json(self._file(database).read_bytes())
        except FileNotFoundError:
            raise GrampusError(
                f"The password of the database {database} is not in {self._directory}.",
                f"Restore the files {database}.* of that directory from a copy, and nothing "
                f"else. Without a copy, `grampus db clone {database} NEW` creates a database "
                "with the same data and new passwords.",
                code="secrets-missing",
            ) from None

    def find_next(self, database: str) -> Credentials | None:
        """Credentials that are coming into use (`rotation_steps`), or None."""
        try:
            return Credentials.model_validate_json(self._next_file(database).read_bytes())
        except FileNotFoundError:
            return None

    def ensure_next(self, database: str) -> Credentials:
        """New passwords of the same accounts, kept before the server is told of them."""
        found = self.find_next(database)
        if found is not None:
            return found
        changes = {"password": new_password(), "admin_password": new_password()}
        made = self.load(database).model_copy(update=changes)
        self.files.write(self._next_file(database), made.model_dump_json())
        return made

    def settle_next(self, database: str) -> None:
        """The next credentials, which the server knows by now, are the ones from now on."""
        self.files.move(self._next_file(database), self._file(database))  # or they are already

    def find_certificates(self, database: str) -> KeptCertificates | None:
        """Copies of the server's certificates; None: none were kept yet."""
        try:
            return KeptCertificates.model_validate_json(self._tls_file(database).read_bytes())
        except FileNotFoundError:
            return None

    def keep_certificates(self, database: str, certificates: KeptCertificates) -> None:
        """Keep copies of the server's certificates, in place of those that were kept before."""
        self.files.write(self._tls_file(database), certificates.model_dump_json())

    def find_replica_authority(self, database: str) -> Authority | None:
        """What signs the certificates of the replicas of `database`; None: nothing did yet."""
        try:
            return Authority.model_validate_json(self._authority_file(database).read_bytes())
        except FileNotFoundError:
            return None

    def put_replica_authority(self, database: str, authority: Authority) -> None:
        """Keep it, and write what clients on this machine trust."""
        # The key last: with it, the authority counts as there.
        self.files.write(self.replicas_ca_file(database), authority.certificate)
        self.files.write(self._authority_file(database), authority.model_dump_json())

    def ensure_replica_authority_absent(self, database: str) -> None:
        """Forget what signs the certificates of the replicas of `database`."""
        for file_of in (self._authority_file, self.replicas_ca_file):
            self.files.remove(file_of(database))

    def find_authority(self, database: str) -> Authority | None:
        """What signs the certificates of a database that has the address of its host."""
        try:
            return Authority.model_validate_json(self._own_authority_file(database).read_bytes())
        except FileNotFoundError:
            return None

    def put_authority(self, database: str, authority: Authority) -> None:
        """Keep it: the database gets a certificate for each host that it comes to."""
        self.files.write(self._own_authority_file(database), authority.model_dump_json())

    def write_client_files(self, database: str, option_file: str, ca: str) -> None:
        """Write the option file and the CA that a client on this machine reads."""
        self.write_authorities(database, ca)
        self.files.write(self.option_file(database), option_file)

    def write_authorities(self, database: str, ca: str) -> None:
        """Write what clients on this machine trust, whichever option file they read."""
        self.files.write(self.ca_file(database), ca)

    def ensure_absent(self, database: str) -> None:
        """Forget the credentials of `database`."""
        for file_of in self._kept:
            self.files.remove(file_of(database))
        self.files.remove_directory(self.users_directory(database))

    def ensure_moved(self, former: str, database: str) -> None:
        """All that is kept under the name `former` kept under `database` from now on.

        Repeatable. Option files still name the former address and certificate authority: they are
        written anew when the server starts, and by `UserFiles.write_all`.
        """
        for file_of in self._kept:
            self.files.move(file_of(former), file_of(database))
        self.files.move_directory(self.users_directory(former), self.users_directory(database))

    @property
    def _kept(self) -> tuple[Callable[[str], Path], ...]:
        """The files of a database; a directory is beside them."""
        return (
            self._file,
            self._next_file,
            self.option_file,
            self.ca_file,
            self.replicas_ca_file,
            self._authority_file,
            self._tls_file,
            self._own_authority_file,
        )

    def _file(self, database: str) -> Path:
        return self._directory / f"{database}.json"

    def _next_file(self, database: str) -> Path:
        return self._directory / f"{database}.next.json"

    def _tls_file(self, database: str) -> Path:
        return self._directory / f"{database}.tls.json"

    def _own_authority_file(self, database: str) -> Path:
        return self._directory / f"{database}.authority.json"

    def _authority_file(self, database: str) -> Path:
        return self._directory / f"{database}.replica-authority.json"


def new_password() -> SecretStr:
    """A password that nobody can guess, and that needs no quoting anywhere."""
    return SecretStr("".join(secrets.choice(_PASSWORD_ALPHABET) for _ in range(PASSWORD_LENGTH)))


def render_option_file(
    credentials: Credentials, *, flavour: FlavourName, address: str, port: int, ca_file: str
) -> str:
    """Client options of the owner, as `render_login`."""
    return render_login(
        credentials.user,
        credentials.password,
        flavour=flavour,
        address=address,
        port=port,
        ca_file=ca_file,
    )


def render_login(
    user: str, password: SecretStr, *, flavour: FlavourName, address: str, port: int, ca_file: str
) -> str:
    """Client options for `mysql` and `mariadb` alike: TLS is required and the server verified.

    With `ssl-ca` alone MySQL's clients verify the authority, not the server's name, and MariaDB's
    before 11.4 verify nothing: they accept a server that says it cannot do TLS. MySQL's programs
    do not read the group `client-mariadb`. MariaDB's clients warn of `loose-ssl-mode` and then
    ignore it, so a MariaDB database, which only they can use, does without it.
    """
    verify_identity = ["loose-ssl-mode=VERIFY_IDENTITY"] if flavour == "mysql" else []
    return "\n".join(
        [
            "[client]",
            f"host={address}",
            f"port={port}",
            f"user={user}",
            f"password={password.get_secret_value()}",
            f"ssl-ca={ca_file}",
            *verify_identity,
            "[client-mariadb]",
            "ssl-verify-server-cert",
            "",
        ]
    )
