"""The client side of one arm: SQL, and the files that sysbench needs on the host.

Passwords and keys reach `mysql` and `sysbench` through files of mode 0600, never through a
command line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath

from grampus.core.errors import GrampusError
from grampus.databases.model import Endpoint, FlavourName
from grampus.hosts.port import CommandFailedError, Host

SCHEMA = "sbtest"
_CLIENT_PROGRAMS: dict[FlavourName, str] = {"mysql": "mysql", "mariadb": "mariadb"}
# sysbench 1.0.20 cuts a value in its config file at a comma or a space (each printable
# character was tried); a quote or backslash is one that no reader of such files agrees on.
_UNPLAIN = frozenset(" ,'\"\\")
# The names, relative to its working directory, that sysbench 1.0 is compiled with.
_TLS_FILES = ("cacert.pem", "client-cert.pem", "client-key.pem")


@dataclass(frozen=True)
class ArmClient:
    """One arm's instance, and the directory on its host with sysbench's files."""

    host: Host
    endpoint: Endpoint
    flavour: FlavourName
    directory: PurePosixPath

    @property
    def sysbench_config(self) -> PurePosixPath:
        """sysbench's options that hold the connection and the password."""
        return self.directory / "sysbench.cnf"

    def query(self, statements: str, *, timeout_s: float = 120.0) -> list[list[str]]:
        """Run SQL and return the rows of all its results as text (NULL is `NULL`).

        The flavour's own client runs beside the server, whose image has it for certain.

        Raises CommandFailedError with the server's own message, GrampusError on a time-out.
        """
        result = self.host.run(
            [
                _CLIENT_PROGRAMS[self.flavour],
                f"--defaults-file={self.endpoint.option_file}",
                "--batch",
                "--raw",
                "--skip-column-names",
            ],
            stdin=statements,
            timeout_s=timeout_s,
            daemon=self.endpoint.daemon,
        )
        return [line.split("\t") for line in result.stdout.splitlines()]

    def gather(self, statements: str, *, timeout_s: float) -> list[list[str]]:
        """The rows of those statements that succeed, until the connection ends.

        Raises GrampusError on a time-out, and when the host cannot be reached.
        """
        result = self.host.run(
            [
                _CLIENT_PROGRAMS[self.flavour],
                f"--defaults-file={self.endpoint.option_file}",
                *("--batch", "--raw", "--skip-column-names", "--force", "--skip-reconnect"),
            ],
            stdin=statements,
            timeout_s=timeout_s,
            check=False,
            daemon=self.endpoint.daemon,
        )
        return [line.split("\t") for line in result.stdout.splitlines()]


def ensure_client_files(
    host: Host, endpoint: Endpoint, flavour: FlavourName, directory: PurePosixPath
) -> ArmClient:
    """Write what sysbench needs to reach `endpoint` into `directory` on its host.

    When the server or the account requires TLS, the server's CA and client certificate are
    copied from beside its `ssl_ca`: sysbench 1.0 cannot do TLS without a client certificate.

    Raises GrampusError with code `instance-unreachable` when the instance does not let its user
    in, `client-certificate-missing` when there is no such certificate, and
    `password-unsupported` when sysbench could not read the password from a file.
    """
    client = ArmClient(host, endpoint, flavour, directory)
    tls = _observe_tls_required(client)
    config = render_sysbench_config(endpoint, tls=tls)
    if tls:
        for name, content in zip(_TLS_FILES, _read_certificates(client), strict=True):
            host.write_file(directory / name, content, mode=0o600)
    host.write_file(client.sysbench_config, config, mode=0o600)
    return client


def ensure_client_files_absent(host: Host, directory: PurePosixPath) -> None:
    """Remove the directory of `ensure_client_files` and all in it."""
    host.run(["rm", "-rf", "--", str(directory)])


def render_sysbench_config(endpoint: Endpoint, *, tls: bool) -> str:
    """sysbench's config file: one long option a line, without its dashes.

    Raises GrampusError with code `password-unsupported`.
    """
    return (
        "db-driver=mysql\n"
        f"mysql-host={endpoint.address}\n"
        f"mysql-port={endpoint.port}\n"
        f"mysql-user={endpoint.user}\n"
        f"mysql-password={_plain_password(endpoint)}\n"
        f"mysql-db={SCHEMA}\n"
        f"mysql-ssl={'on' if tls else 'off'}\n"
    )


def _plain_password(endpoint: Endpoint) -> str:
    password = endpoint.password.get_secret_value()
    if not password.isascii() or not password.isprintable() or _UNPLAIN & set(password):
        raise GrampusError(
            f"sysbench cannot read the password of user {endpoint.user} from a file: it has a "
            "blank, comma, quote, backslash or a character that is not ASCII.",
            "Give the user a password without these characters.",
            code="password-unsupported",
        )
    return password


def _observe_tls_required(client: ArmClient) -> bool:
    try:
        rows = client.query(
            "select @@global.require_secure_transport;\nshow create user current_user();\n"
        )
    except CommandFailedError as error:
        reason = " ".join((error.result.stderr or error.result.stdout).split())
        raise GrampusError(
            f"The instance {client.endpoint.daemon} does not let its user in: {reason}",
            "See with `grampus db list` whether the database is running, and start it if not.",
            code="instance-unreachable",
        ) from error
    switch = rows[0][0].upper() if rows else "0"
    account = " ".join(" ".join(row) for row in rows[1:])
    return switch in ("1", "ON") or re.search(r"\bREQUIRE (SSL|X509)\b", account) is not None


def _read_certificates(client: ArmClient) -> tuple[str, ...]:
    rows = client.query("select @@global.datadir, @@global.ssl_ca;\n")
    datadir, authority = PurePosixPath(rows[0][0]), rows[0][1]
    ca_file = datadir / ("ca.pem" if authority in ("", "NULL") else authority)
    names = (ca_file, ca_file.parent / "client-cert.pem", ca_file.parent / "client-key.pem")
    try:
        return tuple(
            client.host.run(["cat", str(name)], daemon=client.endpoint.daemon).stdout
            for name in names
        )
    except CommandFailedError as error:
        raise GrampusError(
            "sysbench cannot reach the instance over TLS: the server's client certificate "
            f"could not be read ({error.result.stderr.strip() or 'no message'}).",
            f"Put a client certificate signed by {ca_file} beside it, as {names[1].name} and "
            f"{names[2].name}.",
            code="client-certificate-missing",
        ) from error
