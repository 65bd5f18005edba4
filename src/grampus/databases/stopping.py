"""A server told to stop, so that it waits for nobody."""

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
_STOP = (
    f"dismiss() {{ {READ_OPTIONS}\n"
    'printf %s "$options" | timeout --signal KILL 5 "$@"; }\n'
    "trap '' TERM; "
    'dismiss "$@" || dismiss "$@"; '  # at the socket, or else at the administrative port
    f'sleep 0.1; kill -TERM "$(cat {RUN_IN_DAEMON / "mysqld.pid"})"'
)
_TIMEOUT_S = 20.0


def ensure_stopping(administrator: Administrator) -> None:
    """Let a running server begin to shut down, its clients sent away first; a server of MariaDB,
    or one that does not answer, is left to whoever ends its daemon.

    What they had not committed is rolled back, as any shutdown does. Raises GrampusError with code
    `daemon-absent` or `timeout`, and HostUnreachableError.
    """
    if administrator.flavour != "mysql":
        return  # MariaDB waits for nobody
    flavour, password = administrator.flavour, administrator.password
    ports = [None] if administrator.port is None else [None, administrator.port]
    options = [render_admin_options(password, flavour, port) for port in ports]
    client = [CLIENT_PROGRAMS[flavour], "--defaults-file=/dev/stdin", "--execute", DISMISS]
    administrator.host.run(
        ["/bin/sh", "-c", _STOP, "sh", *client],
        stdin="".join(f"{text}\n" for text in options),
        timeout_s=_TIMEOUT_S,
        check=False,
        daemon=administrator.daemon,
    )
