from __future__ import annotations

from pathlib import Path

import pytest

from tests.system.command_line import CHECKOUT
from tests.system.guide_pages import find_difference, parse_page, place_words

GUIDE = CHECKOUT / "docs" / "guide"

PAGE = """# Users
<!-- tried with: shop -->

```
$ grampus db user add shop reports --role read
user  reports
$ grampus db connect shop -e 'select 1'
```

<!-- not tried: it would take a day -->
```
$ grampus db user wait shop
```

```
$ grampus db list   # all of them
NAME
$ ceph osd pool create archive
pool 'archive' created
```
"""


def test_commands_in_order_with_what_they_print() -> None:
    page = parse_page(PAGE)
    assert page is not None
    assert page.database == "shop"
    assert [(command.line, command.argv, command.printed) for command in page.commands] == [
        (5, ("db", "user", "add", "shop", "reports", "--role", "read"), ("user  reports",)),
        (7, ("db", "connect", "shop", "-e", "select 1"), ()),
        (16, ("db", "list"), ("NAME",)),
        (18, ("osd", "pool", "create", "archive"), ("pool 'archive' created",)),
    ]
    assert [command.is_grampus for command in page.commands] == [True, True, True, False]


def test_a_page_may_begin_with_nothing() -> None:
    page = parse_page(PAGE.replace("tried with: shop", "tried with: nothing"))
    assert page is not None
    assert page.database is None
    assert page.commands


def test_another_program_is_not_typed() -> None:
    with pytest.raises(ValueError, match="'rm' is not tried"):
        parse_page(PAGE.replace("$ ceph", "$ rm"))


def test_a_page_that_does_not_say_so_is_not_tried() -> None:
    assert parse_page(PAGE.replace("tried with", "about")) is None


def test_what_nobody_typed_is_a_defect_of_the_page() -> None:
    with pytest.raises(ValueError, match="line 3: nothing was typed"):
        parse_page("<!-- tried with: shop -->\n```\nuser  reports\n```\n")


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        (["size  1 GiB"], "size      900.5 MiB\n"),
        (["taken 2026-11-22 01:26:19 UTC"], "taken  2027-01-02 03:04:05 UTC"),
        (["on h2 at 10.213.0.104"], "on h3 at 10.213.7.99"),
        (["mysql://a:3CQERtSnNWK5JaUxYymJfhCjPaE2@h"], "mysql://a:Z0IBEaQqSOaHwP2R0ro6h1mNZ1Vw@h"),
        (["mysql://a:...@h"], "mysql://a:Z0IBEaQqSOaHwP2R0ro6h1mNZ1Vw@h"),
        (
            ["rbd_data.14f619e30120.00000000000d in 1.9"],
            "rbd_data.99aa19e30120.0000000000ff in 1.1f",
        ),
        (["first", "...", "last"], "first\nsecond\nthird\nlast\n"),
        (["first", "..."], "first\nsecond\n"),
        (["in /var/lib/grampus/x"], "in /tmp/home/x"),
        ([], ""),
    ],
)
def test_what_differs_from_run_to_run_is_the_same(expected: list[str], actual: str) -> None:
    assert find_difference(expected, actual, same={"/tmp/home": "/var/lib/grampus"}) is None


@pytest.mark.parametrize(
    ("expected", "actual", "said"),
    [
        (["user reports"], "user writers", "and here it is"),
        (["one", "two"], "one\n", "the page goes on with 'two'"),
        (["one"], "one\ntwo\n", "here it goes on with 'two'"),
        ([], "one\n", "here it goes on"),
        (["first", "...", "last"], "first\nsecond\n", "the page goes on with 'last'"),
    ],
)
def test_what_was_changed_is_found(expected: list[str], actual: str, said: str) -> None:
    assert said in (find_difference(expected, actual, same={}) or "")


def test_a_try_has_directories_of_its_own() -> None:
    words = ("--to", "/srv/backups/one", "s3://a")
    assert place_words(words, {"/srv/backups": "/tmp/x"}) == ["--to", "/tmp/x/one", "s3://a"]


@pytest.mark.parametrize("file", sorted(GUIDE.glob("*.md")), ids=lambda file: file.stem)
def test_each_page_that_is_tried_can_be_read(file: Path) -> None:
    """A lab tries them in `make exhaustive` alone; a block that nobody typed fails here."""
    parse_page(file.read_text(encoding="utf-8"))
