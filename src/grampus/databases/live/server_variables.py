"""The global variables of a running server, from its own catalogue of them."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal, InvalidOperation

from grampus.databases.administrator import Administrator, Row, StatementFailedError
from grampus.databases.live.decide_parameters import ParameterKind, Variable

# performance_schema's tables of variables are there whether it is switched on or not.
_MYSQL_VARIABLES = """
SELECT g.VARIABLE_NAME, g.VARIABLE_VALUE, m.DATA_TYPE, i.MIN_VALUE, i.MAX_VALUE, i.VARIABLE_SOURCE
FROM performance_schema.global_variables g
LEFT JOIN performance_schema.variables_metadata m USING (VARIABLE_NAME)
LEFT JOIN performance_schema.variables_info i USING (VARIABLE_NAME)
"""
_MARIADB_VARIABLES = """
SELECT LOWER(VARIABLE_NAME), GLOBAL_VALUE, VARIABLE_TYPE, NUMERIC_MIN_VALUE, NUMERIC_MAX_VALUE,
GLOBAL_VALUE_ORIGIN, ENUM_VALUE_LIST, READ_ONLY
FROM information_schema.SYSTEM_VARIABLES WHERE VARIABLE_SCOPE <> 'SESSION ONLY'
"""
_MYSQL_KINDS: dict[str, ParameterKind] = {
    "Integer": "number",
    "Numeric": "number",
    "Boolean": "switch",
}


def observe_variables(administrator: Administrator) -> dict[str, Variable]:
    """Every global variable, by name."""
    if administrator.flavour == "mysql":
        return parse_mysql_variables(administrator.query(_one_line(_MYSQL_VARIABLES)))
    return parse_mariadb_variables(administrator.query(_one_line(_MARIADB_VARIABLES)))


def is_read_only(administrator: Administrator, variable: Variable) -> bool:
    """Whether the running server keeps the variable until its next start.

    MySQL's catalogue does not say, so it is asked to set the value that it has.
    """
    if variable.read_only is not None:
        return variable.read_only
    try:
        administrator.query(f"SET GLOBAL {variable.name} = @@GLOBAL.{variable.name}")
    except StatementFailedError as error:
        if error.number is None:
            raise
        return True
    return False


def parse_mysql_variables(rows: Sequence[Row]) -> dict[str, Variable]:
    """From rows of name, value, data type, lowest, highest and source."""
    variables = {}
    for name, value, data_type, lowest, highest, source in rows:
        kind = _MYSQL_KINDS.get(data_type, "words")
        # Bounds of a floating-point variable are shown as the bits of their 64-bit form: no use.
        bounds = _bounds(lowest, highest) if data_type == "Integer" else (None, None)
        variables[name] = Variable(name, value, kind, *bounds, from_file=source == "EXPLICIT")
    return variables


def parse_mariadb_variables(rows: Sequence[Row]) -> dict[str, Variable]:
    """From rows of name, value, type, lowest, highest, origin, words and `YES` if read-only."""
    variables = {}
    for name, value, data_type, lowest, highest, origin, choices, read_only in rows:
        kind: ParameterKind = "words"
        if data_type == "BOOLEAN":
            kind = "switch"
        elif "INT" in data_type or data_type == "DOUBLE":
            kind = "number"
        bounds = _bounds(lowest, highest) if kind == "number" else (None, None)
        words = tuple(choices.split(",")) if choices not in ("NULL", "") else ()
        variables[name] = Variable(
            name,
            value,
            kind,
            *bounds,
            choices=words if kind == "words" else (),
            read_only=read_only == "YES",
            from_file=origin == "CONFIG",
        )
    return variables


def _bounds(lowest: str, highest: str) -> tuple[Decimal | None, Decimal | None]:
    """Both, or neither where the catalogue does not know (0 and 0, or NULL)."""
    try:
        bounds = Decimal(lowest), Decimal(highest)
    except InvalidOperation:
        return None, None
    return bounds if bounds[0] < bounds[1] else (None, None)


def _one_line(statement: str) -> str:
    return " ".join(statement.split())
