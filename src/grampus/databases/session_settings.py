"""What Grampus's own sessions on a server set before their first statement.

A session begins with the server's global values, which users set as parameters. Without these
settings a parameter such as `transaction_read_only` makes every statement of Grampus fail, also
those that would set the parameter back (INV-72). Only variables that every offered version has
(MySQL 8.4 to 9.7, MariaDB 10.11 to 11.8): one that is unknown fails the whole session.
"""

from __future__ import annotations

from collections.abc import Mapping

from grampus.databases.model import FlavourName

_NO_LIMIT = 2**64 - 1
# What both flavours have. Constants, never DEFAULT: that is the global value, the user's.
_COMMON: Mapping[str, str | int] = {
    # Whether a statement changes anything, and whether it is committed at its end.
    "autocommit": "ON",
    "completion_type": "NO_CHAIN",
    "sql_safe_updates": "OFF",
    # How a statement is read: quotes, backslashes, pipes.
    "sql_mode": "'STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION'",
    "sql_auto_is_null": "OFF",
    # How many rows it finds, and how much of them.
    "sql_select_limit": _NO_LIMIT,
    "sql_big_selects": "ON",
    "max_join_size": _NO_LIMIT,
    "group_concat_max_len": 2**20,
    # What it waits for. The client's own limit (see `administrator`) ends what hangs.
    "lock_wait_timeout": 86400,
    "innodb_lock_wait_timeout": 50,
    "net_read_timeout": 30,
    "net_write_timeout": 60,
    "wait_timeout": 28800,
    # How the answer reads.
    "time_zone": "'+00:00'",
    "lc_messages": "'en_US'",
    "sql_quote_show_create": "ON",
    "default_storage_engine": "InnoDB",
}
_OF_FLAVOUR: Mapping[FlavourName, Mapping[str, str | int]] = {
    "mysql": {
        "transaction_read_only": "OFF",
        "transaction_isolation": "'REPEATABLE-READ'",
        "max_execution_time": 0,
        "sql_require_primary_key": "OFF",
        "sql_generate_invisible_primary_key": "OFF",
        "default_table_encryption": "OFF",  # no server has a keyring
    },
    "mariadb": {
        # `transaction_...` from 11.1 on alone.
        "tx_read_only": "OFF",
        "tx_isolation": "'REPEATABLE-READ'",
        "max_statement_time": 0,
        "max_session_mem_used": 2**63 - 1,
        "enforce_storage_engine": "NULL",
        "idle_transaction_timeout": 0,
        "idle_write_transaction_timeout": 0,
        "idle_readonly_transaction_timeout": 0,
    },
}


def session_settings(flavour: FlavourName) -> Mapping[str, str | int]:
    """The variables of a session of Grampus, and their values as SQL."""
    return {**_COMMON, **_OF_FLAVOUR[flavour]}


def render_session_sql(flavour: FlavourName) -> str:
    """One statement, without a semicolon and without a double quote."""
    settings = [f"{name} = {value}" for name, value in session_settings(flavour).items()]
    return f"SET SESSION {', '.join(settings)}, NAMES utf8mb4"


def render_session_options(flavour: FlavourName) -> str:
    """The same as a group of an option file: each session of the client begins with it.

    The group is that of the interactive client alone. Other programs that read the same file
    (mysqlbinlog, mariadb-upgrade) do not know the option, and pass the group over.
    """
    return f'[mysql]\ninit-command="{render_session_sql(flavour)}"\n'
