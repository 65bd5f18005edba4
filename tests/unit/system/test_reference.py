"""The generators of docs/reference."""

from __future__ import annotations

import ast
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from scripts.reference.commands import render_commands
from scripts.reference.error_codes import Raised, find_errors, render_error_codes
from scripts.write_reference import explain_differences, find_left_over, write_pages

ERRORS = """
class GrampusError(Exception):
    exit_code: ClassVar[int] = 1
    default_code: ClassVar[str] = "failed"

class RefusedError(GrampusError):
    exit_code = 4
    default_code = "refused"

class HostGoneError(GrampusError):
    default_code = "host-gone"

GONE = "pool-gone"
"""


def _find(lines: str) -> list[Raised]:
    return list(find_errors([ast.parse(ERRORS), ast.parse(lines)]))


@pytest.mark.parametrize(
    ("call", "found"),
    [
        (
            'RefusedError(f"{name} is on {spec.host}.", "Stop it.", code="on-host")',
            Raised("on-host", 4, "NAME is on HOST.", "Stop it."),
        ),
        (
            'GrampusError("No pool." + " None.", code=faults.GONE)',
            Raised("pool-gone", 1, "No pool. None.", ""),
        ),
        ('HostGoneError(f"{host!r} is gone.")', Raised("host-gone", 1, "'HOST' is gone.", "")),
        (
            'GrampusError(f"{disk.name}: {spec.max_lag_ms}, {human(size_bytes)}, {1}", code="x")',
            Raised("x", 1, "DISK: MAX-LAG, SIZE, ...", ""),
        ),
        (
            'GrampusError("Full.", "Grow it." if can else "Delete some.", code="full")',
            Raised("full", 1, "Full.", "Grow it. / Delete some."),
        ),
        ('GrampusError(said, explain(name), code="odd")', Raised("odd", 1, "", "")),
    ],
)
def test_an_error_is_found_with_its_code_and_sentences(call: str, found: Raised) -> None:
    assert _find(f"raise {call}") == [found]


def test_an_error_about_keys_has_the_code_of_each_kind() -> None:
    kinds = 'KeyKind(what="key", code="no-key")\nKeyKind(what="lock", code="no-lock")\n'
    errors = _find(kinds + 'GrampusError(f"No {cls.KIND.what}.", code=cls.KIND.code)')
    assert errors == [Raised(f"no-{what}", 1, "No WHAT.", "") for what in ("key", "lock")]


def test_one_of_two_codes_is_both() -> None:
    errors = _find('RefusedError("It is.", code="too-small" if small else "too-big")')
    assert [error.code for error in errors] == ["too-small", "too-big"]


def test_a_sentence_in_a_variable_of_the_function_is_found() -> None:
    errors = _find(
        'def check():\n    remedy = "Wait."\n    raise GrampusError("No.", remedy, code="a")'
    )
    assert errors == [Raised("a", 1, "No.", "Wait.")]


@pytest.mark.parametrize(
    "call",
    [
        'GrampusError("It failed.")',
        'ensure_pool("a", code="k2m1")',
        'GrampusError("a", code=kind.code)',
    ],
)
def test_what_names_no_code_of_an_error_is_left_out(call: str) -> None:
    assert _find(call) == []


def test_the_page_has_each_code_once_in_order(tmp_path: Path) -> None:
    source = tmp_path / "source.py"
    source.write_text(
        ERRORS
        + 'RefusedError("Second.", code="b")\nGrampusError("<First>.", "`a <b>`.", code="b")\n'
        + 'GrampusError("Another.", code="a")\nGrampusError(said, "Wait.", code="a")\n'
    )
    page = render_error_codes([source])
    assert [line for line in page.splitlines() if line.startswith("### ")] == ["### a", "### b"]
    assert "Exit code 1 (failed) or 4 (refused for safety)." in page
    assert "- \\<First\\>. `a <b>`.\n" in page
    assert "- ... Wait.\n" in page


def test_a_noun_below_a_noun_has_a_page_of_its_own() -> None:
    verb = SimpleNamespace(help="List them. All.", epilog="Example: `grampus x`", params=[])
    users: Any = SimpleNamespace(help="Users.", commands={"list": verb}, rich_help_panel="People")
    db: Any = SimpleNamespace(help="Databases.", commands={"user": users, "show": verb})
    pages = render_commands(SimpleNamespace(commands={"serve": verb, "db": db}, params=[]))
    assert list(pages) == [
        "README.md",
        "commands/serve.md",
        "commands/db.md",
        "commands/db-user.md",
    ]
    assert "| [grampus db user](commands/db-user.md) | Users. |" in pages["README.md"]
    assert "| [`list`](#grampus-db-user-list) | List them. |" in pages["commands/db-user.md"]
    assert "## grampus db user list\n" in pages["commands/db-user.md"]
    assert "**People**\n\n| command | what it does |" in pages["commands/db.md"]
    assert "| [`user`](db-user.md) | Users. |" in pages["commands/db.md"]
    assert "| [`show`](#grampus-db-show) | List them. |" in pages["commands/db.md"]
    assert "## " not in pages["commands/serve.md"]


def test_a_page_that_nobody_writes_is_left_over(tmp_path: Path) -> None:
    pages = {"README.md": "index\n", "commands/db.md": "db\n"}
    write_pages({**pages, "commands/old.md": "old\n"}, tmp_path)
    assert find_left_over(pages, tmp_path) == ["commands/old.md"]
    assert explain_differences(pages, tmp_path) == [
        "commands/old.md is left over. `make reference` deletes it."
    ]
    write_pages(pages, tmp_path)
    assert explain_differences(pages, tmp_path) == []


def test_a_page_that_is_missing_or_stale_is_explained(tmp_path: Path) -> None:
    write_pages({"README.md": "index\n"}, tmp_path)
    lines = explain_differences({"README.md": "new\n", "errors.md": "codes\n"}, tmp_path)
    assert "-index" in lines
    assert "README.md is not what the code says. `make reference` writes it." in lines
    assert "errors.md is not what the code says. `make reference` writes it." in lines
