"""SQL that holds passwords, run by the administrator's client inside the instance's daemon.

Statements without secrets go through `administrator`, whose errors repeat them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pydantic import SecretStr

from grampus.core.errors import GrampusError
from grampus.databases.admin_client import AdminClient, AdminPort, database_admin_port
from grampus.databases.layout import server_daemon_name
from grampus.databases.model import DatabaseSpec, FlavourName
from grampus.databases.step_ports import StepPorts
from grampus.hosts.port import Host

SQL_TIMEOUT_S = 60.0
_ACCESS_DENIED = "ERROR 1045 "


class SqlError(GrampusError):
    """The server refused a statement, or the client could not reach it."""

    default_code = "sql-failed"


class AccessDeniedError(SqlError):
    """The server knows no such password."""

    default_code = "access-denied"


@dataclass(frozen=True)
class SecretStatements:
    """Statements of the administrator of one running instance."""

    host: Host
    daemon: str
    flavour: FlavourName
    password: SecretStr
    port: AdminPort | None = None  # None: the server listens on its socket alone
    # What is in no binary log is not durable by a commit, where flushes keep the order alone.
    make_durable: Callable[[], None] = lambda: None

    def run(self, sql: str, *, timeout_s: float = SQL_TIMEOUT_S) -> list[tuple[str, ...]]:
        """The rows that the statements answer with, as text; NULL is `NULL`.

        Statements run one after the other until one fails; no error repeats what they hold. What
        they changed is durable.
        Raises AccessDeniedError, SqlError, GrampusError with code `timeout`, and
        HostUnreachableError.
        """
        client = AdminClient(self.host, self.daemon, self.flavour, self.password, self.port)
        result = client.run(sql, what="secrets", timeout_s=timeout_s)
        if result.returncode != 0:
            raise explain_refusal(self.daemon, result.stderr)
        self.make_durable()
        return [tuple(line.split("\t")) for line in result.stdout.splitlines()]


def secret_statements(
    ports: StepPorts, spec: DatabaseSpec, password: SecretStr | None = None
) -> SecretStatements:
    """For the database's instance, which is not looked at; `password` if not the one on file.

    Raises GrampusError with code `secrets-missing`.
    """
    host = ports.fleet.host(spec.host)
    return SecretStatements(
        host,
        server_daemon_name(spec.name),
        spec.flavour,
        password or ports.credentials.load(spec.name).admin_password,
        database_admin_port(spec, host.data_dir),
        lambda: ports.volumes.ensure_durable(spec.name),
    )


def explain_refusal(daemon: str, said: str) -> SqlError:
    """What the client wrote to stderr, without anything that may be a password."""
    errors = [line for line in said.splitlines() if line.startswith("ERROR ")]
    message = errors[-1] if errors else "the client gave no reason"
    if message.startswith(_ACCESS_DENIED):
        return AccessDeniedError(
            f"The server {daemon} does not accept the administrator's password on file.",
            "Restore the newest copy of this database's files in GRAMPUS_HOME/secrets, and "
            "nothing else. Without a copy, `grampus db clone NAME NEW` creates a database "
            "with the same data and new passwords.",
        )
    # A syntax error repeats the statement from where it went wrong: that may be a password.
    number, colon, _ = message.partition(": ")
    shown = number if " near '" in message and colon else message
    return SqlError(
        f"The server {daemon} refused a statement of Grampus: {shown.rstrip('.')}.",
        "Try again. If it fails again, run the command as `grampus --debug ...` and report "
        "the output.",
    )
