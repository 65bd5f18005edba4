"""Write docs/reference from the code: commands, error codes, the JSON schemas of suites and runs.

scripts/write_reference.py            write the pages, delete those that are left over
scripts/write_reference.py --check    exit with 1 if a page is stale, missing or left over
"""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Mapping
from pathlib import Path

from typer.main import get_command

from grampus.cli.main import app

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from scripts.reference.commands import render_commands  # noqa: E402
from scripts.reference.error_codes import render_error_codes  # noqa: E402
from scripts.reference.schemas import render_schemas  # noqa: E402

DIRECTORY = ROOT / "docs" / "reference"


def render_pages() -> dict[str, str]:
    """Everything that docs/reference holds, by file name."""
    sources = (ROOT / "src" / "grampus").rglob("*.py")
    return {
        **render_commands(get_command(app)),
        "errors.md": render_error_codes(sources),
        **render_schemas(),
    }


def write_pages(pages: Mapping[str, str], directory: Path) -> None:
    """Make the directory hold these pages and nothing else."""
    for name, text in pages.items():
        file = directory / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    for name in find_left_over(pages, directory):
        (directory / name).unlink()


def find_left_over(pages: Mapping[str, str], directory: Path) -> list[str]:
    """Files that no page is written to."""
    files = (file for file in directory.rglob("*") if file.is_file())
    return sorted({str(file.relative_to(directory)) for file in files} - set(pages))


def explain_differences(pages: Mapping[str, str], directory: Path) -> list[str]:
    """Lines about what differs; none if the directory holds these pages and nothing else."""
    lines: list[str] = []
    for name, wanted in pages.items():
        file = directory / name
        found = file.read_text(encoding="utf-8") if file.exists() else ""
        if found != wanted:
            lines += difflib.unified_diff(
                found.splitlines(), wanted.splitlines(), "the page", "the code", lineterm="", n=1
            )
            lines.append(f"{name} is not what the code says. `make reference` writes it.")
    left_over = find_left_over(pages, directory)
    lines += [f"{name} is left over. `make reference` deletes it." for name in left_over]
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare, and write nothing")
    if not parser.parse_args().check:
        write_pages(render_pages(), DIRECTORY)
        return 0
    differences = explain_differences(render_pages(), DIRECTORY)
    sys.stderr.writelines(f"{line}\n" for line in differences)
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
