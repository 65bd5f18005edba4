"""Parameters of a server as its user may set them: which, to what, and when they take effect."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Literal

from grampus.core.errors import NotFoundError, RefusedError, UsageError, closest_name, suggest
from grampus.databases.growth.decide_reserve import parse_value
from grampus.databases.model import FlavourName
from grampus.databases.option_names import FACTS, TIME_ZONE, is_session_variable, variable_of
from grampus.databases.settings import RECOVERED_IN_POOL

ParameterKind = Literal["number", "switch", "words"]
# `adjusted`: the server was started with it, and took another value.
# `ignored`: the server took it from its option file, and has no such variable (any more).
ParameterState = Literal["in effect", "pending restart", "adjusted", "ignored", "unknown"]

_PATHS = "Grampus sets its paths"
_IDENTITY = "Grampus sets the identity and the address of each server"
_SECURITY = "Grampus enforces encrypted connections and separate accounts"
_SAFETY = "another value could lose or tear committed data"
_LIMITS = "it follows from the database's limits: `grampus db set NAME --memory SIZE`"
_REPLICATION = "snapshots, clones and restores need the value of Grampus"
_STATE = "operations of Grampus set it"
_CORES = "a core dump would contain rows and passwords from the server's memory"
_FACT = "it is read-only information of the server"

# What nobody but Grampus sets, and why. Beside its own options, those that would undo them.
OWN_PARAMETERS: Mapping[str, str] = {
    **dict.fromkeys(
        (
            "basedir",
            "character_sets_dir",
            "datadir",
            "general_log_file",
            "init_file",
            "innodb_data_file_path",
            "innodb_data_home_dir",
            "innodb_directories",
            "innodb_log_group_home_dir",
            "innodb_redo_log_archive_dirs",
            "innodb_temp_data_file_path",
            "innodb_temp_tablespaces_dir",
            "innodb_tmpdir",
            "innodb_undo_directory",
            "lc_messages_dir",
            "log_bin",
            "log_bin_basename",
            "log_bin_index",
            "log_error",
            "pid_file",
            "plugin_dir",
            "relay_log",
            "relay_log_basename",
            "secure_file_priv",
            "slow_query_log_file",
            "socket",
            "tmpdir",
        ),
        _PATHS,
    ),
    **dict.fromkeys(
        (
            "admin_address",
            "admin_port",
            "bind_address",
            "create_admin_listener_thread",
            "extra_max_connections",
            "extra_port",
            "hostname",
            "mysqlx",
            "mysqlx_bind_address",
            "mysqlx_port",
            "port",
            "server_id",
            "server_uuid",
            "skip_name_resolve",
            "skip_networking",
            "user",
        ),
        _IDENTITY,
    ),
    **dict.fromkeys(
        (
            "admin_ssl_ca",
            "admin_ssl_capath",
            "admin_ssl_cert",
            "admin_ssl_cipher",
            "admin_ssl_crl",
            "admin_ssl_crlpath",
            "admin_ssl_key",
            "admin_tls_ciphersuites",
            "admin_tls_version",
            "auto_generate_certs",
            "caching_sha2_password_auto_generate_rsa_keys",
            "partial_revokes",
            "require_secure_transport",
            "sha256_password_auto_generate_rsa_keys",
            "ssl_ca",
            "ssl_capath",
            "ssl_cert",
            "ssl_cipher",
            "ssl_crl",
            "ssl_crlpath",
            "ssl_key",
            "tls_version",
        ),
        _SECURITY,
    ),
    **dict.fromkeys(
        (
            "innodb_checksum_algorithm",
            "innodb_doublewrite",
            "innodb_fast_shutdown",
            "innodb_flush_method",
            "innodb_force_recovery",
            "innodb_page_size",
            "innodb_use_fdatasync",
            "lower_case_table_names",
        ),
        _SAFETY,
    ),
    **dict.fromkeys(
        (
            "innodb_buffer_pool_chunk_size",
            "innodb_buffer_pool_instances",
            "innodb_buffer_pool_size",
            "innodb_buffer_pool_size_auto_min",
            "innodb_buffer_pool_size_max",
            "performance_schema",
        ),
        _LIMITS,
    ),
    **dict.fromkeys(
        (
            # What is in no binary log is in no archive, and not durable with its commit.
            "binlog_do_db",
            "binlog_format",
            "binlog_ignore_db",
            "enforce_gtid_consistency",
            "gtid_mode",
            "gtid_binlog_pos",
            "gtid_binlog_state",
            "gtid_current_pos",
            "gtid_executed",
            "gtid_owned",
            "gtid_slave_pos",
            "gtid_strict_mode",
            "log_replica_updates",
            "log_slave_updates",
        ),
        _REPLICATION,
    ),
    **dict.fromkeys(
        (
            "gtid_purged",
            "innodb_read_only",
            "offline_mode",
            "persisted_globals_load",
            "read_only",
            "sql_replica_skip_counter",
            "sql_slave_skip_counter",
            "super_read_only",
        ),
        _STATE,
    ),
    "core_file": _CORES,
    **dict.fromkeys(FACTS, _FACT),
}

# Allowed, and told of: with the value 1 alone every acknowledged commit outlives a crash.
_DURABILITY = ("innodb_flush_log_at_trx_commit", "sync_binlog")
# Allowed, and told of as well: what MySQL applies after a crash, in its buffer pool.
_RECOVERED = ("innodb_redo_log_capacity",)

_FACTORS = {letter: 1024**power for power, letter in enumerate("KMGTPE", start=1)}
_NUMBER = re.compile(r"(?P<number>[+-]?\d+(?:\.\d+)?)(?P<unit>[KMGTPE]?)(?:iB|B)?", re.IGNORECASE)
_SWITCH = {"on": "ON", "1": "ON", "true": "ON", "off": "OFF", "0": "OFF", "false": "OFF"}
# In a line of the server's log about an option: it does not take it as it is.
_REFUSING = ("[ERROR]", "adjusted to", "unknown variable", "ignoring option", "does nothing now")
# What an option file would read as something else, or SQL would.
_UNWRITABLE = re.compile(r"[\x00-\x1f\x7f#\\'\"]|^\s|\s$")


@dataclass(frozen=True)
class Variable:
    """A global variable of a running server."""

    name: str
    value: str
    kind: ParameterKind
    lowest: Decimal | None = None
    highest: Decimal | None = None
    choices: tuple[str, ...] = ()  # all words that it can be; empty when not known
    read_only: bool | None = None  # until the next start; None: not known
    from_file: bool = False  # from the option file that the server was started with


@dataclass(frozen=True)
class ParameterValue:
    """A value as an option file has it, and as it follows `SET GLOBAL name =`."""

    option: str
    statement: str


@dataclass(frozen=True)
class ParameterView:
    """A parameter: what was asked for (None: as Grampus or the server has it), and what runs."""

    name: str
    wanted: str | None
    running: str | None  # None: the server does not run
    state: ParameterState


def parse_assignment(text: str) -> tuple[str, str]:
    """Name and value of `name=value`, the name as the server spells it. Raises UsageError."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise UsageError(
            f"{text!r} is not NAME=VALUE.",
            "Write NAME=VALUE, such as innodb_io_capacity=500.",
            code="invalid-parameter",
        )
    return normalise_name(name), value.strip()


