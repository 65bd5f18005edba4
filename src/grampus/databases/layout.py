"""Where an instance keeps its things on its host, and how its daemons are run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Address
from pathlib import PurePosixPath

from grampus.core.units import GIB
from grampus.databases.first_tables import render_first_statements
from grampus.databases.model import DatabaseSpec, FlavourName, ScratchSpec
from grampus.databases.settings import (
    ServerPlaces,
    ServerSettings,
    decide_server_options,
    decide_server_settings,
    render_my_cnf,
    settings_of,
)
from grampus.databases.verify.decide_scratch import is_made_for_a_while
from grampus.hosts.port import Bind, DaemonSpec, Limits

# User and group `mysql` in every host image. They own the files of servers on disk, on whichever
# host, in backups and in clones; no server runs as them (`decide_daemon_uid`).
MYSQL_UID = 64050
MYSQL_GID = 64050
# Daemons have 2**24 numbers of users and groups from here on. They are in a gap of systemd's list
# (systemd.io/UIDS-GIDS, 1879048192 to 2147352575), and above what FreeIPA and SSSD give by default
# (to 2000200000).
FIRST_DAEMON_UID = 0x78000000
# In the same gap, behind those: daemons at the address of their host, which have a port alone.
FIRST_PORT_UID = 0x79000000
# Inside the container; short, because the path of a socket holds at most 107 bytes (unix(7)).
VOLUME_IN_DAEMON = PurePosixPath("/var/lib/mysql")
RUN_IN_DAEMON = PurePosixPath("/run/mysqld")
CHECKED = "option file checked"
MARKER = "initialised"  # written last, at the root of the volume
# What a replica trusts its primary by. On its volume, so that it moves with it.
PRIMARY_AUTHORITIES = "primary-ca.pem"

_SERVER_PROGRAMS: dict[FlavourName, str] = {
    "mysql": "/usr/sbin/mysqld",
    "mariadb": "/usr/sbin/mariadbd",
}
CLIENT_PROGRAMS: dict[FlavourName, str] = {"mysql": "mysql", "mariadb": "mariadb"}

# While the data directory is made, nothing in it needs to outlive a crash: without the marker it
# is made anew, and the file system is synced before the marker is written. 255 flushes instead of
# 735 and writes through the page cache (counted): each is a round trip to every copy in Ceph.
_UNSAFE = (
    "--innodb-flush-method=nosync --innodb-flush-log-at-trx-commit=0 --innodb-doublewrite=OFF "
    "--skip-log-bin"
)


def decide_daemon_uid(address: str, own_port: int | None = None) -> int:
    """User and group of a daemon that serves this IPv4 address: its own, as the address is.

    `own_port` is that of a daemon which shares the address. Nothing on disk belongs to them, so a
    database whose address changes needs no change of owners.
    """
    if own_port is not None:
        return FIRST_PORT_UID + own_port
    return FIRST_DAEMON_UID + (int(IPv4Address(address)) & 0xFFFFFF)


def server_daemon_name(database: str) -> str:
    """The daemon of the database's instance."""
    return f"mysqld-{database}"


def scratch_daemon_name(database: str) -> str:
    """The daemon of the database's scratch instance."""
    return f"mysqld-local-{database}"


def client_option_file(directory: PurePosixPath) -> PurePosixPath:
    """Client options with the password, in an instance's directory."""
    return directory / "client.cnf"


def tls_directory(directory: PurePosixPath) -> PurePosixPath:
    """The certificates in use, in an instance's directory."""
    return directory / "tls"


