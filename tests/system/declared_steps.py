"""The names of the steps that a kind of operation can have, read from the code that builds them.

A list kept beside the code would go stale. A function of the code builds steps if it says that it
returns them; what it names, and what those name that it calls, are the steps of its kind.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from grampus.databases.catalogue import operation_type

_BUILDERS = ("list[Step]", "Step")
_VOLUME_KINDS = "grampus.volumes.kinds"
Function = tuple[str, str]  # module and name; a method's name alone: no two in a module share one


def database_step_names(kind: str) -> list[str]:
    """The names of the steps of a kind of operation on a database, as they stand in the code."""
    build = operation_type(kind).build
    return step_names(build.__module__, build.__name__)


def step_names(module: str, function: str) -> list[str]:
    """The names of the steps that `function` can answer with, as they stand in the code.

    Raises AssertionError where a step's name is not written as it is: nobody could look for it.
    """
    found: dict[str, None] = {}
    _collect((module, function), found, set())
    return list(found)


def _collect(function: Function, found: dict[str, None], seen: set[Function]) -> None:
    if function in seen:
        return
    seen.add(function)
    module, name = function
    builders, imported = _module(module)
    for call in _calls(builders[name]):
        called = ast.unparse(call.func).removeprefix("self.")
        kind, is_build, _ = called.partition(".build")
        if called == "Step":
            found.setdefault(_literal(module, call.args[0]))
        elif called in builders:
            _collect((module, called), found, seen)
        elif called in imported and called in _module(imported[called])[0]:
            _collect((imported[called], called), found, seen)
        elif is_build and kind in imported:  # the steps of another kind
            _collect((imported[kind], _builder_of(imported[kind], kind)), found, seen)


def _calls(function: ast.FunctionDef) -> Iterator[ast.Call]:
    """Calls in the order of the code."""
    calls = (node for node in ast.walk(function) if isinstance(node, ast.Call))
    return iter(sorted(calls, key=lambda call: (call.lineno, call.col_offset)))


def _literal(module: str, name: ast.expr) -> str:
    """A step's name: written as it is, or standing at the top of the module."""
    if isinstance(name, ast.Name):
        found = [value for target, value in _assigned(module) if target == name.id]
        name = found[0] if found else name
    is_plain = isinstance(name, ast.Constant) and isinstance(name.value, str)
    assert is_plain, f"{module}:{name.lineno}: the name of a step is not written as it is"
    return str(ast.literal_eval(name))


def _builder_of(module: str, kind: str) -> str:
    """The function that builds the steps of the kind that stands in a module by that name."""
    for target, value in _assigned(module):
        if target == kind:
            names = {node.id for node in ast.walk(value) if isinstance(node, ast.Name)}
            built_by = names & _module(module)[0].keys()
            if len(built_by) == 1:
                return built_by.pop()
    raise AssertionError(f"{module}: nothing says how {kind} is built")


def _assigned(module: str) -> Iterator[tuple[str, ast.expr]]:
    """What stands at the top of a module, by name."""
    for node in _tree(module).body:
        if isinstance(node, ast.Assign):
            yield ast.unparse(node.targets[0]), node.value


@cache
def _module(module: str) -> tuple[dict[str, ast.FunctionDef], dict[str, str]]:
    """The functions of a module that build steps, and where what it imports is from."""
    tree = _tree(module)
    builders = {
        node.name: node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        and node.returns is not None
        and ast.unparse(node.returns) in _BUILDERS
    }
    imported = {
        alias.asname or alias.name: node.module
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("grampus.")
        for alias in node.names
    }
    return builders, imported


@cache
def _tree(module: str) -> ast.Module:
    found = importlib.util.find_spec(module)
    assert found is not None, f"there is no module {module}"
    assert found.origin is not None, f"there is no module {module}"
    return ast.parse(Path(found.origin).read_text())


def volume_step_names() -> dict[str, list[str]]:
    """The names of the steps of each kind of operation on a volume, by kind."""
    (of_parts,) = (
        node
        for node in _tree(_VOLUME_KINDS).body
        if isinstance(node, ast.ClassDef) and node.name == "VolumeStepParts"
    )
    imported = _module(_VOLUME_KINDS)[1]
    parts = {
        ast.unparse(field.target): imported[ast.unparse(field.annotation)]
        for field in of_parts.body
        if isinstance(field, ast.AnnAssign)
    }
    found: dict[str, list[str]] = {}
    for _, value in _assigned(_VOLUME_KINDS):
        if isinstance(value, ast.Call) and ast.unparse(value.func).startswith("VolumeOperation["):
            kind = str(ast.literal_eval(value.args[0]))
            (built,) = (one.value for one in value.keywords if one.arg == "build")
            assert isinstance(built, ast.Lambda), f"{kind}: nothing says how it is built"
            assert isinstance(built.body, ast.Call), f"{kind}: nothing says how it is built"
            _, part, method = ast.unparse(built.body.func).split(".")
            found[kind] = step_names(parts[part], method)
    return found