def normalise_name(name: str) -> str:
    """The name as the server's variables spell it, also of an option that sets one."""
    return variable_of(name.strip().lower().replace("-", "_"))


def find_variable(name: str, variables: Mapping[str, Variable]) -> Variable:
    """The variable. Raises NotFoundError with the closest name there is."""
    found = variables.get(name)
    if found is None:
        raise NotFoundError(
            f"The server has no parameter '{name}'.",
            suggest(
                name, variables, "`grampus db parameter list NAME --all` shows all parameters."
            ),
            code="unknown-parameter",
        )
    return found


def require_users_own(name: str) -> None:
    """Raise RefusedError with code `own-parameter` for one that Grampus alone sets."""
    reason = OWN_PARAMETERS.get(name)
    if reason is not None:
        raise RefusedError(
            f"The parameter {name} cannot be set: {reason}.",
            "`grampus db parameter list NAME --all` shows the parameters of a server and their "
            "values.",
            code="own-parameter",
        )


def require_option(database: str, name: str, *, is_mysql: bool) -> None:
    """Raise RefusedError with code `session-parameter` for one that no option file can set."""
    if is_session_variable(name, is_mysql=is_mysql):
        raise RefusedError(
            f"The parameter {name} cannot be set for the whole server: the option file has no "
            "such option.",
            f"Set it in each session (`SET SESSION {name} = ...`), or for each new session of "
            f'users: `grampus db parameter set {database} init_connect "SET {name} = ..."`.',
            code="session-parameter",
        )


def decide_value(variable: Variable, text: str) -> ParameterValue:
    """The value as the server takes it. Raises UsageError with code `invalid-value`.

    A size may have a unit (binary, as in option files); it is kept as a plain number, because
    SET GLOBAL takes no units.
    """
    if not text or _UNWRITABLE.search(text):
        raise _invalid(variable, text, "Use no quotes, no backslash, no # and no line breaks.")
    if variable.kind == "number":
        number = _parse_number(variable, text)
        return ParameterValue(number, number)
    if variable.kind == "switch":
        word = _SWITCH.get(text.lower())
        if word is None:
            raise _invalid(variable, text, "Choose ON or OFF.")
        return ParameterValue(word, word)
    if variable.choices:
        _require_choices(variable, text)
    return ParameterValue(text, f"'{text}'")