@dataclass(frozen=True)
class InstancePlan:
    """One instance on one host, with all its names and paths decided.

    `directory` (config, TLS, socket) is the same path on the host and inside the daemons;
    `volume` is where its data lies on the host.
    """

    database: str
    daemon: str
    init_daemon: str
    directory: PurePosixPath
    volume: PurePosixPath
    flavour: FlavourName
    image_id: str | None
    address: str
    port: int
    server_id: int
    memory_bytes: int
    cpus: float
    settings: ServerSettings
    parameters: Mapping[str, str] = field(default_factory=dict)  # the user's own
    is_replica: bool = False  # it lets nobody write but what it follows
    endpoint_address: str | None = None  # a further one that its certificate names
    shares_address: bool = False  # its address is its host's, and its port is its own
    is_bare: bool = False  # its server runs on the host itself
    is_internal: bool = False  # made for a while: nobody's code runs in it

    @property
    def tls_dir(self) -> PurePosixPath:
        """CA, server and client certificates with their keys (not the CA's)."""
        return tls_directory(self.directory)

    @property
    def next_tls_dir(self) -> PurePosixPath:
        """The same, of certificates that are coming into use; there during their rotation only."""
        return self.directory / "tls.next"

    @property
    def run_dir(self) -> PurePosixPath:
        """The socket; a server's container may write there, and to its volume."""
        return self.directory / "run"

    @property
    def config_file(self) -> PurePosixPath:
        return self.directory / "my.cnf"

    @property
    def option_file(self) -> PurePosixPath:
        return client_option_file(self.directory)

    @property
    def accounts_file(self) -> PurePosixPath:
        """The SQL that makes the accounts; there during initialisation only."""
        return self.directory / "accounts.sql"

    @property
    def init_script(self) -> PurePosixPath:
        return self.directory / "initialise.sh"

    @property
    def marker(self) -> PurePosixPath:
        """Says that the data directory is complete."""
        return self.volume / MARKER


def database_directory(data_dir: PurePosixPath, database: str) -> PurePosixPath:
    """Config, TLS and socket of the database's instance on its host."""
    return data_dir / "databases" / database


def scratch_directory(data_dir: PurePosixPath, database: str) -> PurePosixPath:
    """Everything of the database's scratch instance, its data included."""
    return data_dir / "scratch" / database


def plan_instance(
    spec: DatabaseSpec, data_dir: PurePosixPath, volume: PurePosixPath
) -> InstancePlan:
    """The database's own instance, with its data on the file system mounted at `volume`."""
    return InstancePlan(
        database=spec.name,
        daemon=server_daemon_name(spec.name),
        init_daemon=f"mysqld-init-{spec.name}",
        directory=database_directory(data_dir, spec.name),
        volume=volume,
        flavour=spec.flavour,
        image_id=spec.image_id,
        address=spec.address,
        port=spec.port,
        server_id=spec.server_id,
        memory_bytes=spec.memory_bytes,
        cpus=spec.cpus,
        settings=settings_of(spec),
        parameters=spec.parameters,
        is_replica=spec.replica_of is not None,
        endpoint_address=spec.endpoint_address,
        shares_address=spec.shares_address,
        is_bare=spec.runtime == "bare",
        is_internal=is_made_for_a_while(spec),
    )


def plan_scratch_instance(scratch: ScratchSpec, data_dir: PurePosixPath) -> InstancePlan:
    """The same instance once more, with its data on the host's own disk."""
    spec = scratch.database
    directory = scratch_directory(data_dir, spec.name)
    return InstancePlan(
        database=spec.name,
        daemon=scratch_daemon_name(spec.name),
        init_daemon=f"mysqld-local-init-{spec.name}",
        directory=directory,
        volume=directory / "volume",
        flavour=spec.flavour,
        image_id=spec.image_id,
        address=scratch.address,
        port=spec.port if scratch.port is None else scratch.port,
        shares_address=scratch.shares_address,
        server_id=scratch.server_id,
        memory_bytes=spec.memory_bytes,
        cpus=spec.cpus,
        # The host's own disk keeps no order between writes, whatever the database's volume does.
        settings=decide_server_settings(
            spec.flavour, spec.size_bytes, spec.memory_bytes, spec.cpus
        ),
        parameters=spec.parameters,
        is_internal=True,
    )


def render_config(plan: InstancePlan) -> str:
    """The instance's my.cnf."""
    return render_my_cnf(
        plan.flavour,
        plan.settings,
        _places(plan),
        address=plan.address,
        port=plan.port,
        server_id=plan.server_id,
        shares_address=plan.shares_address,
        parameters=plan.parameters,
        is_replica=plan.is_replica,
        is_internal=plan.is_internal,
    )


def own_options(plan: InstancePlan) -> dict[str, str | int]:
    """What Grampus itself chooses for the instance's server, by option."""
    return decide_server_options(
        plan.flavour,
        plan.settings,
        _places(plan),
        address=plan.address,
        port=plan.port,
        server_id=plan.server_id,
        shares_address=plan.shares_address,
    )


def _places(plan: InstancePlan) -> ServerPlaces:
    return ServerPlaces(volume=VOLUME_IN_DAEMON, tls=plan.tls_dir, run=RUN_IN_DAEMON)


