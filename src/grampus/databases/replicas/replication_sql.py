"""Replication in the words of each server: statements, and what they answer. All pure.

Tried with MySQL 9.7 and MariaDB 11.8. Statements with a password in them are for
`secret_statements` alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from grampus.core.errors import GrampusError
from grampus.databases.accounts import REPLICA_PREFIX, render_protection
from grampus.databases.model import FlavourName

# A name with a dot: no user of a database can be called so (`require_user_name`).
ACCOUNT_PREFIX = REPLICA_PREFIX
# How often a replica tries again to connect, for as long as it takes.
RETRY_EVERY_S = 5
# A link on which nothing was heard for so long counts as lost (the primary says something at
# least every HEARTBEAT_S).
SILENCE_S = 30
HEARTBEAT_S = 10
# "Got fatal error ... when reading data from binary log": MySQL's number, and the protocol's own.
# Both stand for every reason that ends the primary's dump thread; only the text names the reason.
_FATAL_NUMBERS = (13114, 1236)
# MySQL: ER_SOURCE_HAS_PURGED_REQUIRED_GTIDS. MariaDB: the position is older than every log.
_PURGED_WORDS = (
    "purged required binary logs",
    "required binlog files have been purged",
    "required binlog files might have been purged",
)
# MySQL: ER_REPLICA_HAS_MORE_GTIDS_THAN_SOURCE. MariaDB: the position is in none of its logs, with
# or without its guess that the replica executed transactions of its own.
_AHEAD_WORDS = (
    "replica has more gtids than the source",
    "slave has more gtids than the master",
    "which is not in the master's binlog",
)
_NULL = "NULL"
_EVENTS_BY_DEFAULT: Mapping[FlavourName, str] = {"mysql": "ON", "mariadb": "OFF"}

Receiving = Literal["on", "connecting", "off"]
# Why a primary sends nothing more. `refused`: for a reason that is neither of the two others.
Refusal = Literal["purged", "ahead", "refused"]


@dataclass(frozen=True)
class Replication:
    """What a server says of the replication that it was told to do."""

    receiving: Receiving
    applying: bool
    receive_error_number: int
    receive_error: str
    apply_error: str
    received: str  # transactions, as the server names them
    # Of the transaction that is applied now, how long ago the primary committed it; None: none is.
    applying_age_ms: int | None = None
    applied_age_ms: int | None = None  # the same of the last one that was applied

    @property
    def refusal(self) -> Refusal | None:
        """Why the primary refused to send what the replica lacks; None: it did not."""
        if self.receiving != "off":
            return None
        return classify_refusal(self.receive_error_number, self.receive_error)

    @property
    def lacks_binlogs(self) -> bool:
        """The primary no longer has the binary logs that would be needed."""
        return self.refusal == "purged"


@dataclass(frozen=True)
class Position:
    """Which transactions a server has, and of which it no longer has the binary logs."""

    executed: str
    purged: str  # empty in MariaDB, which does not say


def classify_refusal(number: int, message: str) -> Refusal | None:
    """What a receiver's error says of its primary; None: it is another kind of error.

    An error that names no known reason is never taken for missing binary logs: what follows from
    those is that the replica is removed.
    """
    if number not in _FATAL_NUMBERS:
        return None
    said = message.lower()
    if any(words in said for words in _AHEAD_WORDS):
        return "ahead"
    if any(words in said for words in _PURGED_WORDS):
        return "purged"
    return "refused"


def account_of(server_id: int) -> str:
    """The account that the server with that id follows its primary with."""
    return f"{ACCOUNT_PREFIX}{server_id}"


def render_accounts_sql() -> str:
    """Answers with the name of each account of a replica."""
    return f"SELECT User FROM mysql.user WHERE User LIKE '{ACCOUNT_PREFIX}%'"  # noqa: S608


def render_account_sql(flavour: FlavourName, account: str, password: str) -> str:
    """SQL that makes the account, or gives it a new password. It is in no binary log.

    The password must need no quoting (see `credentials`).
    """
    return _script(
        "SET SESSION sql_log_bin = 0",
        f"CREATE USER IF NOT EXISTS '{account}'@'%' IDENTIFIED BY '{password}' REQUIRE SSL",
        f"ALTER USER '{account}'@'%' IDENTIFIED BY '{password}'",
        f"GRANT REPLICATION SLAVE ON *.* TO '{account}'@'%'",
        *([render_protection(f"'{account}'@'%'")] if flavour == "mysql" else []),
    )


def render_drop_accounts_sql(accounts: Sequence[str]) -> str:
    """SQL that removes the accounts; replicas that are connected stay so until they reconnect."""
    listed = ", ".join(f"'{account}'@'%'" for account in accounts)
    return _script("SET SESSION sql_log_bin = 0", f"DROP USER IF EXISTS {listed}")


def render_follow_sql(
    flavour: FlavourName, *, address: str, port: int, account: str, password: str, ca_file: str
) -> str:
    """SQL after which the server follows the one at `address`, from the transaction that it lacks.

    May be repeated. The primary must prove itself with a certificate for its address that the
    authority in `ca_file` signed; it has signed no other server's. The server keeps the password
    in a table of its own, so that it goes on by itself after a restart.
    """
    if flavour == "mysql":
        return _script(
            "STOP REPLICA",
            f"CHANGE REPLICATION SOURCE TO SOURCE_HOST = '{address}', SOURCE_PORT = {port}, "
            f"SOURCE_USER = '{account}', SOURCE_PASSWORD = '{password}', "
            "SOURCE_AUTO_POSITION = 1, SOURCE_SSL = 1, "
            f"SOURCE_SSL_CA = '{ca_file}', SOURCE_SSL_VERIFY_SERVER_CERT = 1, "
            f"SOURCE_CONNECT_RETRY = {RETRY_EVERY_S}, SOURCE_RETRY_COUNT = 0, "
            f"SOURCE_HEARTBEAT_PERIOD = {HEARTBEAT_S}",
            f"SET GLOBAL replica_net_timeout = {SILENCE_S}",
            "START REPLICA",
        )
    return _script(
        "STOP SLAVE",
        # A clone has its primary's binary log, so this is where it stands.
        "SET GLOBAL gtid_slave_pos = @@GLOBAL.gtid_binlog_pos",
        f"CHANGE MASTER TO MASTER_HOST = '{address}', MASTER_PORT = {port}, "
        f"MASTER_USER = '{account}', MASTER_PASSWORD = '{password}', "
        "MASTER_USE_GTID = slave_pos, MASTER_SSL = 1, "
        f"MASTER_SSL_CA = '{ca_file}', MASTER_SSL_VERIFY_SERVER_CERT = 1, "
        f"MASTER_CONNECT_RETRY = {RETRY_EVERY_S}, MASTER_HEARTBEAT_PERIOD = {HEARTBEAT_S}",
        "START SLAVE",
    )


def render_source_sql(flavour: FlavourName) -> str:
    """Answers with one row for `parse_source`, or none when nothing is to be followed."""
    if flavour == "mysql":
        return (
            "SELECT HOST, PORT FROM performance_schema.replication_connection_configuration "
            "WHERE CHANNEL_NAME = ''"
        )
    return (
        "SELECT Master_Host, Master_Port FROM information_schema.SLAVE_STATUS "
        "WHERE Connection_name = ''"
    )


def parse_source(rows: Sequence[tuple[str, ...]]) -> tuple[str, int] | None:
    """Address and port that a server follows; None: it follows nobody."""
    if not rows or rows[0][0] in ("", _NULL):
        return None
    try:
        [(address, port)] = rows
        return address, int(port)
    except ValueError:
        raise _unreadable() from None


def render_stop_receiving_sql(flavour: FlavourName) -> str:
    """Nothing more is received; what was is applied."""
    return f"STOP {_word(flavour)} IO_THREAD"


def render_receive_sql(flavour: FlavourName) -> str:
    """The end of `render_stop_receiving_sql`."""
    return f"START {_word(flavour)} IO_THREAD"


def render_independence_sql(flavour: FlavourName, parameters: Mapping[str, str]) -> str:
    """The server follows nobody any more, and lets its users write. May be repeated.

    `parameters` are its user's own; without one for it, events run as by the server's default.
    """
    word = _word(flavour)
    events = parameters.get("event_scheduler", _EVENTS_BY_DEFAULT[flavour])
    also = ["SET GLOBAL super_read_only = OFF"] if flavour == "mysql" else []
    return "; ".join(
        [
            f"STOP {word}",
            f"RESET {word} ALL",
            *also,
            "SET GLOBAL read_only = OFF",
            f"SET GLOBAL event_scheduler = {events}",
        ]
    )


def render_position_sql(flavour: FlavourName) -> str:
    """Answers with one row for `parse_position`."""
    if flavour == "mysql":
        return (
            "SELECT REPLACE(@@GLOBAL.gtid_executed, CHAR(10), ''), "
            "REPLACE(@@GLOBAL.gtid_purged, CHAR(10), '')"
        )
    # What a clone was made with is in its binary log, what it was sent since in the other.
    return (
        "SELECT CONCAT_WS(',', NULLIF(@@GLOBAL.gtid_binlog_pos, ''), "
        "NULLIF(@@GLOBAL.gtid_slave_pos, '')), ''"
    )


def parse_position(rows: Sequence[tuple[str, ...]]) -> Position:
    """From the row that `render_position_sql` asked for."""
    try:
        [(executed, purged)] = rows
    except ValueError:
        raise _unreadable() from None
    return Position(executed, purged)


def render_replication_sql(flavour: FlavourName) -> str:
    """Answers with one row for `parse_replication`, or none when nothing is to be followed.

    MySQL's tables of replication are there whether performance_schema is switched on or not.
    """
    if flavour == "mysql":
        return (
            "SELECT c.SERVICE_STATE, c.LAST_ERROR_NUMBER, "
            "REPLACE(c.LAST_ERROR_MESSAGE, CHAR(10), ' '), MAX(a.SERVICE_STATE), "
            "IFNULL(MAX(REPLACE(w.LAST_ERROR_MESSAGE, CHAR(10), ' ')), ''), "
            "REPLACE(c.RECEIVED_TRANSACTION_SET, CHAR(10), ''), "
            "TIMESTAMPDIFF(MICROSECOND, MIN(IF(w.APPLYING_TRANSACTION = '', NULL, "
            "w.APPLYING_TRANSACTION_ORIGINAL_COMMIT_TIMESTAMP)), NOW(6)) DIV 1000, "
            "TIMESTAMPDIFF(MICROSECOND, MAX(IF(w.LAST_APPLIED_TRANSACTION = '', NULL, "
            "w.LAST_APPLIED_TRANSACTION_ORIGINAL_COMMIT_TIMESTAMP)), NOW(6)) DIV 1000 "
            "FROM performance_schema.replication_connection_status c "
            "JOIN performance_schema.replication_applier_status a USING (CHANNEL_NAME) "
            "LEFT JOIN performance_schema.replication_applier_status_by_worker w "
            "USING (CHANNEL_NAME) WHERE c.CHANNEL_NAME = '' AND c.SOURCE_UUID IS NOT NULL "
            "GROUP BY 1, 2, 3, 6"
        )
    return (
        "SELECT CASE Slave_IO_Running WHEN 'Yes' THEN 'ON' WHEN 'No' THEN 'OFF' ELSE 'CONNECTING' "
        "END, Last_IO_Errno, REPLACE(Last_IO_Error, CHAR(10), ' '), "
        "IF(Slave_SQL_Running = 'Yes', 'ON', 'OFF'), REPLACE(Last_SQL_Error, CHAR(10), ' '), "
        "Gtid_IO_Pos, IF(Seconds_Behind_Master > 0, Seconds_Behind_Master * 1000, NULL), "
        "TIMESTAMPDIFF(MICROSECOND, Slave_last_event_time, NOW(6)) DIV 1000 "
        "FROM information_schema.SLAVE_STATUS WHERE Connection_name = ''"
    )


def parse_replication(rows: Sequence[tuple[str, ...]]) -> Replication | None:
    """From the rows that `render_replication_sql` asked for; None: it follows nobody."""
    if not rows:
        return None
    states: dict[str, Receiving] = {"ON": "on", "CONNECTING": "connecting", "OFF": "off"}
    try:
        [(receiving, number, said, applying, apply_error, received, age, last_age)] = rows
        return Replication(
            receiving=states[receiving],
            applying=applying == "ON",
            receive_error_number=int(number),
            receive_error=said,
            apply_error=apply_error,
            received=received,
            applying_age_ms=_age_ms(age),
            applied_age_ms=_age_ms(last_age),
        )
    except (KeyError, ValueError):
        raise _unreadable() from None


def _age_ms(text: str) -> int | None:
    # Clocks of two machines differ a little: nothing is applied before it was committed.
    return None if text == _NULL else max(0, int(text))


def _word(flavour: FlavourName) -> str:
    return "REPLICA" if flavour == "mysql" else "SLAVE"


def _script(*statements: str) -> str:
    return "".join(f"{statement};\n" for statement in statements)


def _unreadable() -> GrampusError:
    return GrampusError(
        "The server's answer about its replication is not valid.",
        "Try again. `grampus db connect NAME -e 'SHOW REPLICA STATUS'` shows the answer.",
    )
