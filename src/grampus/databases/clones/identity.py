"""A copied data directory becomes an instance of its own: own passwords, server id and UUID.

The copy holds the accounts of what it was copied from. Its server gets the new passwords as an
init file, which it runs before it lets anybody in, and lets nobody in unless each account that
Grampus made has a new one: a failing statement of an init file stops neither the file nor the
server (tried with MySQL 9.7 and MariaDB 11.8). Users that somebody else made stay as they are.

No scheduled event runs until then: it would write rows that nobody wrote (INV-64).
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module

from pydantic import SecretStr

from grampus.core.clock import Clock
from grampus.core.errors import GrampusError
from grampus.databases.accounts import (
    ADMIN_GRANT,
    ADMIN_GUARD,
    ADMIN_USER,
    KILL_ROUTINES,
    PORT_HOST,
    SOCKET_HOST,
    owner_grants,
)
from grampus.databases.administrator import Administrator, StatementFailedError
from grampus.databases.application_support import support_in_copy
from grampus.databases.credentials import Credentials
from grampus.databases.instance import (
    LOGIN_TIMEOUT_S,
    RECOVERY_STUCK,
    await_server,
    last_words,
    observe_daemon_state,
    require_recovering,
    require_running,
)
from grampus.databases.layout import (
    CLIENT_PROGRAMS,
    MYSQL_GID,
    MYSQL_UID,
    RUN_IN_DAEMON,
    InstancePlan,
    server_daemon,
)
from grampus.databases.model import FlavourName
from grampus.databases.quiet_servers import events_statement, hold_events_option, quiet_options
from grampus.databases.readiness import (
    ACCESS_DENIED,
    Ready,
    observe_ready,
    server_administrator,
)
from grampus.databases.session_settings import render_session_sql
from grampus.databases.time_zones import has_zone_name
from grampus.hosts.port import DaemonSpec, Host, Limits

# What names a server or is a secret of its own: each server makes new ones, or needs none.
# The RSA pair is made by `mysqld --initialize` whatever its options say.
_OWN_FILES = (
    "auto.cnf",
    "private_key.pem",
    "public_key.pem",
    "ca.pem",
    "ca-key.pem",
    "server-cert.pem",
    "server-key.pem",
    "client-cert.pem",
    "client-key.pem",
)
_ROOT = "root"
_LOADS_POOL = "innodb_buffer_pool_load_at_startup"  # a user's own setting holds
_LOADS_POOL_LATER = "--skip-innodb-buffer-pool-load-at-startup"
_LOAD_POOL = "SET GLOBAL innodb_buffer_pool_load_now = ON;"
_TRIES_EACH_LOOK = 25  # logins of 0.2 s and more, at the log of a server that may never answer
_ACCESS_DENIED = f"ERROR {ACCESS_DENIED} "


def render_identity_sql(
    flavour: FlavourName,
    credentials: Credentials,
    *,
    makes_accounts: bool,
    parameters: Mapping[str, str] | None = None,
    loads_pool: bool = False,
) -> str:
    """An init file that gives every account of Grampus a new password, one statement a line.

    `makes_accounts`: the data directory has none but root's yet (a golden one), so the others are
    made, with their rights. Else the rights stay as somebody may have set them. Every statement
    may be repeated. The passwords need no quoting (see `credentials`).

    MySQL's server is started in offline mode, and a statement ends that only when no account has
    its former password, as its first or as its second one (a rotation that was under way keeps
    two). With `parameters`, the user's own, events run from then on as these say; without, never.
    With `loads_pool` the last statement begins to load the buffer pool.
    """
    passwords = {
        (_ROOT, "localhost"): credentials.root_password,
        (ADMIN_USER, SOCKET_HOST): credentials.admin_password,
        (ADMIN_USER, PORT_HOST): credentials.admin_password,
        (credentials.user, "%"): credentials.password,
    }
    made = (
        [
            *(_create(account, password) for account, password in passwords.items()),
            ADMIN_GRANT,
            *KILL_ROUTINES,
            *owner_grants(flavour, credentials.user),
        ]
        if makes_accounts
        else []
    )
    alter = {
        # A copy may have no root, and one of an earlier release has no account for the port.
        (user, host): (
            "ALTER USER IF EXISTS"
            if not makes_accounts and (user == _ROOT or host == PORT_HOST)
            else "ALTER USER"
        )
        for user, host in passwords
    }
    changed = [
        f"{alter[user, host]} '{user}'@'{host}' IDENTIFIED BY "
        f"'{password.get_secret_value()}'{' ACCOUNT LOCK' if user == _ROOT else ''};"
        for (user, host), password in passwords.items()
    ]
    # The file runs in a session of the server's own, which begins with what the user set.
    changed.append(ADMIN_GUARD)
    statements = [f"{render_session_sql(flavour)};", "SET SESSION sql_log_bin = 0;"]
    if flavour == "mysql":
        statements += [_remember_passwords(passwords), *made, *changed]
        statements += [
            f"{alter[user, host]} '{user}'@'{host}' DISCARD OLD PASSWORD;"
            for user, host in passwords
        ]
        statements.append(_open_when_changed(passwords))
        events = events_statement(flavour, parameters) if parameters is not None else None
        statements += [events] if events is not None else []
        statements += [_LOAD_POOL] if loads_pool else []
    else:
        statements += [*made, *changed]
    return "\n".join([*statements, ""])


def begin_serving_as_new(
    host: Host, plan: InstancePlan, credentials: Credentials, clock: Clock, *, makes_accounts: bool
) -> None:
    """The server of a copied data directory started with new passwords; nothing if it runs.

    MySQL's may not answer yet: `finish_serving_as_new` waits for it. The instance's files and
    address are there. Raises what `finish_serving_as_new` raises.
    """
    if observe_daemon_state(host, plan.daemon) == "running":
        return
    if plan.flavour == "mysql":
        if has_zone_name(plan.parameters):
            # A data directory of an older moment may lack the tables, and it would not start.
            serve_closed(host, plan, credentials, clock, makes_accounts=makes_accounts)
            host.ensure_daemon_absent(plan.init_daemon)
        # The pages that the copied server had in memory are thousands of reads, for which one that
        # starts would wait.
        loads_pool = _LOADS_POOL not in plan.parameters
        # A replica's events are its primary's.
        quiet = plan.is_replica or plan.is_internal
        sql = render_identity_sql(
            plan.flavour,
            credentials,
            makes_accounts=makes_accounts,
            parameters=None if quiet else plan.parameters,
            loads_pool=loads_pool,
        )
        _prepare(host, plan, sql)
        options = ["--offline-mode=ON", hold_events_option(plan.parameters)]
        options += [_LOADS_POOL_LATER] if loads_pool else []
        host.ensure_daemon(_with_options(server_daemon(plan), plan, *options))
        return
    serve_closed(host, plan, credentials, clock, makes_accounts=makes_accounts)
    host.ensure_daemon_absent(plan.init_daemon)
    host.ensure_daemon(server_daemon(plan))


def serve_closed(
    host: Host,
    plan: InstancePlan,
    credentials: Credentials,
    clock: Clock,
    *,
    makes_accounts: bool,
    options: tuple[str, ...] = (),
    limits: Limits | None = None,
) -> None:
    """The server of a copied data directory, for Grampus alone: it listens on its socket only.

    It runs as `plan.init_daemon`, with new passwords, and none of its users' code. One that was cut
    off is ended first; one that cannot recover in its memory recovers with more. Raises what
    `finish_serving_as_new` and `recover_with_more_memory` raise.
    """

    def serve() -> None:
        _serve_closed(
            host,
            plan,
            credentials,
            clock,
            makes_accounts=makes_accounts,
            options=options,
            limits=limits,
        )

    try:
        serve()
    except GrampusError as error:
        if error.code != RECOVERY_STUCK:
            raise
        stuck = import_module("grampus.databases.stuck_recovery")  # few starts need it
        stuck.recover_with_more_memory(host, plan, clock)
        serve()


def _serve_closed(
    host: Host,
    plan: InstancePlan,
    credentials: Credentials,
    clock: Clock,
    *,
    makes_accounts: bool,
    options: tuple[str, ...],
    limits: Limits | None,
) -> None:
    host.ensure_daemon_absent(plan.init_daemon, kill=True)
    sql = render_identity_sql(plan.flavour, credentials, makes_accounts=makes_accounts)
    _prepare(host, plan, sql)
    daemon = replace(server_daemon(plan), name=plan.init_daemon)
    if limits is not None and not plan.is_bare:
        daemon = replace(daemon, limits=limits)
    closed = ("--skip-networking", *quiet_options(plan.flavour), *options)
    host.ensure_daemon(_with_options(daemon, plan, *closed))

    tries = itertools.count(1)

    def answered() -> bool:
        require_running(host, plan, plan.init_daemon)
        if next(tries) % _TRIES_EACH_LOOK == 0:
            require_recovering(host, plan, plan.init_daemon)
        said = _try_login(host, plan, ADMIN_USER, credentials.admin_password)
        if _ACCESS_DENIED in said:
            raise _failed(host, plan, plan.init_daemon)
        return not said

    await_server(clock, host, plan, answered, listens=False)
    if plan.flavour == "mariadb" and _try_login(host, plan, credentials.user, credentials.password):
        raise _failed(host, plan, plan.init_daemon)
    password = credentials.admin_password
    administrator = Administrator(host, plan.init_daemon, plan.flavour, password)
    support_in_copy(administrator, is_replica=plan.is_replica)


def _prepare(host: Host, plan: InstancePlan, sql: str) -> None:
    """What named the copied server is gone, and the init file is there."""
    host.run(["rm", "-f", *(str(plan.volume / "data" / name) for name in _OWN_FILES)])
    host.write_file(plan.accounts_file, sql, mode=0o600, uid=MYSQL_UID, gid=MYSQL_GID)


def finish_serving_as_new(host: Host, plan: InstancePlan, password: SecretStr, clock: Clock) -> str:
    """The version of the server, once its administrator's new password works and it is open.

    Raises GrampusError with code `identity-failed` when the passwords could not be changed,
    `server-stopped` when the server ends, `timeout` when it does not answer.
    """
    administrator = server_administrator(host, plan, password)
    answers: list[Ready] = []

    def answered() -> bool:
        require_running(host, plan, plan.daemon)
        try:
            ready = observe_ready(administrator)
        except StatementFailedError as error:
            raise _failed(host, plan, plan.daemon) from error
        if ready is not None and ready.is_offline:
            # It answers nobody before the end of the init file: what failed there stays so.
            raise _failed(host, plan, plan.daemon)
        answers.extend([ready] if ready is not None else [])
        return ready is not None

    await_server(clock, host, plan, answered)
    host.run(["rm", "-f", str(plan.accounts_file)])
    return answers[-1].version


def _try_login(host: Host, plan: InstancePlan, user: str, password: SecretStr) -> str:
    """What the client says against a login through the closed server's socket: empty, nothing.

    A login that takes too long is one that failed; the next one may succeed.
    """
    try:
        result = host.run(
            [
                CLIENT_PROGRAMS[plan.flavour],
                "--defaults-file=/dev/stdin",
                "--execute",
                "DO 0",
            ],
            stdin=_socket_options(user, password),
            daemon=plan.init_daemon,
            check=False,
            timeout_s=LOGIN_TIMEOUT_S,
        )
    except GrampusError as error:
        if error.code != "timeout":
            raise
        return error.problem
    return "" if result.returncode == 0 else result.stderr or f"code {result.returncode}"


def _socket_options(user: str, password: SecretStr) -> str:
    return "\n".join(
        [
            "[client]",
            f"user={user}",
            f"password={password.get_secret_value()}",
            f"socket={RUN_IN_DAEMON / 'mysqld.sock'}",
            "protocol=socket",
            "",
        ]
    )


def _with_options(daemon: DaemonSpec, plan: InstancePlan, *options: str) -> DaemonSpec:
    """The server with an init file; a copy of a replica must not go on replicating."""
    replica = "--skip-replica-start" if plan.flavour == "mysql" else "--skip-slave-start"
    return replace(
        daemon, argv=(*daemon.argv, f"--init-file={plan.accounts_file}", replica, *options)
    )


def _create(account: tuple[str, str], password: SecretStr) -> str:
    user, host = account
    return (
        f"CREATE USER IF NOT EXISTS '{user}'@'{host}' IDENTIFIED BY "
        f"'{password.get_secret_value()}';"
    )


def _remember_passwords(accounts: dict[tuple[str, str], SecretStr]) -> str:
    # The names in it need no quoting (core.names).
    stored = "SELECT IFNULL(GROUP_CONCAT(HEX(authentication_string)), '')"
    return f"SET @former = ({stored} FROM mysql.user WHERE {_is_one_of(accounts)});"


def _open_when_changed(accounts: dict[tuple[str, str], SecretStr]) -> str:
    """Stored passwords are salted: a changed one differs even where the password is the same."""
    is_old = "LOCATE(HEX(authentication_string), @former) > 0"
    has_second = "User_attributes ->> '$.additional_password' IS NOT NULL"
    wrong = f"SELECT COUNT(*) < 2 OR SUM({is_old} OR {has_second}) > 0"
    return f"SET GLOBAL offline_mode = ({wrong} FROM mysql.user WHERE {_is_one_of(accounts)});"


def _is_one_of(accounts: dict[tuple[str, str], SecretStr]) -> str:
    listed = ", ".join(f"('{user}', '{host}')" for user, host in accounts)
    return f"(User, Host) IN ({listed})"


def _failed(host: Host, plan: InstancePlan, daemon: str) -> GrampusError:
    return GrampusError(
        f"The passwords of the copy {plan.database} could not be changed: "
        f"{last_words(host, daemon)}",
        "Check whether its volume is full, then try again.",
        code="identity-failed",
    )