def server_daemon(plan: InstancePlan) -> DaemonSpec:
    """The daemon that serves the database."""
    daemon = _daemon(
        plan, plan.daemon, (_SERVER_PROGRAMS[plan.flavour], f"--defaults-file={plan.config_file}")
    )
    return replace(daemon, bare=True, limits=Limits()) if plan.is_bare else daemon


def init_daemon(plan: InstancePlan) -> DaemonSpec:
    """The daemon that fills the data directory and ends."""
    return _daemon(plan, plan.init_daemon, ("/bin/sh", str(plan.init_script)))


def check_daemon(plan: InstancePlan, config_file: PurePosixPath) -> DaemonSpec:
    """The daemon that lets the server check an option file, and ends.

    Its last word is CHECKED when the server takes the file. MariaDB has no option for that alone:
    it reads the file before it prints its help.
    """
    asked = "--validate-config" if plan.flavour == "mysql" else "--verbose --help"
    server = f"{_SERVER_PROGRAMS[plan.flavour]} --defaults-file={config_file} {asked}"
    script = f"{server} --log-error-verbosity=2" if plan.flavour == "mysql" else server
    return _daemon(
        plan,
        # No database's server is called this, whatever the database's name.
        f"check-mysqld-{plan.database}",
        ("/bin/sh", "-c", f"{script} >/dev/null && echo {CHECKED} >&2"),
    )


def _daemon(plan: InstancePlan, name: str, argv: tuple[str, ...]) -> DaemonSpec:
    own = decide_daemon_uid(plan.address, plan.port if plan.shares_address else None)
    directory = str(plan.directory)
    return DaemonSpec(
        name=name,
        argv=argv,
        binds=(
            Bind(directory, directory, read_only=True, owner=MYSQL_UID),
            Bind(str(plan.volume), str(VOLUME_IN_DAEMON), owner=MYSQL_UID),
            Bind(str(plan.run_dir), str(RUN_IN_DAEMON), owner=MYSQL_UID),
        ),
        # Two heaps instead of eight a CPU: 27 MiB less with 32 clients (measured).
        env={"MALLOC_ARENA_MAX": "2"} if plan.memory_bytes < GIB else {},
        limits=Limits(cpus=plan.cpus, memory_bytes=plan.memory_bytes),
        image=plan.image_id,
        uid=own,
        gid=own,
        stop_timeout_s=60.0,
    )


def render_init_script(plan: InstancePlan) -> str:
    """A POSIX shell script that makes the data directory, and the marker last.

    A directory without its marker is the rest of an initialisation that was cut off: it is made
    anew. No server listens while the accounts are made, so none is ever reachable without them.
    """
    # The user's time zone may be one by name, which needs the tables that are made here.
    server = f"{_SERVER_PROGRAMS[plan.flavour]} --defaults-file={plan.config_file}"
    zone = "--default-time-zone=+00:00"
    statements = render_first_statements(plan.flavour, plan.accounts_file)
    if plan.flavour == "mysql":
        # Nothing here need survive a crash: what was cut off is made anew, and the script's own
        # sync comes before the marker. So no flushing meanwhile, and a small redo log.
        make = [
            *statements,
            f"{server} --initialize --init-file=/dev/stdin {zone} "
            "--innodb-flush-method=nosync --innodb-doublewrite=OFF --skip-log-bin "
            "--innodb-redo-log-capacity=8M --innodb-flush-log-at-trx-commit=0",
            # Spare files of that small size: the first start would remove each with a sync of its
            # own (a third of a second of a creation, behind a journal).
            "rm -f data/#innodb_redo/#ib_redo*_tmp",
        ]
    else:
        make = [
            # --force: the host's name need not be in any DNS.
            f"mariadb-install-db --defaults-file={plan.config_file} --force --skip-test-db "
            "--skip-name-resolve --auth-root-authentication-method=socket "
            "--auth-root-socket-user=root",
            *statements,
            f"{server} --bootstrap --skip-log-bin {zone}",
        ]
    return "\n".join(
        [
            "set -eu",
            "umask 077",
            f"cd {VOLUME_IN_DAEMON}",
            f"if [ -e {MARKER} ]; then exit 0; fi",
            "rm -rf data binlog tmp",
            "mkdir data binlog tmp",
            *make,
            f"echo 1 > {MARKER}.new",
            "sync -f .",
            f"mv {MARKER}.new {MARKER}",
            "sync -f .",
            "",
        ]
    )
