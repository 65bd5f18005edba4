"""What servers are told about replication, and what they answer."""

from __future__ import annotations

from typing import get_args

import pytest

from grampus.core.errors import GrampusError
from grampus.databases.model import FlavourName
from grampus.databases.replicas.replication_sql import (
    Replication,
    classify_refusal,
    parse_position,
    parse_replication,
    render_account_sql,
    render_drop_accounts_sql,
    render_follow_sql,
    render_independence_sql,
    render_position_sql,
    render_receive_sql,
    render_replication_sql,
    render_stop_receiving_sql,
)

# As MySQL 9.7.4 and MariaDB 11.8.6 answered.
ANSWERS: list[tuple[tuple[str, ...], Replication]] = [
    (
        ("ON", "0", "", "ON", "", "a:1-3", "NULL", "50300"),
        Replication("on", True, 0, "", "", "a:1-3", None, 50300),
    ),
    (
        ("OFF", "13114", "purged", "ON", "", "a:1-3", "NULL", "NULL"),
        Replication("off", True, 13114, "purged", "", "a:1-3"),
    ),
    (
        ("CONNECTING", "2003", "no route", "OFF", "Duplicate entry", "", "-4", "9"),
        Replication("connecting", False, 2003, "no route", "Duplicate entry", "", 0, 9),
    ),
]


@pytest.mark.parametrize(("row", "expected"), ANSWERS)
def test_what_a_server_says_is_read(row: tuple[str, ...], expected: Replication) -> None:
    assert parse_replication([row]) == expected


def test_one_that_follows_nobody_says_nothing() -> None:
    assert parse_replication([]) is None


@pytest.mark.parametrize(
    ("receiving", "number", "expected"),
    [("off", 13114, True), ("off", 1236, True), ("off", 0, False), ("connecting", 1236, False)],
)
def test_binary_logs_that_are_gone_are_told_by_number_and_text(
    receiving: str, number: int, expected: bool
) -> None:
    said = "Cannot replicate because the source purged required binary logs."
    state = Replication(receiving, True, number, said, "", "")  # type: ignore[arg-type]
    assert state.lacks_binlogs is expected


@pytest.mark.parametrize(
    ("number", "said", "expected"),
    [
        (
            13114,
            "Got fatal error 1236 from source when reading data from binary log: 'Cannot replicate "
            "because the source purged required binary logs. Replicate the missing transactions "
            "from elsewhere, or provision a new replica from backup.'",
            "purged",
        ),
        (
            13114,
            "Got fatal error 1236 from source when reading data from binary log: 'Replica has more "
            "GTIDs than the source has, using the source's SERVER_UUID. This may indicate that the "
            "end of the binary log was truncated or that the last binary log file was lost'",
            "ahead",
        ),
        (
            1236,
            "Got fatal error 1236 from master when reading data from binary log: 'Error: "
            "connecting slave requested to start from GTID 0-1-9, which is not in the master's "
            "binlog. Since the master's binlog contains GTIDs with higher sequence numbers, it "
            "probably means that the slave has diverged due to executing extra erroneous "
            "transactions'",
            "ahead",
        ),
        (
            1236,
            "Got fatal error 1236 from master when reading data from binary log: 'Could not find "
            "GTID state requested by slave in any binlog files. Probably the slave state is too "
            "old and required binlog files have been purged.'",
            "purged",
        ),
        (13114, "'log event entry exceeded max_allowed_packet'", "refused"),
        (1236, "'Could not find first log file name in binary log index file'", "refused"),
        (13114, "", "refused"),
        (2003, "Can't connect", None),
        (0, "", None),
    ],
)
def test_a_refusal_is_told_by_its_text_and_an_unknown_one_is_never_missing_logs(
    number: int, said: str, expected: str | None
) -> None:
    assert classify_refusal(number, said) == expected


@pytest.mark.parametrize("rows", [[("ON",)], [("?", "0", "", "ON", "", "", "NULL", "NULL")]])
def test_any_other_answer_is_an_error(rows: list[tuple[str, ...]]) -> None:
    with pytest.raises(GrampusError, match="is not valid"):
        parse_replication(rows)
    with pytest.raises(GrampusError, match="is not valid"):
        parse_position(rows)


@pytest.mark.parametrize("flavour", get_args(FlavourName))
def test_a_replica_follows_over_tls_by_gtid_and_never_gives_up(flavour: FlavourName) -> None:
    sql = render_follow_sql(
        flavour,
        address="10.9.0.1",
        port=3306,
        account="grampus.replica.7",
        password="Secret1",
        ca_file="/var/lib/mysql/ca.pem",
    )
    word = "SOURCE" if flavour == "mysql" else "MASTER"
    assert f"{word}_SSL = 1" in sql
    assert f"{word}_SSL_VERIFY_SERVER_CERT = 1" in sql
    assert ("SOURCE_AUTO_POSITION = 1" if flavour == "mysql" else "MASTER_USE_GTID") in sql
    assert flavour == "mariadb" or "SOURCE_RETRY_COUNT = 0" in sql, "0 is for ever"
    assert sql.startswith("STOP")


def test_accounts_are_in_no_binary_log_and_need_tls() -> None:
    for flavour in get_args(FlavourName):
        made = render_account_sql(flavour, "grampus.replica.7", "Secret1").splitlines()
        assert made[0] == "SET SESSION sql_log_bin = 0;"
        assert all("REQUIRE SSL" in line for line in made if line.startswith("CREATE"))
        # Else the owner could take it over, or define something in its name.
        is_protected = "GRANT SYSTEM_USER ON *.* TO 'grampus.replica.7'@'%';" in made
        assert is_protected == (flavour == "mysql")
    assert render_drop_accounts_sql(["a.b", "c.d"]).splitlines() == [
        "SET SESSION sql_log_bin = 0;",
        "DROP USER IF EXISTS 'a.b'@'%', 'c.d'@'%';",
    ]


@pytest.mark.parametrize(
    ("flavour", "parameters", "events"),
    [
        ("mysql", {}, "ON"),
        ("mariadb", {}, "OFF"),
        ("mysql", {"event_scheduler": "OFF"}, "OFF"),
        ("mariadb", {"event_scheduler": "ON"}, "ON"),
    ],
)
def test_one_that_is_let_go_may_be_written_to(
    flavour: FlavourName, parameters: dict[str, str], events: str
) -> None:
    statements = render_independence_sql(flavour, parameters).split("; ")
    assert statements[-2:] == [
        "SET GLOBAL read_only = OFF",
        f"SET GLOBAL event_scheduler = {events}",
    ]
    assert ("SET GLOBAL super_read_only = OFF" in statements) is (flavour == "mysql")
    assert statements[1].startswith("RESET ")


@pytest.mark.parametrize("flavour", get_args(FlavourName))
def test_questions_fit_on_one_line_and_hold_no_secret(flavour: FlavourName) -> None:
    for sql in (
        render_position_sql(flavour),
        render_replication_sql(flavour),
        render_stop_receiving_sql(flavour),
        render_receive_sql(flavour),
    ):
        assert "\n" not in sql
        assert "PASSWORD" not in sql
