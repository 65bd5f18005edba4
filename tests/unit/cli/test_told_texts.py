"""What a user is told works: every command in an error or in a page can be typed."""

from __future__ import annotations

import re

import pytest
import typer.main

from grampus.cli.main import app

from .told_texts import (
    Told,
    commands_in,
    commands_in_pages,
    errors_in_source,
    texts_in_source,
    what_is_wrong,
)

ROOT = typer.main.get_command(app)
# A fragment of a shell script, or of how Python shows a list.
_SHELL = re.compile(r"\b(?:ba)?sh -\w|pipefail|\$\(|\$\{|&&|2>&1|\['|exit code VALUE")
# Remedies that name nothing that can be done, or in words that say nothing.
_EMPTY = re.compile(
    r"\b[Mm]end\b|[Ll]ook at (?:it|the server's log)|it takes as it is|; if it stays so"
)


def test_every_command_that_the_source_tells_of_exists() -> None:
    wrong = [
        f"{told.place}: `{command}`: {why}"
        for told in texts_in_source()
        for command in commands_in(told.text)
        if (why := what_is_wrong(command, ROOT))
    ]
    assert not wrong, "\n".join(wrong)


def test_every_command_that_an_error_tells_of_names_what_it_is_about() -> None:
    wrong = [
        f"{told.place}: `{command}`: {why}"
        for told in errors_in_source()
        for command in commands_in(told.text)
        if (why := what_is_wrong(command, ROOT, wants_arguments=True))
    ]
    assert not wrong, "\n".join(wrong)


def test_every_command_of_a_page_exists() -> None:
    wrong = [
        f"{told.place}: `{told.text}`: {why}"
        for told in commands_in_pages()
        if (why := what_is_wrong(told.text, ROOT))
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("pattern", [_SHELL, _EMPTY])
def test_no_error_shows_a_script_or_says_nothing(pattern: re.Pattern[str]) -> None:
    wrong = [
        f"{told.place}: {told.text}" for told in errors_in_source() if pattern.search(told.text)
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("grampus db list", ""),
        ("grampus db resize VALUE --size SIZE", ""),
        ("grampus --debug db list", ""),
        ("grampus db replica renew VALUE --discard-errant", ""),
        ("grampus db lst", "there is no `db lst`"),
        ("grampus db resize VALUE --sizes SIZE", "`db resize` has no option --sizes"),
        ("grampus volume attach VALUE --nowhere", "`volume attach` has no option --nowhere"),
    ],
)
def test_a_command_that_cannot_be_typed_is_found(command: str, why: str) -> None:
    assert what_is_wrong(command, ROOT) == why


def test_texts_are_found_in_errors() -> None:
    found = errors_in_source()
    assert len(found) > 500
    assert any(isinstance(told, Told) and "`grampus db start VALUE`" in told.text for told in found)
