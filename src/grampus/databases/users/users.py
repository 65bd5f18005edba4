"""Users of a database for its clients: accounts of its server, with roles and passwords.

The server alone knows which there are; on file are only the passwords that Grampus made.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from grampus.core.errors import NotFoundError, RefusedError, suggest
from grampus.databases.instance import observe_daemon_state
from grampus.databases.layout import client_option_file, database_directory, server_daemon_name
from grampus.databases.model import DatabaseRecord, Endpoint
from grampus.databases.operating import DatabaseOperations
from grampus.databases.users.decide_roles import as_preset, require_plain, require_role
from grampus.databases.users.decide_users import (
    DatabaseUser,
    parse_users,
    render_users_sql,
    require_former_known,
    require_user_name,
)
from grampus.databases.users.observed_roles import observe_roles
from grampus.databases.users.secret_statements import secret_statements
from grampus.databases.users.user_files import UserFiles
from grampus.databases.users.user_steps import (
    ADD_USER,
    CHANGE_PASSWORD,
    DISCARD_PASSWORD,
    REMOVE_USER,
    UserOrder,
)
from grampus.databases.view import (
    render_client_command,
    render_reading_command,
)


@dataclass(frozen=True)
class UserLogin:
    """How a client logs in as a user."""

    user: str
    endpoint: Endpoint
    client_command: str
    option_file: Path
    read_only_command: str | None = None  # at the read-only endpoint, where one is served


class DatabaseUsers:
    """The users of the databases of one lab or cluster. A database must run to be asked.

    Every method raises NotFoundError, HostUnreachableError, RefusedError with code `not-ready` or
    `not-running`, and SqlError when the server refuses a statement.
    """

    def __init__(self, operations: DatabaseOperations) -> None:
        self._operations = operations

    def all(self, database: str) -> list[DatabaseUser]:
        """The users that there are now, by name, also those made in SQL."""
        record = self.running(database)
        statements = secret_statements(self._operations.ports, record.spec)
        return parse_users(statements.run(render_users_sql(record.spec.flavour)), owner=record.user)

    def _plan_add(self, database: str, user: str, role: str) -> UserOrder:
        record = self.running(database)
        require_user_name(user, owner=record.user)
        roles = observe_roles(secret_statements(self._operations.ports, record.spec))
        require_role(role, roles, database=database)
        if as_preset(role) is None:
            require_plain(role)
        if any(known.server_name == user for known in roles):
            # To MySQL both are accounts: its password would be the role's.
            raise RefusedError(
                f"The database {database} has a role named '{user}'.",
                f"Choose another name, or see `grampus db role list {database}`.",
                code="name-taken",
            )
        if any((known.name, known.host) == (user, "%") for known in self.all(database)):
            raise RefusedError(
                f"The database {database} already has a user named '{user}'.",
                f"Choose another name, or see `grampus db user list {database}`.",
                code="name-taken",
            )
        return UserOrder(database=database, user=user, role=role)

    def add(self, database: str, user: str, role: str) -> UserLogin:
        """Make a user whose password is new; undone when it fails.

        Raises UsageError for the name, RefusedError with code `name-taken`, NotFoundError with code
        `unknown-role`, RefusedError with code `role-name` for a role that was made in SQL under a
        name that needs quoting.
        """
        with self._operations.locked(database):
            self._operations.settle(database)
            self._operations.run(ADD_USER, self._plan_add(database, user, role))
        return self.login(database, user)

    def plan_remove(self, database: str, user: str) -> UserOrder:
        """The end of a user. Raises NotFoundError, RefusedError for the database's own user."""
        record = self.running(database)
        require_user_name(user, owner=record.user)
        self.require_known(database, user)
        return UserOrder(database=database, user=user)

    def remove(self, database: str, user: str) -> None:
        """Remove a user and end its sessions. Raises what `plan_remove` raises."""
        with self._operations.locked(database):
            self._operations.settle(database)
            self._operations.run(REMOVE_USER, self.plan_remove(database, user))

    def _plan_password(self, database: str, user: str, *, keeps_former: bool) -> UserOrder:
        record = self.running(database)
        require_user_name(user, owner=record.user)
        self.require_known(database, user)
        if keeps_former:
            former = UserFiles(self._operations.credentials, database).find(user)
            require_former_known(record.spec.flavour, user, former)
        return UserOrder(database=database, user=user, keeps_former=keeps_former)

    def change_password(self, database: str, user: str, *, keeps_former: bool) -> UserLogin:
        """Give a user a new password; open sessions go on.

        Raises NotFoundError, RefusedError with code `former-unknown`.
        """
        with self._operations.locked(database):
            self._operations.settle(database)
            order = self._plan_password(database, user, keeps_former=keeps_former)
            self._operations.run(CHANGE_PASSWORD, order)
        return self.login(database, user)

    def discard_former(self, database: str, user: str) -> None:
        """Let a user in with its newest password alone. Raises as `change_password`."""
        with self._operations.locked(database):
            self._operations.settle(database)
            order = self._plan_password(database, user, keeps_former=True)
            self._operations.run(DISCARD_PASSWORD, order)

    def login(self, database: str, user: str) -> UserLogin:
        """How to log in as a user whose password is on file.

        Raises GrampusError with code `secrets-missing`.
        """
        spec = self._operations.ready(database).spec
        files = UserFiles(self._operations.credentials, database)
        directory = database_directory(self._operations.fleet.host(spec.host).data_dir, database)
        endpoint = Endpoint(
            address=spec.address,
            port=spec.port,
            address_kind=spec.address_kind,
            user=user,
            password=files.load(user),
            daemon=server_daemon_name(database),
            host=spec.host,
            option_file=str(client_option_file(directory)),
        )
        command = render_client_command(spec.flavour, str(files.option_file(user)))
        reading = self._operations.records.find_read_endpoint(database)
        authorities = self._operations.credentials.replicas_ca_file(database)
        return UserLogin(
            user=user,
            endpoint=endpoint,
            client_command=command,
            option_file=files.option_file(user),
            read_only_command=None
            if reading is None or reading.host is None
            else render_reading_command(command, reading, str(authorities)),
        )

    def running(self, database: str) -> DatabaseRecord:
        """The record of a database whose server can be asked. Raises as every method does."""
        record = self._operations.ready(database)
        self._operations.require_reachable(record.spec.host, record.spec.name)
        host = self._operations.fleet.host(record.spec.host)
        is_running = observe_daemon_state(host, server_daemon_name(database)) == "running"
        if record.desired != "running" or not is_running:
            raise RefusedError(
                f"The database {database} is not running, and only its server knows its users.",
                f"`grampus db start {database}` starts it.",
                code="not-running",
            )
        return record

    def require_known(self, database: str, user: str) -> None:
        """Raise NotFoundError with the closest one unless there is such a user, from anywhere."""
        names = [known.name for known in self.all(database) if known.host == "%"]
        if user in names:
            return
        raise NotFoundError(
            f"The database {database} has no user named '{user}'.",
            suggest(user, names, f"`grampus db user list {database}` shows the users."),
        )
