"""A server told to stop, so that it waits for nobody."""

from __future__ import annotations

from grampus.databases.administrator import Administrator, render_admin_options
from grampus.databases.layout import CLIENT_PROGRAMS

# mysqld that finds a connection as it shuts down ends it and sleeps for two seconds, "to let it die
# gracefully"; the event scheduler's counts. Measured: 3.2 s for a stop with clients, 1.3 s without.
# Source: MySQL's sql/mysqld.cc, close_connections.
DISMISS = "SET GLOBAL offline_mode = ON, GLOBAL event_scheduler = OFF"
# In one process on the host that goes on when Grampus is killed (it gets a TERM then): no server
# is left that runs and turns everybody away. Connections take a moment to end. mysqld is the first
# process there.
_STOP = (
    "trap '' TERM; "
    'timeout --signal KILL 5 "$1" --defaults-file=/dev/stdin --execute "$2"; '
    "sleep 0.1; kill -TERM 1"
)
_TIMEOUT_S = 15.0


def ensure_stopping(administrator: Administrator) -> None:
    """Let a running server begin to shut down, its clients sent away first; a server of MariaDB,
    or one that does not answer, is left to whoever ends its daemon.

    What they had not committed is rolled back, as any shutdown does. Raises GrampusError with code
    `daemon-absent` or `timeout`, and HostUnreachableError.
    """
    if administrator.flavour != "mysql":
        return  # MariaDB waits for nobody
    client = CLIENT_PROGRAMS[administrator.flavour]
    administrator.host.run(
        ["/bin/sh", "-c", _STOP, "sh", client, DISMISS],
        stdin=render_admin_options(administrator.password, administrator.flavour),
        timeout_s=_TIMEOUT_S,
        check=False,
        daemon=administrator.daemon,
    )
