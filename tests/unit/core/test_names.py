"""A valid name needs no quoting in a shell, a path, SQL, an RBD image name or a DNS label."""

from __future__ import annotations

import re
import shlex

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grampus.core.errors import UsageError
from grampus.core.names import MAX_NAME_LENGTH, RESERVED_NAMES, require_name

HOSTILE = {
    "empty": "",
    "space": "a b",
    "only-space": " ",
    "leading-space": " shop",
    "trailing-newline": "shop\n",
    "null-byte": "shop\0",
    "shell-command": "shop;reboot",
    "shell-substitution": "$(reboot)",
    "shell-backtick": "`id`",
    "shell-glob": "*",
    "option": "-rf",
    "long-option": "--help",
    "path-parent": "..",
    "path-inside": "../../etc/passwd",
    "path-absolute": "/etc",
    "path-hidden": ".ssh",
    "sql-quote": "x' or '1'='1",
    "sql-comment": "shop--drop",
    "sql-identifier": "x`; drop table t",
    "rbd-snapshot": "shop@snap",
    "rbd-pool": "pool/shop",
    "dns-dot": "shop.example",
    "underscore": "my_shop",
    "upper-case": "Shop",
    "digit-first": "1shop",
    "hyphen-first": "-shop",
    "hyphen-last": "shop-",
    "two-hyphens": "my--shop",
    "umlaut": "käse",
    "cyrillic-a": "\u0430bc",
    "full-width": "\uff53hop",
    "kelvin": "\u212aelvin",
    "arabic-digit": "shop\u0661",
    "combining": "shope\u0301",
    "right-to-left": "shop\u202e",
    "zero-width": "sh\u200bop",
    "emoji": "shop🐬",
    "not-utf8": "shop\udcff",
    "markup": "[red]shop",
    "escape": "\x1b[31mshop",
    "too-long": "a" * (MAX_NAME_LENGTH + 1),
    "far-too-long": "a" * 100_000,
}


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_name_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="not a valid database name") as caught:
        require_name("database", name)
    assert caught.value.code == "invalid-name"
    assert caught.value.exit_code == 2
    assert str(MAX_NAME_LENGTH) in caught.value.remedy


@pytest.mark.parametrize("name", ["a", "shop", "shop-1", "a1", "a" * MAX_NAME_LENGTH, "a-b-c-d"])
def test_ordinary_name_is_taken_as_it_is(name: str) -> None:
    assert require_name("volume", name) == name


@pytest.mark.parametrize("name", sorted(RESERVED_NAMES))
def test_reserved_word_is_refused_as_such(name: str) -> None:
    with pytest.raises(UsageError, match="reserved") as caught:
        require_name("lab", name)
    assert caught.value.code == "invalid-name"


def test_error_shows_a_hostile_name_without_its_control_characters() -> None:
    with pytest.raises(UsageError) as caught:
        require_name("database", "a\x1b[31m\n")
    assert caught.value.problem.isprintable()


@settings(deadline=None)
@given(st.text(max_size=40) | st.from_regex(r"[a-z0-9-]{1,34}", fullmatch=True))
def test_what_is_accepted_is_safe_everywhere(name: str) -> None:
    try:
        accepted = require_name("database", name)
    except UsageError:
        return
    assert accepted == name
    assert shlex.quote(name) == name
    assert name.isascii()
    assert name == name.lower()
    assert re.fullmatch(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?", name)  # an RFC 1123 label
    assert "--" not in name  # begins a comment in SQL
    assert len(name) <= MAX_NAME_LENGTH
