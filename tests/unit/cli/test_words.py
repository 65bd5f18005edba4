"""Texts that users read have the field's words: no retired ones, and no private metaphors."""

from __future__ import annotations

import re

import pytest

from .told_texts import prose_of_pages, texts_users_read

# What is not written any more, and what is written instead.
RETIRED = {
    r"\banew\b": "again",
    r"\ball the same\b": "anyway",
    r"\basked for\b": "requested, started by",
    r"\bbesides\b": "also",
    r"\bbe told\b|\b(?:is|are|was|were) (?:not )?told\b|\btells? of\b|\btold of\b": "report, show",
    r"\bbell\b|\bdoor\b|\bseat\b": "wakeup, origin, image slot",
    r"\bby (?:itself|themselves)\b": "automatically",
    r"\b(?:can|could|to) be had\b|\bhad back\b|\b[Hh](?:as|ave) \S+ back\b": "restore, available",
    r"^Cut off,|\. Cut off,|\bcut-off\b|\bwas cut off\b": "interrupted",
    r"\bdies\b|\bdied\b|\bwithout a word\b": "crash",
    r"[,;] else\b|\bor else\b|^[Ee]lse\b": "otherwise",
    r"^For good\b|\bwhat is left of it\b": "say what happens, the rest",
    r"\b(?:go|goes|went|going|gone) on\b": "continue, resume, keep running",
    r"\bhangs? on\b": "depend on",
    r"\bmakes? it so\b": "apply",
    r"(?<!here )\bis no (?!longer\b|more\b)|(?<!here )\bare no (?!longer\b|more\b)": "is not a",
    r"\blanding\b|\boutbound\b": "writeback, replication",
    r"\blets? (?:\S+ ){0,4}go\b|^Let\b": "delete, close, release; allow",
    r"\b[Mm]end(?:s|ed|ing)?\b": "fix, repair",
    r"\b[Nn]obody can\b|\bby anybody\b|\b[Ww]hoever\b": "name who, or what cannot be done",
    r"\bof (?:its|one's|their) own\b": "its own",
    r"\bown cluster\b": "external cluster",
    r"\broom\b": "space",
    r"\b[Ss]ettle[sd]?\b": "recover, wait for idle",
    r"\bshall\b": "must, will",
    r"\bstands? (?:on|alone|still|for|by|there|in)\b|\bstood\b": "depend on, be independent",
    r"\b[Vv]isit(?:s|ed)?\b": "trial",
    r"\bwhat (?:it|they) (?:takes?|holds?|has|had)\b|^What\b": "a noun",
    r"\bits time has come\b|\bha[sd] its time\b|\bhas had its\b": "expired",
}


@pytest.mark.parametrize(("pattern", "instead"), RETIRED.items())
def test_no_text_for_users_has_a_retired_word(pattern: str, instead: str) -> None:
    retired = re.compile(pattern)
    wrong = [
        f"{found.place}: {found.text}" for found in texts_users_read() if retired.search(found.text)
    ]
    assert not wrong, f"Write instead: {instead}.\n" + "\n".join(wrong)


@pytest.mark.parametrize(("pattern", "instead"), RETIRED.items())
def test_no_page_has_a_retired_word(pattern: str, instead: str) -> None:
    retired = re.compile(pattern)
    wrong = [f"{line.place}: {line.text}" for line in prose_of_pages() if retired.search(line.text)]
    assert not wrong, f"Write instead: {instead}.\n" + "\n".join(wrong)


def test_texts_of_all_kinds_are_looked_at() -> None:
    texts = {found.text for found in texts_users_read()}
    assert "The database's name." in texts  # an argument
    assert any(text.startswith("Create a database: ") for text in texts)  # a command
    assert any(text.startswith("Grampus has a defect") for text in texts)  # an error
    assert "Stop the server" in texts  # a step of an operation
    assert "The lab or the site to work in." in texts  # an option
    assert len(texts) > 3000
    assert len({line.place.partition(":")[0] for line in prose_of_pages()}) > 30  # pages


@pytest.mark.parametrize(
    ("text", "instead"),
    [
        ("Mend what the message says.", "fix, repair"),
        ("Let its user write again", "delete, close, release; allow"),
        ("'10' is no size.", "is not a"),
        ("Cut off, run it again.", "interrupted"),
        ("a volume of its own", "its own"),
        ("What had its time", "a noun"),
        ("There is no room left.", "space"),
    ],
)
def test_a_retired_word_is_found(text: str, instead: str) -> None:
    assert instead in [words for pattern, words in RETIRED.items() if re.search(pattern, text)]
