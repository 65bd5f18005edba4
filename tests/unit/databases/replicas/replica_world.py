"""A lab of fakes whose MySQL servers replicate: what they know lies on their volumes, so that a
clone has it too, and a restart forgets nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any

from grampus.core.errors import GrampusError, RefusedError
from grampus.databases.endpoints.endpoint_work import endpoint_daemon
from grampus.databases.endpoints.haproxy_daemon import HAPROXY
from grampus.databases.endpoints.read_endpoints import EndpointChange
from grampus.databases.layout import PRIMARY_AUTHORITIES, VOLUME_IN_DAEMON
from grampus.databases.model import ReadEndpoint
from grampus.databases.replicas.decide_replicas import ReplicaRequest
from grampus.databases.replicas.events import EVENTS_SQL
from grampus.databases.replicas.extracting import ErrantTransactions
from grampus.databases.replicas.gtid_sets import has, parse_gtid_set
from grampus.databases.replicas.renewals import ReplicaRenewals
from grampus.databases.replicas.replica_looks import ReplicaView
from grampus.databases.replicas.replicas import DatabaseReplicas
from grampus.databases.replicas.replication_sql import (
    ACCOUNT_PREFIX,
    render_accounts_sql,
    render_position_sql,
    render_receive_sql,
    render_replication_sql,
    render_source_sql,
    render_stop_receiving_sql,
)
from grampus.hosts.port import CommandResult, DaemonSpec
from tests.fakes.haproxy import FakeHaproxy
from tests.fakes.hosts import FakeFile, FakeFleet
from tests.fakes.interruption import Fuse
from tests.fakes.mysql_accounts import accounts_of
from tests.fakes.mysql_host import MysqlDaemon, MysqlHost
from tests.fakes.volumes import FakeVolumes
from tests.unit.databases.world import World

SOURCE = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
STATE = PurePosixPath("data/replication")
_ALTER_EVENT = re.compile(
    r"ALTER DEFINER = (?P<definer>\S+) EVENT `(?P<schema>\w+)`\.`(?P<name>\w+)` (?P<status>\w+)$"
)
_FATAL = "Got fatal error 1236 from source when reading data from binary log"
_PURGED = "the source purged required binary logs."
_MORE = "Replica has more GTIDs than the source has, using the source's SERVER_UUID."
_CHANGE = re.compile(
    r"SOURCE_HOST = '(?P<address>[^']+)', SOURCE_PORT = (?P<port>\d+), "
    r"SOURCE_USER = '(?P<user>[^']+)', SOURCE_PASSWORD = '(?P<password>[^']+)'.*"
    r"SOURCE_SSL_CA = '(?P<ca>[^']+)'"
)


def written_in_daemon(spec: DaemonSpec, path: PurePosixPath) -> PurePosixPath:
    """Where on the host a file is that a command in a daemon's container writes."""
    holders = [bind for bind in spec.binds if path.is_relative_to(bind.target)]
    assert holders, f"{path} is in no directory that the container shares with its host"
    bind = max(holders, key=lambda bind: len(bind.target))
    assert not bind.read_only, f"{path}: Read-only file system"
    return PurePosixPath(bind.source) / path.relative_to(bind.target)


