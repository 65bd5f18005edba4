"""Which parameters may be set, to what, and what is shown of them."""

from __future__ import annotations

from decimal import Decimal
from pathlib import PurePosixPath

import pytest

from grampus.core.errors import NotFoundError, RefusedError, UsageError
from grampus.core.units import MIB
from grampus.databases.live.decide_parameters import (
    OWN_PARAMETERS,
    Variable,
    classify_check,
    decide_reset_statement,
    decide_value,
    decide_views,
    explain_risk,
    find_variable,
    is_same_value,
    parse_assignment,
    require_users_own,
)
from grampus.databases.live.server_variables import parse_mariadb_variables, parse_mysql_variables
from grampus.databases.model import FlavourName
from grampus.databases.settings import ServerPlaces, decide_server_options, decide_server_settings

NUMBER = Variable("n", "500", "number", Decimal(100), Decimal(10**9))
FLOAT = Variable("f", "10.000000", "number")
SWITCH = Variable("s", "OFF", "switch")
WORDS = Variable("w", "FULL", "words", choices=("FULL", "MINIMAL", "NOBLOB"))
FREE = Variable("sql_mode", "A", "words")


@pytest.mark.parametrize(
    ("variable", "text", "option", "statement"),
    [
        (NUMBER, "1000", "1000", "1000"),
        (NUMBER, "64K", "65536", "65536"),
        (NUMBER, "1MiB", "1048576", "1048576"),
        (NUMBER, "1.5k", "1536", "1536"),
        (FLOAT, "0.25", "0.25", "0.25"),
        (FLOAT, "-1", "-1", "-1"),
        (SWITCH, "on", "ON", "ON"),
        (SWITCH, "0", "OFF", "OFF"),
        (SWITCH, "False", "OFF", "OFF"),
        (WORDS, "minimal", "minimal", "'minimal'"),
        (WORDS, "FULL,NOBLOB", "FULL,NOBLOB", "'FULL,NOBLOB'"),
        (WORDS, "1", "1", "'1'"),
        (FREE, "STRICT_ALL_TABLES", "STRICT_ALL_TABLES", "'STRICT_ALL_TABLES'"),
    ],
)
def test_values_as_the_server_takes_them(
    variable: Variable, text: str, option: str, statement: str
) -> None:
    decided = decide_value(variable, text)
    assert (decided.option, decided.statement) == (option, statement)


@pytest.mark.parametrize(
    ("variable", "text", "remedy"),
    [
        (NUMBER, "99", "Choose a number between 100 and 1000000000."),
        (NUMBER, "1G", "Choose a number between 100 and 1000000000."),
        (NUMBER, "many", "Choose a number."),
        (NUMBER, "", "Use no quotes, no backslash, no # and no line breaks."),
        (SWITCH, "maybe", "Choose ON or OFF."),
        (WORDS, "minimum", "Did you mean 'MINIMAL'?"),
        (WORDS, "xyz", "Choose one of FULL, MINIMAL, NOBLOB."),
        (FREE, "a\nport=1", "Use no quotes, no backslash, no # and no line breaks."),
        (FREE, "a' OR 1", "Use no quotes, no backslash, no # and no line breaks."),
        (FREE, "a # b", "Use no quotes, no backslash, no # and no line breaks."),
    ],
)
def test_values_that_are_refused(variable: Variable, text: str, remedy: str) -> None:
    with pytest.raises(UsageError) as caught:
        decide_value(variable, text)
    assert (caught.value.code, caught.value.remedy) == ("invalid-value", remedy)


@pytest.mark.parametrize("flavour", ["mysql", "mariadb"])
def test_what_grampus_places_and_names_itself_is_not_the_users(flavour: str) -> None:
    """Options with a path or an address in them are Grampus's own, every one."""
    settings = decide_server_settings(flavour, 2**33, 2**30, 1.0)  # type: ignore[arg-type]
    options = decide_server_options(
        flavour,  # type: ignore[arg-type]
        settings,
        ServerPlaces(PurePosixPath("/v"), PurePosixPath("/t"), PurePosixPath("/r")),
        address="10.0.0.1",
        port=3306,
        server_id=7,
    )
    placed = {name for name, value in options.items() if str(value).startswith(("/", "10.0.0."))}
    assert placed <= set(OWN_PARAMETERS)
    assert {"server_id", "port", "innodb_doublewrite", "innodb_buffer_pool_size"} <= set(
        OWN_PARAMETERS
    )
    # Also those with which a commit would be in no binary log.
    for name in ("datadir", "log_bin", "binlog_do_db", "binlog_ignore_db"):
        with pytest.raises(RefusedError) as caught:
            require_users_own(name)
        assert caught.value.code == "own-parameter"
    require_users_own("innodb_io_capacity")


