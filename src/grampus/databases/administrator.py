"""Statements of Grampus's own administrator, run by the client inside the instance's daemon.

Neither its password nor a statement is on a command line (see `admin_client`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from pydantic import SecretStr

from grampus.core.clock import format_duration
from grampus.core.errors import GrampusError
from grampus.databases.admin_client import AdminClient, AdminPort, database_admin_port
from grampus.databases.layout import server_daemon_name
from grampus.databases.model import DatabaseSpec, FlavourName, OpenedReplica
from grampus.databases.step_ports import StepPorts
from grampus.hosts.port import CommandResult, Host, explain_code

Row = tuple[str, ...]

# Numbers of errors, the same in MySQL and MariaDB (mysqld_error.h).
UNKNOWN_VARIABLE = 1193
READ_ONLY_VARIABLE = 1238

STATEMENT_TIMEOUT_S = 60.0
# A look is to be quick, also at a server that hangs or whose volume answers nobody.
LOOK_TIMEOUT_S = 5.0
# A parameter's value may be long (sql_mode), a number never is: shown in errors, cut to this.
_SHOWN_LENGTH = 120
_ERROR = re.compile(r"ERROR (?P<number>\d+) \((?P<state>\w+)\)(?: at line \d+)?: (?P<text>.*)")


class StatementFailedError(GrampusError):
    """The server refused a statement; `number` is its error's, None when the client failed."""

    default_code = "statement-failed"

    def __init__(
        self, statement: str, number: int | None, said: str, *, database: str = ""
    ) -> None:
        name = database or "NAME"
        super().__init__(
            f"The server{f' of {database}' if database else ''} refused "
            f"`{statement[:_SHOWN_LENGTH]}`: {said.rstrip('.')}.",
            f"Fix the error above, then try again. `grampus db show {name}` shows the state "
            "of the server.",
        )
        self.number = number
        self.said = said.rstrip(".")


class NoAnswerError(GrampusError):
    """A server that runs said nothing for as long as a look waits."""

    default_code = "no-answer"

    def __init__(self, database: str = "") -> None:
        name = database or "NAME"
        super().__init__(
            f"No answer within {format_duration(LOOK_TIMEOUT_S)}.",
            "Check whether the host is overloaded (`grampus host list`) or the volume is "
            f"stalled (`grampus volume show {name}`). `grampus db restart {name}` ends a "
            "server that hangs.",
        )


# A server that runs takes no statement: it refuses it, or does not answer.
REFUSALS = frozenset({StatementFailedError.default_code, NoAnswerError.default_code, "timeout"})


@contextmanager
def passing_over_refusals() -> Iterator[None]:
    """For what makes a stop shorter, and nothing else."""
    try:
        yield
    except GrampusError as error:
        if error.code not in REFUSALS:
            raise


@dataclass(frozen=True)
class Administrator:
    """The administrator of one running instance."""

    host: Host
    daemon: str
    flavour: FlavourName
    password: SecretStr
    only_looks: bool = False  # then it soon gives up on a server that does not answer
    port: AdminPort | None = None  # None: the server listens on its socket alone

    def query(self, statements: str, *, timeout_s: float = STATEMENT_TIMEOUT_S) -> list[Row]:
        """Rows of all results, as text; a NULL is the word `NULL`.

        Errors repeat the statements, so they must hold no secret. Raises StatementFailedError at
        the first that fails, GrampusError with code `timeout` (who only looks: NoAnswerError after
        LOOK_TIMEOUT_S), and what `Host.run` raises.
        """
        result = self._ask(statements, timeout_s)
        if result.returncode != 0:
            raise classify_failure(statements, result, self.database)
        return [tuple(line.split("\t")) for line in result.stdout.splitlines()]

    def _ask(self, statements: str, timeout_s: float) -> CommandResult:
        limit_s = LOOK_TIMEOUT_S if self.only_looks else timeout_s
        try:
            return self.client().run(statements, what="statements", timeout_s=limit_s)
        except GrampusError as error:
            if self.only_looks and error.code == "timeout":
                raise NoAnswerError(self.database) from error
            raise

    def client(self) -> AdminClient:
        """The client that its statements go through."""
        return AdminClient(self.host, self.daemon, self.flavour, self.password, self.port)

    @property
    def database(self) -> str:
        """The name of the database whose server it is, for messages."""
        return self.daemon.removeprefix(server_daemon_name(""))

    def value(self, expression: str) -> str:
        """One value, as text."""
        return self.query(f"SELECT {expression}")[0][0]


def administrator_of(ports: StepPorts, spec: DatabaseSpec) -> Administrator:
    """The administrator of the database's instance, which is not looked at.

    Raises GrampusError with code `secrets-missing`.
    """
    host = ports.fleet.host(spec.host)
    return Administrator(
        host,
        server_daemon_name(spec.name),
        spec.flavour,
        ports.credentials.load(spec.name).admin_password,
        port=database_admin_port(spec, host.data_dir),
    )


def observer_of(ports: StepPorts, spec: DatabaseSpec) -> Administrator:
    """The same for those who only look, and show whatever there is to be seen.

    Whoever changes something is more patient: a server may be busy for a while. Raises GrampusError
    with code `secrets-missing`.
    """
    return replace(administrator_of(ports, spec), only_looks=True)


@contextmanager
def writing_as_administrator(administrator: Administrator, *, is_replica: bool) -> Iterator[None]:
    """Meanwhile the administrator may write to a replica; still nobody else may (INV-40).

    `read_only` stays on, which holds for all users without CONNECTION_ADMIN. MariaDB's
    administrator may write past it anyway. `writing_to` notes that of a server that goes on.
    """
    if not is_replica or administrator.flavour != "mysql":
        yield
        return
    administrator.query("SET GLOBAL super_read_only = OFF")
    try:
        yield
    finally:
        administrator.query("SET GLOBAL super_read_only = ON")


@contextmanager
def writing_to(
    ports: StepPorts, spec: DatabaseSpec, administrator: Administrator
) -> Iterator[None]:
    """Meanwhile Grampus's administrator may write to the server of that database, replica or not.

    Raises RefusedError with code `busy` when another command writes to the replica, and what
    `Administrator.query` raises.
    """
    if spec.replica_of is None or spec.flavour != "mysql":
        yield
        return
    name, record = spec.name, ports.records.find(spec.name)
    with ports.writing_lock(name, 10.0):
        opened = OpenedReplica(name=name, id="" if record is None else record.id)
        ports.records.put_opened(opened)
        with writing_as_administrator(administrator, is_replica=True):
            yield
        ports.records.remove_opened(name)


def classify_failure(
    statements: str, result: CommandResult, database: str = ""
) -> StatementFailedError:
    """What the client wrote to stderr, as an error with the server's number when it has one."""
    said = result.stderr.strip() or result.stdout.strip() or explain_code(result.returncode)
    match = _ERROR.search(said)
    if match is None:
        return StatementFailedError(statements, None, said.splitlines()[-1], database=database)
    number, text = int(match["number"]), match["text"]
    return StatementFailedError(statements, number, text, database=database)