def _parse_number(variable: Variable, text: str) -> str:
    match = _NUMBER.fullmatch(text)
    try:
        number = Decimal(match["number"]) if match else None
    except InvalidOperation:
        number = None
    if match is None or number is None:
        raise _invalid(variable, text, "Choose a number.")
    number *= _FACTORS[match["unit"].upper()] if match["unit"] else 1
    lowest, highest = variable.lowest, variable.highest
    if (lowest is not None and number < lowest) or (highest is not None and number > highest):
        raise _invalid(variable, text, f"Choose a number between {lowest} and {highest}.")
    return str(int(number)) if number == number.to_integral_value() else str(number)


def _require_choices(variable: Variable, text: str) -> None:
    known = {choice.lower(): choice for choice in variable.choices}
    for word in text.split(","):
        if word.strip().lower() not in known and not word.strip().isdigit():
            meant = closest_name(word.strip().lower(), known)
            raise _invalid(
                variable,
                text,
                f"Did you mean '{known[meant]}'?"
                if meant
                else f"Choose one of {', '.join(variable.choices)}.",
            )


def _invalid(variable: Variable, text: str, remedy: str) -> UsageError:
    return UsageError(
        f"{text!r} is not a valid value of the parameter {variable.name}.",
        remedy,
        code="invalid-value",
    )


def explain_risk(name: str, value: str, flavour: FlavourName, buffer_pool_bytes: int) -> str | None:
    """What a value that is allowed may cost, as a sentence; None when it costs nothing."""
    if name in _DURABILITY and value != "1":
        return (
            f"With {name} = {value}, a crash of the server or its host can lose confirmed commits."
        )
    recovered_bytes = buffer_pool_bytes // RECOVERED_IN_POOL
    if name in _RECOVERED and flavour == "mysql" and (parse_value(value) or 0) > recovered_bytes:
        return (
            f"With {name} = {value}, the server may need a larger buffer pool to recover from a "
            f"crash. Values up to {recovered_bytes} (a third of its buffer pool) need none."
        )
    return None


def decide_reset_statement(name: str, own: Mapping[str, str | int], kind: ParameterKind) -> str:
    """What follows `SET GLOBAL name =` to have it as Grampus, or else the server, has it."""
    if name == TIME_ZONE:  # its DEFAULT is what the option file said at the start
        return "'SYSTEM'"
    if name not in own:
        return "DEFAULT"
    return f"'{own[name]}'" if kind == "words" else str(own[name])


def is_same_value(wanted: str, running: str) -> bool:
    """Whether a server that says `running` was given `wanted`."""
    return _comparable(wanted) == _comparable(running)


def _comparable(text: str) -> object:
    word = _SWITCH.get(text.lower(), text)
    if word in ("ON", "OFF"):
        return word
    try:
        return Decimal(text)
    except InvalidOperation:
        return frozenset(part.strip().lower() for part in text.split(","))


def decide_views(
    parameters: Mapping[str, str],
    started: Mapping[str, str],
    variables: Mapping[str, Variable] | None,
    *,
    everything: bool,
) -> list[ParameterView]:
    """What is shown, by name: the user's own, and what waits for a restart to be reset.

    `started` are those that the server was started with; `variables` None: it does not run. With
    `everything`, all that it has.
    """
    if variables is None:
        return [
            ParameterView(name, value, None, "unknown")
            for name, value in sorted(parameters.items())
        ]
    views = []
    for name in sorted({*variables, *parameters}):
        variable, wanted = variables.get(name), parameters.get(name)
        running = variable.value if variable is not None else None
        # A reset that needed no restart has changed where the server has its value from.
        is_left_over = (
            name in started and wanted is None and variable is not None and variable.from_file
        )
        state: ParameterState = "in effect"
        if is_left_over:
            state = "pending restart"
        elif wanted is not None and (running is None or not is_same_value(wanted, running)):
            taken: ParameterState = "ignored" if running is None else "adjusted"
            state = taken if started.get(name) == wanted else "pending restart"
        if everything or is_left_over or wanted is not None:
            views.append(ParameterView(name, wanted, running, state))
    return views


def classify_check(name: str, log: str) -> str | None:
    """Why the server's own check of its option file refused `name`; None when it did not.

    A value that it would silently change ("adjusted to") counts as refused: what is kept must be
    what runs.
    """
    for line in log.splitlines():
        if name not in line.replace("-", "_"):
            continue
        if any(word in line for word in _REFUSING):
            return re.sub(r"^.*?\](?= [^\[]*$)", "", line).strip().rstrip(".")
    return None
