"""The codes of errors, read from the source: where one is raised, with its class and its sentences.

An error is a call of `GrampusError` or of a class made from it. Its code is the keyword `code`: a
literal, a constant of the tree, or the code of a kind of keys. Other codes are left out.
Expressions inside a sentence become words in capitals: `f"There is no host {spec.host}."` becomes
"There is no host HOST.".
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from .commands import MARK

ROOT_CLASS = "GrampusError"
EXIT_CODES = {1: "failed", 2: "wrong use", 3: "not found", 4: "refused for safety"}
UNKNOWN = "..."
INTRODUCTION = f"""\
# Error codes

{MARK}

An error has a code, a sentence that says what is wrong, and a sentence that says what to do. With
`--format json`, the code is `error.code`; the log shows it, too. A code stays the same when the
sentences change.

Words in capitals stand for names and values of your system. `...` stands for text that depends on
the case. [Troubleshooting](../guide/troubleshooting.md) starts from what you see. Codes of failed
image builds are in [host images](../guide/host-images.md#when-a-build-fails).
"""


@dataclass(frozen=True)
class Raised:
    """One place in the source that makes an error."""

    code: str
    exit_code: int
    problem: str
    remedy: str


@dataclass(frozen=True)
class _Class:
    base: str
    exit_code: int | None
    default_code: str | None
    summary: str


def render_error_codes(files: Iterable[Path]) -> str:
    """The page about all codes in these files."""
    trees = [ast.parse(file.read_text(encoding="utf-8")) for file in sorted(files)]
    classes = _find_classes(trees)
    by_code: dict[str, set[Raised]] = {}
    for error in find_errors(trees):
        by_code.setdefault(error.code, set()).add(error)
    blocks = [INTRODUCTION, _render_general(classes), "## Codes\n"]
    blocks += [_render_code(code, by_code[code]) for code in sorted(by_code)]
    return "\n".join(blocks)


def find_errors(trees: Sequence[ast.Module]) -> Iterator[Raised]:
    """Every error with a code of its own, in the order of the source."""
    classes = _find_classes(trees)
    constants = _find_constants(trees)
    key_codes = _find_key_codes(trees)
    for tree in trees:
        for call, function in _calls(tree, None):
            name = _last_name(call.func)
            if name not in classes:
                continue
            code = next((word.value for word in call.keywords if word.arg == "code"), None)
            codes = (
                [_default_code(classes, name)]
                if code is None
                else _values(code, constants, key_codes)
            )
            texts = [_render_text(argument, function) for argument in call.args[:2]]
            for found in codes:
                if found and found not in _general_codes(classes):
                    yield Raised(found, _exit_code(classes, name), *[*texts, "", ""][:2])


def _calls(node: ast.AST, function: ast.AST | None) -> Iterator[tuple[ast.Call, ast.AST | None]]:
    """Calls with the function that each is in."""
    if isinstance(node, ast.Call):
        yield node, function
    inside = node if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else function
    for child in ast.iter_child_nodes(node):
        yield from _calls(child, inside)


def _find_classes(trees: Sequence[ast.Module]) -> dict[str, _Class]:
    """The classes of errors, by name."""
    found: dict[str, _Class] = {}
    for node in (node for tree in trees for node in ast.walk(tree)):
        if isinstance(node, ast.ClassDef) and node.bases:
            fields = {
                _last_name(line.target): line.value.value
                for line in node.body
                if isinstance(line, ast.AnnAssign) and isinstance(line.value, ast.Constant)
            } | {
                _last_name(line.targets[0]): line.value.value
                for line in node.body
                if isinstance(line, ast.Assign) and isinstance(line.value, ast.Constant)
            }
            summary = (ast.get_docstring(node) or "").split("\n\n", maxsplit=1)[0]
            found[node.name] = _Class(
                _last_name(node.bases[0]),
                fields.get("exit_code"),
                fields.get("default_code"),
                " ".join(summary.split()),
            )
    return {name: kind for name, kind in found.items() if _is_error(found, name)}


def _is_error(classes: Mapping[str, _Class], name: str) -> bool:
    while name in classes and name != ROOT_CLASS:
        name = classes[name].base
    return name == ROOT_CLASS


def _exit_code(classes: Mapping[str, _Class], name: str) -> int:
    exit_code = classes[name].exit_code
    return _exit_code(classes, classes[name].base) if exit_code is None else exit_code


def _default_code(classes: Mapping[str, _Class], name: str) -> str | None:
    return classes[name].default_code


def _general_codes(classes: Mapping[str, _Class]) -> set[str | None]:
    """Those of errors that name none: one for each exit code."""
    direct = {name for name, kind in classes.items() if kind.exit_code is not None}
    return {classes[name].default_code for name in direct}


def _find_constants(trees: Sequence[ast.Module]) -> dict[str, str]:
    """Strings with a name in capitals at the top of a module, but no name with two meanings."""
    found: dict[str, set[str]] = {}
    for line in (line for tree in trees for line in tree.body):
        if isinstance(line, ast.Assign) and isinstance(line.value, ast.Constant):
            name, value = _last_name(line.targets[0]), line.value.value
            if name.isupper() and isinstance(value, str):
                found.setdefault(name, set()).add(value)
    return {name: values.pop() for name, values in found.items() if len(values) == 1}


def _find_key_codes(trees: Sequence[ast.Module]) -> list[str | None]:
    """The codes of all kinds of keys (`KeyKind`), which errors about keys share."""
    calls = (call for tree in trees for call, _ in _calls(tree, None))
    kinds = (call for call in calls if _last_name(call.func) == "KeyKind")
    return [
        word.value.value
        for kind in kinds
        for word in kind.keywords
        if word.arg == "code" and isinstance(word.value, ast.Constant)
    ]


def _values(
    code: ast.expr, constants: Mapping[str, str], key_codes: list[str | None]
) -> list[str | None]:
    match code:
        case ast.Constant(value=str(value)):
            return [value]
        case ast.IfExp(body=body, orelse=other):
            return [case for one in (body, other) for case in _values(one, constants, key_codes)]
        case ast.Attribute(value=owner, attr="code") if _last_name(owner).lower() == "kind":
            return key_codes
        case ast.Name() | ast.Attribute():
            return [constants.get(_last_name(code))]
        case _:
            return []


def _render_text(text: ast.expr, function: ast.AST | None) -> str:
    """A sentence as a reader of the page sees it; empty when the source does not say it here."""
    match text:
        case ast.Constant(value=str(value)):
            return value
        case ast.JoinedStr(values=parts):
            return "".join(_render_part(part) for part in parts)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _render_text(left, function) + _render_text(right, function)
        case ast.IfExp(body=body, orelse=other):
            either = [_render_text(case, function) for case in (body, other)]
            return " / ".join(case for case in either if case)
        case ast.Call(args=[_, _, otherwise]) if _last_name(text.func) == "suggest":
            return f"Did you mean '{UNKNOWN}'? / {_render_text(otherwise, function)}"
        case ast.Call(args=[_, otherwise]) if _last_name(text.func) == "suggest_file":
            return f"Did you mean '{UNKNOWN}'? / {_render_text(otherwise, function)}"
        case ast.Name(id=name) if function is not None:
            values = [
                line.value
                for line in ast.walk(function)
                if isinstance(line, ast.Assign) and _last_name(line.targets[0]) == name
            ]
            return _render_text(values[0], None) if len(values) == 1 else ""
        case _:
            return ""


def _render_part(part: ast.expr) -> str:
    if isinstance(part, ast.Constant):
        return str(part.value)
    value = part.value if isinstance(part, ast.FormattedValue) else part
    word = _placeholder(value)
    is_quoted = isinstance(part, ast.FormattedValue) and part.conversion == ord("r")
    return f"'{word}'" if is_quoted else word


def _placeholder(value: ast.expr) -> str:
    """The word in capitals for a value: `spec.max_lag_ms` is MAX-LAG."""
    match value:
        case ast.Attribute(value=owner, attr="name" | "id" | "value") if _last_name(owner):
            name = _last_name(owner)
        case ast.Attribute() | ast.Name():
            name = _last_name(value)
        case ast.Call(args=[argument, *_]):
            return _placeholder(argument)
        case _:
            return UNKNOWN
    word = re.sub(r"_(bytes|ms|us|s)$", "", name.strip("_"))
    return word.replace("_", "-").upper() or UNKNOWN


def _last_name(node: ast.AST) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""


def _render_general(classes: Mapping[str, _Class]) -> str:
    rows = [
        f"| `{kind.default_code}` | {kind.exit_code} | {EXIT_CODES[kind.exit_code]} |"
        for kind in classes.values()
        if kind.exit_code is not None
    ]
    lines = ["An error that needs no code of its own has the general one of its exit code:\n"]
    return "\n".join([*lines, "| code | exit code | meaning |", "|---|---|---|", *sorted(rows), ""])


def _render_code(code: str, errors: Iterable[Raised]) -> str:
    exits = sorted({error.exit_code for error in errors})
    shown = " or ".join(f"{exit_code} ({EXIT_CODES[exit_code]})" for exit_code in exits)
    sentences = sorted({_sentences(error) for error in errors} - {""})
    lines = [f"### {code}\n", f"Exit code {shown}.\n", *(f"- {both}" for both in sentences)]
    return "\n".join([*lines, ""] if sentences else lines)


def _sentences(error: Raised) -> str:
    problem = error.problem or (UNKNOWN if error.remedy else "")
    both = " ".join(f"{problem} {error.remedy}".split())
    # Outside code, what looks like a tag or a link would be one.
    parts = both.split("`")
    parts[::2] = [re.sub(r"([<>*\[\]_])", r"\\\1", part) for part in parts[::2]]
    return "`".join(parts)
