"""Server settings of an instance: decided from its size, and written as an option file."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from grampus.core.errors import RefusedError
from grampus.core.units import GIB, KIB, MIB, format_bytes
from grampus.databases.model import DatabaseSpec, FlavourName
from grampus.databases.option_names import option_of
from grampus.databases.quiet_servers import QUIET_PARAMETERS
from grampus.volumes.model import WritePath

# Measured on mysqld 9.7.4 with the settings below, 4 tables, resident anonymous memory: 150 MiB
# idle without its buffer pool, 0.9 MiB more for each busy client (1.5 leaves room for sorts and
# temporary tables), 145 to 245 MiB more with performance_schema, 48 MiB of program text.
BASE_BYTES = 160 * MIB
PROGRAM_TEXT_BYTES = 48 * MIB
PER_CONNECTION_BYTES = MIB + 512 * KIB
PERFORMANCE_SCHEMA_BYTES = 245 * MIB
# A prepared statement of sysbench takes 31 KiB: resident memory of mysqld 9.7.4 with 16 clients
# and 30 tables beside that with 4 (2026-11-23). With 32 clients and 30 tables a server of 448 MiB
# was ended by its limit.
STATEMENT_BYTES = 32 * KIB
# What half a MiB of each connection's memory holds.
STATEMENTS_PER_CONNECTION = 512 * KIB // STATEMENT_BYTES
# As many as 32 clients have with 4 tables, which lived at 256 MiB in a trial.
MIN_STATEMENTS = 1200
BUFFER_POOL_OVERHEAD = 1.03  # control blocks and hash tables beside the pages

# A statement with one row of P bytes took about 7 P beside the rest (MySQL 9.7.4, 2026-11-27):
# with 256 MiB a server lived through 8 MiB and was ended by 16, with 384 it lived through 16, with
# 512 it was ended by 32. One packet in 24 is what is allowed, one in 32 what Grampus chooses.
MIN_PACKET_BYTES, MAX_PACKET_BYTES = 8 * MIB, 64 * MIB  # at most as the server by itself
MIN_BUFFER_POOL_BYTES = 32 * MIB
# What a server recovers in a second: of pages that its redo log names, which it reads one by one,
# and of the log itself (docs/adr/0057).
RECOVERED_PAGES_PER_S, RECOVERED_BYTES_PER_S = 1000, 20 * MIB
PAGE_BYTES = 16 * KIB
_MOST_DIRTY_PCT = 90.0
# After a crash MySQL keeps the redo log that it applies in the buffer pool, where it takes 2.3
# times its size (sysbench's update_index), and may never end if that leaves no room for pages
# (docs/adr/0059).
RECOVERED_IN_POOL = 3
PERFORMANCE_SCHEMA_FROM_BYTES = 2 * GIB
# For a server that nobody looks after and whose binary logs nobody needs; see `binlog_keeping`. As
# fast as a big import writes: MySQL knows no bound of space.
UNATTENDED_BINLOG_BYTES_PER_S = 32 * MIB
MIN_UNATTENDED_S = 60
SURE_ADDRESSES_BYTES = 2 * GIB
# MySQL's own choice for its administrative interface. Each server has a loopback address there.
ADMIN_PORT = 33062
# Of a server that shares its address: how far its administrative port is above its own, so that no
# other server of the host has it. Both are below those that Linux gives to outgoing connections
# (ip_local_port_range, 32768 to 60999).
ADMIN_PORT_DISTANCE = 10_000
# As many sessions of Grampus as work on one database at a time, and some more.
ADMIN_CONNECTIONS = 8


@dataclass(frozen=True)
class ServerSettings:
    """The settings that depend on how big an instance is; the rest is the same for all."""

    buffer_pool_bytes: int
    buffer_pool_chunk_bytes: int
    buffer_pool_instances: int
    redo_log_capacity_bytes: int
    dirty_pages_pct: float  # of the buffer pool: above, the server writes changed pages at once
    log_buffer_bytes: int
    doublewrite_pages: int
    io_capacity: int
    io_capacity_max: int
    max_connections: int
    max_packet_bytes: int
    max_prepared_statements: int
    table_open_cache: int
    performance_schema: bool
    temporary_tables_bytes: int
    dependency_history_rows: int
    binlog_total_bytes: int
    binlog_file_bytes: int
    binlog_expire_s: int  # of logs that nobody needs, when nobody looks after the server
    flush_method: str
    rollback_segments: int


def decide_server_settings(
    flavour: FlavourName,
    size_bytes: int,
    memory_bytes: int,
    cpus: float,
    *,
    write_path: WritePath = "direct",
    recovery_goal_s: int | None = None,
) -> ServerSettings:
    """Settings for an instance with `memory_bytes` as a hard limit, on a volume of `size_bytes`.

    Rules and where they come from:

    - Buffer pool: 64 % of what is left of the first GiB after 224 MiB for the server itself (our
      measurement above), 78 % of the rest, never over 75 %. Red Hat and Percona found the best
      pool at 20 % of the data set; Intel gave it 21 of 32 GB. It is rounded down to whole chunks,
      because the server would round up.
    - `performance_schema` from 2 GiB on: it takes 145 to 245 MiB (measured), which in a small
      instance are worth more as buffer pool. Intel's tuning has it off altogether.
    - Redo log: a third of the buffer pool, so that a recovery fits into it (ADR 59). MariaDB's is
      twice the pool and at least 256 MiB, so that pages are written seldom (each costs a round
      trip to Ceph). Both are at most an eighth of the volume and 16 GiB. With a
      recovery goal, at most what a server recovers in that time. The same holds for changed pages
      in the buffer pool: 90 % of it is MySQL's own bound.
    - I/O capacity near what a volume of the embedded cluster delivers, 500 to 2,000 random 16 KiB
      writes a second (measured with fio); the server's default of 10,000 makes it flush in bursts
      that a network volume cannot take. With a recovery goal it is four times as much, since pages
      over their bound are written at that rate.
    - Doublewrite: on, because no test proves yet that a 16 KiB page cannot be torn here. Its
      buffers take 58 MiB (measured), hence fewer pages when memory is short. With 32 pages a
      server reads these files 0.3 s sooner after a crash, but index updates of more data than the
      pool holds were 1 to 16 % slower in each of four pairs (measured, 2026-11-30).
    - Dependency history of the binlog: MySQL 9.7 keeps up to 10 million rows in memory by
      default, which a hard memory limit does not survive.
    - Binlogs: about an eighth of the volume, twice that at most for whoever still needs them
      (`binlog_keeping`). A server that nobody looks after deletes those that nobody needs by age
      (MySQL knows no other bound): how long 32 MiB/s take to write a quarter, at least a minute.
    - Connections: what is left of the memory, at 1.5 MiB each (measured, rounded up).
    - Packets: the longest statement or row that the memory holds, see MIN_PACKET_BYTES.
    - Prepared statements of all connections together: 16 for each. One more is refused to its
      client, where the memory limit would end the whole server.
    - Pages written: see `_decide_flush_method`.
    - Rollback segments: MySQL reads the first page of each at its start, one after the other, and
      makes as many anew for temporary tables. The default of 128 for each undo tablespace took 0.3
      to 0.6 of a start's 1.7 s (measured, 2026-11-24). 32 hold over 30,000 transactions that write
      at a time (1,024 slots each, two a transaction); more keep the threads of many CPUs apart.
    """
    buffer_pool_bytes, chunk_bytes, instances = _decide_buffer_pool(memory_bytes, cpus)
    performance_schema = memory_bytes >= PERFORMANCE_SCHEMA_FROM_BYTES
    roomy = memory_bytes >= 2 * GIB
    binlog_total_bytes = size_bytes // 8
    max_connections = _decide_max_connections(
        memory_bytes, buffer_pool_bytes, performance_schema=performance_schema
    )
    return ServerSettings(
        buffer_pool_bytes=buffer_pool_bytes,
        buffer_pool_chunk_bytes=chunk_bytes,
        buffer_pool_instances=instances,
        redo_log_capacity_bytes=_decide_redo_log(
            flavour, size_bytes, buffer_pool_bytes, recovery_goal_s
        ),
        dirty_pages_pct=_decide_dirty_pages_pct(buffer_pool_bytes, recovery_goal_s),
        log_buffer_bytes=_clamp(_whole_mib(memory_bytes // 64), 8 * MIB, 64 * MIB),
        doublewrite_pages=16 if memory_bytes < 512 * MIB else 128,
        io_capacity=500 if recovery_goal_s is None else 2000,
        io_capacity_max=2000 if recovery_goal_s is None else 10_000,
        max_connections=max_connections,
        max_packet_bytes=_clamp(_whole_mib(memory_bytes // 32), MIN_PACKET_BYTES, MAX_PACKET_BYTES),
        max_prepared_statements=max(MIN_STATEMENTS, STATEMENTS_PER_CONNECTION * max_connections),
        table_open_cache=2000 if roomy else 400,
        performance_schema=performance_schema,
        temporary_tables_bytes=_clamp(_whole_mib(memory_bytes // 32), 8 * MIB, GIB),
        dependency_history_rows=25_000 if flavour == "mysql" and not roomy else 100_000,
        binlog_total_bytes=binlog_total_bytes,
        binlog_file_bytes=_clamp(_whole_mib(size_bytes // 128), 8 * MIB, 256 * MIB),
        binlog_expire_s=_clamp(
            2 * binlog_total_bytes // UNATTENDED_BINLOG_BYTES_PER_S,
            MIN_UNATTENDED_S,
            7 * 24 * 3600,
        ),
        flush_method=_decide_flush_method(flavour, write_path),
        rollback_segments=_clamp(16 * math.ceil(cpus), 32, 128),
    )


def settings_of(spec: DatabaseSpec) -> ServerSettings:
    """The settings of a database's own server."""
    return decide_server_settings(
        spec.flavour,
        spec.size_bytes,
        spec.memory_bytes,
        spec.cpus,
        write_path=spec.write_path,
        recovery_goal_s=spec.recovery_goal_s,
    )


