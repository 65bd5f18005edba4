"""Every variable of the servers that are offered, as both said it themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

from grampus.databases.live.decide_parameters import (
    OWN_PARAMETERS,
    normalise_name,
    parse_assignment,
)
from grampus.databases.option_names import FACTS, SESSION_VARIABLES, is_session_variable, option_of

_RECORDED = Path(__file__).parent / "server_variables"
FILES = ["mysql-9.7", "mariadb-11.8"]
# The server's own check refuses them: "It does nothing now".
_REMOVED = {"innodb_lru_flush_size", "innodb_purge_rseg_truncate_frequency"}


def _sections(name: str) -> tuple[set[str], set[str], set[str]]:
    """Variables with an option of the same name, variables without, further options."""
    lines = (_RECORDED / f"{name}.txt").read_text().splitlines()
    text = "\n".join(line for line in lines if not line.startswith("#"))
    parts = [set(part.partition("]")[2].split()) for part in text.split("[")[1:]]
    assert all(parts)
    same, without, options = parts
    return same, without, options


@pytest.mark.parametrize("name", FILES)
def test_no_variable_is_written_that_the_option_file_does_not_take(name: str) -> None:
    same, without, options = _sections(name)
    is_mysql = name.startswith("mysql")
    refused = {
        variable
        for variable in without
        if variable in OWN_PARAMETERS
        or variable in _REMOVED
        or is_session_variable(variable, is_mysql=is_mysql)
    }
    written = {option_of(variable) for variable in without - refused}
    assert written <= same | options, "another option sets it, or it must be refused"


@pytest.mark.parametrize("name", FILES)
def test_no_variable_is_refused_that_the_option_file_takes(name: str) -> None:
    same, _, _ = _sections(name)
    is_mysql = name.startswith("mysql")
    refused = {each for each in same if is_session_variable(each, is_mysql=is_mysql)}
    assert refused <= {"innodb_ft_aux_table"}, "whose option of that name takes no value"
    assert {option_of(each) for each in same} == same


def test_a_variable_goes_by_its_options_name_too() -> None:
    assert normalise_name("default-time-zone") == "time_zone"
    assert parse_assignment("default_time_zone=+02:00") == ("time_zone", "+02:00")
    assert option_of("time_zone") == "default_time_zone"
    assert option_of("innodb_io_capacity") == "innodb_io_capacity"
    assert not FACTS & SESSION_VARIABLES