def test_unknown_parameter_gets_a_suggestion() -> None:
    with pytest.raises(NotFoundError) as caught:
        find_variable("innodb_io_capacty", {"innodb_io_capacity": NUMBER})
    assert caught.value.code == "unknown-parameter"
    assert caught.value.remedy == "Did you mean 'innodb_io_capacity'?"


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [("innodb-io-capacity=5", "innodb_io_capacity", "5"), (" SQL_MODE = A=B ", "sql_mode", "A=B")],
)
def test_assignments(text: str, name: str, value: str) -> None:
    assert parse_assignment(text) == (name, value)


@pytest.mark.parametrize("text", ["sql_mode", "=5", ""])
def test_what_is_no_assignment(text: str) -> None:
    with pytest.raises(UsageError):
        parse_assignment(text)


@pytest.mark.parametrize(
    ("wanted", "running", "same"),
    [
        ("1", "ON", True),
        ("OFF", "0", True),
        ("0.5", "0.500000", True),
        ("500", "501", False),
        ("A,B", "b,a", True),
        ("A,B", "A", False),
        ("minimal", "MINIMAL", True),
    ],
)
def test_same_values(wanted: str, running: str, same: bool) -> None:
    assert is_same_value(wanted, running) is same


@pytest.mark.parametrize(
    ("name", "value", "flavour", "expected"),
    [
        ("sync_binlog", "1", "mysql", None),
        ("innodb_io_capacity", "5", "mysql", None),
        ("sync_binlog", "0", "mariadb", "can lose confirmed commits"),
        ("innodb_flush_log_at_trx_commit", "2", "mysql", "can lose confirmed commits"),
        ("innodb_redo_log_capacity", "60M", "mysql", None),
        ("innodb_redo_log_capacity", "67108864", "mysql", "Values up to 62914560"),
        ("innodb_redo_log_capacity", "1G", "mysql", "larger buffer pool to recover"),
        # It applies its log in batches, however large it is.
        ("innodb_log_file_size", "1G", "mariadb", None),
    ],
)
def test_what_a_value_may_cost_is_told(
    name: str, value: str, flavour: FlavourName, expected: str | None
) -> None:
    told = explain_risk(name, value, flavour, 180 * MIB)
    assert told is None if expected is None else expected in str(told)


def test_reset_goes_back_to_grampus_or_else_the_server() -> None:
    own = {"innodb_io_capacity": 500, "character_set_server": "utf8mb4"}
    assert decide_reset_statement("innodb_io_capacity", own, "number") == "500"
    assert decide_reset_statement("character_set_server", own, "words") == "'utf8mb4'"
    assert decide_reset_statement("long_query_time", own, "number") == "DEFAULT"


def test_views() -> None:
    variables = {
        name: Variable(name, value, "number", from_file=from_file)
        for name, value, from_file in [
            ("a", "5", True),  # set, and runs
            ("b", "5", True),  # set to 6, waits
            ("c", "5", True),  # was started with 9, took 5
            ("d", "5", True),  # reset, and still runs as it was
            ("e", "5", False),  # reset at once
            ("g", "5", True),  # Grampus's own
        ]
    }
    # Of "f" and "h" the server knows nothing; it was started with "f".
    parameters = {"a": "5", "b": "6", "c": "9", "f": "1", "h": "1"}
    started = {"a": "5", "b": "5", "c": "9", "d": "5", "e": "7", "f": "1"}
    views = decide_views(parameters, started, variables, everything=False)
    assert {view.name: view.state for view in views} == {
        "a": "in effect",
        "b": "pending restart",
        "c": "adjusted",
        "d": "pending restart",
        "f": "ignored",
        "h": "pending restart",
    }
    every = decide_views(parameters, started, variables, everything=True)
    assert [view.name for view in every] == ["a", "b", "c", "d", "e", "f", "g", "h"]
    away = decide_views(parameters, started, None, everything=False)
    assert {(view.running, view.state) for view in away} == {(None, "unknown")}