class ReplicatingHost(MysqlHost):
    """A host whose servers have transactions and can follow one another."""

    def __init__(self, name: str, fuse: Fuse, servers: dict[str, ReplicatingHost]) -> None:
        super().__init__(name, fuse)
        self.data_dir = PurePosixPath(f"/{name}")
        self._hosts = servers
        servers[name] = self
        self.held_back: set[str] = set()  # daemons that receive and do not apply
        self.apply_error: dict[str, str] = {}
        self.silent_to_looks = False
        self.hung: set[str] = set()  # daemons that let a client connect, and say nothing
        self.waited_s: list[float] = []  # how long somebody waited for one of them, each time

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float = 60.0,
        daemon: str | None = None,
        **options: Any,
    ) -> CommandResult:
        if daemon in self.hung:
            self.waited_s.append(timeout_s)
            said = f"`mysql` did not end within {timeout_s:g} s on {self.name} and was stopped."
            raise GrampusError(said, code="timeout")
        return super().run(argv, timeout_s=timeout_s, daemon=daemon, **options)

    def play(self, argv: list[str], stdin: str | None, daemon: str | None) -> tuple[int, str]:
        if argv[0] == "bash" and daemon is not None:
            if "--include-gtids" in argv[2]:
                return 0, self._extract(argv, self.daemons[daemon])
            return 0, self._read_log(argv, self.daemons.get(daemon))
        if argv[0] == "ls" and daemon is not None:
            return 0, "binlog.000001\nbinlog.index\nrelay.000002\nrelay.index\n"
        return super().play(argv, stdin, daemon)

    def _extract(self, argv: Sequence[str], daemon: MysqlDaemon) -> str:
        """As `extracting` has transactions written to a file: those that the named logs hold."""
        seen, _reader, wanted, *logs = argv[4:]
        path = written_in_daemon(daemon.spec, PurePosixPath(seen))
        state = self.state(daemon)
        of_relay = all("/relay." in log for log in logs)
        held = range(state["done"] + 1, state["received"] + 1)
        if not of_relay:
            held = range(state["purged"] + 1, state["done"] + 1)
        transactions = parse_gtid_set("mysql", wanted)
        found = self.files.get(path, FakeFile("")).content
        found += "".join(f"{SOURCE}:{n}\n" for n in held if has(transactions, SOURCE, n))
        self.files[path] = FakeFile(found)
        return f"{len(found.splitlines())}\n"

    # -- what a server knows ------------------------------------------------------------------

    def state(self, daemon: MysqlDaemon) -> dict[str, Any]:
        """Transactions done, those without binary logs, and what it follows.

        `stamps` are those of transactions that were committed after a crash; `logs` are its binary
        logs: when each was begun, whether by a start, and with which transaction.
        """
        fresh: dict[str, Any] = {
            "done": 0,
            "purged": 0,
            "received": 0,
            "follows": None,
            "receives": False,
            "crashes": 0,
            "stamps": {},
            "logs": [["260101  0:00:00", True, 1]],
            "events": {},
        }
        found = self.files.get(_volume(daemon) / STATE)
        return fresh if found is None else {**fresh, **json.loads(found.content)}

    def keep(self, daemon: MysqlDaemon, **changes: Any) -> None:
        state = {**self.state(daemon), **changes}
        self.files[_volume(daemon) / STATE] = FakeFile(json.dumps(state))

    def commit(self, daemon: str, transactions: int = 1) -> None:
        """Rows written by a client. Raises RefusedError on a server that is read-only."""
        found = self.daemons[daemon]
        if self.is_read_only(found):
            raise RefusedError("The MySQL server is running with the --super-read-only option.")
        state = self.state(found)
        done, stamps = state["done"], state["stamps"]
        if state["crashes"]:
            new = range(done + 1, done + transactions + 1)
            stamps |= {str(number): 1_000_000 * state["crashes"] + number for number in new}
        self.keep(found, done=done + transactions, stamps=stamps)

    def lose(self, daemon: str, transactions: int, begun: str) -> None:
        """The server crashed and came back at `begun` without the last ones."""
        found = self.daemons[daemon]
        state = self.state(found)
        done = state["done"] - transactions
        kept = {number: stamp for number, stamp in state["stamps"].items() if int(number) <= done}
        logs = [*state["logs"], [begun, True, done + 1]]
        self.keep(found, done=done, stamps=kept, logs=logs, crashes=state["crashes"] + 1)

    def rotate(self, daemon: str, begun: str, *, is_start: bool = False) -> None:
        """The server goes on in another binary log."""
        found = self.daemons[daemon]
        state = self.state(found)
        self.keep(found, logs=[*state["logs"], [begun, is_start, state["done"] + 1]])

    def is_read_only(self, daemon: MysqlDaemon) -> bool:
        """As it runs: from its option file at its start, or as it was told since."""
        return bool(self.state(daemon).get("read_only", False))

    def start(self, spec: DaemonSpec) -> MysqlDaemon:
        """A server that was started runs its init file, whatever becomes of who started it."""
        if HAPROXY in spec.argv:
            return super().start(spec)
        daemon = self.daemons[spec.name] = MysqlDaemon(spec)
        (self._initialise if spec.argv[0] == "/bin/sh" else self._serve)(daemon)
        return daemon

    def _serve(self, daemon: MysqlDaemon) -> None:
        super()._serve(daemon)
        if daemon.state == "running":
            directory = PurePosixPath(daemon.spec.binds[0].source)
            config = self.files[directory / "my.cnf"].content
            self.keep(daemon, read_only="super_read_only = ON" in config)

    def _source_of(self, state: dict[str, Any]) -> tuple[ReplicatingHost, MysqlDaemon] | None:
        """The running server that it follows, if that one lets it in."""
        follows = state["follows"]
        for host in self._hosts.values():
            for daemon in host.daemons.values() if host.up else ():
                directory = PurePosixPath(daemon.spec.binds[0].source)
                config = host.files.get(directory / "my.cnf")
                if daemon.state != "running" or config is None:
                    continue
                place = (f"bind_address = {follows['address']}\n", f"port = {follows['port']}\n")
                if not all(f"\n{line}" in config.content for line in place):
                    continue
                accounts = accounts_of(host.files[_volume(daemon) / "data" / "accounts"].content)
                known = accounts.get(follows["user"])
                return (host, daemon) if known and known.takes(follows["password"]) else None
        return None

    def _receive(self, daemon: MysqlDaemon) -> tuple[str, int, str]:
        """What happened since it was last asked: receiver's state, error number and message."""
        state = self.state(daemon)
        if not state["receives"]:
            refused = state.get("refused", "")
            return "OFF", 13114 if refused else 0, refused
        source = self._source_of(state)
        if source is None:
            return "CONNECTING", 2003, "Can't connect to MySQL server"
        trusted = self.files[_volume(daemon) / PRIMARY_AUTHORITIES].content
        if not source[1].is_trusted_by(trusted):
            return "CONNECTING", 2026, "certificate verify failed"
        there = source[0].state(source[1])
        if there["purged"] > state["received"]:
            return "OFF", 13114, f"{_FATAL}: 'Cannot replicate because {_PURGED}'"
        if state["received"] > there["done"]:
            self.keep(daemon, receives=False, refused=f"{_FATAL}: '{_MORE}'")
            return "OFF", 13114, f"{_FATAL}: '{_MORE}'"
        received = max(state["received"], there["done"])
        applies = daemon.spec.name not in self.held_back | self.apply_error.keys()
        done = max(state["done"], received) if applies else state["done"]
        new = (str(number) for number in range(state["received"] + 1, received + 1))
        stamps = {number: there["stamps"][number] for number in new if number in there["stamps"]}
        events = state["events"]
        for title, (_status, altered) in there["events"].items():
            if events.get(title, ("", ""))[1] != altered:  # whatever its primary did with it
                events = {**events, title: ["REPLICA_SIDE_DISABLED", altered]}
        stamps = state["stamps"] | stamps
        self.keep(daemon, received=received, done=done, stamps=stamps, events=events)
        return "ON", 0, ""

    # -- what it is asked ---------------------------------------------------------------------

    def _administrator(self, argv: Sequence[str], daemon: MysqlDaemon | None) -> tuple[int, str]:
        if daemon is None or daemon.state != "running":
            return 255, "no such container"
        statement, state = argv[-1], self.state(daemon)
        if statement == "SELECT UNIX_TIMESTAMP(); SHOW GLOBAL STATUS LIKE 'Uptime'":
            starts = [begun for begun, is_start, _ in state["logs"] if is_start]
            started = datetime.strptime(starts[-1], "%y%m%d %H:%M:%S").replace(tzinfo=UTC)
            return 0, f"{int(started.timestamp()) + 60}\nUptime\t60\n"
        if statement == EVENTS_SQL:
            self._receive(daemon)
            return 0, "".join(
                "\t".join(
                    (
                        *(word.encode().hex() for word in (*title.split("."), "u1@%")),
                        *(status, altered, "latin1", "latin1_swedish_ci"),
                    )
                )
                + "\n"
                for title, (status, altered) in self.state(daemon)["events"].items()
            )
        altered_event = _ALTER_EVENT.search(statement)
        if altered_event is not None:
            if self.is_read_only(daemon):
                return 1, "ERROR 1290 (HY000): --super-read-only"
            assert altered_event["definer"] == "`u1`@`%`"
            title = f"{altered_event['schema']}.{altered_event['name']}"
            status = f"{altered_event['status']}D"
            self._change(daemon, events={**state["events"], title: [status, "2026-01-02 00:00:00"]})
            return 0, ""
        if statement == "SHOW BINARY LOGS":
            return 0, "".join(f"binlog.{n:06d}\t{n}\tNo\n" for n in self._kept_logs(daemon))
        if statement == render_accounts_sql():
            accounts = accounts_of(self.files[_volume(daemon) / "data" / "accounts"].content)
            return 0, "".join(f"{name}\n" for name in accounts if name.startswith(ACCOUNT_PREFIX))
        if statement == render_position_sql("mysql"):
            self._receive(daemon)
            state = self.state(daemon)
            return 0, f"{_named(state['done'])}\t{_named(state['purged'])}\n"
        if statement == render_replication_sql("mysql"):
            if state["follows"] is None:
                return 0, ""
            receiving, number, said = self._receive(daemon)
            state, broken = self.state(daemon), self.apply_error.get(daemon.spec.name, "")
            applying = "OFF" if broken else "ON"
            waits = "250" if state["done"] < state["received"] else "NULL"
            return 0, "\t".join(
                (receiving, str(number), said, applying, broken, _named(state["received"]), waits)
            ) + "\t1500\n"
        if statement == render_source_sql("mysql"):
            follows = state["follows"]
            return 0, f"{follows['address']}\t{follows['port']}\n" if follows else ""
        if statement == render_stop_receiving_sql("mysql"):
            self._change(daemon, receives=False)
            return 0, ""
        if statement == render_receive_sql("mysql"):
            self._change(daemon, receives=True, refused="")
            return 0, ""
        if statement.startswith("STOP REPLICA; RESET REPLICA ALL"):
            self._change(daemon, follows=None, receives=False, read_only=False)
            return 0, ""
        if statement.startswith("SHOW GLOBAL STATUS WHERE"):
            if self.silent_to_looks:
                return 1, "ERROR 2013 (HY000): Lost connection to MySQL server"
            return 0, "Threads_connected\t5\nUptime\t3600\nmax_connections\t151\n"
        if statement.startswith(("SHOW GLOBAL STATUS", "SET GLOBAL")):
            return 0, "x\t0\n"
        return super()._administrator(argv, daemon)

    def _kept_logs(self, daemon: MysqlDaemon) -> list[int]:
        """Numbers of its binary logs: those that hold nothing but what was purged are gone."""
        state = self.state(daemon)
        firsts = [first for _, _, first in state["logs"]]
        ends = [*(first - 1 for first in firsts[1:]), None]
        return [at + 1 for at, end in enumerate(ends) if end is None or end > state["purged"]]

    def _read_log(self, argv: Sequence[str], daemon: MysqlDaemon | None) -> str:
        """As `binlog_reading` reads one."""
        if daemon is None or daemon.state != "running":
            return ""
        path, _end, most, source, from_number = argv[5:]
        at, state = int(path.rpartition(".")[2]) - 1, self.state(daemon)
        begun, is_start, first = state["logs"][at]
        last = state["logs"][at + 1][2] - 1 if at + 1 < len(state["logs"]) else state["done"]
        numbers = list(range(max(first, state["purged"] + 1), last + 1))
        if source:
            assert source == SOURCE
            numbers = [n for n in numbers if n >= int(from_number)]
        commits = [
            f"commit {SOURCE}:{n} {state['stamps'].get(str(n), n)}" for n in numbers[: int(most)]
        ]
        return "\n".join([f"begun {begun}", *(["start"] if is_start else []), *commits, "end"])

    def _secret_statements(self, stdin: str, daemon: MysqlDaemon | None) -> tuple[int, str]:
        change = _CHANGE.search(stdin)
        if change is None:
            return super()._secret_statements(stdin, daemon)
        code, said = super()._secret_statements(stdin.partition("\n\n")[0] + "\n\nDO 0;", daemon)
        if code or daemon is None:
            return code, said
        authority = PurePosixPath(change["ca"]).relative_to(VOLUME_IN_DAEMON)
        if _volume(daemon) / authority not in self.files:
            return 1, "ERROR 1 (HY000): no certificate"
        follows = {key: change[key] for key in ("address", "port", "user", "password")}
        received = self.state(daemon)["done"]
        self._change(daemon, follows=follows, receives=True, received=received, refused="")
        return 0, ""

    def _change(self, daemon: MysqlDaemon, **changes: Any) -> None:
        self.fuse.burn()
        self.keep(daemon, **changes)
        self.fuse.burn()


