"""Hooks of mkdocs: the pages of `docs/` as a site, unchanged.

Pages are written to be read in the repository: their links lead to files of the repository. This
module

- adds the pages outside `docs/` that readers need, such as CONTRIBUTING.md, under `project/`;
- makes links between pages hold in the site;
- turns a link to another file of the repository, which the site does not have, into plain text;
- warns about a link to a file that does not exist: with `--strict`, the build fails.
"""

from __future__ import annotations

import logging
import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
PAGES_OUTSIDE = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")
PLACE_OUTSIDE = "project"

_LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?P<path>[^)#\s:]+)(?P<anchor>#[^)\s]*)?\)")
_CODE = re.compile(r"`[^`\n]+`")
_log = logging.getLogger("mkdocs.hooks.site")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages outside `docs/`."""
    for name in PAGES_OUTSIDE:
        files.append(
            File.generated(config, f"{PLACE_OUTSIDE}/{name}", abs_src_path=str(ROOT / name))
        )
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    """The page as Python's Markdown reads it, with the links of the site."""
    return render_page(markdown, page.file.src_uri)


def render_page(markdown: str, page: str) -> str:
    """The text of a page, named by its path in the site."""
    lines = [
        # A bar inside code does not end a cell here, and the backslash would show.
        _CODE.sub(lambda code: code[0].replace("\\|", "|"), line) if line.startswith("|") else line
        for line in markdown.splitlines()
    ]
    return _LINK.sub(lambda link: _render_link(link, page), "\n".join(lines))


def _render_link(link: re.Match[str], page: str) -> str:
    target = posixpath.normpath(posixpath.join(_repository_directory(page), link["path"]))
    if not (ROOT / target).exists():
        _log.warning("%s: the link to %s leads nowhere", page, link["path"])
    place = _site_path(target)
    if place is None:
        return link["text"]
    path = posixpath.relpath(place, posixpath.dirname(page) or ".")
    return f"{link['image']}[{link['text']}]({path}{link['anchor'] or ''})"


def _repository_directory(page: str) -> str:
    directory = posixpath.dirname(page)
    return "" if directory == PLACE_OUTSIDE else posixpath.join("docs", directory)


def _site_path(target: str) -> str | None:
    """Where the site has a file of the repository, or None."""
    if target in PAGES_OUTSIDE:
        return posixpath.join(PLACE_OUTSIDE, target)
    return posixpath.relpath(target, "docs") if target.startswith("docs/") else None
