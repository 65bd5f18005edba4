from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePosixPath

import pytest

from grampus.core.units import GIB, MIB, TIB
from grampus.databases.model import FlavourName
from grampus.databases.settings import (
    BASE_BYTES,
    BUFFER_POOL_OVERHEAD,
    PER_CONNECTION_BYTES,
    PERFORMANCE_SCHEMA_BYTES,
    PROGRAM_TEXT_BYTES,
    ServerPlaces,
    decide_server_settings,
    render_my_cnf,
)
from grampus.volumes.model import WritePath

PLACES = ServerPlaces(
    volume=PurePosixPath("/var/lib/mysql"),
    tls=PurePosixPath("/data/databases/demo/tls"),
    run=PurePosixPath("/run/mysqld"),
)


@pytest.mark.parametrize(
    ("memory_bytes", "lowest_mib", "highest_mib"),
    [
        (256 * MIB, 32, 32),
        (384 * MIB, 96, 96),
        (512 * MIB, 128, 192),
        (GIB, 480, 512),
        (2 * GIB, 1024, 1408),
        (8 * GIB, 5600, 6144),
        (64 * GIB, 46000, 49152),
    ],
)
def test_the_buffer_pool_is_a_share_of_memory(
    memory_bytes: int, lowest_mib: int, highest_mib: int
) -> None:
    settings = decide_server_settings("mysql", 10 * GIB, memory_bytes, 8)
    assert lowest_mib <= settings.buffer_pool_bytes / MIB <= highest_mib
    unit_bytes = settings.buffer_pool_chunk_bytes * settings.buffer_pool_instances
    assert settings.buffer_pool_bytes % unit_bytes == 0, "the server would round it up"


@pytest.mark.parametrize("memory_mib", [384, 448, 512, 768, 1023, 1024, 2048, 3000, 8192, 65536])
def test_all_parts_together_fit_into_the_memory_limit(memory_mib: int) -> None:
    memory_bytes = memory_mib * MIB
    settings = decide_server_settings("mysql", 100 * GIB, memory_bytes, 4)
    parts = (
        BASE_BYTES
        + PROGRAM_TEXT_BYTES
        + settings.buffer_pool_bytes * BUFFER_POOL_OVERHEAD
        + settings.performance_schema * PERFORMANCE_SCHEMA_BYTES
        + settings.max_connections * PER_CONNECTION_BYTES
    )
    assert parts <= memory_bytes
    assert settings.max_connections >= 32
    # Half a MiB of a connection is for these.
    each = settings.max_prepared_statements / settings.max_connections
    assert each <= 16 or settings.max_prepared_statements == 1200


@pytest.mark.parametrize("size_bytes", [GIB, 3 * GIB, 10 * GIB, 100 * GIB, TIB, 64 * TIB])
@pytest.mark.parametrize("memory_bytes", [256 * MIB, 512 * MIB, 64 * GIB])
def test_logs_leave_the_volume_to_the_data(size_bytes: int, memory_bytes: int) -> None:
    settings = decide_server_settings("mysql", size_bytes, memory_bytes, 1)
    assert 8 * MIB <= settings.redo_log_capacity_bytes <= size_bytes // 8
    assert settings.redo_log_capacity_bytes % MIB == 0
    assert settings.binlog_file_bytes * 4 <= settings.binlog_total_bytes <= size_bytes // 8
    assert 60 <= settings.binlog_expire_s <= 7 * 24 * 3600


@pytest.mark.parametrize("goal_s", [None, 3, 3600])
@pytest.mark.parametrize("size_bytes", [GIB, 100 * GIB, 64 * TIB])
@pytest.mark.parametrize("memory_bytes", [256 * MIB, 512 * MIB, GIB, 4 * GIB, 64 * GIB])
def test_a_redo_log_can_be_recovered_in_the_buffer_pool(
    memory_bytes: int, size_bytes: int, goal_s: int | None
) -> None:
    """It takes 2.3 times its size there, and MySQL leaves 256 pages of each instance (ADR 59)."""
    settings = decide_server_settings("mysql", size_bytes, memory_bytes, 8, recovery_goal_s=goal_s)
    free_bytes = settings.buffer_pool_instances * 256 * 16 * 1024
    kept_bytes = 2.3 * settings.redo_log_capacity_bytes
    assert kept_bytes + free_bytes <= settings.buffer_pool_bytes


