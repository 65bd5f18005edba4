"""Which line of an option file sets a global variable of the server (pure).

A server lists variables (`SHOW GLOBAL VARIABLES`), and its option file takes options. Most have the
same name. What differs was found by trying each variable of MySQL 9.7.4 and MariaDB 11.8.9 once;
`tests/unit/databases/server_variables` has what both said. MariaDB also takes the beginning of a
name: with `profiling = 1` it sets `profiling_history_size`. So a name that is no option may not be
written at all.
"""

from __future__ import annotations

from collections.abc import Mapping

TIME_ZONE = "time_zone"
_OPTIONS: Mapping[str, str] = {
    TIME_ZONE: "default_time_zone",
    # MariaDB's former names.
    "storage_engine": "default_storage_engine",
    "tx_isolation": "transaction_isolation",
    "tx_read_only": "transaction_read_only",
}
_VARIABLES: Mapping[str, str] = {"default_time_zone": TIME_ZONE}

# A session sets them for itself; no option does for all.
SESSION_VARIABLES = frozenset(
    {
        "character_set_client",
        "character_set_connection",
        "character_set_database",
        "character_set_results",
        "check_constraint_checks",
        "collation_connection",
        "collation_database",
        "default_collation_for_utf8mb4",
        "foreign_key_checks",
        "innodb_ft_aux_table",
        "max_insert_delayed_threads",
        "profiling",
        "rbr_exec_mode",
        "sql_auto_is_null",
        "sql_big_selects",
        "sql_buffer_result",
        "sql_if_exists",
        "sql_log_bin",
        "sql_log_off",
        "sql_notes",
        "sql_quote_show_create",
        "sql_select_limit",
        "sql_warnings",
        "system_versioning_asof",
        "unique_checks",
    }
)
# MySQL has no option of it, MariaDB has.
_SESSION_VARIABLES_OF_MYSQL = frozenset({"sql_safe_updates"})
# What a server says about itself, its build and its machine.
FACTS = frozenset(
    {
        "aria_used_for_temp_tables",
        "build_id",
        "character_set_system",
        "have_compress",
        "have_crypt",
        "have_dynamic_loading",
        "have_geometry",
        "have_openssl",
        "have_profiling",
        "have_query_cache",
        "have_rtree_keys",
        "have_ssl",
        "have_statement_timeout",
        "have_symlink",
        "innodb_version",
        "keyring_operations",
        "large_files_support",
        "large_page_size",
        "license",
        "locked_in_memory",
        "lower_case_file_system",
        "protocol_version",
        "skip_external_locking",
        "system_time_zone",
        "version",
        "version_comment",
        "version_compile_machine",
        "version_compile_os",
        "version_compile_zlib",
        "version_with_update",
    }
)


def option_of(variable: str) -> str:
    """The option that sets the variable."""
    return _OPTIONS.get(variable, variable)


def variable_of(name: str) -> str:
    """The variable that a user means who names an option."""
    return _VARIABLES.get(name, name)


def is_session_variable(variable: str, *, is_mysql: bool) -> bool:
    """Whether sessions alone set it, and no option."""
    return variable in SESSION_VARIABLES or (is_mysql and variable in _SESSION_VARIABLES_OF_MYSQL)
