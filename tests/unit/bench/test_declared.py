"""Data files are read strictly, and what is wrong is said with file, place and what is known."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import pytest
from pydantic import Field

from grampus.bench.declared import parse_declared, read_declared, word_list
from grampus.core.errors import UsageError
from grampus.state.runs import Frozen


class _Cat(Frozen):
    kind: Literal["cat"]
    lives: int = 9


class _Dog(Frozen):
    kind: Literal["dog"]
    tricks: tuple[str, ...] = ()


class _House(Frozen):
    name: str
    rooms: dict[str, Annotated[int, Field(ge=1)]] = {}  # noqa: RUF012 - pydantic copies it
    pets: tuple[Annotated[_Cat | _Dog, Field(discriminator="kind")], ...] = ()


@pytest.mark.parametrize(
    ("text", "problem", "remedy"),
    [
        ("", "f.yaml holds no keys", "these keys: name, rooms, pets"),
        ("- a", "f.yaml holds no keys", "name, rooms, pets"),
        ("name: [", "f.yaml is not valid YAML", "Correct the file"),
        ("name: a\nname: b", "the key 'name' is there twice", "Correct the file"),
        ("name: a\nrooms: {x: 1, x: 2}", "the key 'x' is there twice", "Correct the file"),
        ("nam: a", "f.yaml has an unknown key 'nam'", "Did you mean 'name'?"),
        ("rooms: {}", "f.yaml lacks the key 'name'", "Add it."),
        ("{name: a, rooms: {kitchen: 0}}", "'rooms.kitchen' is not valid (given: 0)", "Correct"),
        ("{name: a, pets: [{kind: cow}]}", "the value of 'pets.0'", "Correct it."),
        (
            "{name: a, pets: [{kind: cat, live: 3}]}",
            "f.yaml has an unknown key 'pets.0.live'",
            "Did you mean 'lives'? Known keys there: kind, lives.",
        ),
        (
            "{name: a, pets: [{kind: dog, lives: 3}]}",
            "unknown key 'pets.0.lives'",
            "Known keys there: kind, tricks.",
        ),
    ],
)
def test_what_is_wrong_is_explained(text: str, problem: str, remedy: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_declared(text, _House, source="f.yaml", noun="house")
    assert problem in caught.value.problem
    assert remedy in caught.value.remedy
    assert caught.value.code == "invalid-house"


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    file = tmp_path / "f.yaml"
    file.write_bytes(b"name: \xff\n")
    with pytest.raises(UsageError, match=r"f\.yaml cannot be read"):
        read_declared(file, _House, noun="house")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"The file .*f\.yaml does not exist\."):
        read_declared(tmp_path / "f.yaml", _House, noun="house")


def test_a_valid_file_is_what_it_says(tmp_path: Path) -> None:
    file = tmp_path / "f.yaml"
    file.write_text("{name: a, pets: [{kind: cat}]}", encoding="utf-8")
    assert read_declared(file, _House, noun="house").pets == (_Cat(kind="cat"),)


@pytest.mark.parametrize(
    ("words", "text"),
    [([], ""), (["a"], "a"), (["a", "b"], "a or b"), (["a", "b", "c"], "a, b or c")],
)
def test_words_are_listed_as_one_says_them(words: list[str], text: str) -> None:
    assert word_list(words) == text
