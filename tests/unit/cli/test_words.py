"""Texts that users read have the field's words: no retired ones, and no private metaphors."""

from __future__ import annotations

import re

import pytest

from .told_texts import texts_users_read

# What is not written any more, and what is written instead.
RETIRED = {
    r"\banew\b": "again",
    r"\bbesides\b": "also",
    r"\bbe told\b|\b(?:is|are|was|were) (?:not )?told\b": "say who reports it",
    r"\bbell\b|\bdoor\b|\bseat\b": "wakeup, origin, image slot",
    r"\b(?:can|could|to) be had\b|\bhad back\b|\b[Hh](?:as|ave) \S+ back\b": "restore",
    r"^Cut off\b|\. Cut off\b|\bcut-off\b": "interrupted",
    r"\bdies\b|\bdied\b": "crash",
    r"\belse\b": "otherwise",
    r"\bfinds? nobody\b|\bno such .{1,20} either\b": "say what is missing",
    r"\b(?:go|goes|went|going|gone) on\b": "continue, keep running, resume",
    r"\b[Hh]ave (?:a|the|its) .{1,40} (?:taken|made|renewed|run)\b": "an imperative verb",
    r"\bhangs? on\b": "depend on",
    r"\bhas its way\b|\bmakes? it so\b": "say what happens",
    r"\bis no (?!longer\b|more\b|room\b|space\b)|\bare no (?!longer\b|more\b)": "is not a",
    r"\blanding\b|\boutbound\b": "writeback, replication",
    r"\blets? (?:\S+ ){1,4}go\b|\blet go\b|^Let\b": "delete, release, allow",
    r"\b[Mm]end(?:s|ed|ing)?\b": "fix, repair",
    r"\bof (?:its|one's|their) own\b": "its own",
    r"\bor else\b": "otherwise",
    r"\bown cluster\b": "external cluster",
    r"\b[Ss]ettle[sd]?\b": "recover, wait for idle",
    r"\bshall\b": "must, will",
    r"\bsome \S+ or other\b": "name it",
    r"\bstands? (?:on|alone|still|for|by|there|in)\b|\bstood\b": "depend on, be independent",
    r"\bstands?\b$": "environment",
    r"\btells? of\b|\btold of\b": "report, show",
    r"\b[Vv]isit(?:s|ed)?\b": "trial",
    r"\bwhat (?:it|they) (?:takes?|holds?|has|had)\b|^What (?!is |the )": "a noun",
    r"\b[Ww]hoever\b|\b[Ww]homever\b": "name who",
    r"\bwithout a word\b": "crash",
    r"\byet to come\b|\bits time has come\b|\bhad its time\b": "expired",
}


@pytest.mark.parametrize(("pattern", "instead"), RETIRED.items())
def test_no_text_for_users_has_a_retired_word(pattern: str, instead: str) -> None:
    retired = re.compile(pattern)
    wrong = [
        f"{found.place}: {found.text}" for found in texts_users_read() if retired.search(found.text)
    ]
    assert not wrong, f"Write instead: {instead}.\n" + "\n".join(wrong)


def test_texts_of_all_kinds_are_looked_at() -> None:
    texts = {found.text for found in texts_users_read()}
    assert "The database's name." in texts  # an argument
    assert any(text.startswith("Make a database: ") for text in texts)  # a command
    assert any(text.startswith("Grampus failed") for text in texts)  # an error
    assert "Stop the server" in texts  # a step of an operation
    assert "The lab to work in." in texts  # an option
    assert len(texts) > 3000