class FakeCopies:
    """A `CopiesPort`."""

    def __init__(self) -> None:
        self.pools: set[str] = {"databases"}

    def pool_of(self, copies: int) -> str:
        if copies > 3:
            raise RefusedError("Not so many.", code="too-many-copies")
        return "databases" if copies == 3 else f"databases-{copies}"

    def ensure(self, copies: int) -> str:
        self.pools.add(self.pool_of(copies))
        return self.pool_of(copies)

    def tidy(self, pool: str) -> None:
        if pool != "databases":
            self.pools.discard(pool)


class ReplicaWorld(World):
    """A world of replicating hosts."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        servers: dict[str, ReplicatingHost] = {}
        for name in ("h1", "h2", "h3"):
            ReplicatingHost(name, self.fuse, servers)
        self.servers = servers
        self.hosts = dict(servers)
        self.fleet = FakeFleet(list(servers.values()), [f"10.9.0.{n}" for n in range(10, 20)])
        self.volumes = FakeVolumes(self.fleet, self.fuse, self.clock)
        self.copies = FakeCopies()

    def replicas(self) -> DatabaseReplicas:
        return DatabaseReplicas(self.service(), self.copies)

    def renewals(self) -> ReplicaRenewals:
        return ReplicaRenewals(self.service().operations, self.replicas())

    def errant(self) -> ErrantTransactions:
        return ErrantTransactions(self.service().operations.ports, self.replicas())

    def add(self, primary: str = "demo", **wishes: Any) -> ReplicaView:
        return self.replicas().add(ReplicaRequest(primary, **wishes))

    def host_of(self, name: str) -> ReplicatingHost:
        return self.servers[self.service().get(name).spec.host]

    def server(self, name: str) -> MysqlDaemon:
        return self.host_of(name).daemons[f"mysqld-{name}"]

    def settle_endpoint(self, primary: str = "demo") -> EndpointChange:
        change = self.replicas().settle_endpoint(primary)
        assert change is not None
        return change

    def endpoint(self, primary: str = "demo") -> ReadEndpoint:
        found = self.service().operations.records.find_read_endpoint(primary)
        assert found is not None
        return found

    def proxies(self, primary: str = "demo") -> dict[str, FakeHaproxy]:
        """The processes that serve its read-only endpoint, by host: one, or something is wrong."""
        name = endpoint_daemon(primary)
        found = {host.name: host.daemons.get(name) for host in self.servers.values()}
        return {
            host: daemon.proxy
            for host, daemon in found.items()
            if daemon is not None and daemon.proxy is not None and daemon.state == "running"
        }

    def commit(self, name: str = "demo", transactions: int = 1) -> None:
        self.host_of(name).commit(f"mysqld-{name}", transactions)

    def event(self, title: str, status: str, name: str = "demo") -> None:
        """Somebody made or altered an event."""
        self.clock.sleep(1)
        host, daemon = self.host_of(name), self.server(name)
        altered = f"{self.clock.now():%Y-%m-%d %H:%M:%S}"
        host.keep(daemon, events={**host.state(daemon)["events"], title: [status, altered]})

    def events(self, name: str) -> dict[str, str]:
        """The statuses of a server's events, after it received what it could."""
        host, daemon = self.host_of(name), self.server(name)
        host._receive(daemon)
        return {title: status for title, (status, _) in host.state(daemon)["events"].items()}

    def lose(self, name: str = "demo", transactions: int = 1) -> None:
        """Its server crashed, lost the last ones and runs again; some time has passed."""
        self.clock.sleep(3600)
        begun = f"{self.clock.now():%y%m%d %H:%M:%S}"
        self.host_of(name).lose(f"mysqld-{name}", transactions, begun)

    def restart_logs(self, name: str = "demo", *, is_start: bool = True) -> None:
        """Its server begins another binary log, as it does at each start."""
        self.clock.sleep(3600)
        begun = f"{self.clock.now():%y%m%d %H:%M:%S}"
        self.host_of(name).rotate(f"mysqld-{name}", begun, is_start=is_start)

    def receiving(self, name: str, *, on: bool) -> None:
        """Its server is told to receive, or no longer to; before that it gets what there is."""
        host, daemon = self.host_of(name), self.server(name)
        host._receive(daemon)
        host.keep(daemon, receives=on, refused="")
        host._receive(daemon)

    def purge(self, name: str = "demo") -> None:
        """Binary logs of all that was done so far are gone."""
        host, daemon = self.host_of(name), self.server(name)
        host.keep(daemon, purged=host.state(daemon)["done"])

    def done(self, name: str) -> int:
        """How many transactions the server has, after it received what it could."""
        host, daemon = self.host_of(name), self.server(name)
        host._receive(daemon)
        return int(host.state(daemon)["done"])

    def accounts(self, name: str = "demo") -> list[str]:
        """The accounts of replicas that its server knows."""
        daemon = self.server(name)
        found = accounts_of(self.host_of(name).files[_volume(daemon) / "data" / "accounts"].content)
        return sorted(account for account in found if account.startswith(ACCOUNT_PREFIX))

    def inventory(self) -> dict[str, list[str]]:
        """As the world's, with what replicas are, but for passwords and times."""
        found = super().inventory()
        records = self.service().operations.records.all()
        found["specs"] = [f"{record.spec}:{record.phase}" for record in records.values()]
        found["snapshots"] = [
            f"{name}:{sorted(image.snapshots)}"
            for name, image in sorted(self.volumes.images.items())
            if not name.startswith("golden-")
        ]
        found["facts"] = [
            f"{name}:{image.lasting_facts}" for name, image in sorted(self.volumes.images.items())
        ]
        endpoints = self.service().operations.records.all_read_endpoints()
        found["endpoints"] = [f"{name}:{one}" for name, one in sorted(endpoints.items())]
        found["replication"] = []
        for host in self.servers.values():
            for name, daemon in sorted(host.daemons.items()):
                if daemon.proxy is not None:
                    found["replication"].append(f"{name}:{daemon.proxy.led_to}")
                    continue
                state = host.state(daemon)
                state["follows"] = state["follows"] and state["follows"]["address"]
                found["replication"].append(f"{name}:{state}")
        found["configs"] = [
            f"{host.name}:{path}:{file.content}"
            for host in self.hosts.values()
            for path, file in sorted(host.files.items())
            if path.name == "my.cnf"
        ]
        for name, record in records.items():
            if record.spec.replica_of is None and record.desired == "running":
                found[f"accounts of {name}"] = self.accounts(name)
        return found


def _volume(daemon: MysqlDaemon) -> PurePosixPath:
    target = str(VOLUME_IN_DAEMON)
    return next(PurePosixPath(b.source) for b in daemon.spec.binds if b.target == target)


def _named(transactions: int) -> str:
    return f"{SOURCE}:1-{transactions}" if transactions else ""
