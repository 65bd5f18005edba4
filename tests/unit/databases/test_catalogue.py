"""The catalogue of kinds names each where it is, and leaves none out."""

from __future__ import annotations

from importlib import import_module
from pkgutil import walk_packages

import pytest

import grampus.databases
from grampus.core.errors import GrampusError
from grampus.databases.catalogue import KIND_PREFIX, KINDS, find_operation_type, operation_type
from grampus.databases.kinds import DatabaseOperation


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_is_found_where_the_catalogue_says(kind: str) -> None:
    assert kind.startswith(KIND_PREFIX)
    assert operation_type(kind).kind == kind


def test_every_kind_that_is_defined_is_in_it() -> None:
    defined = {
        value.kind
        for module in walk_packages(grampus.databases.__path__, "grampus.databases.")
        for value in vars(import_module(module.name)).values()
        if isinstance(value, DatabaseOperation)
    }
    assert defined == set(KINDS)


def test_a_kind_of_another_release_is_none_and_refused_in_words() -> None:
    assert find_operation_type("db.levitate") is None
    with pytest.raises(GrampusError, match="this release does not support"):
        operation_type("db.levitate")
