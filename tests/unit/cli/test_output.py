from __future__ import annotations

import json
import random
from datetime import UTC, datetime

import pytest
from pydantic import BaseModel

from grampus.cli import output
from grampus.cli.output import HumanOutput, JsonOutput, OutputFormat, make_output, show_plan
from grampus.core.errors import GrampusError, NotFoundError

Captured = pytest.CaptureFixture[str]

# Each must reach the reader exactly as it is: nothing is read as markup, emoji or number.
LITERAL = [
    "[red]shop[/red]",
    "[/]",
    "[bold",
    "[link=file:///etc/passwd]click[/link]",
    "a [b] c",
    ":warning: :smile:",
    "ends in a backslash\\",
    "\\[red]",
    "https://user@10.0.0.1:3306/x",
    "käse 🐬",
    "a" * 300,
]


@pytest.mark.parametrize("text", LITERAL)
def test_human_text_is_literal(capsys: Captured, text: str) -> None:
    HumanOutput().text(None, text)
    assert capsys.readouterr().out == f"{text}\n"


@pytest.mark.parametrize("text", LITERAL)
def test_human_table_is_literal_and_complete(capsys: Captured, text: str) -> None:
    HumanOutput().table(None, ["name", "size"], [[text, "4 GiB"], ["b", "1 TiB"]], "None.")
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert lines[0].split() == ["NAME", "SIZE"]
    assert text in lines[1]
    assert lines[1].rstrip().endswith("4 GiB")


@pytest.mark.parametrize("text", LITERAL)
def test_human_details_are_literal(capsys: Captured, text: str) -> None:
    HumanOutput().details(None, {"name": text, text: "value"})
    first, second = capsys.readouterr().out.splitlines()
    assert first == f"{'name':<{max(4, len(text))}}  {text}"
    assert second == f"{text:<4}  value"


def test_groups_are_aligned_with_a_line_between_them_and_none_where_nothing_is(
    capsys: Captured,
) -> None:
    HumanOutput().groups(None, [{"a": "1"}, {}, {"long": "2\n3", "b": "4"}])
    assert capsys.readouterr().out == "a     1\n\nlong  2\n      3\nb     4\n"
    JsonOutput().groups({"a": 1}, [{"a": "1"}])
    assert json.loads(capsys.readouterr().out) == {"a": 1}


@pytest.mark.parametrize("text", LITERAL)
def test_human_error_is_literal_and_on_stderr_alone(capsys: Captured, text: str) -> None:
    HumanOutput().error(GrampusError(f"Bad: {text}", f"Do {text}"))
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == f"error: Bad: {text}\nDo {text}\n"


def test_human_error_without_a_remedy_is_one_line(capsys: Captured) -> None:
    HumanOutput().error(GrampusError("Bad."))
    assert capsys.readouterr().err == "error: Bad.\n"


def test_wide_table_loses_nothing_in_a_pipe(capsys: Captured) -> None:
    columns = [f"column-{number}" for number in range(20)]
    row = [f"{number}-{'x' * 20}" for number in range(20)]
    HumanOutput().table(None, columns, [row], "None.")
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert lines[1].split() == row


def test_numbers_stand_on_the_right(capsys: Captured) -> None:
    HumanOutput().table(None, ["name", "tps"], [["a", "5"], ["b", "12,345"]], "None.")
    _, first, second = capsys.readouterr().out.splitlines()
    assert first.rstrip().endswith("     5")
    assert second.rstrip().endswith("12,345")


def test_empty_table_says_so_in_words(capsys: Captured) -> None:
    HumanOutput().table(None, ["name"], [], "There is [no] database yet.")
    assert capsys.readouterr().out == "There is [no] database yet.\n"


class Fish(BaseModel):
    name: str


DOCUMENT = {
    "name": "[red]",
    "umlaut": "ä",
    "nothing": None,
    "at": datetime(2026, 1, 1, tzinfo=UTC),
    "fish": Fish(name="cod"),
    "list": [1, 2.5, True],
}
PLAIN = {
    "name": "[red]",
    "umlaut": "ä",
    "nothing": None,
    "at": "2026-01-01T00:00:00+00:00",
    "fish": {"name": "cod"},
    "list": [1, 2.5, True],
}


def test_json_is_the_document_alone(capsys: Captured) -> None:
    for write in (
        lambda: JsonOutput().table(DOCUMENT, ["name"], [["x"]], "None."),
        lambda: JsonOutput().details(DOCUMENT, {"name": "x"}),
        lambda: JsonOutput().text(DOCUMENT, "x"),
    ):
        write()
        captured = capsys.readouterr()
        assert json.loads(captured.out) == PLAIN
        assert captured.err == ""


def test_json_error_is_a_document_and_a_sentence(capsys: Captured) -> None:
    JsonOutput().error(NotFoundError("There is no lab.", "`grampus lab up` makes one."))
    captured = capsys.readouterr()
    assert captured.out.count("\n") == 1, "as an event of `grampus serve`"
    assert json.loads(captured.out) == {
        "error": {
            "code": "not-found",
            "problem": "There is no lab.",
            "remedy": "`grampus lab up` makes one.",
        }
    }
    assert captured.err == "error: There is no lab. `grampus lab up` makes one.\n"


def test_what_has_no_json_form_is_a_defect() -> None:
    with pytest.raises(TypeError, match="object has no JSON form"):
        JsonOutput().text({"x": object()}, "")


@pytest.mark.parametrize(("word", "kind"), [("human", HumanOutput), ("json", JsonOutput)])
def test_format_chooses_the_writer(word: str, kind: type) -> None:
    assert isinstance(make_output(OutputFormat(word)), kind)


@pytest.mark.parametrize(
    ("steps", "shown"), [(["Stop it", "Go"], "Stop it\nGo\n"), ([], "Nothing would be changed.\n")]
)
def test_a_plan_says_so_when_it_is_empty(capsys: Captured, steps: list[str], shown: str) -> None:
    show_plan(OutputFormat.HUMAN, steps)
    assert capsys.readouterr().out == shown
    show_plan(OutputFormat.JSON, steps)
    assert json.loads(capsys.readouterr().out) == {"plan": steps}


def test_a_table_is_drawn_as_rich_draws_it(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rich takes a second of a CPU for a thousand rows."""
    chosen = random.Random(11)  # noqa: S311
    for _ in range(60):
        columns = ["name", "size", "rbd ms"][: chosen.randrange(1, 4)]
        letters = "ab-\u00fc\u9be8 \n" if chosen.random() < 0.1 else "ab-\u00fc\u9be8 "
        rows = [
            ["".join(chosen.choices(letters, k=chosen.randrange(9))) for _ in columns]
            for _ in range(chosen.randrange(1, 6))
        ]
        HumanOutput().table(None, columns, rows, "None.")
        ours = capsys.readouterr().out
        with monkeypatch.context() as patched:
            patched.setattr(output, "render_rows", lambda rows, sides: None)
            HumanOutput().table(None, columns, rows, "None.")
        assert ours == capsys.readouterr().out