@pytest.mark.parametrize("size_bytes", [4 * GIB, 10 * GIB, 100 * GIB, TIB])
def test_an_import_that_nobody_looks_at_leaves_most_of_the_volume(size_bytes: int) -> None:
    """At 32 MiB/s, with logs that nobody needs; the newest one is never deleted."""
    settings = decide_server_settings("mysql", size_bytes, GIB, 1)
    logs_bytes = 32 * MIB * settings.binlog_expire_s + settings.binlog_file_bytes
    assert logs_bytes <= size_bytes // 2


@pytest.mark.parametrize(
    ("memory_bytes", "on"), [(512 * MIB, False), (GIB, False), (2 * GIB, True)]
)
def test_performance_schema_is_for_those_who_can_afford_it(memory_bytes: int, on: bool) -> None:
    assert decide_server_settings("mysql", GIB, memory_bytes, 1).performance_schema is on


def test_more_buffer_pool_instances_than_cpus_are_of_no_use() -> None:
    assert decide_server_settings("mysql", TIB, 64 * GIB, 2).buffer_pool_instances == 2
    assert decide_server_settings("mysql", TIB, 64 * GIB, 64).buffer_pool_instances == 8


def _options(flavour: FlavourName) -> dict[str, str]:
    settings = decide_server_settings(flavour, 10 * GIB, 512 * MIB, 1)
    text = render_my_cnf(flavour, settings, PLACES, address="10.9.0.10", port=3306, server_id=7)
    assert text.splitlines()[1] == "[mysqld]"
    pairs = [line.split(" = ", maxsplit=1) for line in text.splitlines()[2:]]
    names = [name for name, _ in pairs]
    assert len(names) == len(set(names))
    return dict(pairs)


@pytest.mark.parametrize("flavour", ["mysql", "mariadb"])
def test_every_commit_is_durable_and_the_network_is_shut_to_plain_text(
    flavour: FlavourName,
) -> None:
    options = _options(flavour)
    expected = {
        "datadir": "/var/lib/mysql/data",
        "log_bin": "/var/lib/mysql/binlog/binlog",
        "tmpdir": "/var/lib/mysql/tmp",
        "bind_address": "10.9.0.10" if flavour == "mysql" else "10.9.0.10,127.9.0.10",
        "port": "3306",
        "server_id": "7",
        "require_secure_transport": "ON",
        "ssl_ca": "/data/databases/demo/tls/ca.pem",
        "local_infile": "OFF",
        "skip_name_resolve": "ON",
        "sync_binlog": "1",
        "innodb_flush_log_at_trx_commit": "1",
        "innodb_doublewrite": "ON",
        "innodb_flush_method": "O_DIRECT",
        "character_set_server": "utf8mb4",
        "performance_schema": "OFF",
        "socket": "/run/mysqld/mysqld.sock",
    }
    assert {name: options[name] for name in expected} == expected


def test_options_that_only_one_flavour_knows_stay_with_it() -> None:
    mysql, mariadb = _options("mysql"), _options("mariadb")
    assert mysql["gtid_mode"] == "ON"
    assert mysql["mysqlx"] == "OFF"
    assert mysql["secure_file_priv"] == "NULL"
    assert mysql["innodb_use_fdatasync"] == "ON"
    unknown_to_mariadb = {"mysqlx", "gtid_mode", "partial_revokes", "innodb_redo_log_capacity"}
    assert not unknown_to_mariadb & set(mariadb)
    assert not {"max_binlog_total_size", "innodb_log_file_size"} & set(mysql)


@pytest.mark.parametrize(
    ("flavour", "write_path", "flush_method"),
    [
        ("mysql", "direct", "O_DIRECT"),
        ("mysql", "journal", "O_DIRECT_NO_FSYNC"),
        ("mysql", "cache", "O_DIRECT_NO_FSYNC"),
        ("mariadb", "journal", "O_DIRECT"),
    ],
)
def test_pages_are_synced_one_by_one_only_where_nothing_else_keeps_their_order(
    flavour: FlavourName, write_path: WritePath, flush_method: str
) -> None:
    settings = decide_server_settings(flavour, 10 * GIB, GIB, 1, write_path=write_path)
    config = render_my_cnf(
        flavour, settings, PLACES, address="10.213.0.100", port=3306, server_id=7
    )
    assert f"innodb_flush_method = {flush_method}\n" in config
    assert "sync_binlog = 1\n" in config
    assert "innodb_flush_log_at_trx_commit = 1\n" in config


