"""A server told to stop, so that it waits for nobody; or held so that it can be killed."""

from __future__ import annotations

from grampus.databases.admin_client import READ_OPTIONS, render_admin_options
from grampus.databases.administrator import Administrator
from grampus.databases.layout import CLIENT_PROGRAMS, RUN_IN_DAEMON

# mysqld that finds a connection as it shuts down ends it and sleeps for two seconds, "to let it die
# gracefully"; the event scheduler's counts. Measured: 3.2 s for a stop with clients, 1.3 s without.
# Source: MySQL's sql/mysqld.cc, close_connections.
DISMISS = "SET GLOBAL offline_mode = ON, GLOBAL event_scheduler = OFF"
# In one process on the host that goes on when Grampus is killed (it gets a TERM then): no server
# is left that runs and turns everybody away. Connections take a moment to end. In a container the
# server is the first process; a service sees the processes of its host, of which that is systemd.
_DISMISS = (
    f"dismiss() {{ {READ_OPTIONS}\n"
    'printf %s "$options" | timeout --signal KILL 5 "$@"; }\n'
    "trap '' TERM; "
    'dismiss "$@" || dismiss "$@"'  # at the socket, or else at the administrative port
)
_STOP = f'{_DISMISS}; sleep 0.1; kill -TERM "$(cat {RUN_IN_DAEMON / "mysqld.pid"})"'
# After it a server has nothing in its memory but what its next start finds on the volume: tables of
# engines without a log are closed, and InnoDB's log is written, also of a server whose user chose
# not to wait for it (`innodb_flush_log_at_trx_commit`). LOCAL: replicas need not do that. Who has a
# table for longer than a second is waited for by a stop.
HOLD = (
    f"{DISMISS}; SET SESSION lock_wait_timeout = 1; "
    "FLUSH TABLES WITH READ LOCK; FLUSH LOCAL ENGINE LOGS"
)
# Nor is one left that runs and turns everybody away when Grampus is killed before it kills the
# server. The process is known by when it began: a later one may have its number.
_KILLED_WITHIN_S = 2
_BEGAN = 'cut -d " " -f 22 "/proc/$pid/stat" 2>/dev/null'
_HOLD = (
    f'pid="$(cat {RUN_IN_DAEMON / "mysqld.pid"})"; began="$({_BEGAN})"; '
    f"{_DISMISS} || exit 1; "
    f'(sleep {_KILLED_WITHIN_S}; [ "$({_BEGAN})" = "$began" ] && kill -TERM "$pid") '
    "</dev/null >/dev/null 2>&1 &"
)
_TIMEOUT_S = 20.0


def ensure_stopping(administrator: Administrator) -> None:
    """Let a running server begin to shut down, its clients sent away first; a server of MariaDB,
    or one that does not answer, is left to whoever ends its daemon.

    What they had not committed is rolled back, as any shutdown does. Raises GrampusError with code
    `daemon-absent` or `timeout`, and HostUnreachableError.
    """
    if administrator.flavour == "mysql":  # MariaDB waits for nobody
        _run(administrator, _STOP, DISMISS)


def hold(administrator: Administrator) -> bool:
    """Send the clients of a running server away and let its tables stand still; whether that is
    done. Then it can be killed at once, and its next start loses nothing.

    A stop of MySQL takes 0.7 to 1.8 s, however little there is to write: up to a second until
    InnoDB's master thread wakes up, and up to half a second for each of its I/O threads. InnoDB's
    stop without writing pages, `innodb_fast_shutdown = 2`, waits as long. The start after a kill
    takes 0.4 s longer (docs/adr/0063).

    False: it must be stopped, as a server of MariaDB, or one in which a session holds a table.
    Raises as `ensure_stopping`.
    """
    return administrator.flavour == "mysql" and _run(administrator, _HOLD, HOLD) == 0


def _run(administrator: Administrator, script: str, sql: str) -> int:
    flavour, password = administrator.flavour, administrator.password
    ports = [None] if administrator.port is None else [None, administrator.port]
    options = [render_admin_options(password, flavour, port) for port in ports]
    client = [CLIENT_PROGRAMS[flavour], "--defaults-file=/dev/stdin", "--execute", sql]
    result = administrator.host.run(
        ["/bin/sh", "-c", script, "sh", *client],
        stdin="".join(f"{text}\n" for text in options),
        timeout_s=_TIMEOUT_S,
        check=False,
        daemon=administrator.daemon,
    )
    return result.returncode
