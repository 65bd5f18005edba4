"""A server on a restored data directory that applies archived binary logs, and ends.

It listens on its socket alone, runs no user's code, and has more memory than the database will
have. The logs lie on the host's own disk meanwhile, some at a time; those of an encrypted database
lie on its volume, since nothing of it may be on a disk in clear (INV-47).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePosixPath

from grampus.core.clock import Clock, wait_until
from grampus.core.errors import GrampusError, RefusedError
from grampus.core.units import MIB, format_bytes_apart
from grampus.databases.administrator import Administrator, StatementFailedError
from grampus.databases.backup.replay_plan import ReplayFile
from grampus.databases.backup.replay_sql import (
    DURABLE,
    EVENTS_SQL,
    EXECUTED_SQL,
    Applying,
    Event,
    decide_enabled_events,
    decide_replay_memory,
    index_name,
    parse_applying,
    parse_events,
    relay_name,
    render_applying_sql,
    render_enable_event_sql,
    render_end_sql,
    render_replay_options,
    render_start_sql,
)
from grampus.databases.clones.identity import serve_closed
from grampus.databases.credentials import Credentials
from grampus.databases.instance import last_words, observe_daemon_state
from grampus.databases.layout import (
    MYSQL_GID,
    MYSQL_UID,
    RUN_IN_DAEMON,
    VOLUME_IN_DAEMON,
    InstancePlan,
)
from grampus.databases.placement import parse_memory_available
from grampus.databases.replicas.gtid_sets import (
    GtidSet,
    describe_gtid_set,
    parse_gtid_set,
    subtract,
)
from grampus.databases.stopping import ensure_stopping
from grampus.hosts.port import Host, Limits

# As much as a database writes in days.
APPLY_TIMEOUT_S = 48 * 3600.0
# It writes everything that it changed before it ends.
STOP_TIMEOUT_S = 1800.0
# Of a server that applies nothing, and has not applied all.
IDLE_S = 60.0
_MEMINFO = PurePosixPath("/proc/meminfo")
# Within the volume, or the directory of the socket: the server may write to no other.
_LOGS = "replay"
_SPARE_BYTES = 256 * MIB  # that are left free where the logs are
_REPLAY_CPUS = 2.0


class ReplayServer:
    """The server, from its start to its end."""

    def __init__(
        self,
        host: Host,
        plan: InstancePlan,
        credentials: Credentials,
        clock: Clock,
        *,
        is_encrypted: bool,
    ) -> None:
        self._host = host
        self._directory = (plan.volume if is_encrypted else plan.run_dir) / _LOGS
        self._seen = (VOLUME_IN_DAEMON if is_encrypted else RUN_IN_DAEMON) / _LOGS
        self._plan = plan
        self._credentials = credentials
        self._clock = clock

    def start(self) -> None:
        """Running, with nothing of a former one's. Raises what `serve_closed` raises."""
        host, plan = self._host, self._plan
        self.remove()
        owner = ["-o", str(MYSQL_UID), "-g", str(MYSQL_GID)]
        host.run(["install", "-d", "-m", "0700", *owner, str(self._directory)])
        available_bytes = parse_memory_available(host.read_file(_MEMINFO) or "")
        memory_bytes = decide_replay_memory(plan.memory_bytes, available_bytes)
        serve_closed(
            host,
            plan,
            self._credentials,
            self._clock,
            makes_accounts=False,
            options=render_replay_options(self._seen),
            limits=Limits(cpus=max(plan.cpus, _REPLAY_CPUS), memory_bytes=memory_bytes),
        )

    def executed(self) -> GtidSet:
        """All transactions that the server has executed."""
        rows = self._administrator.query(EXECUTED_SQL)
        return parse_gtid_set("mysql", rows[0][0] if rows and rows[0] else "")

    def events(self) -> list[Event]:
        """The scheduled events of all schemas."""
        return parse_events(self._administrator.query(EVENTS_SQL))

    def require_room(self, files: Sequence[ReplayFile]) -> None:
        """Raise RefusedError with code `host-full` when there is no room for these logs."""
        said = self._host.run(["df", "-B1", "--output=avail", str(self._directory)]).stdout
        free_bytes = int(said.split()[-1])
        needed_bytes = sum(file.end_bytes for file in files) + _SPARE_BYTES
        if free_bytes < needed_bytes:
            free, needed = format_bytes_apart(free_bytes, needed_bytes)
            raise RefusedError(
                f"{self._directory} on {self._host.name} has {free} free, "
                f"but the archived binary logs of {self._plan.database} need {needed}.",
                "Free space there, or restore on another host (--host). The logs of an "
                "encrypted database need space on its volume: choose a larger one (--size).",
                code="host-full",
            )

    def put(self, channel: str, number: int, chunks: Iterator[bytes], end_bytes: int) -> None:
        """A log in its place, up to that byte."""
        path = self._directory / relay_name(channel, number)
        left_bytes = end_bytes
        with self._host.writing(["dd", f"of={path}", "bs=1M", "status=none"]) as sink:
            for chunk in chunks:
                sink.write(chunk[:left_bytes])
                left_bytes -= min(left_bytes, len(chunk))
                if left_bytes == 0:
                    break
        self._host.run(["chown", f"{MYSQL_UID}:{MYSQL_GID}", str(path)])

    def apply(self, channel: str, count: int) -> None:
        """Begin to apply the `count` logs that were put there for this channel."""
        names = [str(self._seen / relay_name(channel, number + 1)) for number in range(count)]
        self._host.write_file(
            self._directory / index_name(channel),
            "".join(f"{name}\n" for name in names),
            uid=MYSQL_UID,
            gid=MYSQL_GID,
        )
        self._administrator.query(render_start_sql(channel, PurePosixPath(names[0])))

    def observe(self, channel: str) -> Applying:
        """How far the channel is. Raises GrampusError with code `replay-failed`."""
        try:
            applying = parse_applying(self._administrator.query(render_applying_sql(channel)))
        except GrampusError:
            if observe_daemon_state(self._host, self._plan.init_daemon) == "running":
                raise
            raise self._failed(last_words(self._host, self._plan.init_daemon)) from None
        if not applying.is_on:
            raise self._failed(applying.said or "the server stopped applying them")
        return applying

    def end(self, channel: str) -> None:
        self._administrator.query(render_end_sql(channel))

    def await_applied(self, channel: str, wanted: GtidSet, told: Callable[[GtidSet], None]) -> None:
        """Until `wanted` is executed; `told` hears of what is, each time that is looked at.

        Raises GrampusError with code `replay-failed`, also when the server has nothing left to do.
        """
        idle_since_s, before = self._clock.monotonic_s(), ""

        def is_applied() -> bool:
            nonlocal idle_since_s, before
            applying, now_s = self.observe(channel), self._clock.monotonic_s()
            if applying.is_busy or applying.executed != before:
                idle_since_s, before = now_s, applying.executed
            executed = parse_gtid_set("mysql", applying.executed)
            told(executed)
            missing = subtract(wanted, executed)
            if missing and now_s - idle_since_s > IDLE_S:
                raise self._failed(f"the server skipped {describe_gtid_set(missing)}")
            return not missing

        wait_until(
            self._clock,
            is_applied,
            what=f"{self._plan.database} to apply its archived binary logs",
            remedy="Check whether the cluster is slow (`grampus lab status`), then try again.",
            timeout_s=APPLY_TIMEOUT_S,
            interval_s=0.5,
        )

    def enable_events(self, before: Sequence[Event]) -> list[str]:
        """Events run again that were enabled in what was applied; the names of those that cannot.

        `before` are those before it.
        """
        left = []
        for event in decide_enabled_events(before, self.events()):
            sql = render_enable_event_sql(event)
            try:
                if sql is not None:
                    self._administrator.query(sql)
                    continue
            except StatementFailedError:
                pass
            left.append(event.shown)
        return left

    def stop(self) -> None:
        """The server ended in order, with all that it applied on its volume."""
        daemon = self._plan.init_daemon
        self._administrator.query(DURABLE)
        ensure_stopping(self._administrator)
        wait_until(
            self._clock,
            lambda: observe_daemon_state(self._host, daemon) != "running",
            what=f"the server of {self._plan.database} to write the applied changes",
            remedy="Check whether the cluster is slow (`grampus lab status`), then try again.",
            timeout_s=STOP_TIMEOUT_S,
            interval_s=0.2,
        )
        self.remove()

    def remove(self) -> None:
        """Nothing left of it, nor of the logs."""
        self._host.ensure_daemon_absent(self._plan.init_daemon, kill=True)
        self._host.run(["rm", "-rf", str(self._directory)])

    @property
    def _administrator(self) -> Administrator:
        password = self._credentials.admin_password
        return Administrator(self._host, self._plan.init_daemon, "mysql", password)

    def _failed(self, said: str) -> GrampusError:
        return GrampusError(
            f"The archived binary logs of {self._plan.database} could not be applied: "
            f"{said.rstrip('.')}.",
            "The restore is undone. If the error above reports a full table or disk, choose "
            "a larger volume with --size. Otherwise restore an earlier moment.",
            code="replay-failed",
        )