@pytest.mark.parametrize(
    ("flavour", "kept", "never"),
    [
        ("mysql", "super_read_only = ON", "log_slave"),
        ("mariadb", "log_slave_updates = ON", "super"),
    ],
)
def test_no_parameter_opens_a_replica(flavour: FlavourName, kept: str, never: str) -> None:
    text = render_my_cnf(
        flavour,
        decide_server_settings(flavour, 10 * GIB, GIB, 1.0),
        PLACES,
        address="10.213.0.100",
        port=3306,
        server_id=7,
        parameters={"read_only": "OFF", "event_scheduler": "ON"},
        is_replica=True,
    )
    lines = text.splitlines()
    assert {kept, "read_only = ON", "event_scheduler = OFF", "relay_log_recovery = ON"} <= {*lines}
    assert not any(line.startswith(never) for line in lines)


@pytest.mark.parametrize("flavour", ["mysql", "mariadb"])
@pytest.mark.parametrize(("wanted", "written"), [(None, "ON"), ("OFF", "OFF")])
def test_users_may_make_triggers_and_functions_unless_theirs_say_otherwise(
    flavour: FlavourName, wanted: str | None, written: str
) -> None:
    settings = decide_server_settings(flavour, 10 * GIB, GIB, 2)
    name = "log_bin_trust_function_creators"
    parameters = {} if wanted is None else {name: wanted}
    text = render_my_cnf(
        flavour, settings, PLACES, address="a", port=1, server_id=1, parameters=parameters
    )
    assert re.findall(rf"^{name} = (.*)$", text, re.MULTILINE) == [written]
    # It is safe with rows in the binary log: MySQL has nothing else, MariaDB is told to.
    assert ("binlog_format = ROW" in text) is (flavour == "mariadb")


@pytest.mark.parametrize(("cpus", "segments"), [(0.5, 32), (2, 32), (2.5, 48), (4, 64), (64, 128)])
def test_rollback_segments_follow_the_cpus(cpus: float, segments: int) -> None:
    settings = decide_server_settings("mysql", GIB, 2 * GIB, cpus)
    assert settings.rollback_segments == segments
    known: tuple[tuple[FlavourName, bool], ...] = (("mysql", True), ("mariadb", False))
    for flavour, has_it in known:
        text = render_my_cnf(flavour, settings, PLACES, address="a", port=1, server_id=1)
        assert (f"innodb_rollback_segments = {segments}" in text) is has_it


@pytest.mark.parametrize("flavour", ["mysql", "mariadb"])
def test_no_start_deletes_a_binary_log_that_somebody_may_need(flavour: FlavourName) -> None:
    """INV-80: who needs it is asked afterwards, however long the server was stopped."""
    settings = decide_server_settings(flavour, GIB, 512 * MIB, 1.0)

    def rendered(
        *, parameters: Mapping[str, str] | None = None, is_internal: bool = False
    ) -> list[str]:
        text = render_my_cnf(
            flavour,
            settings,
            PLACES,
            address="10.213.0.100",
            port=3306,
            server_id=7,
            parameters=parameters,
            is_internal=is_internal,
        )
        return text.splitlines()

    config = rendered()
    assert "binlog_expire_logs_seconds = 0" in config
    chosen = rendered(parameters={"binlog_expire_logs_seconds": "60"})
    assert "binlog_expire_logs_seconds = 60" in chosen
    # A copy that replays logs has none that anybody needs, and no room for all of them.
    internal = rendered(is_internal=True)
    assert f"binlog_expire_logs_seconds = {settings.binlog_expire_s}" in internal


def test_grampus_has_sessions_that_clients_cannot_take() -> None:
    """INV-78."""
    mysql, mariadb = _options("mysql"), _options("mariadb")
    assert mysql["admin_address"] == "127.9.0.10"
    assert mysql["admin_port"] == "33062"
    assert mysql["create_admin_listener_thread"] == "ON"
    assert mariadb["extra_port"] == "33062"
    assert int(mariadb["extra_max_connections"]) > 1
