"""Indexes of the documentation name every page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[3] / "docs"
_LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


def test_the_index_of_decisions_has_them_all_with_their_titles() -> None:
    index = (DOCS / "adr" / "README.md").read_text()
    for page in sorted((DOCS / "adr").glob("0*.md")):
        title = page.read_text().splitlines()[0].partition(". ")[2]
        assert f"| {int(page.name[:4])} | [{title}]({page.name}) |" in index


@pytest.mark.parametrize(
    "page",
    [DOCS.parent / "README.md", DOCS.parent / "ARCHITECTURE.md", *DOCS.glob("*/*.md")],
    ids=lambda page: str(page.relative_to(DOCS.parent)),
)
def test_links_lead_to_pages_that_exist(page: Path) -> None:
    links = [link for link in _LINK.findall(page.read_text()) if "://" not in link]
    missing = [link for link in links if not (page.parent / link).exists()]
    assert missing == []
