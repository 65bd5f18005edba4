"""Pages of the documentation: links, indexes, and what the site needs to show them as they are."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from scripts.site_hooks import ROOT, render_page

DOCS = Path(__file__).parents[3] / "docs"
_LINK = re.compile(r"\]\((?P<path>[^)#\s]*)(?:#(?P<heading>[^)]*))?\)")
_BLOCK = re.compile(r"^ *```.*?^ *```", re.DOTALL | re.MULTILINE)
PAGES = pytest.mark.parametrize(
    "page",
    [*ROOT.glob("*.md"), *DOCS.rglob("*.md")],
    ids=lambda page: str(page.relative_to(ROOT)),
)


def _prose(page: Path) -> str:
    return _BLOCK.sub("", page.read_text())


def _links(page: Path) -> list[tuple[str, str]]:
    """Paths and headings that links to pages and files of the repository name."""
    found = [(link["path"], link["heading"] or "") for link in _LINK.finditer(_prose(page))]
    return [link for link in found if "://" not in link[0]]


def _headings(page: Path) -> set[str]:
    """What links call them: in lower case, without marks, words joined by hyphens."""
    titles = re.findall(r"^#+ (.*)", _prose(page), re.MULTILINE)
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).lower() for title in titles]
    return {re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", title).strip()) for title in plain}


def test_the_index_of_decisions_has_them_all_with_their_titles() -> None:
    index = (DOCS / "adr" / "README.md").read_text()
    for page in sorted((DOCS / "adr").glob("0*.md")):
        title = page.read_text().splitlines()[0].partition(". ")[2]
        assert f"| {int(page.name[:4])} | [{title}]({page.name}) |" in index


@PAGES
def test_links_lead_to_pages_and_headings_that_exist(page: Path) -> None:
    for path, heading in _links(page):
        target = page.parent / path if path else page
        assert target.exists(), path
        if heading and target.suffix == ".md":
            assert heading in _headings(target), f"{path}#{heading}"


def test_the_start_page_names_every_page_of_the_guide() -> None:
    links = {path for path, _ in _links(DOCS / "README.md")}
    pages = {f"guide/{page.name}" for page in (DOCS / "guide").glob("*.md")}
    assert pages - links == set()


def _find_unlike(text: str) -> Iterator[str]:
    """Lines that GitHub's Markdown and Python's read differently."""
    is_code, is_list, before = False, False, ""
    for line in text.splitlines():
        if line.lstrip().startswith("```"):
            if not is_code and re.match(r" {1,3}`", line):
                yield f"code in a list needs four spaces: {line}"
            is_code = not is_code
        elif not is_code:
            item = re.match(r"(\s*)([-*]|\d+\.) ", line)
            if item and len(item[1]) % 4:
                yield f"a list in a list needs four spaces: {line}"
            if item and before and not is_list and not before.startswith("#"):
                yield f"a list needs an empty line before it: {line}"
            if not before and not item and re.match(r" {1,3}\S", line):
                yield f"a paragraph in a list needs four spaces: {line}"
            is_list = bool(item) or (is_list and line[:1] in ("", " "))
        before = line


@PAGES
def test_the_site_shows_a_page_as_the_repository_does(page: Path) -> None:
    assert list(_find_unlike(page.read_text())) == []


@pytest.mark.parametrize(
    "text",
    [
        "1. Do this:\n\n   ```\n   ls\n   ```\n",
        "- one\n  - below it\n",
        "These:\n- one\n",
        "- one\n\n  more about it\n",
    ],
)
def test_what_the_site_would_show_otherwise_is_found(text: str) -> None:
    assert len(list(_find_unlike(text))) == 1


@pytest.mark.parametrize(
    ("page", "text", "shown"),
    [
        ("guide/lab.md", "[a](volumes.md#drivers)", "[a](volumes.md#drivers)"),
        ("guide/lab.md", "[a](../../SECURITY.md)", "[a](../project/SECURITY.md)"),
        ("guide/lab.md", "[a](../../src/grampus/core/errors.py)", "a"),
        ("project/README.md", "[a](docs/guide/lab.md#x)", "[a](../guide/lab.md#x)"),
        (
            "project/README.md",
            "![a](docs/images/architecture.svg)",
            "![a](../images/architecture.svg)",
        ),
        ("project/README.md", "[a](CHANGELOG.md)", "[a](CHANGELOG.md)"),
        (
            "project/README.md",
            "[a](https://example.org/a) [b](#b)",
            "[a](https://example.org/a) [b](#b)",
        ),
        ("README.md", "[a](guide/lab.md)", "[a](guide/lab.md)"),
        ("README.md", r"| `a\|b` | c \| d |", r"| `a|b` | c \| d |"),
        ("README.md", r"`a\|b`", r"`a\|b`"),
    ],
)
def test_a_link_leads_to_the_page_of_the_site(page: str, text: str, shown: str) -> None:
    assert render_page(text, page) == shown


def test_a_link_to_a_file_that_is_not_there_fails_the_build(
    caplog: pytest.LogCaptureFixture,
) -> None:
    render_page("[a](no-such-page.md)", "guide/lab.md")
    assert [record.getMessage() for record in caplog.records] == [
        "guide/lab.md: the link to no-such-page.md leads nowhere"
    ]
    assert caplog.records[0].name.startswith("mkdocs.")
