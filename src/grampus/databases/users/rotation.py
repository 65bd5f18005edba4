"""New passwords for a database's own accounts, while it runs and its clients go on."""

from __future__ import annotations

from grampus.core.errors import RefusedError
from grampus.databases.instance import observe_daemon_state
from grampus.databases.layout import scratch_daemon_name, server_daemon_name
from grampus.databases.operating import DatabaseOperations
from grampus.databases.users.rotation_steps import DISCARD, ROTATE, RotateOrder


class DatabaseRotation:
    """Rotations of the databases of one lab or cluster."""

    def __init__(self, operations: DatabaseOperations) -> None:
        self._operations = operations

    def _plan(self, name: str, *, keeps_former: bool) -> RotateOrder:
        record = self._operations.ready(name)
        self._operations.require_reachable(record.spec.host, record.spec.name)
        host = self._operations.fleet.host(record.spec.host)
        is_running = observe_daemon_state(host, server_daemon_name(name)) == "running"
        if record.desired != "running" or not is_running:
            raise RefusedError(
                f"The database {name} is not running, and its server must accept the new "
                "passwords.",
                f"`grampus db start {name}` starts it.",
                code="not-running",
            )
        if observe_daemon_state(host, scratch_daemon_name(name)) == "running":
            raise RefusedError(
                f"The scratch instance of {name} runs with the same passwords.",
                "Wait until the benchmark ends.",
                code="benchmark",
            )
        can_rotate = self._operations.volumes.key_rotation.can_rotate(name)
        return RotateOrder(database=name, keeps_former=keeps_former, rotates_key=can_rotate)

    def rotate(self, name: str, *, keeps_former: bool) -> None:
        """Give owner and administrator new passwords, and the volume a new key; sessions go on.

        The owner's former password works on if asked. Cut off, the next command finishes it, and
        until then the passwords on file let in. Raises NotFoundError, HostUnreachableError,
        RefusedError with code `not-ready`, `not-running`, or `benchmark` while a scratch instance
        runs.
        """
        with self._operations.locked(name):
            self._operations.settle(name)
            self._operations.run(ROTATE, self._plan(name, keeps_former=keeps_former))

    def discard_former(self, name: str) -> None:
        """Let the owner in with its newest password alone. Raises as `rotate`."""
        with self._operations.locked(name):
            self._operations.settle(name)
            self._operations.run(DISCARD, self._plan(name, keeps_former=False))
