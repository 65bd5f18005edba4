"""SQL that holds passwords, run by the administrator's client inside the instance's daemon.

Statements without secrets go through `administrator`, whose errors repeat them.
"""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import SecretStr

from grampus.core.errors import GrampusError
from grampus.databases.accounts import ADMIN_USER
from grampus.databases.administrator import CONNECTION_ATTEMPTS, TOO_MANY_CONNECTIONS
from grampus.databases.layout import CLIENT_PROGRAMS, RUN_IN_DAEMON, server_daemon_name
from grampus.databases.model import DatabaseSpec, FlavourName
from grampus.databases.session_settings import render_session_sql
from grampus.databases.step_ports import StepPorts
from grampus.hosts.port import CommandResult, Host

SQL_TIMEOUT_S = 60.0
# The first line of stdin is the password, the rest is SQL. Neither a file nor an argument holds
# either; the environment of a process is its own user's to read.
_HAND_OVER = 'IFS= read -r MYSQL_PWD && export MYSQL_PWD && exec "$@"'
_ACCESS_DENIED = "ERROR 1045 "
_TOO_MANY_CONNECTIONS = f"ERROR {TOO_MANY_CONNECTIONS} "


class SqlError(GrampusError):
    """The server refused a statement, or the client could not reach it."""

    default_code = "sql-failed"


class AccessDeniedError(SqlError):
    """The server knows no such password."""

    default_code = "access-denied"


@dataclass(frozen=True)
class SecretStatements:
    """Statements of the administrator of one running instance, through its socket alone."""

    host: Host
    daemon: str
    flavour: FlavourName
    password: SecretStr

    def run(self, sql: str, *, timeout_s: float = SQL_TIMEOUT_S) -> list[tuple[str, ...]]:
        """The rows that the statements answer with, as text; NULL is `NULL`.

        Statements run one after the other until one fails; no error repeats what they hold.
        Raises AccessDeniedError, SqlError, GrampusError with code `timeout`, and
        HostUnreachableError.
        """
        for _ in range(CONNECTION_ATTEMPTS):
            result = self._ask(sql, timeout_s)
            if result.returncode == 0:
                return [tuple(line.split("\t")) for line in result.stdout.splitlines()]
            if _TOO_MANY_CONNECTIONS not in result.stderr:
                break
        raise explain_refusal(self.daemon, result.stderr)

    def _ask(self, sql: str, timeout_s: float) -> CommandResult:
        return self.host.run(
            [
                *("/bin/sh", "-c", _HAND_OVER, "administrator"),
                CLIENT_PROGRAMS[self.flavour],
                "--no-defaults",
                f"--socket={RUN_IN_DAEMON / 'mysqld.sock'}",
                f"--user={ADMIN_USER}",
                "--default-character-set=utf8mb4",
                f"--init-command={render_session_sql(self.flavour)}",
                "--batch",
                "--skip-column-names",
            ],
            stdin=f"{self.password.get_secret_value()}\n{sql}\n",
            timeout_s=timeout_s,
            check=False,
            daemon=self.daemon,
        )


def secret_statements(
    ports: StepPorts, spec: DatabaseSpec, password: SecretStr | None = None
) -> SecretStatements:
    """For the database's instance, which is not looked at; `password` if not the one on file.

    Raises GrampusError with code `secrets-missing`.
    """
    return SecretStatements(
        ports.fleet.host(spec.host),
        server_daemon_name(spec.name),
        spec.flavour,
        password or ports.credentials.load(spec.name).admin_password,
    )


def explain_refusal(daemon: str, said: str) -> SqlError:
    """What the client wrote to stderr, without anything that may be a password."""
    errors = [line for line in said.splitlines() if line.startswith("ERROR ")]
    message = errors[-1] if errors else "the client gave no reason"
    if message.startswith(_ACCESS_DENIED):
        return AccessDeniedError(
            f"The administrator's password on file is not the one that {daemon} knows.",
            "Put back the newest copy of this database's files in GRAMPUS_HOME/secrets, and "
            "nothing else. Without one, `grampus db clone NAME NEW` makes a database with the same "
            "data and new passwords.",
        )
    # A syntax error repeats the statement from where it went wrong: that may be a password.
    number, colon, _ = message.partition(": ")
    shown = number if " near '" in message and colon else message
    return SqlError(
        f"The server {daemon} refused a statement of Grampus: {shown.rstrip('.')}.",
        "Try again. If it fails again, run the command as `grampus --debug ...` and report what "
        "that "
        "shows.",
    )