# As mysqld 9.7.4 and mariadbd 11.8.6 wrote them.
ADJUSTED = (
    "2026-11-22T00:58:20.705463Z 0 [Warning] [MY-000081] [Server] option "
    "'innodb-page-cleaners': unsigned value 9999 adjusted to 64."
)
UNKNOWN = "2026-11-22T00:58:20.76Z 0 [ERROR] [MY-000067] [Server] unknown variable 'innodb_x=4'."

DEPRECATED = (
    "2026-11-27T07:20:00.76Z 0 [Warning] [MY-011068] [Server] The syntax "
    "'log_bin_trust_function_creators' is deprecated and will be removed in a future release."
)

# As mariadbd 11.8.9 wrote them.
IGNORED = (
    "2026-11-27  7:20:00 0 [Warning] mariadbd: ignoring option '--character-set-client-handshake' "
    "due to invalid value 'latin1'"
)
REMOVED = (
    "2026-11-27  7:20:00 0 [Warning] 'innodb-lru-flush-size' was removed. It does nothing now and "
    "exists only for compatibility with old my.cnf files."
)


@pytest.mark.parametrize(
    ("name", "log", "said"),
    [
        (
            "innodb_page_cleaners",
            ADJUSTED,
            "option 'innodb-page-cleaners': unsigned value 9999 adjusted to 64",
        ),
        ("innodb_x", UNKNOWN, "unknown variable 'innodb_x=4'"),
        ("innodb_io_capacity", ADJUSTED, None),
        ("innodb_page_cleaners", "[Note] innodb_page_cleaners is fine", None),
        ("innodb_page_cleaners", "", None),
        ("log_bin_trust_function_creators", DEPRECATED, None),
        (
            "character_set_client",
            IGNORED,
            "mariadbd: ignoring option '--character-set-client-handshake' due to invalid value "
            "'latin1'",
        ),
        (
            "innodb_lru_flush_size",
            REMOVED,
            "'innodb-lru-flush-size' was removed. It does nothing now and exists only for "
            "compatibility with old my.cnf files",
        ),
    ],
)
def test_what_the_servers_check_says(name: str, log: str, said: str | None) -> None:
    assert classify_check(name, log) == said


def test_catalogue_of_mysql() -> None:
    rows = [
        ("innodb_io_capacity", "500", "Integer", "100", "4294967295", "EXPLICIT"),
        ("long_query_time", "10.000000", "Numeric", "0", "4719230590769954816", "COMPILED"),
        ("slow_query_log", "OFF", "Boolean", "0", "0", "COMPILED"),
        ("tmp_table_size", "16777216", "Integer", "1024", "0", "COMPILED"),
        ("binlog_row_image", "FULL", "Enumeration", "0", "0", "DYNAMIC"),
        ("of_a_component", "x", "NULL", "NULL", "NULL", "COMPILED"),
    ]
    found = parse_mysql_variables(rows)
    assert found["innodb_io_capacity"] == Variable(
        "innodb_io_capacity", "500", "number", Decimal(100), Decimal(4294967295), from_file=True
    )
    assert found["long_query_time"] == Variable("long_query_time", "10.000000", "number")
    assert found["slow_query_log"].kind == "switch"
    assert found["tmp_table_size"].highest is None
    assert [found[name].kind for name in ("binlog_row_image", "of_a_component")] == ["words"] * 2


def test_catalogue_of_mariadb() -> None:
    rows = [
        ("sql_mode", "A", "SET", "NULL", "NULL", "COMPILE-TIME", "A,B", "NO"),
        ("datadir", "/d/", "VARCHAR", "NULL", "NULL", "CONFIG", "NULL", "YES"),
        (
            "innodb_io_capacity",
            "500",
            "BIGINT UNSIGNED",
            "100",
            "4294967295",
            "CONFIG",
            "NULL",
            "NO",
        ),
        ("long_query_time", "10.0", "DOUBLE", "0", "31536000", "COMPILE-TIME", "NULL", "NO"),
        ("slow_query_log", "OFF", "BOOLEAN", "NULL", "NULL", "COMPILE-TIME", "OFF,ON", "NO"),
    ]
    found = parse_mariadb_variables(rows)
    assert found["sql_mode"].choices == ("A", "B")
    assert (found["datadir"].read_only, found["datadir"].from_file) == (True, True)
    assert found["innodb_io_capacity"].lowest == 100
    assert found["long_query_time"].highest == 31536000
    assert (found["slow_query_log"].kind, found["slow_query_log"].choices) == ("switch", ())
