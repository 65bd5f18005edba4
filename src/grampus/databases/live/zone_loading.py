"""Time zone tables of a running database, and of its replicas, loaded on request.

No operation of the journal: what was cut off left MySQL's tables as they were, and is repeated by
the same command.
"""

from __future__ import annotations

from grampus.core.errors import RefusedError
from grampus.databases.administrator import administrator_of, writing_to
from grampus.databases.application_support import load_time_zones, observe_time_zones
from grampus.databases.instance import observe_daemon_state
from grampus.databases.layout import server_daemon_name
from grampus.databases.operating import DatabaseOperations


class TimeZoneTables:
    """Time zone tables of the servers of databases."""

    def __init__(self, operations: DatabaseOperations) -> None:
        self._operations = operations

    def plan(self, name: str) -> list[str]:
        """The databases whose servers are loaded: the replicas first, which apply what uses a name.

        Raises NotFoundError, RefusedError with code `not-ready` or `not-running`, also of a
        replica, and HostUnreachableError.
        """
        self._operations.ready(name)
        followers = sorted(self._operations.records.followers(name))
        for follower in followers:
            self._require_running(
                follower,
                f"The replica needs the zones before {name}: `grampus db start {follower}`, "
                f"or `grampus db replica remove {follower}`.",
            )
        self._require_running(name, f"`grampus db start {name}` starts it.")
        return [*followers, name]

    def load(self, name: str) -> int:
        """Load them, also where there are some; how many names the server has then.

        Raises what `plan` and `load_time_zones` raise.
        """
        names = self.plan(name)
        self._operations.runner.propose(
            lambda: [f"Load the time zone tables of the server of {each}" for each in names]
        )
        for each in names:
            with self._operations.locked(each):
                self._operations.settle(each)
                ports, spec = self._operations.ports, self._operations.ready(each).spec
                administrator = administrator_of(ports, spec)
                load_time_zones(administrator, writing_to(ports, spec, administrator))
                ports.volumes.ensure_durable(each)
        return len(observe_time_zones(administrator))

    def _require_running(self, name: str, remedy: str) -> None:
        spec = self._operations.ready(name).spec
        self._operations.require_reachable(spec.host, name)
        host = self._operations.fleet.host(spec.host)
        if observe_daemon_state(host, server_daemon_name(name)) != "running":
            raise RefusedError(
                f"The server of {name} does not run, but it must load the time zones.",
                remedy,
                code="not-running",
            )
