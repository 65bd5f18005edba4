"""What a server needs to finish its work follows from the settings that it runs with."""

from __future__ import annotations

import pytest

from grampus.core.errors import RefusedError
from grampus.core.units import GIB, MIB
from grampus.databases.growth.decide_growth import FileSystem, decide_reserve_bytes
from grampus.databases.growth.decide_reserve import (
    Reserve,
    decide_reserve,
    parse_value,
    require_fits_volume,
)
from grampus.databases.settings import decide_server_settings
from tests.fakes.specs import database_spec

SETTINGS = decide_server_settings("mysql", 10 * GIB, 512 * MIB, 1.0)
OWN = 64 * MIB + SETTINGS.binlog_file_bytes


@pytest.mark.parametrize(
    ("parameters", "is_replica", "expected"),
    [
        ([], False, Reserve(OWN, 0.25)),
        ([{}], False, Reserve(OWN, 0.25)),
        ([{"innodb_io_capacity": "9000"}], False, Reserve(OWN, 0.25)),
        ([{"max_binlog_size": str(GIB)}], False, Reserve(64 * MIB + GIB, 0.5)),
        ([{"max_binlog_size": "1G"}], False, Reserve(64 * MIB + GIB, 0.5)),
        ([{"max_binlog_size": str(8 * MIB)}], False, Reserve(72 * MIB, 0.25)),
        # Set back, and the server still runs with what it was started with.
        ([{}, {"max_binlog_size": str(GIB)}], False, Reserve(64 * MIB + GIB, 0.5)),
        ([{"innodb_autoextend_increment": "512"}], False, Reserve(OWN + 448 * MIB, 0.5)),
        ([{"innodb_autoextend_increment": "8"}], False, Reserve(OWN, 0.25)),
        ([{"max_allowed_packet": str(20 * MIB)}], False, Reserve(OWN + 4 * MIB, 0.5)),
        ([{"temptable_max_mmap": str(GIB)}], False, Reserve(OWN + GIB, 0.5)),
        # A replica also receives relay logs, as long as its binary logs unless said otherwise.
        ([], True, Reserve(OWN + SETTINGS.binlog_file_bytes, 0.25)),
        ([{"max_relay_log_size": str(GIB)}], True, Reserve(OWN + GIB, 0.5)),
        ([{"max_relay_log_size": str(GIB)}], False, Reserve(OWN, 0.25)),
        ([{"max_binlog_size": str(GIB)}], True, Reserve(64 * MIB + 2 * GIB, 0.5)),
    ],
)
def test_the_reserve_follows_from_what_the_server_runs_with(
    parameters: list[dict[str, str]], is_replica: bool, expected: Reserve
) -> None:
    assert SETTINGS.max_packet_bytes == 16 * MIB
    assert decide_reserve(SETTINGS, parameters, is_replica=is_replica) == expected


def test_a_volume_is_not_all_reserve_and_what_its_user_raised_has_more_of_it() -> None:
    volume = FileSystem(2 * GIB, GIB)
    assert decide_reserve_bytes(Reserve(4 * GIB, 0.25), volume) == 512 * MIB
    assert decide_reserve_bytes(decide_reserve(SETTINGS, [{"max_binlog_size": "1G"}]), volume) == (
        GIB
    )


@pytest.mark.parametrize(
    ("parameter", "value", "fits"),
    [
        ("max_binlog_size", str(512 * MIB), True),
        ("max_binlog_size", str(GIB), False),
        ("innodb_redo_log_capacity", str(4 * GIB), False),
        ("innodb_log_file_size", str(4 * GIB), False),
        ("temptable_max_mmap", str(GIB), False),
        ("max_relay_log_size", str(GIB), False),
        ("max_relay_log_size", "0", True),
        ("innodb_autoextend_increment", "512", True),
        ("innodb_autoextend_increment", "1000", False),
        ("innodb_buffer_pool_size", str(64 * GIB), True),
        ("innodb_autoextend_increment", "many", True),  # the server refuses it
    ],
)
def test_a_value_that_the_volume_cannot_hold_is_refused(
    parameter: str, value: str, fits: bool
) -> None:
    spec = database_spec(size_bytes=2 * GIB, memory_bytes=512 * MIB)
    if fits:
        require_fits_volume(spec, parameter, value)
        return
    with pytest.raises(RefusedError) as refused:
        require_fits_volume(spec, parameter, value)
    assert refused.value.code == "too-big-for-volume"
    assert parameter in refused.value.problem
    assert "shop" in refused.value.problem
    assert "`grampus db resize shop --size " in refused.value.remedy


@pytest.mark.parametrize(
    ("text", "value"), [("12", 12), ("4k", 4096), (" 1G ", GIB), ("x", None), ("1.5G", None)]
)
def test_values_are_read_as_option_files_have_them(text: str, value: int | None) -> None:
    assert parse_value(text) == value
