"""The read-write entry of a site: turned on and off at hosts, and kept leading to databases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager

from grampus.core.errors import GrampusError, RefusedError, UsageError
from grampus.databases.endpoints.endpoint_names import ensure_certificate_named
from grampus.databases.endpoints.haproxy import Member, parse_slots, render_look
from grampus.databases.endpoints.haproxy_daemon import SOCKET, HaproxyDaemon, require_haproxy
from grampus.databases.entries.decide_entry import (
    decide_directions,
    decide_entry_ports,
    decide_places,
    digest_directions,
    require_entry_ports,
    require_same_range,
)
from grampus.databases.entries.entry_config import render_entry_config, render_redirections
from grampus.databases.host_addresses import require_free
from grampus.databases.layout import decide_daemon_uid
from grampus.databases.model import Entry
from grampus.databases.operating import DatabaseOperations
from grampus.databases.records import RunningPlace
from grampus.hosts.port import Host, HostUnreachableError
from grampus.state.locks import hold_lock

DAEMON = "entry"
_WHAT = "the entry"


class Entries:
    """The entry of one site."""

    def __init__(self, operations: DatabaseOperations) -> None:
        self._operations = operations

    def turn_on(self, name: str, ports: Sequence[int] | None = None) -> Entry:
        """The entry served by that host, too; `ports` are those of all, needed at the first host.

        Raises NotFoundError, UsageError, RefusedError with code `no-entry`, `entry-ports` or
        `port-in-use`, and GrampusError.
        """
        operations = self._operations
        host, known = operations.fleet.host(name), operations.records.find_entry()
        if known is None and not ports:
            raise UsageError(
                "The entry has no ports yet.",
                "Give a range with one port for each database, such as --ports 14300-14399.",
            )
        wanted = list(ports or known.ports) if known is not None else list(ports or ())
        require_entry_ports(wanted, operations.fleet.database_ports())
        if known is not None and known.hosts:
            require_same_range(known, ports)
        if len(self._servers()) > len(wanted):
            raise UsageError(
                f"{len(wanted)} ports are too few for {len(self._servers())} databases.",
                "Give a range with one port for each database.",
                code="bad-ports",
            )
        require_haproxy(host)
        if known is None or name not in known.hosts:
            if not self._daemon(host, wanted[0]).is_running():
                require_free(host, wanted, _WHAT)
            operations.runner.propose(
                lambda: [f"Serve the entry at {host.address}, ports {wanted[0]}-{wanted[-1]}"]
            )
        with self._locked(10.0):
            known = operations.records.find_entry()
            hosts = sorted({*(known.hosts if known else ()), name})
            left = tuple(one for one in (known.left_hosts if known else ()) if one != name)
            entry = Entry(
                first_port=wanted[0],
                last_port=wanted[-1],
                hosts=tuple(hosts),
                left_hosts=left,
                directed={} if known is None else dict(known.directed),
            )
            operations.records.put_entry(entry)
            self._settle_at(name, entry)
        return entry

    def name_certificates(self) -> list[str]:
        """Let each server of the entry show a certificate that names the addresses of all hosts.

        A host that was added later is in none before. Sessions go on. Answers with the databases
        whose certificates do not name them yet: another command is at them, or they do not run.
        """
        servers = self._servers()
        return [name for name in servers if not ensure_certificate_named(self._operations, name)]

    def turn_off(self, name: str, *, is_lost: bool = False) -> bool:
        """The entry no longer served by that host; whether it was. Of a host that `is_lost`, what
        is there stays. Raises GrampusError.
        """
        operations = self._operations
        known = operations.records.find_entry()
        if known is None or name not in (*known.hosts, *known.left_hosts):
            return False
        operations.runner.propose(lambda: [f"End the entry on {name}"])
        with self._locked(10.0):
            known = operations.records.find_entry() or known
            left = {*known.left_hosts, name} - ({name} if is_lost else set())
            entry = known.model_copy(
                update={
                    "hosts": tuple(one for one in known.hosts if one != name),
                    "left_hosts": tuple(sorted(left)),
                    "directed": {h: d for h, d in known.directed.items() if h != name},
                }
            )
            operations.records.put_entry(entry)
            self._settle_at(name, entry)
        return True

    def settle(self, *, verifies: bool = False) -> list[tuple[str, GrampusError]]:
        """Bring each host to where it shall lead; what could not be done, by host or database.

        Without `verifies`, a host that was made to lead there before is not asked. Another process
        that is at it goes on alone.
        """
        entry = self._operations.records.find_entry()
        if entry is None:
            return []
        try:
            with self._locked(0.0):
                entry = self._operations.records.find_entry() or entry
                return self._settle(entry, verifies=verifies)
        except RefusedError as error:
            if error.code != "busy":
                raise
            return []

    def left(self) -> tuple[str, ...]:
        """Hosts that still have to end it."""
        entry = self._operations.records.find_entry()
        return () if entry is None else entry.left_hosts

    def all_places(self) -> dict[str, list[str]]:
        """Where clients reach each database at the entry, as `ADDRESS:PORT`, host after host."""
        records, fleet = self._operations.records, self._operations.fleet
        entry, ports = records.find_entry(), records.entry_ports()
        if entry is None or not entry.hosts:
            return {}
        addresses = {host.name: host.address for host in fleet.hosts()}
        return {name: decide_places(entry, ports.get(name), addresses) for name in self._servers()}

    # -- inside -------------------------------------------------------------------------------

    def _locked(self, timeout_s: float) -> AbstractContextManager[None]:
        operations = self._operations
        name = f"entry.{operations.lab}"
        return hold_lock(operations.home, name, operations.clock, timeout_s=timeout_s)

    def _settle_at(self, name: str, entry: Entry) -> None:
        for failed, error in self._settle(entry, verifies=True, only=name):
            if failed == name:
                raise error

    def _settle(
        self, entry: Entry, *, verifies: bool = False, only: str | None = None
    ) -> list[tuple[str, GrampusError]]:
        directions, failed = self._directions(entry)
        fleet = self._operations.fleet
        known = {host.name: host for host in fleet.hosts()}
        for name in [one for one in entry.left_hosts if only in (None, one)]:
            try:
                if name in known:
                    self._end(known[name], entry)
            except HostUnreachableError:
                continue
            except GrampusError as error:
                failed.append((name, error))
                continue
            left = tuple(one for one in entry.left_hosts if one != name)
            entry = self._put(entry.model_copy(update={"left_hosts": left}))
        for name in [one for one in entry.hosts if only in (None, one) and one in known]:
            digest = digest_directions(known[name].address, entry.ports, directions)
            if entry.directed.get(name) == digest and not verifies:
                continue
            # A host that cannot be reached is told once it can: HAProxy there leads on as it did.
            if only is None and not fleet.is_reachable(name):
                continue
            try:
                self._direct(known[name], entry, directions)
            except GrampusError as error:
                failed.append((name, error))
                continue
            if entry.directed.get(name) != digest:
                directed = {**entry.directed, name: digest}
                entry = self._put(entry.model_copy(update={"directed": directed}))
        return failed

    def _servers(self) -> dict[str, RunningPlace]:
        """The databases that are to run and follow no other one."""
        records = self._operations.records
        primaries = records.primaries()
        running = records.running_places()
        return {name: one for name, one in running.items() if not primaries.get(name)}

    def _directions(self, entry: Entry) -> tuple[dict[int, Member], list[tuple[str, GrampusError]]]:
        records, servers = self._operations.records, self._servers()
        ports = records.entry_ports()
        given, without = decide_entry_ports(list(servers), ports, entry.ports)
        for name, port in given.items():
            records.put_entry_port(name, port)
        failed = [
            (
                name,
                GrampusError(
                    f"The database {name} has no port at the entry: all of "
                    f"{entry.first_port}-{entry.last_port} are taken.",
                    "Turn the entry off on all hosts, and on again with more --ports.",
                    code="no-entry-port",
                ),
            )
            for name in without
        ]
        used = {name: port for name, port in {**ports, **given}.items() if port in entry.ports}
        return decide_directions(used, servers), failed

    def _direct(self, host: Host, entry: Entry, directions: Mapping[int, Member]) -> None:
        daemon = self._daemon(host, entry.first_port)
        daemon.ensure_directories()
        config = render_entry_config(host.address, entry.ports, directions, str(SOCKET))
        daemon.write_config(config)
        daemon.ensure_started(self._operations.clock)
        daemon.tell(render_redirections(parse_slots(daemon.ask(render_look())), directions))

    def _end(self, host: Host, entry: Entry) -> None:
        daemon = self._daemon(host, entry.first_port)
        daemon.ensure_absent()
        daemon.remove_files()

    def _put(self, entry: Entry) -> Entry:
        self._operations.records.put_entry(entry)
        return entry

    def _daemon(self, host: Host, first_port: int) -> HaproxyDaemon:
        return HaproxyDaemon(
            host,
            DAEMON,
            _WHAT,
            host.data_dir / DAEMON,
            decide_daemon_uid(host.address, first_port),
        )