def require_packet_fits(packet_bytes: int, memory_bytes: int) -> None:
    """Raise RefusedError with code `packet-too-big` for a `max_allowed_packet` over the memory."""
    largest_bytes = max(MIN_PACKET_BYTES, memory_bytes // 24)
    if packet_bytes > largest_bytes:
        raise RefusedError(
            f"A statement of {format_bytes(packet_bytes)} (max_allowed_packet) could crash a "
            f"server with {format_bytes(memory_bytes)} of memory.",
            f"Set max_allowed_packet to at most {format_bytes(largest_bytes // MIB * MIB)}, "
            f"or give the database {format_bytes(packet_bytes * 24)} of memory: `grampus db "
            "set NAME --memory SIZE`.",
            code="packet-too-big",
        )


def _decide_flush_method(flavour: FlavourName, write_path: WritePath) -> str:
    """`innodb_flush_method`: O_DIRECT always, so that a page is cached once.

    Behind a write journal the volume is a prefix of its write history after any crash (INV-1), so
    pages need no fsync for their order to the redo log, and each one saved is one that no commit
    waits behind. A commit's own fsyncs stay, and so do those after a file was made, grew or was
    closed: MySQL does them with O_DIRECT_NO_FSYNC too (since 8.0.14), MariaDB does not, and XFS
    would lose the file's size. Without a journal a write may overtake another (`direct` has
    several in flight), so there each page's fsync stays.
    """
    if flavour == "mysql" and write_path != "direct":
        return "O_DIRECT_NO_FSYNC"
    return "O_DIRECT"


def _decide_redo_log(
    flavour: FlavourName, size_bytes: int, buffer_pool_bytes: int, recovery_goal_s: int | None
) -> int:
    useful_bytes = max(2 * buffer_pool_bytes, 256 * MIB)
    if flavour == "mysql":
        useful_bytes = buffer_pool_bytes // RECOVERED_IN_POOL
    capacity_bytes = min(size_bytes // 8, useful_bytes, 16 * GIB)
    if recovery_goal_s is not None:
        recovered_bytes = recovery_goal_s * RECOVERED_BYTES_PER_S
        capacity_bytes = min(capacity_bytes, recovered_bytes)
    return _whole_mib(capacity_bytes)


def _decide_dirty_pages_pct(buffer_pool_bytes: int, recovery_goal_s: int | None) -> float:
    if recovery_goal_s is None:
        return _MOST_DIRTY_PCT
    recovered_bytes = recovery_goal_s * RECOVERED_PAGES_PER_S * PAGE_BYTES
    return min(_MOST_DIRTY_PCT, round(100 * recovered_bytes / buffer_pool_bytes, 3))


def _decide_buffer_pool(memory_bytes: int, cpus: float) -> tuple[int, int, int]:
    first_gib = max(0, min(memory_bytes, GIB) - 224 * MIB)
    wanted = int(0.64 * first_gib + 0.78 * max(0, memory_bytes - GIB))
    wanted = max(MIN_BUFFER_POOL_BYTES, min(wanted, memory_bytes * 3 // 4))
    chunk_bytes = 16 * MIB if wanted < GIB else 128 * MIB
    # Instances keep threads out of each other's way: more than there are CPUs are of no use.
    instances = _clamp(min(wanted // (2 * GIB), math.ceil(cpus)), 1, 8)
    unit_bytes = chunk_bytes * instances
    return wanted // unit_bytes * unit_bytes, chunk_bytes, instances


def _decide_max_connections(
    memory_bytes: int, buffer_pool_bytes: int, *, performance_schema: bool
) -> int:
    room_bytes = (
        memory_bytes
        - BASE_BYTES
        - PROGRAM_TEXT_BYTES
        - int(buffer_pool_bytes * BUFFER_POOL_OVERHEAD)
        - (PERFORMANCE_SCHEMA_BYTES if performance_schema else 0)
    )
    # 24 at 256 MiB goes below the room by 10 MiB; 32 busy clients lived there in a trial.
    return _clamp(room_bytes // PER_CONNECTION_BYTES, 24, 2000)


def _whole_mib(size_bytes: int) -> int:
    return size_bytes // MIB * MIB


def _clamp(value: int, lowest: int, highest: int) -> int:
    return max(lowest, min(value, highest))


@dataclass(frozen=True)
class ServerPlaces:
    """Where a server finds its things; paths as it sees them."""

    volume: PurePosixPath  # holds data/, binlog/ and tmp/
    tls: PurePosixPath
    run: PurePosixPath


# A server that does not know an option of this prefix passes it over.
_LOOSE = "loose_"
# Newer than MariaDB 10.11, whose databases wait for their upgrade; or of a MySQL plugin that is
# deprecated.
_NOT_IN_ALL = {
    "innodb_buffer_pool_size_max",
    "max_binlog_total_size",
    "sha256_password_auto_generate_rsa_keys",
    "slave_connections_needed_for_purge",
}


def render_my_cnf(
    flavour: FlavourName,
    settings: ServerSettings,
    places: ServerPlaces,
    *,
    address: str,
    port: int,
    server_id: int,
    shares_address: bool = False,
    parameters: Mapping[str, str] | None = None,
    is_replica: bool = False,
    is_internal: bool = False,
) -> str:
    """The server's option file, for MySQL 9.7 or MariaDB 10.11 to 11.8.

    `parameters` are the user's own, which stand in place of Grampus's of the same name; what keeps
    a replica from being written to (`is_replica`), or its users' code from running (`is_internal`),
    stands in place of both.
    """
    own = decide_server_options(
        flavour,
        settings,
        places,
        address=address,
        port=port,
        server_id=server_id,
        shares_address=shares_address,
    )
    kept_so = _replica_options(flavour, places) if is_replica else {}
    quiet = QUIET_PARAMETERS if is_internal else {}
    users = {option_of(name): value for name, value in (parameters or {}).items()}
    # No start deletes a log: who needs it is asked afterwards (`binlog_keeping`).
    keeps_logs = {} if is_internal else {"binlog_expire_logs_seconds": 0}
    options = {**own, **keeps_logs, **users, **kept_so, **quiet}
    lines = [
        f"{_LOOSE if name in _NOT_IN_ALL else ''}{name} = {value}"
        for name, value in options.items()
    ]
    return "\n".join(["# Written by Grampus: changes are lost.", "[mysqld]", *lines, ""])


def decide_server_options(
    flavour: FlavourName,
    settings: ServerSettings,
    places: ServerPlaces,
    *,
    address: str,
    port: int,
    server_id: int,
    shares_address: bool = False,
) -> dict[str, str | int]:
    """The options of the server that Grampus chooses, by name.

    O_DIRECT on XFS with fdatasync, as Red Hat and Percona advise. Every commit is durable
    (`sync_binlog` and `innodb_flush_log_at_trx_commit` 1), unlike in the papers' own runs.
    """
    return {
        **_common_options(settings, places, address=address, port=port, server_id=server_id),
        **(_mysql_options(settings) if flavour == "mysql" else _mariadb_options(settings, places)),
        **_admin_options(flavour, address, port, shares_address=shares_address),
    }


def decide_admin_address(address: str) -> str:
    """Where a server listens for Grampus: the loopback address that ends as its own does.

    All of 127.0.0.0/8 is on the loopback device, so no other machine reaches it, and servers that
    share a host do not meet there.
    """
    return f"127.{address.partition('.')[2]}"


def decide_admin_port(port: int, *, shares_address: bool = False) -> int:
    """The port there. MariaDB's is at the database's own address too, beside `port`.

    Of a server that shares its address: a port that no other server of the host has.
    """
    if shares_address:
        return port + ADMIN_PORT_DISTANCE
    return ADMIN_PORT if port != ADMIN_PORT else ADMIN_PORT + 1


def _admin_options(
    flavour: FlavourName, address: str, port: int, *, shares_address: bool
) -> dict[str, str | int]:
    """Sessions that clients cannot take: with a limit and, in MySQL, a thread of their own."""
    admin_address = decide_admin_address(address)
    admin_port = decide_admin_port(port, shares_address=shares_address)
    if flavour == "mysql":
        return {
            "admin_address": admin_address,
            "admin_port": admin_port,
            "create_admin_listener_thread": "ON",
        }
    return {
        # MariaDB's extra port is at each address that it listens at.
        "bind_address": f"{address},{admin_address}",
        "extra_port": admin_port,
        "extra_max_connections": ADMIN_CONNECTIONS,
    }


def _common_options(
    settings: ServerSettings,
    places: ServerPlaces,
    *,
    address: str,
    port: int,
    server_id: int,
) -> dict[str, str | int]:
    return {
        "datadir": str(places.volume / "data"),
        "tmpdir": str(places.volume / "tmp"),
        "innodb_tmpdir": str(places.volume / "tmp"),
        "log_bin": str(places.volume / "binlog" / "binlog"),
        "socket": str(places.run / "mysqld.sock"),
        "pid_file": str(places.run / "mysqld.pid"),
        "bind_address": address,
        "port": port,
        "server_id": server_id,
        "skip_name_resolve": "ON",
        "require_secure_transport": "ON",
        "ssl_ca": str(places.tls / "ca.pem"),
        "ssl_cert": str(places.tls / "server-cert.pem"),
        "ssl_key": str(places.tls / "server-key.pem"),
        "tls_version": "TLSv1.2,TLSv1.3",
        "local_infile": "OFF",
        "character_set_server": "utf8mb4",
        "max_connections": settings.max_connections,
        "max_allowed_packet": settings.max_packet_bytes,
        "max_prepared_stmt_count": settings.max_prepared_statements,
        "table_open_cache": settings.table_open_cache,
        "table_definition_cache": settings.table_open_cache,
        "performance_schema": _switch(settings.performance_schema),
        "tmp_table_size": _clamp(settings.temporary_tables_bytes, 8 * MIB, 16 * MIB),
        # Else triggers and functions of users need SUPER (error 1419). It is safe because the
        # binary log has rows, not the statements that call a function (`binlog_format`).
        "log_bin_trust_function_creators": "ON",
        "sync_binlog": 1,
        "max_binlog_size": settings.binlog_file_bytes,
        "innodb_buffer_pool_size": settings.buffer_pool_bytes,
        "innodb_log_buffer_size": settings.log_buffer_bytes,
        "innodb_flush_log_at_trx_commit": 1,
        "innodb_flush_method": settings.flush_method,
        "innodb_flush_neighbors": 0,
        "innodb_doublewrite": "ON",
        "innodb_adaptive_hash_index": "OFF",
        "innodb_max_dirty_pages_pct": f"{settings.dirty_pages_pct:g}",
        "innodb_io_capacity": settings.io_capacity,
        "innodb_io_capacity_max": settings.io_capacity_max,
    }


def _mysql_options(settings: ServerSettings) -> dict[str, str | int]:
    return {
        "mysqlx": "OFF",
        "secure_file_priv": "NULL",
        # Lets the user's rights end before the schema `mysql`, where users could be forged.
        "partial_revokes": "ON",
        "auto_generate_certs": "OFF",
        # Clients come by TLS or by the socket, and need no RSA keys for their passwords. To make a
        # pair takes 0.05 to 0.3 s of a CPU, at the first start of each copy.
        "caching_sha2_password_auto_generate_rsa_keys": "OFF",
        "sha256_password_auto_generate_rsa_keys": "OFF",
        "log_error_verbosity": 2,
        "gtid_mode": "ON",
        "enforce_gtid_consistency": "ON",
        "binlog_expire_logs_seconds": settings.binlog_expire_s,
        "binlog_transaction_dependency_history_size": settings.dependency_history_rows,
        "temptable_max_ram": settings.temporary_tables_bytes,
        "innodb_use_fdatasync": "ON",
        "innodb_buffer_pool_chunk_size": settings.buffer_pool_chunk_bytes,
        "innodb_buffer_pool_instances": settings.buffer_pool_instances,
        "innodb_redo_log_capacity": settings.redo_log_capacity_bytes,
        "innodb_doublewrite_pages": settings.doublewrite_pages,
        "innodb_rollback_segments": settings.rollback_segments,
        # After the other one: the server lowers it itself where that is below it.
        "innodb_max_dirty_pages_pct_lwm": f"{settings.dirty_pages_pct / 9:.3g}",
        "innodb_numa_interleave": "OFF",  # a container may not set memory policies
    }


def _mariadb_options(settings: ServerSettings, places: ServerPlaces) -> dict[str, str | int]:
    return {
        "log_warnings": 1,
        "binlog_format": "ROW",  # MIXED by default; MySQL knows no other than ROW
        "innodb_log_file_size": settings.redo_log_capacity_bytes,
        # Addresses alone, no memory: how far the pool can grow before the next start.
        "innodb_buffer_pool_size_max": _decide_pool_room(settings.buffer_pool_bytes),
        # MariaDB cannot forbid it altogether; nobody but the locked root has FILE anyway.
        "secure_file_priv": str(places.volume / "tmp"),
        # The server's own bound, past those that `binlog_keeping` holds to.
        "max_binlog_total_size": 2 * settings.binlog_total_bytes,
        "slave_connections_needed_for_purge": 0,  # else nothing is purged without a replica
        "binlog_expire_logs_seconds": settings.binlog_expire_s,
    }


def _replica_options(flavour: FlavourName, places: ServerPlaces) -> dict[str, str | int]:
    """What a server starts with that follows another, so that no start lets anybody write to it.

    `relay_log_recovery`: after a crash it throws away what it had received and not applied, and
    asks for it anew by GTID. Events run on the primary alone, and their changes come from there.
    """
    return {
        "read_only": "ON",
        # MariaDB has no super_read_only: its administrator may write past read_only, no user may.
        # Its binary log lacks what was replicated unless told, and a promoted one's must be whole.
        **({"super_read_only": "ON"} if flavour == "mysql" else {"log_slave_updates": "ON"}),
        "relay_log": str(places.volume / "binlog" / "relay"),
        "relay_log_recovery": "ON",
        "event_scheduler": "OFF",
    }


def _decide_pool_room(buffer_pool_bytes: int) -> int:
    """How far a MariaDB pool may grow: four times, within what any machine lets it reserve.

    The kernel refuses to reserve more addresses than the machine has memory, and the server then
    does not start (tried). A pool has three quarters of its limit at most, and that is no more
    than the machine has.
    """
    return max(
        _whole_mib(buffer_pool_bytes * 4 // 3), min(4 * buffer_pool_bytes, SURE_ADDRESSES_BYTES)
    )


def _switch(on: bool) -> str:
    return "ON" if on else "OFF"
